// A lookup, from a question to what the records say. Of one that asks, one batch is under way at a time (turns and lock:
// session/queue.ts), and once it has been intended it ends the same whatever the app does (P5): this file never looks at
// the app's signal again.

import { type StoredRecord, toHex } from '@keyhush/protocol'
import { ROUNDS } from '../base/constants.js'
import { SignatureError, StorageError } from '../base/errors.js'
import { ProgressMeter } from '../base/progress.js'
import { assertAlive } from '../platform/core.js'
import { OutdatedError } from '../servers/updates.js'
import { apply } from '../state/advancing.js'
import { condemnForItself } from '../state/condemnation.js'
import type { Hint } from '../state/hint.js'
import { type Machine, tooManyRestarts, type Watch } from '../state/machine.js'
import { stepsAfter } from '../state/newest.js'
import { current } from '../state/restoring.js'
import { isMoved } from '../store/storage.js'
import type { Admission } from './admission.js'
import { askedOf, equip, finishPending } from './pending.js'
import { openRecords, openVerified, type Question } from './question.js'

/**
 * The answer to a question from a hint in memory that has all records; undefined: this hint has to ask, or has to be
 * looked at first.
 */
export function answerHeld<T>(machine: Machine, question: Question<T>): { readonly answer: T } | undefined {
  const { publisher, stats, environment, core } = machine.parts
  const hint = machine.live
  if (hint?.state.kind !== 'held') return undefined
  // Taken to the next epoch just now, which is not stored yet: in its turn.
  if (hint.manifest !== machine.manifest) return undefined
  if (publisher !== undefined && (!machine.isVouchedFor(hint.base) || publisher.hasExpired(hint.manifest))) {
    return undefined
  }
  assertAlive(core)
  const start = environment.clock.now()
  const before = stats.onlineTotal()
  const indices = question.indices(hint)
  const answer = question.read(hint, openVerified(hint, indices, hint.state.records(indices)), [])
  stats.lookedUp(before, environment.clock.now() - start)
  return { answer }
}

export class Lookup<T> {
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

  /** Whether a batch of this lookup's own has been intended: from then on it cannot be called off. */
  get begun(): boolean {
    return this.#begun
  }

  /**
   * Looks up. `wanted` calls it off before it has begun; afterwards only `ending` does, the end of the map. Throws
   * OutdatedError if the servers no longer answer this hint, or it has too few lookups left: to be called again once another
   * is in its place.
   */
  async run(wanted: AbortSignal, ending: AbortSignal): Promise<T> {
    const machine = this.#machine
    const { core, publisher } = machine.parts
    for (;;) {
      const signal = this.#begun ? ending : wanted
      const watch = { progress: new ProgressMeter(), signal }
      signal.throwIfAborted()
      assertAlive(core)
      try {
        const hint = machine.live ?? (await current(machine, watch))
        if (publisher !== undefined) await assertVouched(machine, hint, watch)
        signal.throwIfAborted()
        this.#rounds.count(hint)
        if (hint.state.kind === 'held') {
          const held = answerHeld(machine, this.#question)
          if (held !== undefined) return held.answer
          continue
        }
        const indices = this.#question.indices(hint)
        if (hint.isPending) {
          // An earlier call's batch, or another tab's. Its records are thrown away, even if they are what this call
          // asks for: a server that lets a lookup time out must not learn whether the next one is equal (P4).
          await finishPending(machine, this.#admission, hint)
          continue
        }
        const { lookupsLeft } = hint.state
        if (lookupsLeft !== undefined && lookupsLeft < indices.length) throw new OutdatedError('spent')
        const equipped = equip(machine, hint, signal)
        if (equipped !== undefined) {
          await equipped
          continue // what was asked for may have moved
        }
        return await this.#ask(hint, indices)
      } catch (error) {
        // Another tab was faster, and nothing was sent. What was made of the old state is forgotten.
        if (!isMoved(error)) throw error
      }
    }
  }

  async #ask(hint: Hint, indices: Uint32Array): Promise<T> {
    const { stats, environment, publisher } = this.#machine.parts
    const start = environment.clock.now()
    const before = stats.onlineTotal()
    askedOf(hint).query(indices)
    this.#begun = true
    const { records: bytes, lists, missed } = await finishPending(this.#machine, this.#admission, hint, true)
    if (missed > 0) {
      const seldom = 'none of the hints held here contains what was asked for, which hardly ever happens'
      throw new StorageError(`${seldom}; call again after other lookups, or call reset()`)
    }
    const records = await this.#open(hint, indices, bytes)
    // The epoch may have run out meanwhile, or be one that was followed to on the way.
    publisher?.checkExpiry(hint.manifest)
    stats.lookedUp(before, environment.clock.now() - start)
    return this.#question.read(hint, records, lists)
  }

  async #open(hint: Hint, indices: Uint32Array, bytes: Uint8Array): Promise<readonly StoredRecord[]> {
    if (askedOf(hint).recognises) return openVerified(hint, indices, bytes)
    const records = openRecords(hint, indices, bytes)
    if (records !== undefined) return records
    // Verified answers cannot make it fail.
    await condemnForItself(this.#machine, hint)
    throw new StorageError('a recovered record is not the one asked for: the local state is corrupt; call reset()')
  }
}

/**
 * Throws SignatureError if the publisher's word for this epoch has run out, and there is no newer one; or if there is
 * none, because another tab that does not ask for it has taken the state there. Asks the servers where a lookup would, too;
 * where none would, what was stored with the state has to do.
 */
async function assertVouched(machine: Machine, hint: Hint, watch: Watch): Promise<void> {
  const { publisher } = machine.parts
  if (publisher === undefined) return
  if (machine.isShown(hint.base) && !publisher.hasExpired(hint.manifest)) return
  if (hint.state.kind === 'held') {
    // Its lookups show nothing, not even that there are any: whoever asks the servers says so, and calls sync().
    publisher.checkExpiry(hint.manifest)
    if (await machine.hasVouchedFor(hint.base)) return
    const unseen = 'this map has not seen a signature over the database it keeps'
    throw new SignatureError(`${unseen}; call sync() when the servers can be reached`)
  }
  await apply(machine, await stepsAfter(machine, hint.base, watch.signal), watch)
  if (machine.manifest !== undefined) publisher.checkExpiry(machine.manifest)
}

/** An operation starts over as often as another tab gets ahead of it, but not for ever while nothing has moved. */
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
