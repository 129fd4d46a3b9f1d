// How many elements an evaluator multiplies: who may ask may guess, and each guess costs one evaluation. There is a limit for each client,
// for each network and for all, a day (UTC). Clients and networks are kept in memory alone, hashed. What all have used is kept on
// disk, so that a restart, or a second process with the same file, does not begin it anew.

import { createHmac, randomBytes } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import { BuildError, lockFile, Refusal, writeWhole } from '@keyhush/server/beside'

const DAY_MILLISECONDS = 86_400_000

/** Reserved at a time, of the limit for all: what a kill wastes. */
const PART = 100

/** Of clients, and of networks. Beyond it all new ones count as one. */
const MOST_COUNTED = 200_000

export interface Limits {
  /** elements a day; a lookup of one key has two */
  readonly perClientDay: number
  readonly perNetworkDay: number
  readonly totalDay: number
}

export interface MeterOptions extends Limits {
  /** the file that keeps what all have used today */
  readonly countIn: string
  /** milliseconds since 1970 */
  readonly now?: () => number
}

interface Counted {
  readonly day: number
  /** elements, with those that are reserved and not used yet */
  readonly reserved: number
}

export class Meter {
  readonly #limits: Limits
  readonly #file: string
  readonly #now: () => number
  readonly #secret = randomBytes(32)
  #day: number
  #left = 0
  #endedDay = -1
  /** no process has anything left of the limit for all today */
  #isSpent = false
  /** as this process last wrote it: it goes on from there if the file is deleted */
  #last: Counted = { day: 0, reserved: 0 }
  /** what the client, and the network, that have used the most today have used */
  #mostOfClient = 0
  #mostOfNetwork = 0
  /** since the start, for figures */
  readonly counted = { elements: 0, refusedOfClient: 0, refusedOfNetwork: 0, refusedOfAll: 0 }
  #clients = new Map<string, number>()
  #networks = new Map<string, number>()
  #reserving: Promise<void> = Promise.resolve()

  private constructor({ countIn, now = Date.now, ...limits }: MeterOptions) {
    this.#limits = limits
    this.#file = countIn
    this.#now = now
    this.#day = Math.floor(now() / DAY_MILLISECONDS)
  }

  /** Throws BuildError for limits that allow no lookup, and for a file that is no count. */
  static async open(options: MeterOptions): Promise<Meter> {
    const { perClientDay, perNetworkDay, totalDay } = options
    const limits = { 'per-client-day': perClientDay, 'per-network-day': perNetworkDay, 'total-day': totalDay }
    for (const [name, limit] of Object.entries(limits)) {
      if (limit >= 2) continue
      throw new BuildError(`--${name}: expected 2 or more, since a lookup has two elements, got ${limit}`)
    }
    const meter = new Meter(options)
    const unlock = await meter.#locked() // throws where nothing can be written
    try {
      const counted = await meter.#counted()
      const { day } = counted
      // One more: clocks of two processes differ.
      if (day > meter.#day + 1) {
        const what = 'expected a count of today, got one of a later day; set the clock right, or delete the file'
        throw new BuildError(what, options.countIn)
      }
      meter.#last = counted
    } finally {
      unlock()
    }
    return meter
  }

