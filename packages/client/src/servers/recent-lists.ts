// Update lists that were fetched a moment ago.

/** Lists that are kept for the other reader. */
const MOST = 4

/**
 * Lists that one reader has fetched, for the other: what answers lookups, and what watches keys, each follow in their own time. Neither
 * waits for a list of the other that has not arrived: a watch may have asked one server alone. Without watches nothing is kept.
 */
export class RecentLists {
  readonly #lists = new Map<string, Uint8Array>()
  #isShared = false

  /** There are two readers from now on. */
  share(): void {
    this.#isShared = true
  }

  async get(hash: string, fetch: () => Promise<Uint8Array>): Promise<Uint8Array> {
    const known = this.#lists.get(hash)
    this.#lists.delete(hash)
    const list = known ?? (await fetch())
    if (known !== undefined || !this.#isShared) return list
    const [oldest] = this.#lists.keys()
    if (oldest !== undefined && this.#lists.size === MOST) this.#lists.delete(oldest)
    this.#lists.set(hash, list)
    return list
  }
}
