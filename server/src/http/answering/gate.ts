// What keeps threads that read a database's memory apart from the one that changes it, without a message for either: words that
// all of them share. A reader says that it is in, then looks whether it may be; whoever is to change something says that nobody
// may, then looks whether anybody is in. Both see each other's words in the order they were written (Atomics are sequentially
// consistent), so one of the two at least gives way (Dekker).

import type { Outside } from '../../database/readers.js'

/** How many times it is closed; a number that is another whenever what threads are told of the memory is; who is in. */
const [CLOSED, VERSION, IN] = [0, 1, 2]

/** As the thread has it that changes things. */
export class Gate implements Outside {
  readonly words: Int32Array
  readonly #publish: (version: number) => void
  readonly #opened: () => void

  /** `publish`: called before threads get in to something else; `opened`: when they get in again. */
  constructor(threads: number, publish: (version: number) => void, opened: () => void) {
    this.words = new Int32Array(new SharedArrayBuffer((IN + threads) * Int32Array.BYTES_PER_ELEMENT))
    this.#publish = publish
    this.#opened = opened
  }

  get version(): number {
    return Atomics.load(this.words, VERSION)
  }

  close(): void {
    Atomics.add(this.words, CLOSED, 1)
  }

  get isEmpty(): boolean {
    for (let at = IN; at < this.words.length; at++) if (Atomics.load(this.words, at) !== 0) return false
    return true
  }

  open(): void {
    this.renew()
    Atomics.sub(this.words, CLOSED, 1)
    this.#opened()
  }

  /** There is something else to know. */
  renew(): void {
    const version = this.version + 1
    this.#publish(version)
    Atomics.store(this.words, VERSION, version)
  }

  /** A thread has ended, wherever it was. */
  ended(thread: number): void {
    Atomics.store(this.words, IN + thread, 0)
  }
}

/** As one of the threads has it that read. */
export class Entrance {
  readonly #words: Int32Array
  readonly #own: number

  constructor(words: Int32Array, thread: number) {
    this.#words = words
    this.#own = IN + thread
  }

  /** Whether one is in; whoever is leaves soon, and waits for nothing meanwhile. */
  enter(): boolean {
    Atomics.store(this.#words, this.#own, 1)
    if (Atomics.load(this.#words, CLOSED) === 0) return true
    this.leave()
    return false
  }

  leave(): void {
    Atomics.store(this.#words, this.#own, 0)
  }

  /** Of what is to be known before something is read. */
  get version(): number {
    return Atomics.load(this.#words, VERSION)
  }
}
