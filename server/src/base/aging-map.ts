// A map that knows which of its keys came first. A Map has them in that order, but to find its first it passes over the room that
// others have left, and one of a million takes a fifth of a second to grow or to shrink, all at once. So keys are spread over
// several, and are in order by themselves.

/** To let one of so many parts of a million keys grow takes a millisecond or two. */
const PARTS = 128

interface Entry<Value> {
  readonly key: string
  value: Value
  older: Entry<Value> | undefined
  younger: Entry<Value> | undefined
}

export class AgingMap<Value> {
  readonly #parts = Array.from({ length: PARTS }, () => new Map<string, Entry<Value>>())
  /** so that nobody who chooses keys can choose their part */
  readonly #seed = Math.floor(Math.random() * 2 ** 32)
  #first: Entry<Value> | undefined
  #last: Entry<Value> | undefined
  #size = 0

  get size(): number {
    return this.#size
  }

  /** The key that has been there for the longest; setting it again does not make it younger. */
  get oldest(): string | undefined {
    return this.#first?.key
  }

  has(key: string): boolean {
    return this.#partOf(key).has(key)
  }

  get(key: string): Value | undefined {
    return this.#partOf(key).get(key)?.value
  }

  set(key: string, value: Value): void {
    const part = this.#partOf(key)
    const known = part.get(key)
    if (known !== undefined) {
      known.value = value
      return
    }
    const entry: Entry<Value> = { key, value, older: this.#last, younger: undefined }
    if (this.#last === undefined) this.#first = entry
    else this.#last.younger = entry
    this.#last = entry
    part.set(key, entry)
    this.#size++
  }

  /** Whether it was there. */
  delete(key: string): boolean {
    const part = this.#partOf(key)
    const entry = part.get(key)
    if (entry === undefined) return false
    const { older, younger } = entry
    if (older === undefined) this.#first = younger
    else older.younger = younger
    if (younger === undefined) this.#last = older
    else younger.older = older
    this.#size--
    return part.delete(key)
  }

  clear(): void {
    for (const part of this.#parts) part.clear()
    this.#first = undefined
    this.#last = undefined
    this.#size = 0
  }

  /** Oldest first. */
  *[Symbol.iterator](): Generator<[string, Value]> {
    for (let entry = this.#first; entry !== undefined; entry = entry.younger) yield [entry.key, entry.value]
  }

  #partOf(key: string): Map<string, Entry<Value>> {
    let hash = this.#seed
    for (let i = 0; i < key.length; i++) hash = Math.imul(hash ^ key.charCodeAt(i), 0x9e3779b1)
    return this.#parts[(hash >>> 16) % PARTS]!
  }
}
