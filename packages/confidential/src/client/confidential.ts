// A map over a confidential database: keys are evaluated before they are looked up, and values are opened.

import {
  abortable,
  type CallOptions,
  CondemnedError,
  callApp,
  checkNames,
  checkOptions,
  expected,
  type Fetch,
  type Found,
  type Key,
  type KeyhushMap,
  type ManyOptions,
  type Normalize,
  platformClock,
  platformRandom,
  READ,
  ServerError,
  serversBeside,
  sleep,
  TamperedError,
  TIMEOUT_MS,
  TimeoutError,
  toApp,
  UnsupportedError,
  UsageError,
  VersionError,
  wantedOf,
} from '@keyhush/client/beside'
import { equalBytes, fromHex, toHex } from '@keyhush/protocol'
import { databaseIdOf, inputOf, listKeyOf, opened, unlocked, unlockingOf } from '../wire/derive.js'
import { MOST_KEYS } from '../wire/messages.js'
import { elementsOf } from './evaluation.js'
import { type Authorize, type Evaluators, evaluate, type Purchase, purchaseOf, unlock } from './evaluators.js'

export interface ConfidentialOptions {
  /** The owner's public key, 64 hexadecimal digits, as `keyhush-confidential keygen` prints it. Ship it with your app. */
  readonly evaluationKey: string
  /** Base URLs of the evaluators, one to eight on different hosts. They may be the URLs of the map's servers. */
  readonly evaluators: readonly (string | URL)[]
  /** How many evaluators suffice, as the owner chose. Default: all. */
  readonly atLeast?: number | undefined
  /** Your own normalisation of text keys, as the owner normalises them. Pass it here, and not to `open()`. */
  readonly normalize?: Normalize | undefined
  /** Gives a token for each evaluator that demands one. All tokens of your app have one length. */
  readonly authorize?: Authorize | undefined
  /** For a priced list: how values are bought. Its `get()` gives an empty value for a present key. */
  readonly unlock?: UnlockOptions | undefined
  /** How many milliseconds a lookup waits for evaluators and servers. Default: 15 000. */
  readonly timeoutMs?: number | undefined
  /** Sends requests to evaluators. Default: the platform's `fetch`. */
  readonly fetch?: Fetch | undefined
  /** As for `open()`: evaluators on one host, and over plain http. Never in production. */
  readonly development?: boolean | undefined
}

export interface UnlockOptions {
  /** Gives a token for each evaluator, which pays for one value. All tokens of your app have one length. */
  readonly authorize: Authorize
}

/** A map over a priced list. */
export interface PricedMap extends KeyhushMap {
  /**
   * Buys the value of a key, in the version that the list has now. Resolves to undefined for an absent key, which costs nothing. If it
   * fails, call it again within ten minutes: it sends the same, which is not paid twice.
   * @throws {KeyhushError} as `get()`
   * @example
   * if (await map.has(plate)) show(await map.unlock(plate))
   */
  unlock(key: Key, options?: CallOptions): Promise<Found>
}

const NAMES = [
  'evaluationKey',
  'evaluators',
  'atLeast',
  'normalize',
  'authorize',
  'timeoutMs',
  'fetch',
  'development',
  'unlock',
]

/**
 * A map over `map`, whose database is confidential: it takes the keys of the owner's list, and gives their values. Your app can read the
 * value of each key that it can name, and nothing else. Evaluators learn when it asks, and not for which key. `close()` closes `map` too.
 * @throws {UsageError} for wrong options
 * @example
 * const map = confidential(await open({ servers, publisherKey }), { evaluationKey, evaluators: servers })
 * if (await map.has(password)) warn()
 */
