// Random schedules of calls, from two handles and with crashes, against a model that is as plain as it can be: it keeps
// everything that ever happened to a hint and computes what ought to be seen.

import fc from 'fast-check'
import type { StateStore, StoredCheckpoint } from '../../src/store/store.js'
import { expectEqual, outcome, show } from '../../src/testing/expect.js'
import { bytes, epochOf, hintId, observe, recordOf } from '../../src/testing/fixtures.js'
import type { Setup } from '../../src/testing/store.js'

/** the number of a hint that is never made */
const ANOTHER = 999

type Method = Exclude<keyof StateStore, 'durable' | 'close' | `read${string}`>

/** One step of a schedule. Which hint and version it names is said relative to what is stored. */
export interface Step {
  readonly call: Method | 'crash'
  /** names the stored hint, no hint, or another one */
  readonly hint: 'stored' | 'none' | 'another'
  /** added to the stored version */
  readonly ahead: number
  /** a lookup is handed over if one is pending, and the manifest of the version named */
  readonly fitting: boolean
  /** tells values apart */
  readonly value: number
  readonly otherHandle: boolean
}

/** The hint as it was made, and all that has happened to it. */
interface ModelHint {
  readonly number: number
  partial: { partial: Uint8Array; directory: Uint8Array }
  /** every checkpoint there was, the newest last; none: the hint is partial */
  readonly checkpoints: (StoredCheckpoint & { readonly version: number })[]
  /** every effect and update there was, one to a version; those of a half-made hint are not stored */
  readonly entries: Uint8Array[]
  /** the manifest at every version there was */
  readonly manifests: Uint8Array[]
  pending: Uint8Array | undefined
  verifier: Uint8Array | undefined
  condemned: boolean
}

/** Epochs from this one on are no version's. */
const FOREIGN = 1000

export class Model {
  #hint: ModelHint | undefined
  #hints = 0
  #epochs = 1

