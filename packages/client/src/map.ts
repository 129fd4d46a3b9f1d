/// <reference lib="esnext.disposable" preserve="true" />
// The map that an app holds. Each `open()` returns one; maps of one identity share a session.

import type { Mode } from '@keyhush/wasm/client'
import { abortable, scoped } from './base/abort.js'
import { AppFailure, callApp, checkNames, checkOptions, expected, oneOf, toApp } from './base/boundary.js'
import { ClosedError, UsageError } from './base/errors.js'
import { type Condemnation, EVENTS, type MapEvent, type OnEvent, type StorageKind } from './base/events.js'
import type { OnProgress } from './base/progress.js'
import { type Key, keyBytes, type Normalize } from './lookup/keys.js'
import { type Found, type Question, valueAt, valuesOf } from './lookup/question.js'
import type { Environment } from './platform/environment.js'
import type { Stats } from './servers/stats.js'
import { type Wait, withPatience } from './servers/waiting.js'
import type { Session } from './session/session.js'

interface Timed {
  /**
   * How many milliseconds the call waits for servers; that of `open()` if not given. The call then rejects with a TimeoutError. A
   * lookup goes on all the same, so that neither server can tell, and the next one waits for it. A download is called off.
   */
  readonly timeoutMs?: number | undefined
}

/** Options of every lookup. */
export interface CallOptions extends Timed {
  /**
   * Before the lookup begins, aborting withdraws it, and nothing is sent. After that it rejects the promise, while the
   * requests run to their end, so that neither server can tell.
   */
  readonly signal?: AbortSignal | undefined
}

export interface ManyOptions extends CallOptions {
  /** How many queries to send, at least one a key; the rest ask for random records. Hides the number of keys. */
  readonly padTo?: number | undefined
}

export interface ResetOptions extends Timed {
  /** Aborts the download; the map is then as it was before. */
  readonly signal?: AbortSignal | undefined
  readonly onProgress?: OnProgress | undefined
}

export interface PrepareOptions {
  /** Calls the download off if this call has begun it. One that was under way goes on. */
  readonly signal?: AbortSignal | undefined
  /** as for `sync()` */
  readonly timeoutMs?: number | undefined
  readonly onProgress?: OnProgress | undefined
}

// Safari and older browsers lack Symbol.asyncDispose. TypeScript's and Babel's helpers also look for this one.
const asyncDispose: typeof Symbol.asyncDispose =
  Symbol.asyncDispose ?? (Symbol.for('Symbol.asyncDispose') as typeof Symbol.asyncDispose)

const CALL = ['signal', 'timeoutMs']

const utf8 = (value: Uint8Array) => new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(value)

/** Drops the decoder's error, which quotes the value. */
function readAs<T>(complaint: string, decode: () => T): T {
  try {
    return decode()
  } catch {
    throw new UsageError(`${complaint}; get() has the bytes`)
  }
}

function checkCall(call: string, options: object, names: readonly string[]): void {
  checkOptions(call, options)
  checkNames(call, options, names)
}

/** A private map: two servers answer, neither learns what you asked for, and a lie throws. `KeyhushMap` is its public members. */
export class OpenedMap {
  readonly #session: Session
  readonly #random: Environment['random']
  readonly #normalize: Normalize | undefined
  readonly #subscribe: (listener: OnEvent) => () => void
  readonly #wait: Wait
  readonly #leave: () => Promise<void>
  #closed: Promise<void> | undefined

  /** Not for apps. `leave` is called once, by `close()`, and ends all subscriptions. */
  constructor(parts: {
    readonly session: Session
    readonly random: Environment['random']
    readonly normalize: Normalize | undefined
    readonly subscribe: (listener: OnEvent) => () => void
    readonly wait: Wait
    readonly leave: () => Promise<void>
  }) {
    this.#session = parts.session
    this.#random = parts.random
    this.#normalize = parts.normalize
    this.#subscribe = parts.subscribe
    this.#wait = parts.wait
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
   * How lookups are answered now. `local`: from a copy of the database here, and nothing is sent; `full`: by two servers, with
   * a hint made from a full download; `instant`: by two servers, without a download; `single`: by one server, with hints made
   * from a full download, which run out. Undefined while the map is condemned.
   */
  get mode(): Mode | undefined {
    return this.#session.mode
  }

  /**
   * Set if the map's state must not be used again: every call but `reset()` fails. `server` has lied, now, earlier or in
   * another tab; if it is undefined, the state itself is at fault. Undefined: the map is not condemned.
   */
  get condemned(): Condemnation | undefined {
    return this.#session.condemned
  }

  /**
   * In mode `single`: how many queries its hints still serve; `getMany` uses `padTo` of them. When a quarter is left, the SDK
   * makes new hints in the background. Undefined: any number.
   */
  get lookupsLeft(): number | undefined {
    return this.#session.stats.lookupsLeft
  }

  /** What the map has cost so far, as a copy. */
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
    checkCall('get', options, CALL)
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
    return value && readAs('getText: expected a value in UTF-8, got one that is not UTF-8', () => utf8(value))
  }

