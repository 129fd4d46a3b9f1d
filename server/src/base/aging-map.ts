// A map that knows which of its keys came first. A Map has them in that order, but keeps room for those that were removed, and
// to find its first passes over them all: among a million, for milliseconds, each time.

/** Looked up at once. */
const TOGETHER = 1000

export class AgingMap<Value> extends Map<string, Value> {
  /** the first of all, in order; none: they are to be looked up */
  readonly #first = new Set<string>()

  /** The key that has been there for the longest; setting it again does not make it younger. */
  get oldest(): string | undefined {
    if (this.#first.size === 0) {
      for (const key of this.keys()) if (this.#first.add(key).size === TOGETHER) break
    }
    const [oldest] = this.#first
    return oldest
  }

  override delete(key: string): boolean {
    this.#first.delete(key)
    return super.delete(key)
  }

  override clear(): void {
    this.#first.clear()
    super.clear()
  }
}
