/// <reference lib="esnext.disposable" preserve="true" />
// The map that an app holds. Each `open()` returns one; maps of one identity share a session.

import { toHex } from '@keyhush/protocol'
import type { Mode } from '@keyhush/wasm/client'
import { abortable, scoped } from './base/abort.js'
import { AppFailure, callApp, checkNames, checkOptions, expected, oneOf, toApp } from './base/boundary.js'
import { ClosedError, UsageError } from './base/errors.js'
import { type Condemnation, EVENTS, type MapEvent, type OnEvent, type StorageKind } from './base/events.js'
import type { OnProgress } from './base/progress.js'
import { type Key, keyBytes, type Normalize, wantedOf } from './lookup/keys.js'
import { type Found, type Question, type Value, valueAt, valuesOf } from './lookup/question.js'
import type { Environment } from './platform/environment.js'
import { assertOwn, ownController } from './platform/request.js'
import { inTime } from './servers/ask.js'
import { type Budget, within } from './servers/budget.js'
import type { Stats } from './servers/stats.js'
import type { FilterInfo, Session } from './session/session.js'
import type { OnChange, Watch, WatchedHow, Watcher } from './watching/watch.js'

interface Timed {
  /**
   * How many milliseconds the call waits for servers. Default: the `timeoutMs` of `open()`. After that the call rejects with a
   * TimeoutError. A lookup still runs to its end, so that no server can tell. A download is aborted.
   */
  readonly timeoutMs?: number | undefined
}

/** Options of every lookup. */
export interface CallOptions extends Timed {
  /**
   * Rejects the promise with the signal's reason. A lookup that has not begun sends nothing. A lookup that has begun runs to its end,
   * so that no server can tell.
   */
  readonly signal?: AbortSignal | undefined
}

/** Options of `getMany()`. */
export interface ManyOptions extends CallOptions {
  /**
   * How many queries to send: at least the number of keys, which is the default. The extra queries ask for random records. The servers
   * see `padTo`, and not how many keys there are.
   */
  readonly padTo?: number | undefined
}

/** Options of `watch()`. `signal` also ends the watch. */
export interface WatchOptions extends CallOptions, WatchedHow {}

/** Watches: of a map that has none, nothing is loaded. */
export interface Watching {
  /** undefined: there is no watch yet */
  readonly watcher: Watcher | undefined
  load(): Promise<Watcher>
}

/** Options of `reset()`. */
export interface ResetOptions extends Timed {
  /** Aborts the download. The map is then as it was before. */
  readonly signal?: AbortSignal | undefined
  /** Called during the download. The `onProgress` of `open()` is called too. */
  readonly onProgress?: OnProgress | undefined
}

/** Options of `prepare()`. */
export interface PrepareOptions {
  /** Rejects the promise. The download ends too if this call has begun it; otherwise it goes on. */
  readonly signal?: AbortSignal | undefined
  /** as for `sync()` */
  readonly timeoutMs?: number | undefined
  /** Called during the download. The `onProgress` of `open()` is called too. If it throws, this call fails and no other. */
  readonly onProgress?: OnProgress | undefined
}

// Safari and older browsers lack Symbol.asyncDispose. TypeScript's and Babel's helpers also look for this one.
const asyncDispose: typeof Symbol.asyncDispose =
  Symbol.asyncDispose ?? (Symbol.for('Symbol.asyncDispose') as typeof Symbol.asyncDispose)

const CALL = ['signal', 'timeoutMs']

/** What a call makes of a value. */
type Decode<T> = (value: Value, call: string) => T

const asBytes: Decode<Value> = value => value
const asText = decoded('UTF-8', value => value)
const asJson = decoded('JSON', value => JSON.parse(value) as unknown)

/** By what hooks call them. */
export const READ = { bytes: asBytes, text: asText, json: asJson }

/** Drops the decoder's error, which quotes the value. */
function decoded<T>(what: string, parse: (text: string) => T): Decode<T> {
  return (value, call) => {
    try {
      return parse(new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(value))
    } catch {
      throw new UsageError(`${call}: expected a value in ${what}, got one that is not ${what}; read it as bytes`)
    }
  }
}

/** `own`: functions, beside the names that other calls have too. */
function checkCall(call: string, options: object, own: readonly string[] = [], names = CALL): void {
  checkOptions(call, options, own)
  checkNames(call, options, [...names, ...own])
}