  /**
   * The value of a key as JSON. The SDK does not check that it is a `T`.
   * @throws {UsageError} if it is none; `get` has the bytes. Otherwise as `get`
   * @example
   * const profile = await map.getJson<{ name: string }>('alice@example.org')
   */
  async getJson<T = unknown>(key: Key, options: CallOptions = {}): Promise<T | undefined> {
    const value = await this.get(key, options)
    return (
      value && readAs('getJson: expected a value in JSON, got one that is not JSON', () => JSON.parse(utf8(value)) as T)
    )
  }

  /**
   * Whether a key is present. It costs exactly what `get` costs, and servers see the same.
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
    checkCall('at', options, CALL)
    this.#assertOpen()
    return await this.#ask(valueAt(index), options)
  }

  /**
   * The values of several keys, in their order, in one round trip. The servers see how many queries there are: pass
   * `padTo` to hide how many keys. No keys and no `padTo`: an empty list, and no traffic.
   * @throws {UsageError} if they are more than the database answers at once. Otherwise as `get`
   * @example
   * const [mail, name] = await map.getMany(['mail', 'name'], { padTo: 8 })
   */
  async getMany(keys: Iterable<Key>, options: ManyOptions = {}): Promise<Found[]> {
    checkCall('getMany', options, [...CALL, 'padTo'])
    this.#assertOpen()
    // A string is iterable, but is meant as one key.
    if (typeof keys === 'string' || typeof keys?.[Symbol.iterator] !== 'function') {
      throw new UsageError(
        `getMany: expected a list of keys, got ${typeof keys === 'string' ? 'text' : typeof keys}; pass [key]`,
      )
    }
    const wanted = Array.from(keys, key => keyBytes(key, this.#normalize))
    const padTo = options.padTo ?? wanted.length
    if (!Number.isInteger(padTo) || padTo < wanted.length) {
      // More queries than padTo would show that there are more keys.
      throw new UsageError(
        'getMany: expected padTo to be an integer and at least the number of keys, got another; pass a larger one',
      )
    }
    if (padTo === 0) return []
    const question = valuesOf(wanted, padTo, this.#random)
    return [...(await this.#ask(question, options))]
  }

  /**
   * Calls `listener` with each event of one type, from now on. Returns a function that ends that; `close()` ends it too.
   * @throws {UsageError} for an unknown event
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
   * Brings the map to the newest version of the database that both servers have. If updates lead there, only changes are
   * downloaded. The SDK does this by itself when a server announces a version; see `open({ push })`.
   * @throws {KeyhushError} as `get`
   * @example
   * await map.sync()
   * console.log(map.epoch)
   */
  async sync(options: CallOptions = {}): Promise<void> {
    checkCall('sync', options, CALL)
    this.#assertOpen()
    await this.#download(options, signal => this.#session.sync(signal))
  }

  /**
   * Makes the state that mode `auto` makes sometime, now, whatever `open({ download })` says. Resolves once it answers, at once where a
   * state does already. If it fails, lookups go on as before.
   * @throws {UsageError} in mode `instant`, which keeps nothing
   * @throws {KeyhushError} as `open`
   * @example
   * await map.prepare({ onProgress: ({ loadedBytes, totalBytes }) => show(loadedBytes / totalBytes) })
   */
  async prepare(options: PrepareOptions = {}): Promise<void> {
    checkOptions('prepare', options, ['onProgress'])
    checkNames('prepare', options, [...CALL, 'onProgress'])
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
   * Discards the whole state and downloads a new one. Call it after a TamperedError or CondemnedError. If it fails, the map
   * is as it was before.
   * @throws {KeyhushError} as `open`
   * @example
   * if (error instanceof CondemnedError) await map.reset()
   */
  async reset(options: ResetOptions = {}): Promise<void> {
    checkOptions('reset', options, ['onProgress'])
    checkNames('reset', options, [...CALL, 'onProgress'])
    this.#assertOpen()
    const onProgress: OnProgress = progress => callApp(() => options.onProgress?.(progress))
    await this.#download(options, signal => this.#session.reset(onProgress, signal))
  }

  /**
   * Closes this map. Waits for a lookup under way, which is never cut short (see docs/threat-model.md, P5). Closing the last
   * map of one identity overwrites the secrets and frees the memory.
   * @throws {KeyhushError} if the stored state could not be closed in order; the map is closed all the same
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

  /** A lookup is not told that nobody waits for it any more: a timeout changes nothing that is sent (P5). */
  async #ask<T>(question: Question<T>, { signal, timeoutMs }: CallOptions): Promise<T> {
    return await this.#within(timeoutMs, signal, late => abortable(this.#session.ask(question, signal), late))
  }

  async #download({ signal, timeoutMs }: CallOptions, work: (signal: AbortSignal) => Promise<void>): Promise<void> {
    await this.#within(timeoutMs, signal, late => scoped([signal, late], work), true)
  }

  #within<T>(
    timeoutMs = this.#wait.timeoutMs,
    signal: AbortSignal | undefined,
    work: (late: AbortSignal) => Promise<T>,
    downloads = false,
  ): Promise<T> {
    return toApp(withPatience({ ...this.#wait, timeoutMs, downloads }, work), signal)
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