  /** Which hint, version and bytes a step is about, and which manifest and directory. */
  resolve({ hint: named, ahead, fitting, value: told, call }: Step) {
    const hint = this.#hint
    const now = hint?.entries.length ?? 0
    const version = now + ahead
    const number = { stored: hint?.number, none: undefined, another: ANOTHER }[named]
    const value = bytes(`${call} ${told}`, 1 + told * 7)
    const next = epochOf(number ?? ANOTHER, this.#epochs + 1)
    const foreign = epochOf(number ?? ANOTHER, FOREIGN + told)
    const manifest = (fitting && hint?.manifests[version]) || foreign.manifest
    const checkpoint = { checkpoint: value, manifest, directory: foreign.directory }
    const pending = (hint?.pending !== undefined) === fitting ? bytes(`extended ${told}`, 9) : undefined
    return { number, version, value, next, nextHint: this.#hints + 1, checkpoint, pending }
  }

  /** Whether the step is accepted; if so, it has happened. */
  apply(step: Step): boolean {
    const hint = this.#hint
    const { number, version, value, next, nextHint, checkpoint, pending } = this.resolve(step)
    if (step.call === 'crash' || step.call === 'putRow' || step.call === 'sweepRows') return true
    if (step.call === 'erase') {
      this.#hint = undefined
      return true
    }
    if (step.call === 'begin') {
      if (number !== hint?.number) return false
      this.#hints++
      this.#hint = {
        number: nextHint,
        partial: { partial: value, directory: value },
        checkpoints: [],
        entries: [],
        manifests: [recordOf(nextHint).manifest],
        pending: undefined,
        verifier: undefined,
        condemned: false,
      }
      return true
    }
    if (step.call === 'condemn') {
      if (hint !== undefined && number === hint.number) hint.condemned = true
      return true
    }
    if (hint === undefined) return step.call === 'discard'
    if (number !== hint.number || hint.condemned) return false
    if (step.call === 'discard') {
      this.#hint = undefined
      return true
    }
    const newest = hint.checkpoints.at(-1)?.version
    const now = hint.entries.length
    switch (step.call) {
      case 'putPartial':
        if (newest !== undefined || version !== now) return false
        hint.partial = { ...hint.partial, partial: value }
        return true
      case 'updatePartial':
        if (newest !== undefined || version !== now) return false
        hint.partial = { partial: value, directory: next.directory }
        hint.entries.push(value)
        hint.manifests.push(next.manifest)
        this.#epochs++
        return true
      case 'complete':
        if (newest !== undefined || version !== now) return false
        hint.checkpoints.push({
          version,
          checkpoint: value,
          manifest: hint.manifests[now]!,
          directory: hint.partial.directory,
        })
        return true
      case 'putPending':
        if (newest === undefined || version !== now) return false
        if (hint.pending !== undefined && show(hint.pending) !== show(value)) return false
        hint.pending = value
        return true
      case 'commit':
        if (newest === undefined || version !== now || hint.pending === undefined) return false
        hint.pending = undefined
        hint.entries.push(value)
        hint.manifests.push(hint.manifests[now]!)
        return true
      case 'advance':
        if (newest === undefined || version !== now) return false
        if ((hint.pending === undefined) !== (pending === undefined)) return false
        hint.pending = pending
        hint.entries.push(value)
        hint.manifests.push(next.manifest)
        this.#epochs++
        return true
      case 'putCheckpoint':
        if (newest === undefined || version < newest || version > now) return false
        if (version === now && show(checkpoint.manifest) !== show(hint.manifests[now])) return false
        hint.checkpoints.push({ version, ...checkpoint })
        return true
      case 'putVerifier':
        if (newest === undefined) return false
        hint.verifier = value
        return true
    }
  }

  /** What `observe` ought to see. */
  observation(): unknown {
    const hint = this.#hint
    if (hint === undefined) return undefined
    const checkpoint = hint.checkpoints.at(-1)
    const { hintId, scheme, parties, fenced } = recordOf(hint.number)
    const head = {
      hintId,
      scheme,
      parties,
      fenced,
      manifest: hint.manifests.at(-1),
      stage: checkpoint === undefined ? 'partial' : 'whole',
      version: hint.entries.length,
      pending: hint.condemned ? undefined : hint.pending,
      culprit: undefined,
    }
    if (hint.condemned) return { ...head, condemned: true }
    if (checkpoint === undefined) return { ...head, ...hint.partial }
    return {
      ...head,
      checkpointVersion: checkpoint.version,
      checkpointManifest: checkpoint.manifest,
      directory: checkpoint.directory,
      checkpoint: checkpoint.checkpoint,
      entries: hint.entries.slice(checkpoint.version),
      verifier: hint.verifier,
    }
  }
}

/** Does to a store what `model.apply(step)` is about to do to the model. */
export function perform(store: StateStore, model: Model, step: Step): Promise<unknown> {
  const { number, version, value, next, nextHint, checkpoint, pending } = model.resolve(step)
  const id = hintId(number ?? ANOTHER)
  switch (step.call) {
    case 'begin':
      return store.begin(recordOf(nextHint), value, value, number === undefined ? undefined : id)
    case 'putRow':
      return store.putRow(id, `row${version & 1}`, value)
    case 'sweepRows':
      return store.sweepRows()
    case 'putPartial':
      return store.putPartial(id, version, value)
    case 'updatePartial':
      return store.updatePartial(id, version, { partial: value, ...next })
    case 'complete':
      return store.complete(id, version, value)
    case 'putPending':
      return store.putPending(id, version, value)
    case 'commit':
      return store.commit(id, version, value)
    case 'advance':
      return store.advance(id, version, { entry: value, manifest: next.manifest, pending })
    case 'putCheckpoint':
      return store.putCheckpoint(id, version, checkpoint)
    case 'putVerifier':
      return store.putVerifier(id, value)
    case 'condemn':
      return store.condemn(id, undefined)
    case 'discard':
      return store.discard(number === undefined ? undefined : id)
    case 'erase':
      return store.erase()
    case 'crash':
      return Promise.resolve()
  }
}

const step: fc.Arbitrary<Step> = fc.record({
  call: fc.oneof(
    ...Object.entries({
      begin: 2,
      putRow: 2,
      sweepRows: 1,
      putPartial: 2,
      updatePartial: 2,
      complete: 4,
      putPending: 12,
      commit: 12,
      advance: 4,
      putCheckpoint: 4,
      putVerifier: 2,
      condemn: 1,
      discard: 1,
      erase: 1,
      crash: 4,
    } satisfies Record<Step['call'], number>).map(([call, weight]) => ({
      arbitrary: fc.constant(call as Step['call']),
      weight,
    })),
  ),
  hint: mostly<Step['hint']>('stored', 'none', 'another'),
  ahead: mostly(0, -2, -1, 1),
  fitting: mostly(true, false),
  value: fc.nat(2),
  otherHandle: fc.boolean(),
})

/** `usual` four times out of five. */
function mostly<T>(usual: T, ...others: T[]): fc.Arbitrary<T> {
  return fc.oneof({ arbitrary: fc.constant(usual), weight: 4 }, { arbitrary: fc.constantFrom(...others), weight: 1 })
}

const asUsual = { hint: 'stored', ahead: 0, fitting: true, value: 0, otherHandle: false } as const
const [begin, complete]: Step[] = [
  { call: 'begin', ...asUsual },
  { call: 'complete', ...asUsual },
]

/** From nothing, a half-made hint or a whole one. */
export const schedule: fc.Arbitrary<Step[]> = fc
  .tuple(fc.constantFrom([], [begin!], [begin!, complete!]), fc.array(step, { maxLength: 40, size: 'max' }))
  .map(([first, then]) => [...first, ...then])

/** Runs that many schedules, each on a bench of its own. A failure prints the seed and the shortest schedule found. */
export async function runSchedules(
  setup: Setup,
  options: { readonly runs: number; readonly seed: number },
): Promise<void> {
  const property = fc.asyncProperty(schedule, async steps => {
    const bench = await setup()
    try {
      const model = new Model()
      for (const step of steps) {
        const handle = step.otherHandle ? bench.other : bench.store
        if (step.call === 'crash') await bench.crash()
        const found = await outcome(perform(handle, model, step))
        expectEqual(found, model.apply(step) ? 'fine' : 'StateMovedError', show(step))
        expectEqual(await observe(step.otherHandle ? bench.store : bench.other), model.observation(), show(step))
      }
    } finally {
      await bench.remove()
    }
  })
  await fc.assert(property, { numRuns: options.runs, seed: options.seed })
}
