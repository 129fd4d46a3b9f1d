// Following the servers' events, so that one server cannot make maps flood the other. The requests that a server's lines
// cause are limited in time, and more so while the server may have made up what it announces. A stream is closed that announces an epoch
// which its own server does not have, or too often one that nobody else knows.

import type { Info, NewestEvent } from '@keyhush/protocol'
import {
  FOLLOW_DOWNLOAD_INTERVAL_MS,
  FOLLOW_INTERVAL_MS,
  FOLLOW_LONGEST_INTERVAL_MS,
  FOLLOW_UNDECIDED_INTERVAL_MS,
} from '../base/constants.js'
import { ServersDisagreeError, SignatureError, VersionError } from '../base/errors.js'
import { Turns } from '../base/mutex.js'
import type { Environment } from '../platform/environment.js'
import { askOne, sleep } from '../servers/ask.js'
import { subscribe } from '../servers/events.js'
import { Heard } from '../servers/info.js'
import type { Agreed } from '../servers/manifests.js'
import type { Servers } from '../servers/parties.js'
import type { EpochId, Signing } from '../servers/signatures.js'
import type { Standing } from '../servers/standing.js'
import { isNews, type Looking, newsIn } from '../servers/target.js'
import { type Link, linksOf } from '../servers/transport.js'

/** The map that follows. */
export interface Follower {
  /** the epoch it is at; undefined: not known, and nothing is followed */
  readonly base: (Pick<Partial<Agreed>, 'bytes'> & { readonly manifest: EpochId }) | undefined
  /** how many hints were downloaded because no update led on; missing: it has none */
  readonly madeAnew?: number
  /** asks all servers that have not been heard, and brings the map to the newest epoch. `from`: the one whose line is the reason */
  follow(looking: Pick<Looking, 'heard'>, from: Link): Promise<void>
  /** hears each line of a server */
  heard?(link: Link, line: NewestEvent): void
  /** learns what a server shows */
  said?(link: Link, info: Info): void
}

interface Listening {
  readonly servers: Servers
  readonly environment: Link['environment'] & Pick<Environment, 'tabs'>
  readonly signing: Signing | undefined
  readonly stats: { readonly standing: Standing }
}

/**
 * Follows until `signal` aborts, with one stream of each server for all tabs. After a failure a server's next line tries again; lines come
 * every few seconds. Never rejects: nobody waits for it, and an unhandled rejection ends a process of Node.
 */
export async function followEvents(
  { servers, environment, signing, stats }: Listening,
  follower: Follower,
  signal: AbortSignal,
  listenTo = subscribe,
): Promise<void> {
  const links = linksOf(servers, environment, stats.standing)
  // All servers announce the same epoch: who has its turn takes what all have heard, and the second look finds nothing to do.
  const common = { follower, signing, turns: new Turns(), heard: new Heard() }
  await Promise.allSettled(
    links.map(async link => {
      const lines = new Lines(link, common, signal)
      await listenTo(link, environment.tabs, (newest, drop) => lines.take(newest, drop), signal)
      await lines.working
    }),
  )
}

interface Common {
  readonly follower: Follower
  readonly signing: Signing | undefined
  readonly turns: Turns
  readonly heard: Heard
}

/** The longest pause after a look, by what came of it; the first is FOLLOW_INTERVAL_MS, and each doubles by itself. */
const LONGEST = {
  undecided: FOLLOW_UNDECIDED_INTERVAL_MS,
  'in vain': FOLLOW_LONGEST_INTERVAL_MS,
  download: FOLLOW_DOWNLOAD_INTERVAL_MS,
}

/** The looks that one server's lines cause. */
class Lines {
  readonly #link: Link
  readonly #common: Common
  readonly #follower: Follower
  readonly #signal: AbortSignal
  /** what was announced since the last look began */
  #claim: NewestEvent | undefined
  /** missing: the first */
  readonly #pauses = new Map<keyof typeof LONGEST, number>()
  #notBefore = Number.NEGATIVE_INFINITY
  working: Promise<void> | undefined

  constructor(link: Link, common: Common, signal: AbortSignal) {
    this.#link = link
    this.#common = common
    this.#follower = common.follower
    this.#signal = signal
  }

  take(claim: NewestEvent, drop: () => void): void {
    this.#follower.heard?.(this.#link, claim)
    if (!this.#isNews(claim)) return
    this.#claim = claim
    this.working ??= this.#work(drop).finally(() => {
      this.working = undefined
    })
  }

  #isNews(claim: NewestEvent | undefined): boolean {
    const { base } = this.#follower
    return base !== undefined && claim !== undefined && isNews(claim, base.manifest)
  }

  async #work(drop: () => void): Promise<void> {
    while (this.#isNews(this.#claim) && !this.#signal.aborted) {
      const { clock } = this.#link.environment
      const wait = this.#notBefore - clock.now()
      if (wait > 0) await sleep(clock, wait, this.#signal)
      if (await this.#look()) continue
      drop()
      return
    }
  }

  /** Whether this server may be listened to further: it has what it announced, and not too often in vain. */
  async #look(): Promise<boolean> {
    const claim = this.#claim
    this.#claim = undefined
    const { heard, signing, turns } = this.#common
    await turns.take(async () => {}) // what another server's line has begun may bring it
    const { base, madeAnew } = this.#follower
    if (base === undefined || !this.#isNews(claim) || this.#signal.aborted) return true
    let [isHeard, isInVain] = [false, false]
    try {
      // That server is asked first, so that a false line causes no request to the other; and before its turn, so that it holds up no other's.
      const ask = (link: Link, signal: AbortSignal) => heard.ask(link, signal)
      const info = await askOne([this.#link], {}, this.#signal, ask)
      isHeard = true
      this.#follower.said?.(this.#link, info)
      const news = newsIn(info, base.manifest, signing)
      if (news === undefined) return false
      if (news === 'signed') {
        await turns.take(async () => {
          if (this.#isNews(claim) && !this.#signal.aborted) await this.#follower.follow({ heard }, this.#link)
          await heard.take(this.#link)
        })
        isInVain = signing === undefined // with a key, servers that lack what is signed are to blame
      }
    } catch (error) {
      isInVain = [VersionError, ServersDisagreeError, SignatureError].some(kind => error instanceof kind)
    } finally {
      await heard.take(this.#link)?.catch(() => {}) // a later look asks anew
      const { base: now, madeAnew: made } = this.#follower
      const hasMoved = now?.bytes !== base.bytes
      isInVain &&= !hasMoved
      const outcome = made !== madeAnew ? 'download' : isInVain ? 'in vain' : 'undecided'
      const isNearer = hasMoved && outcome !== 'download'
      if (isNearer) this.#pauses.clear()
      const before = this.#pauses.get(outcome) ?? FOLLOW_INTERVAL_MS
      const doubles = isHeard && !isNearer // else nobody else was asked, or the pauses begin anew
      const pause = doubles ? Math.min(2 * before, LONGEST[outcome]) : before
      this.#pauses.set(outcome, pause)
      this.#notBefore = this.#link.environment.clock.now() + pause
    }
    return !isInVain || !this.#isNews(claim) || this.#pauses.get('in vain') !== LONGEST['in vain']
  }
}
