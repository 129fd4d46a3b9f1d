// Following the servers' events, so that one server cannot make maps flood the other: what a server's lines cause is
// bounded in time, less and less while they come to nothing, and a server that tells of epochs which it has not itself is
// not listened to any more.

import type { Core } from '@keyhush/wasm/client'
import { FOLLOW_INTERVAL_MS, FOLLOW_LONGEST_INTERVAL_MS } from '../base/constants.js'
import { Turns } from '../base/mutex.js'
import type { Environment } from '../platform/environment.js'
import { subscribe } from '../servers/events.js'
import type { Servers } from '../servers/pair.js'
import { sleep } from '../servers/retry.js'
import { Meter } from '../servers/stats.js'
import { type Link, linksOf } from '../servers/transport.js'
import { type Base, hasMore } from '../servers/updates.js'

/** The map that follows. */
export interface Follower {
  /** where it is; undefined: not known, and nothing is followed */
  readonly base: Base | undefined
  /** how many hints were downloaded because no update led on */
  readonly madeAnew: number
  /** asks all servers, and goes where they are */
  sync(): Promise<void>
}

/** Follows until called off. Whatever fails, a server's next line tries again, and lines come every few seconds. */
export async function followEvents(
  servers: Servers,
  environment: Pick<Environment, 'clock' | 'fetch'>,
  core: Core,
  follower: Follower,
  signal: AbortSignal,
): Promise<void> {
  const meters = servers.map(() => new Meter())
  const links = linksOf(servers, environment, meters)
  const turns = new Turns() // all servers tell of the same epoch: the second look finds nothing to do
  await Promise.all(
    links.map(async link => {
      const lines = new Lines(link, core, follower, turns, signal)
      await subscribe(link, ({ epoch }, drop) => lines.take(epoch, drop), signal)
      await lines.working
    }),
  )
}

/** What one server's lines lead to. */
class Lines {
  readonly #link: Link
  readonly #core: Core
  readonly #follower: Follower
  readonly #turns: Turns
  readonly #signal: AbortSignal
  /** the newest epoch told of since the last look began */
  #claim = 0
  #interval = FOLLOW_INTERVAL_MS
  /** the same after a look that has downloaded a hint; never shorter than before */
  #afterDownload = FOLLOW_INTERVAL_MS
  #notBefore = Number.NEGATIVE_INFINITY
  working: Promise<void> | undefined

  constructor(link: Link, core: Core, follower: Follower, turns: Turns, signal: AbortSignal) {
    this.#link = link
    this.#core = core
    this.#follower = follower
    this.#turns = turns
    this.#signal = signal
  }

  take(epoch: number, drop: () => void): void {
    this.#claim = Math.max(this.#claim, epoch)
    if (!this.#isNews(this.#claim)) return
    this.working ??= this.#work(drop).finally(() => {
      this.working = undefined
    })
  }

  #isNews(claim: number): boolean {
    const { base } = this.#follower
    return base !== undefined && claim > base.manifest.epoch
  }

  async #work(drop: () => void): Promise<void> {
    while (this.#isNews(this.#claim) && !this.#signal.aborted) {
      const { clock } = this.#link.environment
      const wait = this.#notBefore - clock.now()
      if (wait > 0) await sleep(clock, wait, this.#signal)
      const founded = await this.#turns.take(() => this.#look()).catch(() => true)
      if (founded) continue
      drop()
      return
    }
  }

  /** Whether this server may be listened to further. */
  async #look(): Promise<boolean> {
    const claim = this.#claim
    this.#claim = 0
    const { base, madeAnew } = this.#follower
    if (base === undefined || !this.#isNews(claim) || this.#signal.aborted) return true
    try {
      // That server's own word first: the other hears nothing of a lie.
      if (!(await hasMore(this.#link, this.#core, base, this.#signal))) return false
      await this.#follower.sync()
    } finally {
      const fruitless = this.#isNews(claim)
      this.#interval = fruitless ? doubled(this.#interval) : FOLLOW_INTERVAL_MS
      const downloaded = this.#follower.madeAnew > madeAnew
      if (downloaded) this.#afterDownload = doubled(this.#afterDownload)
      const wait = downloaded ? Math.max(this.#afterDownload, this.#interval) : this.#interval
      this.#notBefore = this.#link.environment.clock.now() + wait
    }
    return true
  }
}

function doubled(interval: number): number {
  return Math.min(2 * interval, FOLLOW_LONGEST_INTERVAL_MS)
}
