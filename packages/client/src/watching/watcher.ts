// Watched keys (docs/threat-model.md, Watched keys). Each change of a database is in a public list that all clients fetch alike. One
// follower for all keys of a session, beside whatever answers its lookups, has an epoch of its own and reads these lists.
//
// What is sent never depends on a key, on its value, nor on whether it has changed:
//
//   - the lists of all epochs are fetched, and each is read once for all keys;
//   - where no list leads on, all keys are looked up again, also those that nobody listens to any more (search.ts);
//   - marks are given for all keys after each follow, changed or not;
//   - listeners run last, and cannot look anything up.
//
// One honest server suffices where there is a publisher's key: each server is followed alone, as far as its epochs are signed.

import { equalBytes, type Info, type NewestEvent } from '@keyhush/protocol'
import type { Core } from '@keyhush/wasm/client'
import { abortable, onAbort, scoped } from '../base/abort.js'
import { EVENTS_PAUSE_MS, SLOW_MS, WATCH_LIST_BYTES, WATCH_METERED_BYTES, WATCHED_KEYS } from '../base/constants.js'
import { ClosedError, KeyhushError, UnsupportedError, UsageError } from '../base/errors.js'
import { Turns } from '../base/mutex.js'
import { placesAfter } from '../lookup/moved.js'
import { type Placed, placesOf } from '../lookup/places.js'
import { inCore } from '../platform/core.js'
import type { Environment } from '../platform/environment.js'
import { whileShown } from '../platform/page.js'
import { askOne, sleep } from '../servers/ask.js'
import { listenTo } from '../servers/folder.js'
import { infoOf } from '../servers/info.js'
import type { Agreed } from '../servers/manifests.js'
import type { Servers } from '../servers/parties.js'
import type { Saved } from '../servers/path.js'
import type { RecentLists } from '../servers/recent-lists.js'
import type { Signing } from '../servers/signatures.js'
import type { StatsKeeper } from '../servers/stats.js'
import { Lag, type Looking } from '../servers/target.js'
import { type Link, type Links, linksOf } from '../servers/transport.js'
import type { Step } from '../servers/update-lists.js'
import { followEvents } from '../session/events.js'
import type { Session } from '../session/session.js'
import type { How } from '../state/newest.js'
import { Calls } from './calls.js'
import { type Elsewhere, followLists, type Outcome } from './following.js'
import { readMark } from './marks.js'
import { Search } from './search.js'
import { Silence } from './silence.js'
import type { Ends, OnChange, Watch, WatchedHow, Watcher } from './watch.js'
import { type Hashed, markedBy, sightingOf, Watched } from './watched.js'

export interface WatcherParts {
  readonly environment: Environment
  readonly servers: Servers
  readonly signing: Signing | undefined
  readonly stats: StatsKeeper
  readonly lists: RecentLists
  /** how many servers have to agree */
  readonly atLeast: number
  /** whether servers' events are listened to */
  readonly push: boolean
}

export class KeyWatcher implements Watcher {
  readonly #parts: WatcherParts
  readonly #session: Session
  readonly #links: Links
  readonly #silence: Silence
  readonly #search: Search
  readonly #turns = new Turns()
  readonly #closing = new AbortController()
  readonly #keys: Watched[] = []
  #most = 0
  #core: Core | undefined
  /** where the lists have been read to */
  #base: Agreed | Saved | undefined
  #hash: Uint8Array = new Uint8Array()
  /** servers that were asked a moment ago what they show, and at which epoch */
  readonly #asked = new Set<string>()
  #listening: Promise<void> | undefined
  #telling: Promise<void> = Promise.resolve()
  readonly #calls = new Calls()

  constructor(parts: WatcherParts, session: Session) {
    const { servers, environment, stats, atLeast } = parts
    this.#parts = parts
    this.#session = session
    parts.lists.share()
    this.#links = linksOf(servers, environment, stats.standing, stats.offline)
    this.#silence = new Silence(this.#links, atLeast, environment.clock)
    const watcher = this
    const wanted = {
      keys: this.#keys,
      get most() {
        return watcher.#most
      },
      get databaseId() {
        return watcher.#base!.manifest.databaseId
      },
      found: (keys: readonly Watched[], placed: Placed) => this.#turns.take(async () => this.#found(keys, placed)),
    }
    this.#search = new Search(wanted, session, environment, this.#closing.signal)
  }

