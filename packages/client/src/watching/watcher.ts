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
import { ClosedError, UnsupportedError, UsageError } from '../base/errors.js'
import { Turns } from '../base/mutex.js'
import { placesAfter } from '../lookup/moved.js'
import { type Placed, placesOf } from '../lookup/places.js'
import { inCore } from '../platform/core.js'
import { whileShown } from '../platform/page.js'
import { askOne, sleep } from '../servers/ask.js'
import { listenTo } from '../servers/folder.js'
import { infoOf } from '../servers/info.js'
import type { Agreed } from '../servers/manifests.js'
import type { Saved } from '../servers/path.js'
import { Lag, type Looking } from '../servers/target.js'
import { type Link, type Links, linksOf } from '../servers/transport.js'
import type { Step } from '../servers/update-lists.js'
import { followEvents } from '../session/events.js'
import type { SessionParts } from '../session/opening.js'
import type { Session } from '../session/session.js'
import { type Elsewhere, type Errand, followServers, type Reader } from './following.js'
import { type Hashed, readMark } from './marks.js'
import { Search, type Sought } from './search.js'
import { Silence } from './silence.js'
import { Listener, Telling } from './telling.js'
import type { Ends, OnChange, Watch, WatchedHow, Watcher } from './watch.js'
import { seenAs, Watched } from './watched.js'

type WatcherParts = Pick<SessionParts, 'environment' | 'servers' | 'signing' | 'stats' | 'lists' | 'atLeast' | 'push'>

export class KeyWatcher implements Watcher, Reader, Sought {
  readonly #parts: WatcherParts
  readonly #session: Session
  readonly #links: Links
  readonly #silence: Silence
  readonly #search: Search
  readonly #telling: Telling
  readonly #turns = new Turns()
  readonly #closing = new AbortController()
  readonly keys: Watched[] = []
  most = 0
  #core: Core | undefined
  /** where the lists have been read to */
  #base: Agreed | Saved | undefined
  hash: Uint8Array = new Uint8Array()
  /** servers that were asked a moment ago what they show, and at which epoch */
  readonly #asked = new Set<string>()
  #listening: Promise<void> | undefined

