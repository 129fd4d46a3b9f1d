// The locks of an origin, as browsers have them: given in order of asking, let go by the dead, and taken from whoever
// holds on for longer than the next in line has patience. Who asked before hears of it, if it runs, after a while.

import type { Clock, Locks as SdkLocks } from '@keyhush/client/environment'

/** One attempt to hold the lock. */
interface Hold {
  readonly tab: object
  readonly go: () => void
  readonly want: () => void
}

/** All of them have one name: there is one pair of servers. */
export class Locks {
  /** how often the lock was taken from its holder */
  stolen = 0
  #holder: Hold | undefined
  #askedLast: Hold | undefined
  #waiting: Hold[] = []
  readonly #dead: Hold[] = []

  /** The locks as one tab sees them. */
  of(tab: object, clock: Clock): SdkLocks {
    return {
      hold: async (_name, patienceMs, task) => {
        const wanted = new AbortController()
        const hold = await this.#acquired(tab, clock, patienceMs, () => wanted.abort())
        try {
          return await task(wanted.signal)
        } finally {
          this.#release(hold)
        }
      },
    }
  }

  /** The tab is dead. It does not hold the lock any more, and will never get it. */
  leave(tab: object): void {
    this.#dead.push(...this.#waiting.filter(waiting => waiting.tab === tab))
    this.#waiting = this.#waiting.filter(waiting => waiting.tab !== tab)
    this.letGo(tab)
  }

  /** At the end of the world everybody gets it, even the dead. */
  giveToAll(): void {
    for (const { go } of [...this.#waiting.splice(0), ...this.#dead.splice(0)]) go()
  }

  /** The tab does not hold the lock any more, though what it did with it goes on. */
  letGo(tab: object): void {
    if (this.#holder?.tab !== tab) return
    this.#holder.want()
    this.#release(this.#holder)
  }

  #acquired(tab: object, clock: Clock, patienceMs: number, want: () => void): Promise<Hold> {
    return new Promise(resolve => {
      this.#askedLast?.want()
      const hold = {
        tab,
        want: () => void clock.setTimeout(want, 0),
        go: () => {
          clock.clearTimeout(timer)
          this.#holder = hold
          resolve(hold)
        },
      }
      this.#askedLast = hold
      const timer = clock.setTimeout(() => {
        this.#waiting = this.#waiting.filter(waiting => waiting !== hold)
        this.stolen++
        hold.go()
      }, patienceMs)
      if (this.#holder === undefined) hold.go()
      else this.#waiting.push(hold)
    })
  }

  #release(hold: Hold): void {
    if (this.#holder !== hold) return
    this.#holder = undefined
    if (this.#askedLast === hold) this.#askedLast = undefined
    this.#waiting.shift()?.go()
  }
}
