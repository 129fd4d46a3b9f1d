// Answers that threads prove. They wait in a bounded queue, and networks take turns. Each has its records already, and whatever its proof takes.

import { ThreadError } from '../base/errors.js'
import type { Unproved } from '../dataset/proof-kinds.js'
import { Requests, type Settles, type Waiting } from '../workers/requests.js'

/** Most records of answers that wait: a second or two of a thread's work. */
const MOST_ENTRIES = 8192
const FULL = 'too many answers wait to be proved; try again later'

interface Entry extends Settles {
  readonly unproved: Unproved
  readonly network: string
}

export class ProvedAnswers {
  readonly #most: number
  readonly #requests = new Requests<Entry>(MOST_ENTRIES, ({ unproved }) => unproved.entries, FULL)
  #proving = 0

  /** Proves so many at a time. */
  constructor(most: number) {
    this.#most = most
  }

  /** Records of answers that wait. */
  get waiting(): number {
    return this.#requests.queue.weight
  }

  /** Answers that threads are proving. */
  get proving(): number {
    return this.#proving
  }

  /** Lets an answer wait for a thread. Throws an `instant_full` Refusal if there is no room for it. */
  submit(unproved: Unproved, network: string): Waiting {
    const waiting = this.#requests.add(settles => ({ ...settles, unproved, network }))
    this.#wake()
    return waiting
  }

  /** From now on nothing is taken on. What waits is proved. */
  close(): Promise<void> {
    return this.#requests.close()
  }

  #wake(): void {
    const { queue } = this.#requests
    while (this.#proving < this.#most) {
      const [entry] = queue.inTurn()
      if (entry === undefined) return
      queue.served(entry)
      queue.remove(entry)
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
}
