// First come, first served, one at a time. Two lookups of one hint under way at once would show columns twice.

export class Turns {
  #last: Promise<unknown> = Promise.resolve()

  /** Runs `work` once everything that came before has settled. */
  take<T>(work: () => Promise<T>): Promise<T> {
    const turn = this.#last.then(work)
    this.#last = turn.catch(() => {})
    return turn
  }
}
