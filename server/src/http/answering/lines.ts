// Lines for the log, which is another thread's: a piece of them at a time is with it, and the rest waits, within a bound.

const MOST_CHARACTERS = 2 ** 20

/** How long lines wait for each other. */
const TOGETHER_MILLISECONDS = 50

export class Lines {
  /** hears how many lines were lost, for there were too many */
  tell: (lost: number) => void = () => {}
  readonly #send: (lines: string) => Promise<unknown>
  #lines: string[] = []
  #characters = 0
  #lost = 0
  #sending: Promise<void> | undefined

  /** `send` resolves once the other thread has them. */
  constructor(send: (lines: string) => Promise<unknown>) {
    this.#send = send
  }

  write(line: string): void {
    if (this.#characters + line.length > MOST_CHARACTERS) {
      this.#lost++
      return
    }
    this.#lines.push(line)
    this.#characters += line.length
    this.#sending ??= this.#sendAll()
  }

  /** Once all of them are there. */
  async written(): Promise<void> {
    await this.#sending
  }

  async #sendAll(): Promise<void> {
    while (this.#lines.length > 0) {
      await new Promise(resolve => setTimeout(resolve, TOGETHER_MILLISECONDS))
      const [lines, lost] = [this.#lines.join(''), this.#lost]
      this.#lines = []
      this.#characters = 0
      this.#lost = 0
      await this.#send(lines).catch(() => {}) // where they go has gone
      if (lost > 0) this.tell(lost)
    }
    this.#sending = undefined
  }
}
