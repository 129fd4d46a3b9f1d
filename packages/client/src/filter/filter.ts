// A map's filter: it is downloaded once, follows the servers' lists as watches do, and is stored. What is sent depends on manifests and on
// servers' lines, never on a key.

import { equalBytes, type Info, type Manifest, toHex } from '@keyhush/protocol'
import type { Core } from '@keyhush/wasm/client'
import { abortable, OVER, onAbort, scoped } from '../base/abort.js'
import {
  ATTEMPTS,
  BACKOFF_MS,
  FILTER_BEHIND_MS,
  FILTER_LONGEST_PAUSE_MS,
  SLOW_MS,
  UNHEARD_MS,
} from '../base/constants.js'
import {
  ClosedError,
  KeyhushError,
  NetworkError,
  ProtocolError,
  ServerError,
  UnsupportedError,
} from '../base/errors.js'
import type { FilterState, StorageKind } from '../base/events.js'
import { Turns } from '../base/mutex.js'
import { ProgressMeter } from '../base/progress.js'
import { assertKeys } from '../lookup/question.js'
import { inCore } from '../platform/core.js'
import { whileShown } from '../platform/page.js'
import { downloadBlob } from '../scheme/download.js'
import { FILTER } from '../scheme/facts.js'
import { inTime, isPassing, sleep } from '../servers/ask.js'
import { listenTo, lookAt } from '../servers/folder.js'
import { type Greeting, Heard } from '../servers/info.js'
import { type Agreed, isExpired } from '../servers/manifests.js'
import { filterIdentity, namesOf } from '../servers/parties.js'
import { isNews, Lag, type Looking } from '../servers/target.js'
import { type Link, type Links, linksOf } from '../servers/transport.js'
import type { Step } from '../servers/update-lists.js'
import type { Consent } from '../session/consent.js'
import { followEvents } from '../session/events.js'
import type { FilterInfo } from '../session/session.js'
import type { Parts } from '../state/machine.js'
import { isMoved, type OpenedStore, openStorage, StoreFailure, watched } from '../store/storage.js'
import { type Elsewhere, type Errand, followServers, type Reader } from '../watching/following.js'
import { HeldFilter, hasHash, type Working } from './held.js'
import { StoredFilter } from './keeping.js'

export interface FilterParts
  extends Pick<
    Parts,
    'environment' | 'servers' | 'signing' | 'stats' | 'lists' | 'atLeast' | 'preference' | 'announce' | 'onProgress'
  > {
  readonly core: Core
  /** asked before a download; missing: nobody has a say */
  readonly consent?: Consent | undefined
}

export class Filter implements Reader {
  readonly #parts: FilterParts
  readonly #links: Links
  readonly #opened: OpenedStore
  readonly #working: Working
  readonly #stored: StoredFilter
  readonly #turns = new Turns()
  readonly #closing = new AbortController()
  /** what answers */
  #held: HeldFilter | undefined
  /** where the lists have been read to … */
  #base: Agreed | undefined
  hash: Uint8Array = new Uint8Array()
  /** … and those that are still to be applied */
  #steps: Step[] = []
  /** the newest epoch that a server has shown, since when it was newer than this one, by the clock */
  #newest = 0
  #newestSince = 0
  /** without a publisher's key, what each server has shown last */
  #unproved: readonly number[] = []
  /** another manifest of its epoch is signed, or agreed on */
  #isForked = false
  /** servers have another database, or have all gone back behind this epoch */
  #isElsewhere = false
  /** the map has told of this epoch: no older one answers */
  notBefore = 0
  /** what servers have shown since this began to follow */
  #shown: Pick<Manifest, 'databaseId' | 'epoch'>[] = []
  /** when a server last told of its newest epoch, by the device's date: it may have slept */
  #heardAt = Number.NEGATIVE_INFINITY
  #refreshing: Promise<void> | undefined
  #announced: FilterState = 'loading'
  /** aborts when what calls wait for may have changed */
  #change = new AbortController()
  #isInMemory = false
  /** while it is kept up to date; undefined: it rests */
  #awake: AbortController | undefined
  #isListening = false
  #listening: Promise<unknown> = Promise.resolve()
  #loading: Promise<void> | undefined
  /** why it is not downloaded: the app, which was asked, has said no */
  #refusal: UnsupportedError | undefined