  // ---- for apps ---------------------------------------------------------------------------------------

  async watch(
    key: Uint8Array,
    onChange: OnChange,
    { since, save }: WatchedHow,
    { stopped, over }: Ends,
  ): Promise<Watch> {
    this.#assertRoom()
    this.#assertOffered()
    const { clock, random } = this.#parts.environment
    const placed = await scoped(stopped, stopped => this.#session.ask(placesOf([key], 1, random), stopped))
    const own = await this.#turns.take(async () => this.#add(key, placed, since, { onChange, save }))
    const stop = () => {
      own.onChange = undefined
    }
    const end = () => {
      stop()
      own.save = undefined
    }
    for (const signal of stopped) if (signal !== undefined) whenAborted(signal, stop)
    for (const signal of over) whenAborted(signal, end)
    this.#listen()
    // Lists since the mark are read before the app gets its watch, unless that takes long.
    await scoped([...stopped, this.#closing.signal], async signal => {
      await Promise.race([this.#follow({}), sleep(clock, SLOW_MS, signal)])
      signal.throwIfAborted()
    })
    void this.#open(own)
    return {
      get value() {
        return own.seen.value?.slice()
      },
      get epoch() {
        return own.epoch
      },
      get checked() {
        return own.checked
      },
      stop,
    }
  }

  /** Its app is told what was found meanwhile, in a task after the one in which it gets its watch. */
  async #open(own: Watched): Promise<void> {
    await this.#parts.environment.pause('background')
    own.isOpen = true
    this.#tellSoon()
  }

  assertQuiet(): void {
    this.#calls.assertNone()
  }

  async sync(signal: AbortSignal): Promise<void> {
    await abortable(this.#follow({ patient: true }), signal).catch(() => {}) // called off
  }

  async close(): Promise<void> {
    this.#closing.abort(new ClosedError())
    for (const own of this.#keys) [own.onChange, own.save] = [undefined, undefined]
    await Promise.allSettled([this.#listening, this.#search.idle, this.#turns.take(async () => {})])
    this.#base = undefined
  }

  #assertRoom(): void {
    if (this.#keys.length < WATCHED_KEYS || this.#keys.some(isUnheard)) return
    throw new UsageError(
      `watch: expected at most ${WATCHED_KEYS} keys a map, got one more; stop() one, or open a map with other options`,
    )
  }

  #assertOffered(): void {
    const { offers } = this.#parts.stats.standing
    const said = this.#links.flatMap(({ server }) => offers.get(server.name) ?? [])
    if (said.length < this.#links.length || said.some(({ updates }) => updates)) return
    throw new UnsupportedError(
      'offer',
      'expected servers that keep lists of changes, got none that does; look the key up instead',
    )
  }

  #add(
    key: Uint8Array,
    { core, base, places: [place] }: Placed,
    since: string | undefined,
    app: Pick<Watched, 'onChange' | 'save'>,
  ): Watched {
    this.#assertRoom() // others may have begun meanwhile
    this.#core = core
    const { manifest } = base
    const print = inCore(core, () => core.fingerprint(key))
    const now = sightingOf(base, this.hashOf(base), place!)
    const mark = since === undefined ? undefined : readMark(since, print, manifest.recordBytes)
    const isOfThis = mark !== undefined && equalBytes(mark.manifest.databaseId, manifest.databaseId)
    const nothing = { ...now, value: undefined }
    const own = new Watched(key, print, isOfThis ? markedBy(mark, manifest) : since === undefined ? now : nothing, app)
    const isOther = isOfThis && own.epoch === manifest.epoch && !equalBytes(mark.hash, now.hash)
    if (isOther) own.change(now, 'contradiction')
    else if (isOfThis) own.answer(now)
    else if (since !== undefined) own.change(now, 'gap')
    // A key that nobody listens to makes room.
    const at = this.#keys.length < WATCHED_KEYS ? this.#keys.length : this.#keys.findIndex(isUnheard)
    this.#keys[at] = own
    this.#most = Math.max(this.#most, this.#keys.length)
    // The lists are read from the oldest on; newer ones wait.
    if (this.#base === undefined || own.epoch < this.#base.manifest.epoch) {
      this.#moveTo(own.epoch === manifest.epoch ? base : own.seen)
    }
    return own
  }

  // ---- where it is ------------------------------------------------------------------------------------

  /** For following events. */
  get base(): Agreed | Saved | undefined {
    return this.#base
  }

  /** It has no hints. */
  readonly madeAnew = 0

  hashOf({ bytes }: Agreed): Uint8Array {
    return inCore(this.#core!, () => this.#core!.blake3(bytes))
  }

  #moveTo(base: Agreed | Saved): void {
    this.#base = base
    this.#hash = 'bytes' in base ? this.hashOf(base) : base.hash!
  }

  get #at(): Hashed {
    return { manifest: this.#base!.manifest, hash: this.#hash }
  }

  // ---- following --------------------------------------------------------------------------------------

  /** Listens to the servers' events from now on. */
  #listen(): void {
    if (!this.#parts.push) return
    const hear: typeof listenTo = (link, tabs, notify, signal) => {
      const take: typeof notify = (newest, drop) => {
        this.#heard(link, newest)
        notify(newest, drop)
      }
      return listenTo(link, tabs, take, signal)
    }
    const task = (signal: AbortSignal) => followEvents(this.#parts, this, signal, hear)
    this.#listening ??= whileShown(task, this.#closing.signal)
  }

  follow(asked: How, from: Link): Promise<void> {
    return this.#follow(asked, from)
  }

  said(link: Link, info: Info): void {
    this.#silence.said(link, info)
    this.#confirm()
  }

  /** To the newest epoch. Never rejects. `from`: followed first, and alone if its lists lead on. */
  async #follow(asked: How, from?: Link): Promise<void> {
    await this.#turns.take(() => this.#followNow(asked, from)).catch(error => this.#report(error))
    this.#confirm()
    this.#search.look()
    this.#tellSoon()
  }

  async #followNow(asked: How, from: Link | undefined): Promise<void> {
    if (this.#base === undefined || this.#closing.signal.aborted) return
    const first = from === undefined ? [] : [from]
    const order = [...first, ...this.#links.filter(link => link !== from)]
    const groups: readonly Links[] = this.#parts.signing === undefined ? [this.#links] : order.map(link => [link])
    const outcomes: Outcome[] = []
    for (const links of groups) {
      const outcome = await this.#followAt(links, asked)
      if (outcome !== undefined) outcomes.push(outcome)
      if (from !== undefined && outcome === 'moved') break
    }
    const apart = outcomes.filter(outcome => typeof outcome === 'object')
    const [newest] = apart.sort((a, b) => b.at.manifest.epoch - a.at.manifest.epoch)
    if (newest === undefined) return
    if (newest.why === 'contradiction') for (const own of this.#keys) own.fork()
    // As long as one server leads on, or as many have this history still as have others, lists are read on.
    const there = outcomes.filter(outcome => outcome === 'there')
    const goesOn = outcomes.includes('moved') || (newest.isOther && there.length >= apart.length)
    if (!goesOn) this.#jump(newest)
  }

  /** Follows these servers as far as their lists lead. Undefined: they fail, or withhold something; the next line tries again. */
  async #followAt(links: Links, asked: How): Promise<Outcome | undefined> {
    const { environment, signing, stats, atLeast, lists } = this.#parts
    const { connection, pause } = environment
    const following = { core: this.#core!, links, signing, stats, pause, lag: new Lag(() => {}) }
    const onReplies: Looking['onReplies'] = replies => {
      for (const [i, link] of links.entries()) this.#silence.said(link, replies[i])
    }
    const looking = { ...asked, onReplies, needed: signing === undefined ? atLeast : 1 }
    const most = connection?.isMetered ? WATCH_METERED_BYTES : WATCH_LIST_BYTES
    const { signal } = this.#closing
    const watcher = this
    const reader = {
      get base() {
        return watcher.#base!
      },
      hashOf: (manifest: Agreed) => this.hashOf(manifest),
      take: (step: Step) => this.#take(step),
      arrive: (at: Agreed) => this.#moveTo(at),
    }
    try {
      return await followLists(reader, following, looking, lists, most, signal)
    } catch (error) {
      if (error instanceof KeyhushError && !signal.aborted) return undefined
      throw error
    }
  }

  /** One epoch further, for all keys that wait for it. */
  #take(step: Step): void {
    const before = this.#base!.manifest
    const { manifest, list } = step
    this.#moveTo(step)
    const keys = this.#keys.filter(({ epoch, isLost }) => !isLost && epoch === before.epoch)
    const prints = keys.map(({ print }) => print)
    const places = keys.map(({ seen }) => seen.place)
    const steps = placesAfter(list, manifest.recordBytes, prints, places)
    keys.forEach((own, i) => {
      own.step(steps[i]!, this.#at, manifest)
    })
    for (const own of this.#keys) own.meet(this.#at)
  }

  /** To an epoch to which no list leads. */
  #jump({ at, why, isOther }: Elsewhere): void {
    this.#moveTo(at)
    for (const own of this.#keys) {
      own.lose(at.manifest.epoch, why, isOther)
      own.meet(this.#at)
    }
  }

  #found(keys: readonly Watched[], { base, places }: Placed): void {
    if (this.#base === undefined) return // closed meanwhile
    const hash = this.hashOf(base)
    const isHere = base.manifest.epoch === this.#base.manifest.epoch
    const isOther = isHere && !equalBytes(hash, this.#hash)
    keys.forEach((own, i) => {
      if (isOther) own.fork()
      else own.answer(sightingOf(base, hash, places[i]!))
      own.meet(this.#at)
    })
    const isBehind = keys.some(own => !own.isLost && own.epoch < this.#base!.manifest.epoch)
    if (isBehind) this.#moveTo(base)
    this.#tellSoon()
  }

  /** The session has moved. */
  moved(): void {
    this.#search.look()
  }

  /** A line names the newest epoch of a server. */
  #heard(link: Link, line: NewestEvent): void {
    this.#search.look()
    const question = `${link.server.name} ${line.epoch}`
    if (this.#base === undefined || !this.#silence.heard(link, line, this.#base) || this.#asked.has(question)) {
      this.#confirm()
      return
    }
    this.#asked.add(question)
    const asked = askOne([link], {}, this.#closing.signal, async (link, signal) => await infoOf(link, signal))
    const said = asked.then(info => this.said(link, info)).catch(() => {})
    // One that shows something else than its lines name is not asked at each of them.
    const rested = said.then(() => sleep(link.environment.clock, EVENTS_PAUSE_MS, this.#closing.signal))
    const over = () => void this.#asked.delete(question)
    rested.then(over, over)
  }

  #confirm(): void {
    if (this.#base === undefined || !('bytes' in this.#base)) return
    const { manifest } = this.#base
    const until = this.#silence.until(this.#at, manifest)
    if (until === undefined) return
    for (const own of this.#keys) {
      const isHere = !own.isLost && own.isTold && own.epoch === manifest.epoch
      if (isHere && until > (own.checked?.getTime() ?? 0)) own.checked = new Date(until)
    }
  }

  // ---- what apps are told -----------------------------------------------------------------------------

  #tellSoon(): void {
    this.#telling = this.#telling.then(() => this.#tell()).catch(error => this.#report(error))
  }

  /** Changes first: what is told twice, because a page ends between the two, is better than what is not told. */
  async #tell(): Promise<void> {
    for (const own of [...this.#keys]) {
      if (!own.isOpen) continue
      for (let change = own.nextChange(); change !== undefined; change = own.nextChange()) {
        await this.#parts.environment.pause('background')
        this.#calls.make(own.onChange, change)
      }
      this.#confirm()
      const mark = own.nextMark()
      if (mark !== undefined) this.#calls.make(own.save, mark)
    }
  }

  /** Nobody waits for what fails here. Servers' failures are no more than that. */
  #report(error: unknown): void {
    if (error instanceof KeyhushError || this.#closing.signal.aborted) return
    queueMicrotask(() => {
      throw error
    })
  }
}

function isUnheard({ onChange }: Watched): boolean {
  return onChange === undefined
}

function whenAborted(signal: AbortSignal, call: () => void): void {
  if (signal.aborted) call()
  else onAbort(signal, call)
}
