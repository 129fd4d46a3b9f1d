// Lookups at times that depend on no call: each tick sends as many queries, for the keys that wait first, and for random records.

import { onAbort } from '../base/abort.js'
import { randomBelow } from '../base/random.js'
import { type AtEpoch, type Question, valuesOf } from '../lookup/question.js'
import type { Environment } from '../platform/environment.js'
import { sleep } from '../servers/ask.js'
import type { Schedule } from '../session/opening.js'

/** A call that waits for a tick. */
interface Waiting {
  readonly question: Question<unknown>
  /** it asks for no record any more */
  failed?: { readonly error: unknown }
  readonly resolve: (answer: never) => void
  readonly reject: (error: unknown) => void
}

export class Ticks {
  readonly #schedule: Schedule
  readonly #environment: Pick<Environment, 'clock' | 'random'>
  readonly #ask: <T>(question: Question<T>) => Promise<T>
  #waiting: Waiting[] = []

  constructor(
    schedule: Schedule,
    environment: Pick<Environment, 'clock' | 'random'>,
    ask: <T>(question: Question<T>) => Promise<T>,
  ) {
    this.#schedule = schedule
    this.#environment = environment
    this.#ask = ask
  }

  /** Answers with a tick that is to come. `signal` withdraws it until then. */
  async ask<T>(question: Question<T>, signal: AbortSignal): Promise<T> {
    signal.throwIfAborted()
    let ended = () => {}
    const answer = new Promise<T>((resolve, reject) => {
      const own = { question, resolve, reject }
      this.#waiting.push(own)
      ended = onAbort(signal, () => {
        this.#waiting = this.#waiting.filter(waiting => waiting !== own)
        reject(signal.reason)
      })
    })
    return await answer.finally(ended)
  }

  /** Ticks until `signal` aborts. One that is late by a period, as after the device has slept, is left out. */
  async run(signal: AbortSignal): Promise<void> {
    const { everyMs } = this.#schedule
    const { clock, random } = this.#environment
    for (let due = clock.now() + randomBelow(everyMs, random); ; due += everyMs) {
      await sleep(clock, Math.max(0, due - clock.now()), signal)
      if (signal.aborted) return
      const missed = Math.floor((clock.now() - due) / everyMs)
      if (missed < 1) void this.#tick()
      else due += missed * everyMs
    }
  }

  /** Sends as many queries, whatever waits, and whatever is wrong with that. */
  async #tick(): Promise<void> {
    const taken: Waiting[] = []
    for (let room = this.#schedule.queries; ; ) {
      const [next] = this.#waiting
      if (next === undefined || queriesOf(next.question) > room) break
      room -= queriesOf(next.question)
      taken.push(next)
      this.#waiting.shift()
    }
    try {
      const answers = await this.#ask(together(taken, this.#schedule.queries, this.#environment.random))
      for (const [i, { failed, resolve, reject }] of taken.entries()) {
        if (failed === undefined) resolve(answers[i] as never)
        else reject(failed.error)
      }
    } catch (error) {
      for (const { reject } of taken) reject(error)
    }
  }
}

/** How many queries a question has by itself. */
export function queriesOf({ padTo = 1 }: Question<unknown>): number {
  return padTo
}

/** One question of so many queries, whose answers are those of the others. What one of them throws is its own. */
function together(
  calls: readonly Waiting[],
  queries: number,
  random: Environment['random'],
): Question<readonly unknown[]> {
  const padding = valuesOf([], queries, random)
  const each = <T>(ask: (call: Waiting, at: number) => T): (T | undefined)[] => {
    let at = 0
    return calls.map(call => {
      const own = at
      at += queriesOf(call.question)
      if (call.failed !== undefined) return undefined
      try {
        return ask(call, own)
      } catch (error) {
        call.failed = { error }
        return undefined
      }
    })
  }
  return {
    blocks(epoch) {
      const numbers = padding.blocks(epoch)!
      each(({ question }, at) => numbers.set(question.blocks(epoch) ?? [], at))
      return numbers
    },
    indices(epoch: AtEpoch) {
      const indices = padding.indices(epoch)
      each(({ question }, at) => indices.set(question.indices(epoch), at))
      return indices
    },
    read: (epoch, records, changes) =>
      each(({ question }, at) => question.read(epoch, records.slice(at, at + queriesOf(question)), changes)),
  }
}
