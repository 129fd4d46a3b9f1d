// Who reads a database's memory from other threads, and who changes or frees it: never both at a time. Whoever wants to
// change it is not kept waiting by readers to come.

export class Readers {
  #reading = 0
  #writers = 0
  #onQuiet: (() => void)[] = []
  readonly #onOpen = new Map<object, () => void>()

  /** Whether one may begin to read. */
  get open(): boolean {
    return this.#writers === 0
  }

  /** Reading begins; only while `open`. Returns how to end it, once. */
  begin(): () => void {
    this.#reading += 1
    return () => {
      this.#reading -= 1
      if (this.#reading === 0) for (const quiet of this.#onQuiet.splice(0)) quiet()
    }
  }

  /** `listener` is called once, when one may begin to read again; of each `reader` the last one. */
  onceOpen(reader: object, listener: () => void): void {
    this.#onOpen.set(reader, listener)
  }

  /** Does `work`, which is not to wait for anything, once nobody reads: at once, if nobody does. */
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