  private constructor(parts: FilterParts, opened: OpenedStore) {
    const { servers, environment, stats } = parts
    this.#parts = parts
    parts.lists.share()
    this.#links = linksOf(servers, environment, stats.standing, stats.offline)
    this.#opened = opened
    this.#working = { core: parts.core, pause: environment.pause }
    this.#stored = new StoredFilter(watched(opened.store), { ...this.#working, random: environment.random })
  }

  /** With what is stored, if anything that can be used is. Throws StorageError. */
  static async open(parts: FilterParts): Promise<Filter> {
    const { environment, servers, preference, announce, signing } = parts
    const opened = await openStorage(environment, filterIdentity(servers), preference, announce)
    const filter = new Filter(parts, opened)
    try {
      const isDamaged = () => announce({ type: 'discarded', reason: 'unreadable' })
      filter.#hold(await filter.#stored.read(signing, filter.#hashOf, isDamaged))
    } catch (error) {
      await filter.close()
      throw error
    }
    return filter
  }

  get held(): HeldFilter | undefined {
    return this.#held
  }

  get storage(): StorageKind {
    return this.#isInMemory ? 'memory' : this.#opened.storage
  }

  get state(): FilterState {
    if (this.#held === undefined) return 'loading'
    const { clock } = this.#parts.environment
    const isLate = this.#isNewerShown && clock.now() - this.#newestSince > FILTER_BEHIND_MS
    const { manifest } = this.#held.at
    const isOld = manifest.epoch < this.notBefore
    return isLate || isOld || this.#isForked || this.#isElsewhere || isExpired(manifest, clock) ? 'behind' : 'ready'
  }

  get info(): FilterInfo {
    return { epoch: this.#held?.at.manifest.epoch ?? 0, bytes: this.#held?.bytes ?? 0, state: this.state }
  }

  /** Which keys are proved absent, one flag a key, all at one epoch that is new enough. Undefined: the filter is not ready. */
  absentOf(keys: readonly Uint8Array[]): readonly boolean[] | undefined {
    const { core } = this.#parts
    const prints = inCore(core, () => keys.map(key => core.fingerprint(key)))
    this.#announceState() // it may have expired since
    if (this.state !== 'ready') return undefined
    assertKeys(this.#held!.at.manifest, keys)
    return prints.map(print => this.#held!.excludes(print)) // all are looked at, whichever passes
  }

  /** Resolves to what `look` returns, which is called again after each change. Throws where the app has refused the download. */
  async when<T>(look: () => T | undefined, signal: AbortSignal): Promise<T> {
    for (let seen = look(); ; ) {
      if (seen !== undefined) return seen
      if (this.#refusal) throw this.#refusal
      let end = () => {}
      // Looks at the moment of the change: by the time a promise resolves, the filter may have changed again.
      const change = new Promise<T | undefined>(resolve => {
        end = onAbort(this.#change.signal, () => resolve((async () => look())()))
      })
      seen = await abortable(change, signal).finally(end)
    }
  }

  /** What calls wait for may have changed. */
  changed(): void {
    this.#change.abort(OVER)
    this.#change = new AbortController()
  }

  /**
   * Before a call is answered here: if no server has told of its newest epoch for long, they are asked. Offline, once they are late, and as soon
   * as none of them can be reached, it answers all the same. Called for each call, whatever its keys are.
   */
  async refresh(greeting?: Greeting): Promise<void> {
    const { clock, connection } = this.#parts.environment
    const isHeard = Math.abs(clock.date() - this.#heardAt) < UNHEARD_MS
    if (this.#held === undefined || isHeard || connection?.isOffline) return
    this.#refreshing ??= this.#refreshNow(greeting).finally(() => {
      this.heard()
      this.#refreshing = undefined
    })
    await inTime(clock, SLOW_MS, this.#refreshing, this.#closing.signal)
    this.heard()
  }

  /** Asks all servers at once. Resolves when it has followed them, or each has failed without a reply; they are asked again meanwhile. */
  async #refreshNow(greeting: Greeting | undefined): Promise<void> {
    const { signal } = this.#closing
    const heard = new Heard()
    const infos = this.#links.map(link => {
      const asked = greeting?.heard.take(link)
      return asked === undefined ? heard.ask(link, signal) : heard.keep(link, asked)
    })
    const lost = new Promise<void>(resolve => {
      let left = infos.length
      for (const info of infos)
        info.catch(error => {
          if (error instanceof NetworkError && isPassing(error) && --left === 0) resolve()
        })
    })
    const followed = this.follow({ ...greeting, heard }).catch(() => {}) // the next line, or sync(), tries again
    await Promise.race([followed, lost])
  }

  /** A server has told of its newest epoch. */
  heard(): void {
    this.#heardAt = this.#parts.environment.clock.date()
  }

  /** Keeps it up to date from now on: downloads it, where it is not here; with `listens`, follows the servers' events. */
  wake(listens: boolean): void {
    this.#awake ??= new AbortController()
    if (listens) this.listen()
    if (this.#held === undefined) this.#load()
  }

  /** Ends that, until wake(). What servers told before does not count then. */
  rest(): void {
    this.#awake?.abort()
    this.#awake = undefined
    this.#isListening = false
    this.#heardAt = Number.NEGATIVE_INFINITY
  }

  // ---- downloads -------------------------------------------------------------------------------------

  #load(): void {
    const { signal: closing } = this.#closing
    if (this.#awake === undefined || closing.aborted || this.#loading !== undefined || this.#refusal !== undefined)
      return
    this.#loading = scoped([this.#awake.signal, closing], signal => this.#loadNow(signal)).then(() => {
      this.#loading = undefined
      if (this.#held === undefined) this.#load() // it was woken again meanwhile
    })
  }

  /** Downloads it, as often as that fails. The app, and the line, may have a say before. */
  async #loadNow(signal: AbortSignal): Promise<void> {
    const { environment, consent, stats } = this.#parts
    const before = this.#held
    let granted = 0
    const ask = async (bytes: number) => {
      if (bytes > granted) await consent?.ask({ mode: FILTER, bytes, reason: 'filter' }, signal)
      granted = bytes
    }
    for (let pause = BACKOFF_MS; !signal.aborted; pause = Math.min(2 * pause, FILTER_LONGEST_PAUSE_MS)) {
      try {
        return await this.download(new ProgressMeter(() => {}), signal, undefined, ask)
      } catch (error) {
        if (signal.aborted) return
        if (this.#held !== before) return // it has come, but it could not be stored
        if (error instanceof KeyhushError) stats.filterFailure = error
        else if (!(error instanceof RangeError)) throw error // memory may be short, for a time
        if (error instanceof UnsupportedError && error.reason === 'download') {
          this.#refusal = error
          return this.changed()
        }
      }
      await sleep(environment.clock, pause, signal)
    }
  }

  /** Downloads the newest epoch's. `ask`: called before, with its bytes. Throws the servers' failures, and what `ask` throws. */
  async download(
    progress: ProgressMeter,
    signal: AbortSignal,
    greeting?: Greeting,
    ask = async (_bytes: number) => {},
  ): Promise<void> {
    for (let attempt = 1; ; attempt++) {
      const at = await this.#turns.take(() => this.#look(attempt === 1 ? greeting : undefined, signal))
      await ask(bytesOf(at))
      try {
        return await this.#turns.take(() => this.#take(at, progress, signal))
      } catch (error) {
        // They may have moved on.
        const isForgotten = error instanceof ServerError && error.refusal === 'not_found'
        if (!isForgotten || attempt === ATTEMPTS) throw error
      }
    }
  }

  async #look(greeting: Greeting | undefined, signal: AbortSignal): Promise<Agreed> {
    const { signing } = this.#parts
    const following = this.#following()
    const looking = { ...this.#looking(), ...greeting, notBefore: this.#held?.at.manifest.epoch }
    const { at } = await lookAt(following, undefined, looking, signal)
    if (at === undefined) throw following.lag.error
    if (this.#held !== undefined) signing?.checkSuccession(this.#held.at.manifest, at.manifest)
    return at
  }

  /** Downloads the filter of this epoch, checks it, holds it and stores it. */
  async #take(at: Agreed, progress: ProgressMeter, signal: AbortSignal): Promise<void> {
    const { stats, servers, signing } = this.#parts
    const { directoryHash, directoryBytes, slotMarksHash, records } = at.manifest
    signing?.checkExpiry(at.manifest)
    if (slotMarksHash === undefined) throw withoutMarks()
    if (this.#isOfThis(at.manifest) && (this.#held?.at.manifest.epoch ?? 0) > at.manifest.epoch) return // lists were quicker
    progress.expect(bytesOf(at))
    const sources = { servers: this.#links, stats, received: (bytes: number) => progress.add(bytes) }
    const get = (hash: Uint8Array, bytes: number, what: string, signal: AbortSignal) =>
      downloadBlob(sources, hash, bytes, what, signal, blob => hasHash(this.#working, blob, hash))
    const [directory, marks] = await scoped([signal], signal =>
      Promise.all([
        get(directoryHash, directoryBytes, 'a key directory', signal),
        get(slotMarksHash, records, 'slot marks', signal),
      ]),
    )
    const held = await HeldFilter.read(this.#working, at, directory, marks)
    if (typeof held === 'string') {
      const what = 'expected a well-formed key directory, got a malformed one'
      throw new ProtocolError(namesOf(servers), `${what}: ${held}; ask their operators`)
    }
    this.heard()
    this.#hold(held)
    await this.#store()
  }

  #hold(held: HeldFilter | undefined): void {
    if (held === undefined) return
    const { stats, announce } = this.#parts
    const { manifest } = held.at
    const before = this.#held?.at.manifest
    if (!this.#isOfThis(manifest)) this.#newest = this.notBefore = 0
    this.#held = held
    this.#base = held.at
    this.hash = this.#hashOf(held.at.bytes)
    this.#steps = []
    this.#isForked = false
    this.#isElsewhere = false
    this.#refusal = undefined
    stats.filterFailure = undefined
    this.#announceState()
    const { generation, epoch } = manifest
    if (before !== undefined && isNews(manifest, before)) announce({ type: 'updated', generation, epoch })
  }

  async #store(): Promise<void> {
    const { signing, preference, announce } = this.#parts
    const held = this.#held!
    if (this.#isInMemory || (signing !== undefined && held.at.signature === undefined)) return
    try {
      await this.#stored.put(held)
    } catch (error) {
      if (isMoved(error)) return // other tabs have stored theirs
      if (!(error instanceof StoreFailure) || preference === 'required') throw error
      this.#isInMemory = true
      announce({ type: 'storage', storage: 'memory', reason: 'failed' })
    }
  }

  // ---- following -------------------------------------------------------------------------------------

  /** Listens to the servers' events from now on. */
  listen(): void {
    if (this.#isListening) return
    this.#isListening = true
    this.#awake ??= new AbortController()
    const task = (signal: AbortSignal) => followEvents(this.#parts, this, signal, listenTo)
    const listening = scoped([this.#awake.signal, this.#closing.signal], signal => whileShown(task, signal))
    this.#listening = Promise.allSettled([this.#listening, listening])
  }

  get base(): Agreed {
    return this.#base!
  }

  /** To the newest epoch. Throws the failures of servers, if none of them could be followed. */
  async follow(asked: Errand, from?: Link): Promise<void> {
    await this.#turns.take(() => this.#followNow(asked, from))
  }

  async #followNow(asked: Errand, from: Link | undefined): Promise<void> {
    if (this.#held === undefined || this.#closing.signal.aborted) return
    const { signing, stats, lists } = this.#parts
    this.#shown = []
    const looking = { ...this.#looking(), ...asked }
    const { bytes } = this.#held
    const { signal } = this.#closing
    const followed = await followServers(this, this.#following(), looking, lists, bytes, signal, from)
    const { outcomes, failures, apart } = followed
    const isOfAll = outcomes.length === (signing === undefined ? 1 : this.#links.length)
    stats.filterFailure = failures[0] ?? stats.filterFailure
    const [steps, read] = [this.#steps.splice(0), this.base]
    // Until they are applied it is where it was, whatever fails.
    ;[this.#base, this.hash] = [this.#held.at, this.#hashOf(this.#held.at.bytes)]
    const moved = steps.length === 0 ? this.#held : await this.#held.after(steps, this.#working)
    if (moved !== undefined && steps.length > 0) {
      this.#hold(moved)
      await this.#store()
    }
    await this.#jump(moved === undefined && apart.length === 0 ? { at: read, why: 'gap' } : apart[0])
    this.#compare(isOfAll)
    this.#announceState()
    for (const seen of this.#isElsewhere ? this.#shown : []) signing?.checkSuccession(this.#held.at.manifest, seen)
    if (outcomes.length === 0) throw failures[0] ?? signal.reason
  }

  /** What it says of another database, or of a history that servers have left, may be wrong. `isOfAll`: no server has failed. */
  #compare(isOfAll: boolean): void {
    if (this.#shown.length === 0) return
    const isSame = this.#shown.every(seen => this.#isOfThis(seen))
    const isBack = isOfAll && this.#shown.every(({ epoch }) => epoch < this.#held!.at.manifest.epoch)
    this.#isElsewhere = !isSame || isBack
  }

  #isOfThis({ databaseId }: Pick<Manifest, 'databaseId'>): boolean {
    return this.#held === undefined || equalBytes(this.#held.at.manifest.databaseId, databaseId)
  }

  /** To an epoch to which no list leads, or to which fewer bytes lead by a download. */
  async #jump(apart: Elsewhere | undefined): Promise<void> {
    if (apart === undefined) return
    const { at, why } = apart
    const { epoch } = this.#held!.at.manifest
    if (why === 'fork' && at.manifest.epoch <= epoch) this.#isForked = true
    if (why !== 'database' && at.manifest.epoch <= epoch) return
    if (this.#parts.consent?.allows(bytesOf(at)) === false) return this.#load() // nobody waits for the app
    await this.#take(at, new ProgressMeter(() => {}), this.#closing.signal)
  }

  #following() {
    const { core, environment, signing, stats } = this.#parts
    return { core, links: this.#links, signing, stats, pause: environment.pause, lag: new Lag(() => {}) }
  }

  #looking(): Looking {
    const { signing, atLeast } = this.#parts
    const onReplies = (replies: readonly (Info | undefined)[]) => {
      const isOther = ({ database }: Info) => this.#held && toHex(this.#held.at.manifest.databaseId) !== database
      const newest = (info: Info) => (isOther(info) ? 0 : Math.max(...info.epochs.map(({ epoch }) => epoch)))
      const before = this.#unproved
      this.#unproved = replies.map((info, i) => (info === undefined ? (before[i] ?? 0) : newest(info)))
      this.#showed(0)
    }
    return signing === undefined ? { needed: atLeast, onReplies } : { needed: 1 }
  }

  /** A server shows this epoch, with a publisher's key a signed one. */
  shown({ manifest }: Agreed): void {
    this.#shown.push(manifest)
    if (this.#isOfThis(manifest)) this.#showed(manifest.epoch)
  }

  #showed(epoch: number): void {
    const wasNewer = this.#isNewerShown
    this.#newest = Math.max(this.#newest, epoch)
    if (wasNewer || !this.#isNewerShown) return
    const { clock } = this.#parts.environment
    this.#newestSince = clock.now()
    void sleep(clock, FILTER_BEHIND_MS + 1, this.#closing.signal).then(() => this.#announceState())
  }

  /** Whether this epoch is newer than the filter's, or of another database; servers show it. */
  isBefore(manifest: Pick<Manifest, 'databaseId' | 'epoch'>): boolean {
    if (!this.#isOfThis(manifest)) {
      this.#isElsewhere = true
      this.#announceState()
      return true
    }
    this.#showed(manifest.epoch)
    return this.#held !== undefined && this.#held.at.manifest.epoch < manifest.epoch
  }

  get #isNewerShown(): boolean {
    return this.#held !== undefined && Math.max(this.#newest, ...this.#unproved) > this.#held.at.manifest.epoch
  }

  take(step: Step): void {
    this.#steps.push(step)
    this.#base = step
    this.hash = this.#hashOf(step.bytes)
  }

  arrive(at: Agreed): boolean {
    if (!equalBytes(this.#hashOf(at.bytes), this.hash)) return false
    if (this.#steps.length === 0) this.#held = this.#held!.signedAs(at)
    this.#base = at
    return true
  }

  readonly #hashOf = (bytes: Uint8Array): Uint8Array => {
    const { core } = this.#parts
    return inCore(core, () => core.blake3(bytes))
  }

  #announceState(): void {
    const { state } = this
    if (state === this.#announced) return
    this.#announced = state
    this.#parts.announce({ type: 'filter', state })
    this.changed()
  }

  async close(): Promise<void> {
    this.#closing.abort(new ClosedError())
    await Promise.allSettled([this.#listening, this.#turns.take(async () => {})])
    await this.#opened.store.close()
  }
}

function bytesOf({ manifest: { directoryBytes, records } }: Agreed): number {
  return directoryBytes + records
}

/** The error of a list that has no filter. */
export function withoutMarks(): UnsupportedError {
  const what = 'expected a list with slot marks, got one without; ask its operators to build it with --filter'
  return new UnsupportedError('offer', `${what}, or open the map without a filter`)
}