export function confidential(
  map: KeyhushMap,
  options: ConfidentialOptions & { readonly unlock: UnlockOptions },
): PricedMap
export function confidential(map: KeyhushMap, options: ConfidentialOptions): KeyhushMap
export function confidential(map: KeyhushMap, options: ConfidentialOptions): KeyhushMap {
  const such = '{ evaluationKey, evaluators }'
  checkOptions('confidential', options, ['normalize', 'authorize', 'fetch'], ['development'], such)
  checkNames('confidential', options, NAMES)
  if (options.unlock !== undefined && typeof options.unlock?.authorize !== 'function') {
    throw new UsageError(`unlock: ${expected('{ authorize }', options.unlock)}`)
  }
  if (typeof map?.getMany !== 'function') {
    throw new UsageError('confidential: expected the map that open() resolves to, got another value; pass await open()')
  }
  if (map.normalize !== undefined) {
    throw new UsageError('open: expected no normalize, which sealed keys pass by, got one; pass it to confidential()')
  }
  const lookups = new Lookups(map, options)
  const { bytes, text, json } = READ
  const many =
    <T>(call: string, read: Read<T>) =>
    async (keys: Iterable<Key>, how: ManyOptions = {}) =>
      await lookups.many(call, read, keys, how)
  const one =
    <T>(call: string, read: Read<T>) =>
    async (key: Key, how: CallOptions = {}) =>
      (await lookups.one(call, read, key, how))[0]
  const refused = (call: string, what: string) => async () => {
    throw new UsageError(`${call}: expected a call that a confidential database has; ${what}`)
  }
  const own = {
    ...{ get: one('get', bytes), getText: one('getText', text), getJson: one('getJson', json) },
    has: async (key: Key, how?: CallOptions) => (await one('has', bytes)(key, how)) !== undefined,
    ...{
      getMany: many('getMany', bytes),
      getManyText: many('getManyText', text),
      getManyJson: many('getManyJson', json),
    },
    hasMany: async (keys: Iterable<Key>, how?: ManyOptions) =>
      (await many('hasMany', bytes)(keys, how)).map(value => value !== undefined),
    excludes: () => {
      throw new UsageError('excludes: expected a call that a confidential database has; use has()')
    },
    at: refused('at', 'its records are sealed. Use get()'),
    ...(options.unlock && { unlock: (key: Key, how?: CallOptions) => lookups.unlock(key, how) }),
    watch: refused('watch', 'its lists of changes are withheld. Use get()'),
  }
  // All else is the map's own, whose members are bound to it.
  return Object.create(map, Object.getOwnPropertyDescriptors(own)) as KeyhushMap
}

/** One version of a value, that was paid for, or for which there are tokens. */
interface Bought {
  /** salt and input */
  readonly input: Uint8Array
  readonly sealed: Uint8Array
  readonly purchase: Promise<Purchase>
  isSent: boolean
  /** the replies did not open it */
  isDoubted: boolean
  /** it came when nobody waited any more */
  value?: Uint8Array
}

/** What is read of a value. */
type Read<T> = (value: Found & Uint8Array, call: string) => T

type Open = (evaluated: Uint8Array, sealed: Uint8Array<ArrayBuffer>) => Uint8Array<ArrayBuffer>

class Lookups {
  /** by the key's input; until the app has the value */
  readonly #bought = new Map<string, Bought>()
  readonly #map: KeyhushMap
  readonly #evaluators: Evaluators
  readonly #options: ConfidentialOptions

  constructor(map: KeyhushMap, options: ConfidentialOptions) {
    this.#map = map
    this.#options = options
    this.#evaluators = evaluatorsOf(options)
  }

