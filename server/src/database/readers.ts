// Other threads read a database's memory, or this thread changes or frees it: never both at a time. No new reader begins while a
// change waits.

export class Readers {
  #reading = 0
  #writers = 0
  #onQuiet: (() => void)[] = []
  readonly #onOpen = new Map<object, () => void>()

  /** Whether reading may begin. */
  get open(): boolean {
    return this.#writers === 0
  }

  /** Begins to read; only while `open`. Returns what ends it, to be called once. */
  begin(): () => void {
    this.#reading += 1
    return () => {
      this.#reading -= 1
      if (this.#reading === 0) for (const quiet of this.#onQuiet.splice(0)) quiet()
    }
  }

  /** Calls `listener` once, when reading may begin again. Each `reader` has one listener, the last. */
  onceOpen(reader: object, listener: () => void): void {
    this.#onOpen.set(reader, listener)
  }

  /** Does `work`, which is synchronous, while nobody reads: at once, if nobody does. */
  async exclusively<T>(work: () => T): Promise<Awaited<T>> {
    this.#writers += 1
    let done: T
    try {
      while (this.#reading > 0) await new Promise<void>(resolve => this.#onQuiet.push(resolve))
      done = work()
    } finally {
      this.#writers -= 1
      if (this.#writers === 0) this.#opened()
    }
    return await done
  }

  #opened(): void {
    const listeners = [...this.#onOpen.values()]
    this.#onOpen.clear()
    for (const open of listeners) open()
  }
}
