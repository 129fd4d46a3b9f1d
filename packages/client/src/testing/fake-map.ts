// @keyhush/client/testing: a map without servers, for an app's component tests. The map, its checks and its errors are the real ones.
// Only what would ask servers is replaced.

import { type Manifest, type StoredRecord, toHex } from '@keyhush/protocol'
import type { Core, Mode } from '@keyhush/wasm/client'
import { abortable } from '../base/abort.js'
import { checkNames, checkOptions, expected, oneOf } from '../base/boundary.js'
import { TIMEOUT_MS } from '../base/constants.js'
import { CondemnedError, KeyhushError, TamperedError, UnsupportedError, UsageError } from '../base/errors.js'
import type { Condemnation, FilterState, MapEvent, OnEvent } from '../base/events.js'
import type { OnProgress } from '../base/progress.js'
import { type Key, keyBytes } from '../lookup/keys.js'
import { type AtEpoch, type Found, type Question, valuesOf } from '../lookup/question.js'
import { type KeyhushMap, OpenedMap } from '../map.js'
import { type OptionOf, optionsOf } from '../option-table.js'
import type { OpenOptions } from '../options.js'
import { platformRandom } from '../platform/environment.js'
import { assertPlatform } from '../platform/minimum.js'
import { FILTER } from '../scheme/facts.js'
import type { Awaited, Budget } from '../servers/budget.js'
import type { Stats, Traffic } from '../servers/stats.js'
import { assertScheduled, checkWishes } from '../session/filter-wishes.js'
import type { FilterOptions } from '../session/opening.js'
import type { FilterInfo, Session } from '../session/session.js'
import type { Change } from '../watching/watch.js'
import { checkChanges, checkEntries, checkEvent, checkFailure, checkNumbers, MODES } from './fake-arguments.js'
import { FakeWatcher } from './fake-watches.js'

/** Options of `fakeMap()`. */
export interface FakeOptions extends Pick<OpenOptions, Exclude<OptionOf<'fakeMap'>, 'mode'>> {
  /** How many milliseconds each call takes. Default: 0. A test runner's fake timers control it. */
  readonly delayMs?: number | undefined
  /** The error of each call, until `map.failWith(undefined)`. */
  readonly failWith?: KeyhushError | undefined
  /**
   * The map's mode. Default: `instant`, in which a TamperedError does not condemn the map. After `prepare()` it is `local`. In mode `filter`
   * all keys are excluded that are not there.
   */
  readonly mode?: Mode | 'filter' | undefined
  /** The most keys of one `getMany()`. Default: 16. */
  readonly maxQueries?: number | undefined
}

/** A change of the database, in the form that `startServers()` of `@keyhush/server/testing` publishes too. */
export type FakeChange =
  | { readonly op: 'add' | 'edit'; readonly key: string; readonly value: string }
  | { readonly op: 'delete'; readonly key: string }

/** A map whose answers, errors and events your test chooses. */
export interface FakeMap extends KeyhushMap {
  /**
   * Lookups, `sync()`, `prepare()` and `reset()` fail with this error from now on. Undefined: they succeed again. With a filter that is
   * `ready`, calls of which all keys are absent succeed: nothing is sent for them. `cover` counts for nothing.
   * @throws {UsageError} for what is no error of @keyhush/client
   */
  failWith(error: KeyhushError | undefined): void
  /**
   * Applies changes as the next epoch, and sends the event `updated`. If one is refused, none is applied. Watches tell what has changed,
   * `how` if you pass it: a `gap` or a `contradiction` is told for each watched key.
   * @throws {UsageError} for adding a key that is there, and for editing or deleting a key that is not
   */
  publish(changes: readonly FakeChange[], how?: Change['how']): void
  /**
   * Sends this event to the map's listeners. After `condemned`, `mode`, `filter` and `updated` the map is so.
   * @throws {UsageError} for an event that there is not
   */
  announce(event: MapEvent): void
}

const OWN = ['delayMs', 'failWith', 'maxQueries'] as const satisfies (keyof FakeOptions)[]

