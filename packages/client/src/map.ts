/// <reference lib="esnext.disposable" preserve="true" />
// The map as an app holds it. Each `open()` gives out one of these; those of one identity share a session.

import { callApp, checkNames, checkOptions, expected, oneOf, toApp } from './base/boundary.js'
import { ClosedError, UsageError } from './base/errors.js'
import { type Condemnation, EVENTS, type MapEvent, type OnEvent, type StorageKind } from './base/events.js'
import type { OnProgress } from './base/progress.js'
import { type Key, keyBytes, type Normalize } from './lookup/keys.js'
import { type Found, valueAt, valuesOf } from './lookup/question.js'
import type { Environment } from './platform/environment.js'
import type { Stats } from './servers/stats.js'
import type { Session } from './session/session.js'

/** Options of every lookup. */
export interface CallOptions {
  /**
   * Before the lookup's turn: withdraws it, and nothing is sent. After: rejects the promise, while the requests run on
   * to their end, so that neither server can tell.
   */
  readonly signal?: AbortSignal | undefined
}

export interface ManyOptions extends CallOptions {
  /** Queries to make, at least as many as there are keys; the rest ask for random records. Hides the number of keys. */
  readonly padTo?: number | undefined
}

export interface ResetOptions {
  /** Calls the download off; the map is then as it was before. */
  readonly signal?: AbortSignal | undefined
  readonly onProgress?: OnProgress | undefined
}

// Symbol.asyncDispose, which Safari and older browsers lack; TypeScript's and Babel's helpers look for this one too.
const asyncDispose: typeof Symbol.asyncDispose =
  Symbol.asyncDispose ?? (Symbol.for('Symbol.asyncDispose') as typeof Symbol.asyncDispose)

const utf8 = (value: Uint8Array) => new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(value)

/** What a decoder throws quotes what it was given: it is left behind. */
function readAs<T>(complaint: string, decode: () => T): T {
  try {
    return decode()
  } catch {
    throw new UsageError(`${complaint}; get() has its bytes`)
  }
}

function checkCall(call: string, options: object, names: readonly string[]): void {
  checkOptions(call, options)
  checkNames(call, options, names)
}

/** What `open()` makes. Apps know it as `KeyhushMap`, its public members alone. */
export class OpenedMap {
  readonly #session: Session
  readonly #random: Environment['random']
  readonly #normalize: Normalize | undefined
  readonly #subscribe: (listener: OnEvent) => () => void
  readonly #leave: () => Promise<void>
  #closed: Promise<void> | undefined

  /** Not for apps. `leave` is called once, by `close()`, and ends all subscriptions. */
  constructor(parts: {
    readonly session: Session
    readonly random: Environment['random']
    readonly normalize: Normalize | undefined
    readonly subscribe: (listener: OnEvent) => () => void
    readonly leave: () => Promise<void>
  }) {
    this.#session = parts.session
    this.#random = parts.random
    this.#normalize = parts.normalize
    this.#subscribe = parts.subscribe
    this.#leave = parts.leave
  }

  /** The number of records, N. */
  get size(): number {
    return this.#session.manifest?.records ?? 0
  }

  /** The version of the database this map answers from. */
  get epoch(): number {
    return this.#session.manifest?.epoch ?? 0
  }

  /**
   * Where the map's state is: `persistent` outlives everything but a reset of the browser's data, `best-effort` may be
   * evicted when space runs out, `memory` ends with this page.
   */
  get storage(): StorageKind {
    return this.#session.storage
  }

  /**
   * How lookups are answered now: `local`, from the database that is kept here, and nothing leaves; `full`, by two servers,
   * from a hint that was made of a full download; `instant`, by two servers, from nothing; `single`, by one server, from hints
   * that were made of a full download and run out. Undefined while the map is condemned.
   */
  get mode(): string | undefined {
    return this.#session.mode
  }

  /**
   * Whether the map's state must not be used again, and every call but `reset()` fails: `server` has lied, now or earlier or
   * in another tab; if that is undefined, the state itself is at fault. Undefined: all is well.
   */
  get condemned(): Condemnation | undefined {
    return this.#session.condemned
  }

  /**
   * In mode `single`: how many queries its hints are good for still; `getMany` takes `padTo` of them. When a quarter is left, new ones are made behind it.
   * Undefined: any number.
   */
  get lookupsLeft(): number | undefined {
    return this.#session.stats.lookupsLeft
  }

  /** What the map has cost so far. A copy. */
  get stats(): Stats {
    return this.#session.stats
  }

  /**
   * The value of a key; undefined: the key is proved absent.
   * @throws {KeyhushError} by class or `code`: docs/common-errors.md has each with its way out
   * @example
   * const value = await map.get('alice@example.org')
   * if (value !== undefined) show(new Blob([value]))
   */
  async get(key: Key, options: CallOptions = {}): Promise<Found> {
    checkCall('get', options, ['signal'])
    const [value] = await this.getMany([key], options)
    return value
  }

  /**
   * The value of a key as text.
   * @throws {UsageError} if it is not UTF-8; `get` has the bytes. Otherwise as `get`
   * @example
   * (await map.getText('otter')) ?? 'nobody'
   */
  async getText(key: Key, options: CallOptions = {}): Promise<string | undefined> {
    const value = await this.get(key, options)
    return value && readAs('getText: the value is not UTF-8', () => utf8(value))
  }

