// One at a time, in the order of calls.

export class Turns {
  #last: Promise<unknown> = Promise.resolve()

  /** Runs `work` once everything that came before has settled. */
  take<T>(work: () => Promise<T>): Promise<T> {
    const turn = this.#last.then(work)
    this.#last = turn.catch(() => {})
    return turn
  }
}
