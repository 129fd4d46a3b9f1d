// The replies to queries of one database, as the thread that has the core makes them.

import { type FenceClaim, type FenceVerdict, withVerdict } from '@keyhush/protocol'
import { Refusal } from '../base/refusal.js'
import type { Epochs } from '../database/epochs.js'
import type { Fence } from '../database/fence.js'
import { type Answered, answerQuery } from './answer.js'
import type { Readiness } from './readiness.js'
import { type Answers, longestQuery } from './routes/answer.js'

export interface OwnAnswersOptions {
  readonly epochs: Epochs
  /** of an updatable database, whose layouts may come and go */
  readonly fence: Fence | undefined
  readonly readiness: Readiness
  /** the core has failed in a way that leaves its memory in doubt; nothing is answered after that */
  readonly onTrap: (error: Error) => void
}

export class OwnAnswers implements Answers {
  readonly longest: number
  readonly epochs: Epochs
  readonly #fence: Fence | undefined
  readonly #readiness: Readiness
  readonly #onTrap: (error: Error) => void

  constructor({ epochs, fence, readiness, onTrap }: OwnAnswersOptions) {
    this.longest = longestQuery(epochs.newest, fence !== undefined)
    this.epochs = epochs
    this.#fence = fence
    this.#readiness = readiness
    this.#onTrap = onTrap
  }

  reply(body: unknown, reserve: (bytes: number) => void = () => {}): Uint8Array | Promise<Uint8Array> {
    const { answer, claim } = this.#answer(body, reserve)
    // Whatever the verdict, it comes with the answer: the vectors have been shown.
    return claim === undefined ? answer : this.judge(claim).then(verdict => withVerdict(answer, verdict))
  }

  /** Throws a Refusal where there is no fence, and as the fence. */
  judge(claim: FenceClaim): Promise<FenceVerdict> {
    if (this.#fence === undefined) throw new Refusal('not_found', 'this database does not change, and has no fence')
    return this.#fence.judge({ kind: 'confirm', ...claim })
  }

  /** Nothing is answered from here on. */
  trapped(error: Error): void {
    this.#readiness.stop('this server has failed and is restarting')
    this.#onTrap(error)
  }

  #answer(body: unknown, reserve: (bytes: number) => void): Answered {
    try {
      return answerQuery(this.epochs, body, reserve)
    } catch (error) {
      if (isTrap(error)) this.trapped(error)
      throw error
    }
  }
}

/** WebAssembly's own error class, which Node's types do not know. */
export function isTrap(error: unknown): error is Error {
  return error instanceof Error && error.name === 'RuntimeError'
}