/**
 * Makes a map of these keys and values, without servers. Values are text or bytes. It checks its arguments and throws errors as a map of
 * `open()` does. It takes no time, sends nothing and hides nothing.
 * @throws {UsageError} for wrong entries or options
 * @throws {UnsupportedError} which names what the platform lacks: Jest's jsdom has no TextEncoder
 * @example
 * const map = fakeMap({ otter: 'river' }, { delayMs: 50 })
 * map.failWith(new NetworkError('https://a.example', 'away'))
 */
export function fakeMap(
  entries: Readonly<Record<string, string | Uint8Array>> = {},
  options: FakeOptions = {},
): FakeMap {
  checkOptions('fakeMap', options, ['normalize', 'onEvent'])
  assertPlatform({})
  checkNames('fakeMap', options, [...optionsOf('fakeMap'), ...OWN])
  const { mode = 'instant', delayMs, maxQueries, failWith, filter } = options
  oneOf('mode', [...MODES, FILTER], mode)
  checkEntries(entries)
  checkNumbers({ delayMs, maxQueries })
  checkFailure(failWith)
  if (filter !== undefined) checkWishes({ mode, apart: 2, experimental: false }, filter)
  const session = new FakeSession(entries, { ...options, mode })
  return new Fake(session, options)
}

/** Looked up at each call: fake timers of a test runner take their place. */
const CLOCK: Budget['clock'] = {
  setTimeout: (callback, ms) => setTimeout(callback, ms),
  clearTimeout: timer => clearTimeout(timer as ReturnType<typeof setTimeout>),
}

const NOTHING: Traffic = { bytesUp: 0, bytesDown: 0 }

const DATABASE_ID = new Uint8Array(16).fill(0xfa)

const SERVERS = ['https://a.example', 'https://b.example']

class Fake extends OpenedMap implements FakeMap {
  readonly #fake: FakeSession

  constructor(session: FakeSession, { normalize, onEvent, timeoutMs = TIMEOUT_MS }: FakeOptions) {
    const random = platformRandom
    const subscribe = (listener: OnEvent) => session.subscribe(listener)
    const slow = (servers: readonly string[]) => session.announce({ type: 'slow', servers })
    const budget: Budget = { clock: CLOCK, connection: undefined, awaited: session, timeoutMs, slow }
    const { watcher } = session
    const watching = { watcher, load: async () => watcher }
    super({ session, random, normalize, subscribe, budget, watching, leave: () => session.close() })
    this.#fake = session
    if (onEvent !== undefined) subscribe(onEvent)
  }

  failWith(error: KeyhushError | undefined): void {
    checkFailure(error)
    this.#fake.failure = error
  }

  publish(changes: readonly FakeChange[], how: Change['how'] = 'list'): void {
    this.#fake.publish(changes, how)
  }

  announce(event: MapEvent): void {
    checkEvent(event)
    this.#fake.announce(event)
  }
}

interface Slot {
  /** undefined: the slot is empty */
  key: string | undefined
  value: Uint8Array
}

const EMPTY: Slot = { key: undefined, value: new Uint8Array() }

class FakeSession implements Session, Awaited {
  readonly dead = false
  readonly storage = 'memory'
  readonly waitingForTab = 0
  readonly lastFailure = undefined
  readonly waitingForFilter = 0
  readonly arrived = 0
  readonly downloaded = 0
  #mode: Mode | 'filter'
  /** undefined: there is none */
  #filter: FilterState | undefined
  readonly #cover: FilterOptions['cover'] | undefined
  readonly excludes?: (key: Uint8Array) => boolean
  condemned: Condemnation | undefined
  failure: KeyhushError | undefined
  readonly #delayMs: number
  readonly #maxQueries: number
  #slots: readonly Slot[]
  readonly watcher = new FakeWatcher(
    async (key, signal) => {
      this.#assertExcluded({})
      return (await this.ask(valuesOf([key], 1, platformRandom), signal))[0]
    },
    () => this.#epoch,
  )
  readonly #listeners = new Set<OnEvent>()
  readonly #underWay = new Set<Promise<unknown>>()
  #epoch = 1
  #lookups = 0
  #unsent = 0
  #lastLookup: Stats['lastLookup']