  /** Counts so many elements before they are multiplied. Throws a `rate_limited` Refusal if a limit does not leave as many. */
  async take(client: string, network: string, elements: number): Promise<void> {
    this.#begin()
    const { perClientDay, perNetworkDay } = this.#limits
    const own = this.#name(client, this.#clients)
    const shared = this.#name(network, this.#networks)
    const used = (this.#clients.get(own) ?? 0) + elements
    const usedByNetwork = (this.#networks.get(shared) ?? 0) + elements
    const isOver = used > perClientDay
    if (isOver || usedByNetwork > perNetworkDay) {
      this.counted[isOver ? 'refusedOfClient' : 'refusedOfNetwork'] += 1
      throw usedUp('of one client or network')
    }
    this.#mostOfClient = Math.max(this.#mostOfClient, used)
    this.#mostOfNetwork = Math.max(this.#mostOfNetwork, usedByNetwork)
    // At once: a second request that comes meanwhile finds them counted.
    this.#clients.set(own, used)
    this.#networks.set(shared, usedByNetwork)
    if (this.#left < elements && !this.#isSpent) {
      this.#reserving = this.#reserving.catch(() => {}).then(() => this.#reserve(elements))
      await this.#reserving
    }
    if (this.#left < elements) {
      this.#endedDay = this.#day
      this.counted.refusedOfAll += 1
      throw usedUp('of all clients')
    }
    this.#left -= elements
    this.counted.elements += elements
  }

  /** What limits leave today: the client and the network that have used the most; all, as far as this process knows. */
  get left(): { readonly ofClient: number; readonly ofNetwork: number; readonly ofAll: number } {
    this.#begin()
    const { perClientDay, perNetworkDay, totalDay } = this.#limits
    const reserved = this.#last.day === this.#day ? this.#last.reserved : 0
    return {
      ofClient: perClientDay - this.#mostOfClient,
      ofNetwork: perNetworkDay - this.#mostOfNetwork,
      ofAll: this.#isSpent ? this.#left : totalDay - reserved + this.#left,
    }
  }

  /** Whether the limit of all clients has refused somebody today. */
  get isUsedUp(): boolean {
    this.#begin()
    return this.#endedDay === this.#day
  }

  /** Seconds of this day that are left, at least 1. */
  get secondsLeft(): number {
    return Math.max(1, Math.ceil(((this.#day + 1) * DAY_MILLISECONDS - this.#now()) / 1000))
  }

  /** A day never ends because the clock was set back. */
  #begin(): void {
    const day = Math.floor(this.#now() / DAY_MILLISECONDS)
    if (day <= this.#day) return
    this.#day = day
    this.#left = 0
    this.#isSpent = false
    this.#mostOfClient = 0
    this.#mostOfNetwork = 0
    this.#clients = new Map()
    this.#networks = new Map()
  }

  /** Under which a client or network counts. */
  #name(name: string, counted: ReadonlyMap<string, number>): string {
    const hashed = createHmac('sha256', this.#secret).update(name).digest('base64')
    return counted.has(hashed) || counted.size < MOST_COUNTED ? hashed : 'others'
  }

  async #reserve(elements: number): Promise<void> {
    if (this.#left >= elements || this.#isSpent) return
    const unlock = await this.#locked()
    try {
      const { totalDay } = this.#limits
      const counted = await this.#counted()
      const reserved = counted.day >= this.#day ? counted.reserved : 0
      const more = Math.min(totalDay - reserved, Math.max(elements - this.#left, Math.ceil(totalDay / PART)))
      this.#isSpent = more <= 0
      if (this.#isSpent) return
      const next = { day: Math.max(counted.day, this.#day), reserved: reserved + more }
      await writeWhole(this.#file, Buffer.from(`${JSON.stringify(next)}\n`), 0o600)
      this.#last = next
      this.#left += more
    } finally {
      unlock()
    }
  }

  async #locked(): Promise<() => void> {
    for (;;) {
      const unlock = lockFile(`${this.#file}.lock`)
      if (unlock) return unlock
      await sleep(10) // another process reserves, which takes it a moment
    }
  }

  async #counted(): Promise<Counted> {
    const text = await readFile(this.#file, 'utf8').catch((error: NodeJS.ErrnoException) => {
      if (error.code === 'ENOENT') return JSON.stringify(this.#last)
      throw error
    })
    try {
      const { day, reserved } = JSON.parse(text) as Counted
      if ([day, reserved].every(each => Number.isSafeInteger(each) && each >= 0)) return { day, reserved }
    } catch {}
    throw new BuildError(
      'expected a count, as an evaluator writes it, got another file; name another with --count-in',
      this.#file,
    )
  }
}

function usedUp(whose: string): Refusal {
  return new Refusal('rate_limited', `the limit ${whose} is used up for today; try again tomorrow (UTC)`)
}