function checkFunction(call: string, value: unknown): void {
  if (typeof value !== 'function') throw new UsageError(`${call}: ${expected('a function', value)}`)
}

/** The class behind `KeyhushMap`, which has its public members. */
export class OpenedMap {
  readonly #session: Session
  readonly #random: Environment['random']
  readonly #normalize: Normalize | undefined
  readonly #subscribe: (listener: OnEvent) => () => void
  readonly #budget: Budget
  readonly #watching: Watching
  readonly #request = ownController().signal
  readonly #closing = new AbortController()
  readonly #leave: () => Promise<void>
  #closed: Promise<void> | undefined

  /** Not for apps. `leave` is called once, by `close()`, and ends all subscriptions. */
  constructor(parts: {
    readonly session: Session
    readonly random: Environment['random']
    readonly normalize: Normalize | undefined
    readonly subscribe: (listener: OnEvent) => () => void
    readonly budget: Budget
    readonly watching: Watching
    readonly leave: () => Promise<void>
  }) {
    this.#session = parts.session
    this.#random = parts.random
    this.#normalize = parts.normalize
    this.#subscribe = parts.subscribe
    this.#budget = parts.budget
    this.#watching = parts.watching
    this.#leave = parts.leave
    bindTo(this)
  }

  /** The number of records, with empty ones. Indices are below it. */
  get size(): number {
    return this.#session.manifest?.records ?? 0
  }

  /** The version of the database that the map answers from. Each batch of changes makes the next one. */
  get epoch(): number {
    return this.#session.manifest?.epoch ?? 0
  }

  /** The database's id, 32 hex digits, which stays the same through all versions. Undefined while it is not known. */
  get databaseId(): string | undefined {
    const id = this.#session.manifest?.databaseId
    return id && toHex(id)
  }

  /**
   * Where the map keeps its state:
   *
   * - `persistent`: until the user clears the browser's data.
   * - `best-effort`: the browser may evict it when space runs out.
   * - `memory`: until this page or process ends.
   */
  get storage(): StorageKind {
    return this.#session.storage
  }

  /** As it was passed to `open()`. */
  get normalize(): Normalize | undefined {
    return this.#normalize
  }

  /**
   * How lookups are answered now. Undefined while the map is condemned.
   *
   * - `local`: from a copy of the database on this device. Nothing is sent.
   * - `full`: by two servers, with a hint that was made from one download.
   * - `instant`: by all servers, without a download.
   * - `single`: by one server, with hints that were made from one download. Each lookup uses one up.
   * - `filter`: not at all. Keys that the filter excludes are absent.
   */
  get mode(): Mode | 'filter' | undefined {
    return this.#session.mode
  }

  /**
   * The filter: the version it is of, its bytes, and whether it answers. While it is `behind` it excludes nothing. Undefined: the map has none,
   * or in mode `auto` needs none now.
   */
  get filter(): FilterInfo | undefined {
    return this.#session.filter
  }

  /**
   * In mode `filter`: whether a key is proved absent. Nothing is sent. `false`: the key may be listed, or the filter is not `ready`. One of
   * 254 absent keys is not excluded.
   * @throws {UsageError} for a wrong key, and in other modes
   * @example
   * if (!map.excludes('evil.example')) ask()
   */
  excludes(key: Key): boolean {
    this.#assertOpen()
    const excluded = this.#session.excludes?.(keyBytes(key, this.#normalize))
    if (excluded !== undefined) return excluded
    throw new UsageError("excludes: expected mode 'filter', got another; call get()")
  }

  /**
   * Set after a lie: every call but `reset()` and `close()` then throws CondemnedError. `server` is the server that lied, now, earlier or in
   * another tab. If `server` is undefined, the state itself is wrong. Undefined: the map is not condemned.
   */
  get condemned(): Condemnation | undefined {
    return this.#session.condemned
  }

  /**
   * In mode `single`: how many more queries the hints serve. `getMany()` uses `padTo` of them. When a quarter is left, the SDK makes new
   * hints in the background. Undefined: any number.
   */
  get lookupsLeft(): number | undefined {
    return this.#session.stats.lookupsLeft
  }

  /** A copy of the map's counters: bytes sent, received and kept, lookups, failures of servers. */
  get stats(): Stats {
    return this.#session.stats
  }

