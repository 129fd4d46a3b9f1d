// Update lists that were fetched a moment ago.

/** Lists that are kept for the other reader. */
const MOST = 4

/**
 * Lists that one reader has fetched, for the other: what answers lookups, and what watches keys, each follow in their own time. Without
 * watches nothing is kept.
 */
export class RecentLists {
  readonly #lists = new Map<string, Promise<Uint8Array>>()
  #isShared = false

  /** There are two readers from now on. */
  share(): void {
    this.#isShared = true
  }

  async get(hash: string, fetch: () => Promise<Uint8Array>): Promise<Uint8Array> {
    const known = this.#lists.get(hash)
    this.#lists.delete(hash)
    const list = await known?.catch(() => undefined) // that of the other may have been called off
    if (list !== undefined || !this.#isShared) return list ?? (await fetch())
    const [oldest] = this.#lists.keys()
    if (oldest !== undefined && this.#lists.size === MOST) this.#lists.delete(oldest)
    const fetched = fetch()
    this.#lists.set(hash, fetched)
    return await fetched
  }
}
