// Random schedules of calls, from two handles and with crashes, against a model that is as plain as it can be: it keeps
// everything that ever happened to a hint and computes what ought to be seen.

import fc from 'fast-check'
import type { StateStore } from '../../src/store/store.js'
import type { Setup } from './conformance.js'
import { expectEqual, outcome, show } from './expect.js'
import { bytes, hintId, observe, recordOf } from './fixtures.js'

/** the number of a hint that is never made */
const ANOTHER = 999

type Method = 'begin' | 'putPartial' | 'complete' | 'putPending' | 'commit' | 'putCheckpoint' | 'condemn' | 'discard'

/** One step of a schedule. Which hint and version it names is said relative to what is stored. */
export interface Step {
  readonly call: Method | 'crash'
  /** names the stored hint, no hint, or another one */
  readonly hint: 'stored' | 'none' | 'another'
  /** added to the stored version */
  readonly ahead: number
  /** tells values apart */
  readonly value: number
  readonly otherHandle: boolean
}

/** The hint as it was made, and all that has happened to it. */
interface ModelHint {
  readonly number: number
  partial: Uint8Array
  readonly directory: Uint8Array
  /** every checkpoint there was, the newest last; none: the hint is partial */
  readonly checkpoints: { version: number; bytes: Uint8Array }[]
  /** every effect there was */
  readonly effects: Uint8Array[]
  pending: Uint8Array | undefined
  condemned: boolean
}

export class Model {
  #hint: ModelHint | undefined
  #hints = 0

  /** Which hint, version and bytes a step is about. */
  resolve({ hint, ahead, value, call }: Step) {
    const version = (this.#hint?.effects.length ?? 0) + ahead
    const number = { stored: this.#hint?.number, none: undefined, another: ANOTHER }[hint]
    return { number, version, value: bytes(`${call} ${value}`, 1 + value * 7), next: this.#hints + 1 }
  }

  /** Whether the step is accepted; if so, it has happened. */
  apply(step: Step): boolean {
    const hint = this.#hint
    const { number, version, value, next } = this.resolve(step)
    if (step.call === 'crash') return true
    if (step.call === 'begin') {
      if (number !== hint?.number) return false
      this.#hints++
      this.#hint = {
        number: next,
        partial: value,
        directory: value,
        checkpoints: [],
        effects: [],
        pending: undefined,
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
    const now = hint.effects.length
    switch (step.call) {
      case 'putPartial':
        if (newest !== undefined) return false
        hint.partial = value
        return true
      case 'complete':
        if (newest !== undefined) return false
        hint.checkpoints.push({ version: 0, bytes: value })
        return true
      case 'putPending':
        if (newest === undefined || version !== now) return false
        if (hint.pending !== undefined && show(hint.pending) !== show(value)) return false
        hint.pending = value
        return true
      case 'commit':
        if (newest === undefined || version !== now || hint.pending === undefined) return false
        hint.pending = undefined
        hint.effects.push(value)
        return true
      case 'putCheckpoint':
        if (newest === undefined || version < newest || version > now) return false
        hint.checkpoints.push({ version, bytes: value })
        return true
    }
  }

  /** What `observe` ought to see. */
  observation(): unknown {
    const hint = this.#hint
    if (hint === undefined) return undefined
    const checkpoint = hint.checkpoints.at(-1)
    const { hintId, retrieveServer, refreshServer, manifest } = recordOf(hint.number)
    const head = {
      hintId,
      retrieveServer,
      refreshServer,
      manifest,
      stage: checkpoint === undefined ? 'partial' : 'whole',
      version: hint.effects.length,
      pending: hint.condemned ? undefined : hint.pending,
      culprit: undefined,
    }
    if (hint.condemned) return { ...head, condemned: true }
    if (checkpoint === undefined) return { ...head, partial: hint.partial, directory: hint.directory }
    return {
      ...head,
      checkpointVersion: checkpoint.version,
      checkpoint: checkpoint.bytes,
      effects: hint.effects.slice(checkpoint.version),
      directory: hint.directory,
    }
  }
}

/** Does to a store what `model.apply(step)` is about to do to the model. */
export function perform(store: StateStore, model: Model, step: Step): Promise<unknown> {
  const { number, version, value, next } = model.resolve(step)
  const id = hintId(number ?? ANOTHER)
  switch (step.call) {
    case 'begin':
      return store.begin(recordOf(next), value, value, number === undefined ? undefined : id)
    case 'putPartial':
      return store.putPartial(id, value)
    case 'complete':
      return store.complete(id, value)
    case 'putPending':
      return store.putPending(id, version, value)
    case 'commit':
      return store.commit(id, version, value)
    case 'putCheckpoint':
      return store.putCheckpoint(id, version, value)
    case 'condemn':
      return store.condemn(id, undefined)
    case 'discard':
      return store.discard(number === undefined ? undefined : id)
    case 'crash':
      return Promise.resolve()
  }
}

const step: fc.Arbitrary<Step> = fc.record({
  call: fc.oneof(
    ...Object.entries({
      begin: 2,
      putPartial: 2,
      complete: 4,
      putPending: 12,
      commit: 12,
      putCheckpoint: 4,
      condemn: 1,
      discard: 1,
      crash: 4,
    } satisfies Record<Step['call'], number>).map(([call, weight]) => ({
      arbitrary: fc.constant(call as Step['call']),
      weight,
    })),
  ),
  hint: mostly<Step['hint']>('stored', 'none', 'another'),
  ahead: mostly(0, -2, -1, 1),
  value: fc.nat(2),
  otherHandle: fc.boolean(),
})

/** `usual` four times out of five. */
function mostly<T>(usual: T, ...others: T[]): fc.Arbitrary<T> {
  return fc.oneof({ arbitrary: fc.constant(usual), weight: 4 }, { arbitrary: fc.constantFrom(...others), weight: 1 })
}

export const schedule: fc.Arbitrary<Step[]> = fc.array(step, { maxLength: 40, size: 'max' })

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
