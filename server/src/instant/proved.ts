// Answers that threads prove. They wait in a bounded queue, and networks take turns. Each has its records already, and whatever its proof takes.

import { ThreadError } from '../base/errors.js'
import type { Unproved } from '../dataset/proof-kinds.js'
import { Requests, type Settles, type Waiting } from '../workers/requests.js'

/** Most records of answers that wait: a second or two of a thread's work. */
const MOST_ENTRIES = 8192
const FULL = 'too many answers wait to be proved; try again later'

interface WaitingProof extends Settles {
  readonly unproved: Unproved
  readonly network: string
}

/** `waiting` counts records of answers. */
export class ProvedAnswers extends Requests<WaitingProof> {
  readonly #most: number
  /** answers that threads are proving */
  proving = 0

  /** Proves so many at a time. */
  constructor(most: number) {
    super(MOST_ENTRIES, ({ unproved }) => unproved.entries, FULL)
    this.#most = most
  }

  /** Lets an answer wait for a thread. Throws an `instant_full` Refusal if there is no room for it. */
  submit(unproved: Unproved, network: string): Waiting {
    const waiting = this.add(settles => ({ ...settles, unproved, network }))
    this.#wake()
    return waiting
  }

  #wake(): void {
    const { queue } = this
    while (this.proving < this.#most) {
      const [entry] = queue.inTurn()
      if (entry === undefined) return
      queue.served(entry)
      queue.remove(entry)
      void this.#prove(entry)
    }
  }

  async #prove(entry: WaitingProof): Promise<void> {
    this.proving += 1
    try {
      entry.resolve(await entry.unproved.prove())
    } catch (cause) {
      entry.reject(new ThreadError('an answer could not be proved', { cause }))
    } finally {
      this.proving -= 1
      this.#wake()
    }
  }
}