  /**
   * The value of a key as JSON. What `T` promises nobody checks.
   * @throws {UsageError} if it is none; `get` has the bytes. Otherwise as `get`
   * @example
   * const profile = await map.getJson<{ name: string }>('alice@example.org')
   */
  async getJson<T = unknown>(key: Key, options: CallOptions = {}): Promise<T | undefined> {
    const value = await this.get(key, options)
    return value && readAs('getJson: the value is not JSON', () => JSON.parse(utf8(value)) as T)
  }

  /**
   * Whether a key is there. Costs and shows exactly what `get` does.
   * @throws {KeyhushError} as `get`
   * @example
   * if (await map.has('evil.example')) warn()
   */
  async has(key: Key, options: CallOptions = {}): Promise<boolean> {
    return (await this.get(key, options)) !== undefined
  }

  /**
   * The value at an index below `size`; undefined: the slot is empty.
   * @throws {UsageError} if there is no such index. Otherwise as `get`
   * @example
   * for (let index = 0; index < 3; index++) console.log(await map.at(index))
   */
  async at(index: number, options: CallOptions = {}): Promise<Found> {
    checkCall('at', options, ['signal'])
    this.#assertOpen()
    return await toApp(this.#session.ask(valueAt(index), options.signal), options.signal)
  }

  /**
   * The values of several keys, in their order, in one round trip. The servers see how many queries there are: pass
   * `padTo` to hide how many keys. No keys and no `padTo`: an empty list, and no traffic.
   * @throws {UsageError} if they are more than the database answers at once. Otherwise as `get`
   * @example
   * const [mail, name] = await map.getMany(['mail', 'name'], { padTo: 8 })
   */
  async getMany(keys: Iterable<Key>, options: ManyOptions = {}): Promise<Found[]> {
    checkCall('getMany', options, ['signal', 'padTo'])
    this.#assertOpen()
    // A string is a list of characters, too, which nobody means.
    if (typeof keys === 'string' || typeof keys?.[Symbol.iterator] !== 'function') {
      throw new UsageError(`getMany: expected a list of keys, got ${typeof keys === 'string' ? 'text' : typeof keys}`)
    }
    const wanted = Array.from(keys, key => keyBytes(key, this.#normalize))
    const padTo = options.padTo ?? wanted.length
    if (!Number.isInteger(padTo) || padTo < wanted.length) {
      // Sending more than padTo would show what it was to hide.
      throw new UsageError('getMany: expected padTo to be an integer and at least the number of keys')
    }
    if (padTo === 0) return []
    const question = valuesOf(wanted, padTo, this.#random)
    return [...(await toApp(this.#session.ask(question, options.signal), options.signal))]
  }

  /**
   * Calls `listener` with each event of one type, from now on. Returns what ends that; `close()` does as well.
   * @throws {UsageError} for an event that there is not
   * @example
   * const off = map.on('updated', ({ epoch }) => show(epoch))
   */
  on<T extends MapEvent['type']>(type: T, listener: (event: Extract<MapEvent, { type: T }>) => void): () => void {
    this.#assertOpen()
    oneOf('on', EVENTS, type)
    if (typeof listener !== 'function') throw new UsageError(`on: ${expected('a function', listener)}`)
    return this.#subscribe(event => {
      if (event.type === type) listener(event as Extract<MapEvent, { type: T }>)
    })
  }

  /**
   * Brings the map to the newest version of the database that both servers have; nothing else is downloaded than what
   * changed, if updates lead there. Happens by itself when a server says so; see `open({ push })`.
   * @throws {KeyhushError} as `get`
   * @example
   * await map.sync()
   * console.log(map.epoch)
   */
  async sync(options: CallOptions = {}): Promise<void> {
    checkCall('sync', options, ['signal'])
    this.#assertOpen()
    await toApp(this.#session.sync(options.signal), options.signal)
  }

  /**
   * Throws everything away and begins anew: manifests, directory, all partitions, a fresh hint. The way out after a
   * TamperedError or CondemnedError. If it fails, the map is as it was before.
   * @throws {KeyhushError} as `open`
   * @example
   * if (error instanceof CondemnedError) await map.reset()
   */
  async reset(options: ResetOptions = {}): Promise<void> {
    checkOptions('reset', options, ['onProgress'])
    checkNames('reset', options, ['signal', 'onProgress'])
    this.#assertOpen()
    const onProgress: OnProgress = progress => callApp(() => options.onProgress?.(progress))
    await toApp(this.#session.reset(onProgress, options.signal), options.signal)
  }

  /**
   * Ends this map's use. Waits for a lookup under way, which is not cut short (see docs/threat-model.md, P5). The last
   * map of one identity to be closed overwrites the secrets and frees the memory.
   * @throws {KeyhushError} if what is kept could not be put away in order; the map is closed all the same
   * @example
   * await map.close() // or: await using map = await open({ servers })
   */
  async close(): Promise<void> {
    this.#closed ??= toApp(this.#leave())
    await this.#closed
  }

  /** As `close`. */
  async [asyncDispose](): Promise<void> {
    await this.close()
  }

  #assertOpen(): void {
    if (this.#closed !== undefined) throw new ClosedError()
  }
}

/**
 * A private map: two servers answer, neither learns what was asked, and a lie is caught. `open()` makes one. An interface, so
 * that a component takes the `fakeMap()` of `@keyhush/client/testing`, too.
 */
export interface KeyhushMap extends Pick<OpenedMap, keyof OpenedMap> {}
