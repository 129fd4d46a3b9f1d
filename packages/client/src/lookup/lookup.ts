// A lookup, from a question to its answer. A hint sends one lookup at a time (session/queue.ts gives the turn and the
// lock). Once the lookup is stored, aborting changes nothing a server can see (P5): this file no longer reads the app's
// signal then.

import { type StoredRecord, toHex } from '@keyhush/protocol'
import { ROUNDS } from '../base/constants.js'
import { SignatureError, StorageError } from '../base/errors.js'
import { assertAlive } from '../platform/core.js'
import { OutdatedError } from '../servers/path.js'
import { apply } from '../state/advancing.js'
import { condemnForItself } from '../state/condemnation.js'
import type { Hint } from '../state/hint.js'
import { type Caller, type Machine, tooManyRestarts } from '../state/machine.js'
import { stepsAfter } from '../state/newest.js'
import { current } from '../state/restoring.js'
import { isMoved } from '../store/storage.js'
import type { Admission } from './admission.js'
import { movedBy } from './moved.js'
import { askedOf, equip, finishPending } from './pending.js'
import { openRecords, openVerified, type Question } from './question.js'

/** Answers from memory when all records are here (mode `local`); otherwise undefined. */
export function answerHeld<T>(machine: Machine, question: Question<T>): { readonly answer: T } | undefined {
  const { signing, stats, environment, core } = machine.parts
  const hint = machine.live
  if (hint?.state.kind !== 'held') return undefined
  // The store does not have this epoch yet: the lookup waits for its turn.
  if (hint.manifest !== machine.manifest) return undefined
  if (signing !== undefined && (!machine.isVouchedFor(hint.base) || signing.hasExpired(hint.manifest))) {
    return undefined
  }
  assertAlive(core)
  const start = environment.clock.now()
  const before = stats.onlineTotal()
  const indices = question.indices(hint)
  const answer = question.read(hint, openVerified(hint, indices, hint.state.records(indices)))
  stats.lookedUp(before, environment.clock.now() - start)
  return { answer }
}

/** What a lookup has to do next. */
type Next =
  | { readonly is: 'held' | 'pending' | 'spent' }
  /** `done`: what judging the answers takes has been fetched */
  | { readonly is: 'equip'; readonly done: Promise<void> }
  | { readonly is: 'ask'; readonly indices: Uint32Array }

export class StatefulLookup<T> {
  readonly #machine: Machine
  readonly #admission: Admission
  readonly #question: Question<T>
  readonly #rounds = new Rounds()
  #begun = false

  constructor(machine: Machine, admission: Admission, question: Question<T>) {
    this.#machine = machine
    this.#admission = admission
    this.#question = question
  }

  /** Whether it has been stored: from then on it cannot be called off. */
  get begun(): boolean {
    return this.#begun
  }