  constructor(
    entries: Readonly<Record<string, string | Uint8Array>>,
    options: FakeOptions & { readonly mode: Mode | 'filter' },
  ) {
    const { delayMs = 0, maxQueries = 16, failWith, mode, filter } = options
    if (mode === FILTER || filter !== undefined) this.#filter = 'ready'
    if (mode === FILTER) this.excludes = key => this.#excludes(key)
    this.#cover = filter?.cover
    this.#delayMs = delayMs
    this.#maxQueries = maxQueries
    this.failure = failWith
    this.#mode = mode
    this.#slots = Object.entries(entries).map(([key, value]) => ({
      key: nameOf(key),
      value: bytesOf('fakeMap', value),
    }))
  }

  get mode(): Mode | 'filter' | undefined {
    return this.condemned === undefined ? this.#mode : undefined
  }

  get filter(): FilterInfo | undefined {
    if (this.#mode !== 'instant' && this.#mode !== FILTER) return undefined
    return this.#filter && { epoch: this.#epoch, bytes: 2 * this.#slots.length, state: this.#filter }
  }

  #excludes(key: Uint8Array): boolean {
    return this.filter?.state === 'ready' && !this.#slots.some(slot => slot.key === toHex(key))
  }

  /** In mode `filter`. Throws as such a map does. */
  #assertExcluded({ keys }: Pick<Question<unknown>, 'keys'>): void {
    if (this.#mode !== FILTER) return
    if (keys === undefined) throw new UsageError("expected a map that looks up, got mode 'filter'; open another map")
    if (keys.every(key => this.#excludes(key))) return
    throw new UnsupportedError(
      'filter',
      'expected keys that the filter excludes, got another; look it up with another map',
    )
  }

  get manifest(): Manifest {
    // What is read of one here: by the map, and by questions.
    const facts = {
      records: this.#slots.length,
      keyed: true,
      maxQueries: this.#maxQueries,
      generation: 1,
      recordBytes: 0,
      databaseId: DATABASE_ID,
    }
    return { ...facts, epoch: this.#epoch } as Manifest
  }

  get asked(): readonly string[] {
    return this.#underWay.size > 0 ? SERVERS : []
  }

  get stats(): Stats {
    return {
      ...{
        commonHost: undefined,
        core: 'wasm' as const,
        fenced: undefined,
        held: {},
        lookupsLeft: undefined,
        incidents: [],
      },
      servers: SERVERS.map(server => ({ server, offline: NOTHING, lookups: NOTHING, fence: NOTHING })),
      ...{ lookups: this.#lookups, lastLookup: this.#lastLookup, unsent: this.#filter && this.#unsent },
    }
  }

  async ask<T>(question: Question<T>, signal?: AbortSignal): Promise<T> {
    signal?.throwIfAborted()
    if (this.condemned !== undefined) throw new CondemnedError(this.condemned.server)
    this.#assertExcluded(question)
    const { keys, padTo = 1 } = question
    if (this.#cover !== undefined) assertScheduled(this.#cover, padTo)
    const isQuiet = keys !== undefined && keys.length > 0 && keys.every(key => this.#excludes(key))
    question.indices(this.#atEpoch()) // what cannot be asked is refused at once
    return await this.#run(async () => {
      const start = Date.now()
      if (!isQuiet) await this.#pass()
      const at = this.#atEpoch()
      const records = Array.from(question.indices(at), index => recordOf(this.#slots[index] ?? EMPTY))
      this.#lookups++
      if (isQuiet) this.#unsent++
      this.#lastLookup = { bytesUp: 0, bytesDown: 0, ms: Date.now() - start }
      return question.read(at, records)
    }, signal)
  }

  async sync(signal?: AbortSignal): Promise<void> {
    signal?.throwIfAborted()
    if (this.condemned !== undefined) throw new CondemnedError(this.condemned.server)
    await this.#run(() => this.#pass(), signal)
  }

  async reset(onProgress: OnProgress, signal?: AbortSignal): Promise<void> {
    signal?.throwIfAborted()
    await this.#run(async () => {
      await this.#pass()
      this.condemned = undefined
      onProgress({ phase: 'ready', loadedBytes: 1, totalBytes: 1 })
    }, signal)
  }

  /** As in mode `auto`: what answers afterwards is `local`. */
  async prepare(onProgress: OnProgress, signal?: AbortSignal): Promise<void> {
    signal?.throwIfAborted()
    if (this.condemned !== undefined) throw new CondemnedError(this.condemned.server)
    this.#assertExcluded({})
    if (this.#mode !== 'instant') return
    this.announce({ type: 'preparing' })
    try {
      await this.#run(() => this.#pass(), signal)
    } catch (cause) {
      const error = cause instanceof KeyhushError ? cause : undefined
      this.announce({ type: 'preparing-failed', error, retryAfterLookups: undefined })
      throw cause
    }
    onProgress({ phase: 'ready', loadedBytes: 1, totalBytes: 1 })
    this.announce({ type: 'prepared' })
    this.announce({ type: 'mode', mode: 'local' })
  }

  async close(): Promise<void> {
    this.#listeners.clear()
    await Promise.allSettled(this.#underWay)
  }

  subscribe(listener: OnEvent): () => void {
    const own: OnEvent = event => listener(event) // the same listener may be given twice
    this.#listeners.add(own)
    return () => this.#listeners.delete(own)
  }

  announce(event: MapEvent): void {
    if (event.type === 'condemned') this.condemned = { server: event.server }
    if (event.type === 'mode' && event.mode !== undefined) this.#mode = event.mode
    if (event.type === 'filter') this.#filter &&= event.state
    if (event.type === 'updated') this.#epoch = event.epoch
    for (const listener of this.#listeners) {
      queueMicrotask(() => {
        if (this.#listeners.has(listener)) listener(event)
      })
    }
  }

  publish(changes: readonly FakeChange[], how: Change['how']): void {
    checkChanges(changes)
    oneOf('publish: how', ['list', 'gap', 'contradiction'], how)
    const slots = [...this.#slots]
    for (const change of changes) {
      const key = nameOf(change.key)
      const found = slots.findIndex(slot => slot.key === key)
      if ((change.op === 'add') !== found < 0) {
        throw new UsageError(`publish: ${change.op}: its key is ${found < 0 ? 'not there' : 'there already'}`)
      }
      const free = slots.findIndex(slot => slot.key === undefined)
      const at = [found, free, slots.length].find(at => at >= 0)!
      slots[at] = change.op === 'delete' ? EMPTY : { key, value: bytesOf('publish', change.value) }
    }
    this.#slots = slots
    this.announce({ type: 'updated', generation: 1, epoch: this.#epoch + 1 })
    this.watcher.published(key => slots.find(slot => slot.key === key)?.value.slice() as Found, how)
  }

  /** Goes on to its end even if the caller gives up, as a real lookup does. */
  async #run<T>(work: () => Promise<T>, signal: AbortSignal | undefined): Promise<T> {
    const running = work()
    this.#underWay.add(running)
    const settled = () => void this.#underWay.delete(running)
    running.then(settled, settled)
    return await abortable(running, signal)
  }

  async #pass(): Promise<void> {
    if (this.#delayMs > 0) await new Promise(resolve => setTimeout(resolve, this.#delayMs))
    const { failure } = this
    if (failure === undefined) return
    if (failure instanceof TamperedError && this.#mode !== 'instant') {
      this.announce({ type: 'condemned', server: failure.server })
    }
    throw failure
  }

  /** Where a question finds its keys: a key is its own fingerprint here. */
  #atEpoch(): AtEpoch {
    const core = { fingerprint: (key: Uint8Array) => key } as Partial<Core> as Core
    const index = (fingerprint: Uint8Array) => {
      const key = toHex(fingerprint)
      return Math.max(
        0, // an absent key leads to somebody else's record
        this.#slots.findIndex(slot => slot.key === key),
      )
    }
    const manifest = { ...this.manifest, records: Math.max(1, this.manifest.records) }
    return { core, manifest, base: { manifest, bytes: new Uint8Array() }, directory: { index } }
  }
}

function recordOf({ key, value }: Slot): StoredRecord {
  const fingerprint = Uint8Array.from(key?.match(/../g) ?? [], digits => Number.parseInt(digits, 16))
  return { fingerprint, empty: key === undefined, value, bytes: value }
}

function nameOf(key: Key): string {
  return toHex(keyBytes(key))
}

function bytesOf(call: string, value: string | Uint8Array): Uint8Array {
  if (typeof value === 'string') return new TextEncoder().encode(value)
  if (Object.prototype.toString.call(value) === '[object Uint8Array]') return Uint8Array.from(value)
  throw new UsageError(`${call}: ${expected('values of text or bytes', value)}`)
}