  /**
   * Looks up a key. Resolves to its value as bytes, or to undefined: the key is proved absent. The bytes are a copy of your own.
   * @throws {UsageError} for a wrong key, or a database without keys
   * @throws {KeyhushError} by class or `code`: docs/common-errors.md has each, and what to do
   * @example
   * const value = await map.get('alice@example.org')
   * if (value !== undefined) show(new Blob([value]))
   */
  async get(key: Key, options: CallOptions = {}): Promise<Found> {
    return await this.#one('get', asBytes, key, options)
  }

  async #one<T>(call: string, read: Decode<T>, key: Key, options: CallOptions): Promise<T | undefined> {
    checkCall(call, options)
    const [value] = await this.#many(call, read, [key], options)
    return value
  }

  /**
   * Looks up a key. Resolves to its value as text, or to undefined: the key is proved absent.
   * @throws {UsageError} if the value is not UTF-8; `get()` returns the bytes. Otherwise as `get()`
   * @example
   * (await map.getText('otter')) ?? 'nobody'
   */
  async getText(key: Key, options: CallOptions = {}): Promise<string | undefined> {
    return await this.#one('getText', asText, key, options)
  }

  /**
   * Looks up a key. Resolves to its value, parsed as JSON, or to undefined: the key is proved absent. The SDK does not check that the
   * value is a `T`.
   * @throws {UsageError} if the value is not JSON; `get()` returns the bytes. Otherwise as `get()`
   * @example
   * const profile = await map.getJson<{ name: string }>('alice@example.org')
   */
  async getJson<T = unknown>(key: Key, options: CallOptions = {}): Promise<T | undefined> {
    return (await this.#one('getJson', asJson, key, options)) as T | undefined
  }

  /**
   * Whether a key is present. It costs what `get()` costs, and the servers see the same.
   * @throws {KeyhushError} as `get()`
   * @example
   * if (await map.has('evil.example')) warn()
   */
  async has(key: Key, options: CallOptions = {}): Promise<boolean> {
    return (await this.#one('has', asBytes, key, options)) !== undefined
  }

  /**
   * Looks up an index from 0 to `size - 1`. Resolves to the value as bytes, or to undefined: the record is empty.
   * @throws {UsageError} for any other index. Otherwise as `get()`
   * @example
   * for (let index = 0; index < 3; index++) console.log(await map.at(index))
   */
  async at(index: number, options: CallOptions = {}): Promise<Found> {
    checkCall('at', options)
    this.#assertOpen()
    return await this.#ask(valueAt(index), options)
  }

  /**
   * Looks up several keys together. Resolves to their values in the same order; undefined: that key is proved absent. It takes as many
   * round trips as one key. The servers see the number of queries: pass `padTo` to hide the number of keys. Without keys and `padTo` it
   * resolves to an empty list, and sends nothing.
   * @throws {UsageError} for more keys than the database answers at once. Otherwise as `get()`
   * @example
   * const [mail, name] = await map.getMany(['mail', 'name'], { padTo: 8 })
   */
  async getMany(keys: Iterable<Key>, options: ManyOptions = {}): Promise<Found[]> {
    return await this.#many('getMany', asBytes, keys, options)
  }

  /**
   * As `getMany()`, with values as text.
   * @throws {UsageError} if a value is not UTF-8. Otherwise as `getMany()`
   * @example
   * const [mail, name] = await map.getManyText(['mail', 'name'], { padTo: 8 })
   */
  async getManyText(keys: Iterable<Key>, options: ManyOptions = {}): Promise<(string | undefined)[]> {
    return await this.#many('getManyText', asText, keys, options)
  }

  /**
   * As `getMany()`, with values parsed as JSON. The SDK does not check that they are a `T`.
   * @throws {UsageError} if a value is not JSON. Otherwise as `getMany()`
   * @example
   * const profiles = await map.getManyJson<{ name: string }>(['alice', 'bob'])
   */
  async getManyJson<T = unknown>(keys: Iterable<Key>, options: ManyOptions = {}): Promise<(T | undefined)[]> {
    return (await this.#many('getManyJson', asJson, keys, options)) as (T | undefined)[]
  }

  /**
   * Whether each of several keys is present, in their order. It costs what `getMany()` costs, and the servers see the same.
   * @throws {KeyhushError} as `getMany()`
   * @example
   * const [first, second] = await map.hasMany(['evil.example', 'good.example'])
   */
  async hasMany(keys: Iterable<Key>, options: ManyOptions = {}): Promise<boolean[]> {
    return (await this.#many('hasMany', asBytes, keys, options)).map(value => value !== undefined)
  }

  async #many<T>(call: string, read: Decode<T>, keys: Iterable<Key>, options: ManyOptions): Promise<(T | undefined)[]> {
    checkCall(call, options, [], [...CALL, 'padTo'])
    const [wanted, padTo] = wantedOf(call, keys, options.padTo, this.#normalize)
    this.#assertOpen()
    if (padTo === 0) return []
    const question = valuesOf(wanted, padTo, this.#random)
    return Array.from(await this.#ask(question, options), value => value && read(value, call))
  }

  /**
   * Calls `listener` with each event of one type from now on. Returns a function that removes the listener. `close()` removes it too.
   * @throws {UsageError} for an unknown event
   * @throws {ClosedError} after `close()`
   * @example
   * const off = map.on('updated', ({ epoch }) => show(epoch))
   */
  on<T extends MapEvent['type']>(type: T, listener: (event: Extract<MapEvent, { type: T }>) => void): () => void {
    this.#assertOpen()
    oneOf('on', EVENTS, type)
    checkFunction('on', listener)
    return this.#subscribe(event => {
      if (event.type === type) listener(event as Extract<MapEvent, { type: T }>)
    })
  }

  /**
   * Moves the map to the newest version of the database that its servers have. It downloads the update lists that lead there. If the
   * servers no longer have them, it downloads the database again. With `open({ push })` the map does this by itself.
   * @throws {UnsupportedError} with `reason: 'download'`, if the database has to be downloaded and `open({ download })` refuses
   * @throws {KeyhushError} as `get()`
   * @example
   * await map.sync()
   * console.log(map.epoch)
   */
  async sync(options: CallOptions = {}): Promise<void> {
    checkCall('sync', options)
    this.#assertOpen()
    await this.#download(options, async signal => {
      const watched = this.#watching.watcher?.sync(signal)
      await this.#session.sync(signal)
      await watched
    })
  }

  /**
   * Watches a key: `onChange` is called when its value changes. The call looks the key up once. After that the map follows the lists of
   * changes, which all clients download alike, so that servers do not learn which key you watch, nor that it has changed. They learn that
   * the map watches, and how many keys. A map can watch 64 keys.
   *
   * Pages are mostly closed. Keep on the device what `save` is called with, and pass it as `since` at the next visit: changes between the
   * two visits are told then, also those that were undone. It names the key and its value, so delete it when the key is no secret of this
   * device any more, after `close()`.
   *
   * **Show a change, and fetch nothing because of one**: no avatar, no report, no reload. Whoever publishes the database can change one key
   * alone, and see who reacts.
   * @throws {UsageError} for a database without keys, and for more than 64 keys
   * @throws {UnsupportedError} if the servers keep no lists of changes
   * @throws {KeyhushError} as `get()`
   * @example
   * const watch = await map.watch('alice@example.org', ({ value, how }) => warn(value, how), {
   *   since: localStorage.getItem('alice') ?? undefined,
   *   save: mark => localStorage.setItem('alice', mark),
   * })
   */
  async watch(key: Key, onChange: OnChange, options: WatchOptions = {}): Promise<Watch> {
    checkCall('watch', options, ['save'], [...CALL, 'since'])
    checkFunction('watch', onChange)
    if (options.since !== undefined && typeof options.since !== 'string') {
      throw new UsageError('watch: expected since to be text, got another value')
    }
    this.#assertOpen()
    const wanted = keyBytes(key, this.#normalize)
    const { signal, timeoutMs } = options
    const failed = new AbortController()
    const ends = { stopped: [signal, failed.signal], over: [failed.signal, this.#closing.signal] }
    const begun = this.#within(timeoutMs, signal, async late => {
      const watcher = await abortable(this.#watching.load(), late)
      this.#assertOpen()
      return await abortable(watcher.watch(wanted, onChange, options, ends), late)
    })
    begun.catch(() => failed.abort())
    return await begun
  }

  /**
   * Makes the state of mode `auto` now, and resolves when the new mode answers. It downloads without asking `open({ download })`. If it
   * fails, lookups go on as before.
   *
   * If the map has a state already, `prepare()` moves it to the newest version, unless it is at the newest that servers have shown since
   * `open()`: `sync()` asks them. If no update list leads on from the state, `prepare()` downloads the database again: with one server
   * too, and even after `download` has refused that.
   * @throws {UsageError} in mode `instant`, which keeps nothing
   * @throws {CondemnedError} after a lie; call `reset()`
   * @throws {KeyhushError} as `open()`
   * @example
   * await map.prepare({ onProgress: ({ loadedBytes, totalBytes }) => show(loadedBytes / totalBytes) })
   */
  async prepare(options: PrepareOptions = {}): Promise<void> {
    checkCall('prepare', options, ['onProgress'])
    this.#assertOpen()
    const { onProgress } = options
    // A listener that throws fails its own call, and no other that waits for the same download.
    const broken = new AbortController()
    const listener: OnProgress = progress => {
      try {
        onProgress?.(progress)
      } catch (error) {
        broken.abort(new AppFailure(error))
      }
    }
    const prepared = (signal: AbortSignal) => this.#session.prepare(listener, signal)
    await this.#download(options, signal => scoped([signal, broken.signal], prepared))
  }

  /**
   * Replaces the map's whole state by a new one, and ends a condemnation. It downloads the database without asking `open({ download })`.
   * A map without a state downloads nothing, and moves to the newest version. If it fails, the map is as it was before.
   * @throws {KeyhushError} as `open()`
   * @example
   * if (error instanceof CondemnedError) await map.reset()
   */
  async reset(options: ResetOptions = {}): Promise<void> {
    checkCall('reset', options, ['onProgress'])
    this.#assertOpen()
    const onProgress: OnProgress = progress => callApp(() => options.onProgress?.(progress))
    await this.#download(options, signal => this.#session.reset(onProgress, signal))
  }

  /**
   * Closes the map. It waits for a lookup under way, which always runs to its end (docs/threat-model.md, P5), but no longer than the `timeoutMs`
   * of `open()`: the rest is done in the background. Maps with the same servers and options share their memory: when the last one closes, the SDK
   * overwrites the secrets and frees it.
   * @throws {KeyhushError} if the stored state could not be closed in order. The map is closed all the same
   * @example
   * await map.close() // or: await using map = await open({ servers })
   */
  async close(): Promise<void> {
    this.#closed ??= toApp(this.#end())
    await this.#closed
  }

  async #end(): Promise<void> {
    assertOwn(this.#request)
    this.#closing.abort()
    const { clock, timeoutMs } = this.#budget
    const left = this.#leave()
    if (timeoutMs === Number.POSITIVE_INFINITY) return await left
    left.catch(() => {}) // of what is done in the background
    await inTime(clock, timeoutMs, left)
  }

  /** The same as `close()`, for `await using`. */
  async [asyncDispose](): Promise<void> {
    await this.close()
  }

  /** A lookup goes on after a timeout: a timeout changes nothing that is sent (P5). */
  async #ask<T>(question: Question<T>, { signal, timeoutMs }: CallOptions): Promise<T> {
    return await this.#within(timeoutMs, signal, late => abortable(this.#session.ask(question, signal, late), late))
  }

  async #download({ signal, timeoutMs }: CallOptions, work: (signal: AbortSignal) => Promise<void>): Promise<void> {
    await this.#within(timeoutMs, signal, late => scoped([signal, late], work), true)
  }

  #within<T>(
    timeoutMs = this.#budget.timeoutMs,
    signal: AbortSignal | undefined,
    work: (late: AbortSignal) => Promise<T>,
    downloads = false,
  ): Promise<T> {
    return toApp(within({ ...this.#budget, timeoutMs, downloads }, work), signal)
  }

  #assertOpen(): void {
    if (this.#closed !== undefined) throw new ClosedError()
    this.#watching.watcher?.assertQuiet()
    assertOwn(this.#request)
  }
}

/** Binds all members to `map`: apps keep maps in deep proxies, as Vue's `ref`, which call them on a proxy that has no private members. */
function bindTo(map: object): void {
  for (let owner = Object.getPrototypeOf(map); owner !== Object.prototype; owner = Object.getPrototypeOf(owner)) {
    for (const name of Reflect.ownKeys(owner)) {
      const { get, value } = Object.getOwnPropertyDescriptor(owner, name)!
      if (name === 'constructor' || Object.hasOwn(map, name)) continue
      const bound = get === undefined ? { value: value.bind(map), writable: true } : { get: get.bind(map) }
      Object.defineProperty(map, name, { ...bound, configurable: true })
    }
  }
}

/**
 * A private map, as `open()` returns it. You look up keys or indices. The servers do not learn which, and a wrong answer throws. It is an
 * interface, so that your components also take a `fakeMap()` of `@keyhush/client/testing`.
 */
export interface KeyhushMap extends Pick<OpenedMap, keyof OpenedMap> {}