  async one<T>(call: string, read: Read<T>, key: Key, how: CallOptions): Promise<(T | undefined)[]> {
    checkOptions(call, how)
    checkNames(call, how, ['signal', 'timeoutMs'])
    return await toApp(this.#found(call, read, [key], how), how.signal)
  }

  async many<T>(call: string, read: Read<T>, keys: Iterable<Key>, how: ManyOptions): Promise<(T | undefined)[]> {
    checkOptions(call, how)
    checkNames(call, how, ['signal', 'timeoutMs', 'padTo'])
    return await toApp(this.#found(call, read, keys, how), how.signal)
  }

  async #found<T>(call: string, read: Read<T>, keys: Iterable<Key>, how: ManyOptions): Promise<(T | undefined)[]> {
    const { normalize, timeoutMs: defaultMs = TIMEOUT_MS } = this.#options
    const { signal, timeoutMs = defaultMs } = how
    // Before the first await: the caller may wipe its keys as soon as it has called.
    const [wanted, count] = callApp(() => wantedOf(call, keys, how.padTo, normalize))
    if (count > MOST_KEYS) {
      throw new UsageError(`${call}: expected at most ${MOST_KEYS} keys, got ${count}; make several calls`)
    }
    await this.#assertOpen()
    if (count === 0) return []
    signal?.throwIfAborted()
    const open: Open = this.#options.unlock ? () => new Uint8Array() : valueIn
    const found = await this.#inTime(over => this.#lookUp(wanted, count, over, open), signal, timeoutMs)
    return found.map(value => value && read(value, call))
  }

  async #assertOpen(): Promise<void> {
    await this.#map.getMany([]) // throws for a map that is closed
    if (this.#map.condemned) throw new CondemnedError(this.#map.condemned.server)
  }

  async unlock(key: Key, how: CallOptions = {}): Promise<Found> {
    checkOptions('unlock', how)
    checkNames('unlock', how, ['signal', 'timeoutMs'])
    return await toApp(this.#unlocked(key, how), how.signal)
  }

  async #unlocked(key: Key, how: CallOptions): Promise<Found> {
    const { normalize, timeoutMs: defaultMs = TIMEOUT_MS } = this.#options
    const { signal, timeoutMs = defaultMs } = how
    const [[wanted]] = callApp(() => wantedOf('unlock', [key], 1, normalize))
    await this.#assertOpen()
    signal?.throwIfAborted()
    return await this.#inTime(over => this.#buy(wanted!, over), signal, timeoutMs)
  }

  async #buy(key: Uint8Array, over: AbortSignal): Promise<Found> {
    const id = toHex(inputOf(key))
    // What is paid for needs no lookup: a limit may be used up by now, and the list may have another version.
    const bought = this.#isPaid(id) ? this.#bought.get(id) : await this.#chosen(id, key, over)
    if (!bought) return undefined
    const drop = () => {
      if (this.#bought.get(id) === bought) this.#bought.delete(id)
    }
    const purchase = await bought.purchase.catch(error => {
      drop()
      throw error
    })
    if (!bought.isSent) over.throwIfAborted() // nobody waits for it; the tokens are kept
    bought.isSent = true
    try {
      bought.value ??= await unlock(this.#evaluators, purchase, evaluated => unlocked(evaluated, bought.sealed))
      if (!over.aborted) drop()
      return new Uint8Array(bought.value)
    } catch (error) {
      bought.isDoubted = error instanceof TamperedError // perhaps the list has a better version
      // Any other refusal may end, and the tokens that were taken are worth it.
      const isSpent = error instanceof ServerError && error.refusal === 'unauthorized'
      if (isSpent || error instanceof VersionError) drop()
      throw error
    }
  }

  #isPaid(id: string): boolean {
    const { isSent = false, isDoubted = false } = this.#bought.get(id) ?? {}
    return isSent && !isDoubted
  }

  /** Which version is bought; undefined: the key is absent. */
  async #chosen(id: string, key: Uint8Array, over: AbortSignal): Promise<Bought | undefined> {
    const [sealed] = await this.#lookUp([key], 1, over, (_, sealed) => sealed)
    const input = sealed && unlockingOf(key, sealed)
    if (!sealed) return undefined
    if (!input) throw notSealed()
    over.throwIfAborted() // nobody waits for it
    const before = this.#bought.get(id)
    if (before && (this.#isPaid(id) || equalBytes(before.input, input))) return before
    const purchase = purchaseOf(this.#evaluators, input, this.#options.unlock!.authorize)
    const bought = { input, sealed, purchase, isSent: false, isDoubted: false }
    this.#bought.set(id, bought)
    return bought
  }

  /**
   * Evaluation and lookup are one operation. Once the first request has left, it runs to its end, so that nobody can tell. `over`: the
   * call has ended, and nothing begins any more.
   */
  async #lookUp(keys: readonly Uint8Array[], count: number, over: AbortSignal, open: Open): Promise<Found[]> {
    const evaluators = this.#evaluators
    const padding = Array.from({ length: count - keys.length }, () => evaluators.random(32))
    this.#assertDatabase()
    const outputs = await evaluate(evaluators, [...keys.map(inputOf), ...padding], () => over.throwIfAborted())
    try {
      const found = await this.#fetched(outputs.slice(0, keys.length).map(listKeyOf), count)
      this.#assertDatabase()
      return found.map((sealed, i) => sealed && open(outputs[i]!, sealed))
    } finally {
      for (const output of outputs) output.fill(0)
    }
  }

  /** More than the database answers at once are refused before anything is sent: they are asked for in halves. */
  async #fetched(keys: readonly Uint8Array[], padTo: number): Promise<Found[]> {
    try {
      return await this.#map.getMany(keys, { padTo, timeoutMs: Number.POSITIVE_INFINITY })
    } catch (error) {
      if (!(error instanceof UsageError) || padTo === 1) throw error
      const half = padTo >> 1
      const first = await this.#fetched(keys.slice(0, half), half)
      return [...first, ...(await this.#fetched(keys.slice(half), padTo - half))]
    }
  }

  /** Under another key, all keys would look absent. */
  #assertDatabase(): void {
    const { databaseId } = this.#evaluators
    if (this.#map.databaseId === undefined || this.#map.databaseId === toHex(databaseId)) return
    const { evaluationKey, unlock } = this.#options
    const isOfOtherKind = this.#map.databaseId === toHex(databaseIdOf(evaluationKey, unlock === undefined))
    const kind = unlock ? 'one without prices; pass no unlock' : 'a priced one; pass unlock'
    const other = 'another list; check evaluationKey and servers, and that the list was built with its --name'
    const what = 'expected servers with the list of this evaluation key'
    throw new UnsupportedError('offer', `${what}, got ${isOfOtherKind ? kind : other}`)
  }

  async #inTime<T>(
    work: (over: AbortSignal) => Promise<T>,
    signal: AbortSignal | undefined,
    timeoutMs: number,
  ): Promise<T> {
    const over = new AbortController()
    const running = [work(over.signal)]
    if (timeoutMs !== Number.POSITIVE_INFINITY) {
      const late = sleep(platformClock, timeoutMs, over.signal).then((): never => {
        throw new TimeoutError(
          this.#evaluators.servers.map(({ name }) => name),
          timeoutMs,
        )
      })
      running.push(late) // it also ends when the work has
    }
    try {
      return await abortable(Promise.race(running), signal)
    } finally {
      over.abort()
    }
  }
}

function valueIn(output: Uint8Array, sealed: Uint8Array): Uint8Array<ArrayBuffer> {
  const value = opened(output, sealed)
  if (value) return value
  throw notSealed()
}

function notSealed(): TamperedError {
  const what = 'expected a value that the owner has sealed for this key, got another'
  return new TamperedError(undefined, `${what}; tell the owner that the publisher has signed it`)
}

/** Throws UsageError. */
function evaluatorsOf(options: ConfidentialOptions): Evaluators {
  const { evaluationKey, evaluators, atLeast, authorize, unlock, fetch, development } = options
  if (typeof evaluationKey !== 'string' || !/^[0-9a-f]{64}$/.test(evaluationKey)) {
    throw new UsageError(
      'evaluationKey: expected 64 lower-case hexadecimal digits, got another value; pass what `keyhush-confidential keygen` printed',
    )
  }
  const bytes = fromHex(evaluationKey)
  const [key] = elementsOf(bytes) ?? []
  if (!key) {
    throw new UsageError('evaluationKey: expected an element of the group, got other digits; copy the whole key again')
  }
  const servers = serversBeside('evaluators', evaluators, { fetch, development })
  const enough = atLeast ?? servers.length
  if (!Number.isInteger(enough) || enough < 1 || enough > servers.length) {
    throw new UsageError(`atLeast: ${expected(`a whole number from 1 to ${servers.length}`, atLeast)}`)
  }
  const databaseId = databaseIdOf(evaluationKey, unlock !== undefined)
  return { servers, atLeast: enough, key, databaseId, authorize, random: platformRandom, deal: 0, used: 0 }
}