  constructor(parts: WatcherParts, session: Session) {
    const { servers, environment, stats, atLeast } = parts
    this.#parts = parts
    this.#session = session
    parts.lists.share()
    this.#links = linksOf(servers, environment, stats.standing, stats.offline)
    this.#silence = new Silence(this.#links, atLeast, environment.clock)
    this.#search = new Search(this, session, environment, this.#closing.signal)
    this.#telling = new Telling(this.keys, environment.pause, () => this.#confirm())
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
    const app = new Listener(onChange, save)
    const own = await this.#turns.take(async () => this.#add(key, placed, since, app))
    const stop = () => {
      app.onChange = undefined
    }
    const end = () => {
      stop()
      app.save = undefined
    }
    for (const signal of stopped) if (signal !== undefined) whenAborted(signal, stop)
    for (const signal of over) whenAborted(signal, end)
    this.#listen()
    // Lists since the mark are read before the app gets its watch, unless that takes long.
    await scoped([...stopped, this.#closing.signal], async signal => {
      await Promise.race([this.follow({}), sleep(clock, SLOW_MS, signal)])
      signal.throwIfAborted()
    })
    void this.#telling.open(own)
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

  assertQuiet(): void {
    this.#telling.calls.assertNone()
  }

  async sync(signal: AbortSignal): Promise<void> {
    await abortable(this.follow({ patient: true }), signal).catch(() => {}) // called off
  }

  async close(): Promise<void> {
    this.#closing.abort(new ClosedError())
    for (const { app } of this.keys) [app.onChange, app.save] = [undefined, undefined]
    await Promise.allSettled([this.#listening, this.#search.idle, this.#turns.take(async () => {})])
  }

  #assertRoom(): void {
    if (this.keys.length < WATCHED_KEYS || this.keys.some(isUnheard)) return
    throw new UsageError(
      `watch: expected at most ${WATCHED_KEYS} keys a map, got one more; stop() one, or open a map with other options`,
    )
  }

  #assertOffered(): void {
    const { offers } = this.#parts.stats.standing
    const said = this.#links.flatMap(({ server }) => offers.get(server.name) ?? [])
    if (said.length < this.#links.length || said.some(({ updates, blobs }) => updates && blobs)) return
    throw new UnsupportedError(
      'offer',
      'expected servers that give lists of changes, got none; look the key up instead',
    )
  }

  #add(key: Uint8Array, { core, base, places: [place] }: Placed, since: string | undefined, app: Listener): Watched {
    this.#assertRoom() // others may have begun meanwhile
    this.#core = core
    const { manifest } = base
    const print = inCore(core, () => core.fingerprint(key))
    const now = seenAs({ manifest, hash: this.#hashOf(base), place: place! }, manifest)
    const mark = since === undefined ? undefined : readMark(since, print, manifest.recordBytes)
    const isOfThis = mark !== undefined && equalBytes(mark.manifest.databaseId, manifest.databaseId)
    const nothing = { ...now, value: undefined }
    const own = new Watched(key, print, isOfThis ? seenAs(mark, manifest) : since === undefined ? now : nothing, app)
    if (!isOfThis && since !== undefined) own.change(now, 'gap')
    else if (own.epoch === manifest.epoch && !equalBytes(own.seen.hash, now.hash)) own.change(now, 'fork')
    else own.answer(now)
    // A key that nobody listens to makes room.
    const at = this.keys.length < WATCHED_KEYS ? this.keys.length : this.keys.findIndex(isUnheard)
    this.keys[at] = own
    this.most = Math.max(this.most, this.keys.length)
    // The lists are read from the oldest on; newer ones wait.
    if (this.#base === undefined || own.epoch < this.#base.manifest.epoch) {
      this.#moveTo(own.epoch === manifest.epoch ? base : own.seen)
    }
    return own
  }

  // ---- where it is ------------------------------------------------------------------------------------

  get base(): Agreed | Saved {
    return this.#base!
  }

  #hashOf({ bytes }: Agreed): Uint8Array {
    return inCore(this.#core!, () => this.#core!.blake3(bytes))
  }

  #moveTo(base: Agreed | Saved): void {
    this.#base = base
    this.hash = 'bytes' in base ? this.#hashOf(base) : base.hash!
  }

  get #at(): Hashed {
    return { manifest: this.#base!.manifest, hash: this.hash }
  }

  // ---- following --------------------------------------------------------------------------------------

  /** Listens to the servers' events from now on. */
  #listen(): void {
    if (!this.#parts.push) return
    const task = (signal: AbortSignal) => followEvents(this.#parts, this, signal, listenTo)
    this.#listening ??= whileShown(task, this.#closing.signal)
  }

  said(link: Link, info: Info): void {
    this.#silence.said(link, info)
    this.#confirm()
  }

  /** To the newest epoch. Never rejects. `from`: followed first, and alone if its lists lead on. */
  async follow(asked: Errand, from?: Link): Promise<void> {
    if (this.#base === undefined) return // no key is watched yet
    await this.#turns.take(() => this.#followNow(asked, from)).catch(report)
    this.#confirm()
    this.#search.look()
    this.#telling.soon()
  }

  async #followNow(asked: Errand, from: Link | undefined): Promise<void> {
    if (this.#closing.signal.aborted) return
    const { environment, signing, stats, atLeast, lists } = this.#parts
    const { connection, pause } = environment
    const following = { core: this.#core!, links: this.#links, signing, stats, pause, lag: new Lag(() => {}) }
    const onReplies: Looking['onReplies'] = (replies, links) => {
      for (const [i, link] of links.entries()) this.#silence.said(link, replies[i])
    }
    const looking = { ...asked, onReplies, needed: signing === undefined ? atLeast : 1 }
    const most = connection?.isMetered ? WATCH_METERED_BYTES : WATCH_LIST_BYTES
    const { signal } = this.#closing
    const { outcomes, apart } = await followServers(this, following, looking, lists, most, signal, from)
    const [newest] = apart
    if (newest === undefined) return
    if (newest.why === 'fork') for (const own of this.keys) own.fork()
    // As long as one server leads on, or as many have this history still as have others, lists are read on.
    const there = outcomes.filter(outcome => outcome === 'there')
    const goesOn = outcomes.includes('moved') || (newest.why !== 'gap' && there.length >= apart.length)
    if (!goesOn) this.#jump(newest)
  }

  arrive(at: Agreed): boolean {
    const isHere = equalBytes(this.#hashOf(at), this.hash)
    if (isHere) this.#moveTo(at)
    return isHere
  }

  /** One epoch further, for all keys that wait for it. */
  take(step: Step): void {
    const before = this.base.manifest
    const { manifest, list } = step
    this.#moveTo(step)
    const keys = this.keys.filter(({ epoch, isLost }) => !isLost && epoch === before.epoch)
    const [prints, places] = [keys.map(({ print }) => print), keys.map(({ seen }) => seen.place)]
    const steps = placesAfter(list, manifest.recordBytes, prints, places)
    for (const [i, own] of keys.entries()) own.step(steps[i]!, this.#at, manifest)
    for (const own of this.keys) own.meet(this.#at)
  }

  /** To an epoch to which no list leads. */
  #jump({ at, why }: Elsewhere): void {
    this.#moveTo(at)
    for (const own of this.keys) {
      own.lose(at.manifest.epoch, why)
      own.meet(this.#at)
    }
  }

  found(keys: readonly Watched[], { base, places }: Placed): Promise<boolean> {
    return this.#turns.take(async () => {
      if (!equalBytes(base.manifest.databaseId, this.base.manifest.databaseId)) return false
      const hash = this.#hashOf(base)
      const isOther = base.manifest.epoch === this.base.manifest.epoch && !equalBytes(hash, this.hash)
      for (const [i, own] of keys.entries()) {
        if (isOther) own.fork()
        else own.answer(seenAs({ manifest: base.manifest, hash, place: places[i]! }, base.manifest))
        own.meet(this.#at)
      }
      const isBehind = keys.some(own => !own.isLost && own.epoch < this.base.manifest.epoch)
      if (isBehind) this.#moveTo(base)
      this.#telling.soon()
      return true
    })
  }

  /** The session has moved. */
  moved(): void {
    this.#search.look()
  }

  /** A line names the newest epoch of a server. */
  heard(link: Link, line: NewestEvent): void {
    this.#search.look()
    const question = `${link.server.name} ${line.epoch}`
    if (!this.#silence.heard(link, line, this.base) || this.#asked.has(question)) {
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
    if (!('bytes' in this.base)) return
    const { manifest } = this.base
    const until = this.#silence.until(this.#at, manifest) ?? 0
    for (const own of this.keys) {
      const isHere = !own.isLost && own.app.isTold && own.epoch === manifest.epoch
      if (isHere && until > (own.checked?.getTime() ?? 0)) own.checked = new Date(until)
    }
  }
}

/** Nobody waits for what fails here. */
function report(error: unknown): void {
  queueMicrotask(() => {
    throw error
  })
}

function isUnheard({ app }: Watched): boolean {
  return app.onChange === undefined
}

function whenAborted(signal: AbortSignal, call: () => void): void {
  if (signal.aborted) call()
  else onAbort(signal, call)
}
