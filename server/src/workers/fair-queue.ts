// A bounded queue for worker threads. Networks take turns; if it is full, the newest entry of the network with most gives way to one with
// less. (Fair queueing with drops from the longest queue: Nagle, RFC 970; Demers, Keshav, Shenker, SIGCOMM 1989.)

export interface Waiter {
  /** of whom it is */
  readonly network: string
}

export class FairQueue<T extends Waiter> {
  readonly #most: number
  readonly #weigh: (waiter: T) => number
  /** of each network that has any, in the order of their turns; of each in the order they came */
  readonly #networks = new Map<string, T[]>()

  /** Has room for so much, as `weigh` has it of each at the moment. */
  constructor(most: number, weigh: (waiter: T) => number = () => 1) {
    this.#most = most
    this.#weigh = weigh
  }

  /** What waits, weighed. */
  get weight(): number {
    return this.#weightOf([...this.#networks.values()].flat())
  }

  /** All, in the order in which they are to be served: one of each network, then the next. */
  inTurn(): T[] {
    const rounds: T[][] = []
    for (const waiters of this.#networks.values()) {
      for (const [i, waiter] of waiters.entries()) {
        rounds[i] ??= []
        rounds[i].push(waiter)
      }
    }
    return rounds.flat()
  }

  /**
   * Lets one wait. Gives those that have to leave for it; undefined: there is no room, and it does not wait. Whoever finds the
   * queue empty gets in, however much it is.
   */
  add(waiter: T): readonly T[] | undefined {
    const { network } = waiter
    const added = this.#weigh(waiter)
    const own = this.#weightOf(this.#networks.get(network) ?? []) + added
    const leaving: T[] = []
    const shares = Array.from(this.#networks.values(), all => ({ staying: [...all], weight: this.#weightOf(all) }))
    let total = shares.reduce((sum, { weight }) => sum + weight, 0)
    while (total > 0 && total + added > this.#most) {
      const heaviest = shares.reduce((a, b) => (b.weight > a.weight ? b : a))
      const newest = heaviest.staying.pop()!
      heaviest.weight -= this.#weigh(newest)
      total -= this.#weigh(newest)
      // Not if the newcomer's network had more than this one then.
      if (newest.network === network || own > heaviest.weight) return undefined
      leaving.push(newest)
    }
    for (const each of leaving) this.remove(each)
    this.#networks.set(network, [...(this.#networks.get(network) ?? []), waiter])
    return leaving
  }

  /** Its network has had its turn. */
  served({ network }: T): void {
    const waiters = this.#networks.get(network)
    if (waiters === undefined) return
    this.#networks.delete(network)
    this.#networks.set(network, waiters)
  }

  /** It waits no more; whether it did. */
  remove(waiter: T): boolean {
    const { network } = waiter
    const waiters = this.#networks.get(network) ?? []
    const left = waiters.filter(other => other !== waiter)
    if (left.length > 0) this.#networks.set(network, left)
    else this.#networks.delete(network)
    return left.length < waiters.length
  }

  #weightOf(waiters: readonly T[]): number {
    return waiters.reduce((sum, waiter) => sum + this.#weigh(waiter), 0)
  }
}
