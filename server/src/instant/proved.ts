// Answers that threads prove. They wait in a bounded queue, and networks take turns. Each has its records already, and whatever its proof takes.

import { ThreadError } from '../base/errors.js'
import { Refusal } from '../base/refusal.js'
import type { Unproved } from '../dataset/proof-kinds.js'
import { FairQueue } from '../workers/fair-queue.js'
import type { Waiting } from './lookups.js'

/** Most records of answers that wait: a second or two of a thread's work. */
const MOST_ENTRIES = 8192

interface Entry {
  readonly unproved: Unproved
  readonly network: string
  resolve(body: Uint8Array): void
  reject(error: Error): void
}

export class ProvedAnswers {
  readonly #most: number
  readonly #queue = new FairQueue<Entry>(MOST_ENTRIES, ({ unproved }) => unproved.entries)
  readonly #replies = new Set<Promise<unknown>>()
  #proving = 0
  #closed: Refusal | undefined

  /** Proves so many at a time. */
  constructor(most: number) {
    this.#most = most
  }

  /** Records of answers that wait. */
  get waiting(): number {
    return this.#queue.weight
  }

  /** Answers that threads are proving. */
  get proving(): number {
    return this.#proving
  }

  /** Lets an answer wait for a thread. Throws an `instant_full` Refusal if there is no room for it. */
  submit(unproved: Unproved, network: string): Waiting {
    if (this.#closed !== undefined) throw this.#closed
    let entry: Entry | undefined
    const answers = new Promise<Uint8Array>((resolve, reject) => {
      entry = { unproved, network, resolve, reject }
    })
    const leaving = this.#queue.add(entry!)
    if (leaving === undefined) throw full()
    for (const each of leaving) this.#drop(each, full())
    this.#replies.add(answers)
    const settled = () => void this.#replies.delete(answers)
    answers.then(settled, settled)
    this.#wake()
    return { answers, cancel: () => this.#drop(entry!, new Refusal('not_ready', 'the client has hung up')) }
  }

  /** From now on nothing is taken on. What waits is proved. */
  async close(): Promise<void> {
    this.#closed ??= new Refusal('not_ready', 'this server is shutting down')
    while (this.#replies.size > 0) await Promise.allSettled(this.#replies)
  }

  #wake(): void {
    while (this.#proving < this.#most) {
      const [entry] = this.#queue.inTurn()
      if (entry === undefined) return
      this.#queue.served(entry)
      this.#queue.remove(entry)
      void this.#prove(entry)
    }
  }

  async #prove(entry: Entry): Promise<void> {
    this.#proving += 1
    try {
      entry.resolve(await entry.unproved.prove())
    } catch (cause) {
      entry.reject(new ThreadError('an answer could not be proved', { cause }))
    } finally {
      this.#proving -= 1
      this.#wake()
    }
  }

  #drop(entry: Entry, error: Error): void {
    this.#queue.remove(entry)
    entry.reject(error)
  }
}

function full(): Refusal {
  return new Refusal('instant_full', 'too many answers wait to be proved; try again later')
}