  /**
   * Looks up. `wanted` calls it off before it has begun; afterwards only `ending` does, when the map closes. Throws
   * OutdatedError if the servers no longer answer this hint, or if it has too few lookups left: call again once another
   * hint is in its place.
   */
  async run(wanted: AbortSignal, ending: AbortSignal): Promise<T> {
    const machine = this.#machine
    const { core, signing } = machine.parts
    for (;;) {
      const signal = this.#begun ? ending : wanted
      const caller = machine.caller(signal)
      signal.throwIfAborted()
      assertAlive(core)
      try {
        const hint = machine.live ?? (await current(machine, caller))
        if (signing !== undefined) await assertVouched(machine, hint, caller)
        if (!machine.offers(hint.scheme)) await follow(machine, hint, caller) // what they offer may have changed
        signal.throwIfAborted()
        this.#rounds.count(hint)
        const next = this.#next(hint, signal)
        switch (next.is) {
          case 'held': {
            const held = answerHeld(machine, this.#question)
            if (held !== undefined) return held.answer
            break
          }
          case 'pending':
            // One of an earlier call, or of another tab. Its records are thrown away, even if this call asks for
            // them: a server that lets a lookup time out must not learn whether the next one is the same (P4).
            await finishPending(machine, this.#admission, hint)
            break
          case 'spent':
            throw new OutdatedError('spent')
          case 'equip':
            await next.done
            break // the hint may be at another epoch now
          case 'ask':
            return await this.#ask(hint, next.indices)
        }
      } catch (error) {
        // Another tab was faster, and nothing was sent: the state is read anew.
        if (!isMoved(error)) throw error
      }
    }
  }

  #next(hint: Hint, signal: AbortSignal): Next {
    if (hint.state.kind === 'held') return { is: 'held' }
    const indices = this.#question.indices(hint)
    if (hint.isPending) return { is: 'pending' }
    const { lookupsLeft } = hint.state
    if (lookupsLeft !== undefined && lookupsLeft < indices.length) return { is: 'spent' }
    const done = equip(this.#machine, hint, signal)
    return done === undefined ? { is: 'ask', indices } : { is: 'equip', done }
  }

  async #ask(hint: Hint, indices: Uint32Array): Promise<T> {
    const { stats, environment, signing } = this.#machine.parts
    const start = environment.clock.now()
    const before = stats.onlineTotal()
    askedOf(hint).query(indices)
    this.#begun = true
    const { records: bytes, lists, missed } = await finishPending(this.#machine, this.#admission, hint, true)
    if (missed > 0) {
      const seldom = 'expected a hint that contains what was asked for, got none, which hardly ever happens'
      throw new StorageError(`${seldom}; call again after other lookups, or call reset()`)
    }
    const records = await this.#open(hint, indices, bytes)
    // The signature may have expired meanwhile, or the hint may be at another epoch now.
    signing?.checkExpiry(hint.manifest)
    stats.lookedUp(before, environment.clock.now() - start)
    const { recordBytes } = hint.manifest
    return this.#question.read(hint, records, { places: prints => movedBy(lists, recordBytes, prints) })
  }

  async #open(hint: Hint, indices: Uint32Array, bytes: Uint8Array): Promise<readonly StoredRecord[]> {
    if (askedOf(hint).recognises) return openVerified(hint, indices, bytes)
    const records = openRecords(hint, indices, bytes)
    if (records !== undefined) return records
    // The answers were verified, so the local state is at fault.
    await condemnForItself(this.#machine, hint)
    throw new StorageError(
      'expected the record that was asked for, got another: the local state is corrupt; call reset()',
    )
  }
}

/**
 * Throws SignatureError if the signature over this epoch has expired, or was never seen, and the servers have no newer
 * one. A hint that asks servers asks them here too. A held hint never does: its stored signature has to do.
 */
async function assertVouched(machine: Machine, hint: Hint, caller: Caller): Promise<void> {
  const { signing } = machine.parts
  if (signing === undefined) return
  if (machine.isVouchedFor(hint.base) && !signing.hasExpired(hint.manifest)) return
  if (hint.state.kind === 'held') {
    // Servers see no lookups of such a map, not even that there are any. To ask them, the app calls sync().
    signing.checkExpiry(hint.manifest)
    if (await machine.hasVouchedFor(hint.base)) return
    const unseen = 'expected a signature of the database that this map keeps, got none so far'
    throw new SignatureError(`${unseen}; call sync() when the servers can be reached`)
  }
  await follow(machine, hint, caller)
  if (machine.manifest !== undefined) signing.checkExpiry(machine.manifest)
}

async function follow(machine: Machine, { scheme, base }: Hint, caller: Caller): Promise<void> {
  const { steps } = await stepsAfter(machine, scheme, base, caller.signal)
  await apply(machine, steps, caller)
}

/** Counts how often an operation starts over although no other tab has moved the state. Throws when that is too often. */
export class Rounds {
  #at = ''
  #idle = 0

  count(hint: Hint): void {
    const at = `${toHex(hint.record.hintId)} ${hint.version}`
    this.#idle = at === this.#at ? this.#idle + 1 : 0
    this.#at = at
    if (this.#idle >= ROUNDS) throw tooManyRestarts()
  }
}
