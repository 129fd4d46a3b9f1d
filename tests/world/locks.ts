// The locks of an origin, as in browsers: granted in order, released by dead tabs, and stolen when the next tab's patience ends.
// The tab that asked before hears of each new request after a while, if it runs.

import type { Clock, Locks as SdkLocks } from '@keyhush/client/environment'

/** One attempt to hold the lock. */
interface Hold {
  readonly tab: object
  readonly go: () => void
  readonly want: () => void
}

/** There is one name, since there is one pair of servers. */
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

  /** The tab is dead: it releases the lock and never gets it again. */
  leave(tab: object): void {
    this.#dead.push(...this.#waiting.filter(waiting => waiting.tab === tab))
    this.#waiting = this.#waiting.filter(waiting => waiting.tab !== tab)
    this.letGo(tab)
  }

  /** At the end of the world every tab gets it, dead ones too. */
  giveToAll(): void {
    for (const { go } of [...this.#waiting.splice(0), ...this.#dead.splice(0)]) go()
  }

  /** The tab loses the lock, while its task goes on. */
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
