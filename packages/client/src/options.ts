// The options of `open()`, and their checks, before any traffic.

import { PACKAGED, PROOFS } from '@keyhush/protocol'
import type { Mode, ModuleSource } from '@keyhush/wasm/client'
import { checkNames, checkOptions, expected, oneOf, WITH_SERVERS } from './base/boundary.js'
import { UsageError } from './base/errors.js'
import type { OnEvent } from './base/events.js'
import type { OnProgress } from './base/progress.js'
import type { Normalize } from './lookup/keys.js'
import { OPTIONS, type OptionName } from './option-table.js'
import type { Fetch } from './platform/environment.js'
import { FILTER } from './scheme/facts.js'
import { missingFor, type ProofsPackages } from './scheme/kinds.js'
import { schemesFor } from './scheme/known.js'
import type { KnownScheme, ProofsPreference } from './scheme/scheme.js'
import type { RollbackPreference } from './servers/fence.js'
import {
  type Apart,
  apartOf,
  assertParties,
  checkAtLeast,
  type Development,
  numberOf,
  parseServers,
  type Servers,
} from './servers/parties.js'
import { parsePublisherKey } from './servers/signatures.js'
import type { Download, Network } from './session/consent.js'
import type { FilterOptions } from './session/opening.js'
import type { OpenDurableStore, StoragePreference } from './store/storage.js'

/** The options of `open()` and of `openWith()`, by the question that they answer. */
export interface OpenWithOptions extends Development, ProofsPackages {
  // Where?

  /**
   * Base URLs of one to eight servers on different hosts, in any order. Use https, or http on this machine. A path is allowed;
   * credentials, a query or a fragment are not. Another list of servers, or another path, discards the stored state.
   *
   * - Two to eight servers: lookups stay private unless all operators collude. All must answer a lookup, unless you pass `atLeast`.
   * - One server: lookups use mode `local` or `single`, in which the server learns nothing, or `instant` with `experimental`. It could
   *   invent its database, so you need a `publisherKey`.
   */
  readonly servers: readonly (string | URL)[]

  // Whom must I trust?

  /**
   * The publisher's Ed25519 key: 32 bytes, 64 hex digits, or the line that `keyhush keygen` prints. Put it into your app, not onto a
   * server. A database without its signature throws SignatureError. So servers that lie together cannot invent a record, or go back to
   * an older epoch. Without the key the SDK only compares the servers. `undefined` throws UsageError: leave the option out instead.
   */
  readonly publisherKey?: string | Uint8Array
  /**
   * With `publisherKey`: whose witnesses must have seen each epoch, so that the publisher cannot show some people another list unnoticed. The
   * text of a policy (c2sp.org/tlog-policy), which the publisher gives you (docs/operations/witnesses.md). `undefined` throws UsageError.
   */
  readonly witnesses?: string
  /**
   * With three servers or more: how many must answer a lookup and agree on the database. From 2 to all; default: all. Lookups stay
   * private unless `atLeast` operators collude. Lookups go on while so many servers answer honestly. The others may be away, slow or
   * lie: the map then asks other servers by itself.
   */
  readonly atLeast?: number | undefined
  /**
   * With one server and no `publisherKey`: `server` says that you trust the server's data. It can show each map another database, and
   * so can anybody who breaks into it. Lookups stay private.
   */
  readonly integrity?: 'server' | undefined
  /**
   * With two servers or more: `tolerated` says that all of them may be one party. Lookups use modes `local` and `single`, and any server
   * answers. All must agree on the database. The state is kept apart from that of maps without this option.
   */
  readonly collusion?: 'tolerated' | undefined

  // What may it cost?

  /**
   * How lookups are answered. Default: `auto`.
   *
   * - `local`: the map downloads, checks and keeps the whole database. A lookup sends nothing.
   * - `full`: the map downloads the database once and keeps a hint. Two servers answer.
   * - `instant`: the map downloads and keeps nothing. All servers answer, with far more work. A key takes two round trips.
   * - `single`: the map downloads the database once and keeps hints. One server answers, and each lookup uses a hint up.
   * - `filter`: the map downloads and keeps a filter, about 1.6 bytes a record, and looks nothing up. `excludes()` says of most absent keys
   *   that they are absent. `get()` of another key throws UnsupportedError. The list needs slot marks (`keyhush build --filter`).
   * - `auto` with two servers: the stored mode, else `instant` at first. In the background the map prepares `local` for a database of
   *   at most 16 MiB. For a larger one it prepares `full`, once so many lookups were made that `full` would have been cheaper. When the
   *   state is ready, `map.mode` changes and the event `mode` comes. A lookup that fails begins no download.
   * - `auto` with three servers or more: the same, with `single` in place of `full`.
   * - `auto` with one server: `local` for a database of at most 16 MiB, else `single`. With `experimental`: `instant` at first, then
   *   these.
   *
   * `full` needs exactly two servers. With one server there are only `local` and `single`, and with `experimental` also `instant`; with
   * `collusion: 'tolerated'` only `local` and `single`. A stored state of another mode than you ask for is discarded.
   */
  readonly mode?: 'auto' | Mode | 'filter' | undefined
  /**
   * In mode `instant`, and in `auto` while the map is `instant`: the map also keeps a filter, about 1.6 bytes a record, and a call of which all
   * keys are proved absent sends nothing. The list needs slot marks (`keyhush build --filter`). **Servers and whoever sees your traffic learn
   * something when a call asks, and when it does not** (docs/guide/filters.md). `at()` and `watch()` always ask. In other modes it throws
   * UsageError.
   */
  readonly filter?: FilterOptions | undefined
  /**
   * In mode `auto`: which downloads of the database the map may begin by itself. In other modes it throws UsageError.
   *
   * - `auto` (default): those that make lookups cheaper.
   * - `never`: none. Where servers answer instant lookups, lookups stay `instant`.
   * - A function: asked before each download of more than 1 MiB. `true` allows it. Any other result, or an error, refuses: nothing is
   *   downloaded until `prepare()`, and the function is not asked again. No lookup waits for its answer, where servers answer instant
   *   lookups.
   *
   * `prepare()` and `reset()` download without asking. So does a map that follows changes of the database. With one server, or with
   * servers that answer no instant lookups, `open()` needs the download: after a refusal it throws UnsupportedError.
   */
  readonly download?: Download | undefined
  /**
   * In mode `auto`: on which lines the map may begin a download of more than 1 MiB by itself. In other modes it throws UsageError.
   *
   * - `unmetered` (default): on none that the browser calls metered (`navigator.connection`: data saver, cellular). The download waits,
   *   and the event `postponed` comes. It begins when the line is another, or at `prepare()`.
   * - `any`: on all. Browsers that do not tell, as Safari and Firefox, have no metered lines.
   *
   * With one server, or with servers that answer no instant lookups, `open()` does not wait: it needs the download.
   */
  readonly network?: Network | undefined
  /**
   * `true`: allows `instant` with one server, in modes `instant` and `auto`. Its cryptography is new, and nobody outside has reviewed it
   * (docs/review-one-server.md). The server must offer it, and you need a `publisherKey`. Lookups are private while whoever signs does
   * not help the server (docs/threat-model.md). Default: `false`.
   */
  readonly experimental?: boolean | undefined
  /** Whether the map keeps its state after the page is closed. Default: `preferred`. */
  readonly storage?: StoragePreference | undefined

  // What should I hear?

  /** Aborts `open()`, at any time. Nothing that depends on a lookup was sent by then. */
  readonly signal?: AbortSignal | undefined
  /**
   * How many milliseconds `open()` and each call of the map wait for servers, or for another tab. Default: 15 000. After that they throw
   * TimeoutError; `close()` resolves. A download gives time back as it comes. `Infinity`: until the requests fail by themselves, after 10 to
   * 15 s each.
   */
  readonly timeoutMs?: number | undefined
  /** Called after each event, from before `open()` resolves until the map is closed. */
  readonly onEvent?: OnEvent | undefined
  /** Called about a hundred times in each download of the database: in `open()`, in the background, in `prepare()` and `reset()`. */
  readonly onProgress?: OnProgress | undefined

  // How is it wired?

  /** Called with each text key. The SDK looks up what it returns. Default: keys are looked up exactly as you pass them. */
  readonly normalize?: Normalize | undefined
  /**
   * Whether the map keeps a stream to each server open, and so follows new epochs within a second. Default: in browsers yes, elsewhere
   * no, because a stream keeps a process from ending until `close()`. One visible page of a site reads the streams and tells the others;
   * while all pages are hidden, none follows. Without streams a map follows at `sync()`, and when servers no longer answer its epoch; with
   * one server in mode `instant`, at a lookup after five minutes. In mode `local` it then follows at `sync()` alone.
   */
  readonly push?: boolean | undefined

  // What do I give up? Few apps set any of these.

  /**
   * With two servers, in modes `full` and `auto`: what proves that answers are genuine. Elsewhere it throws UsageError. The servers see
   * which kind a map uses (docs/threat-model.md).
   *
   * - `tags`: the map keeps 8 bytes a record. A lookup is about a tenth as large as with `merkle`.
   * - `merkle`: the servers send proofs, and the map keeps nothing for them.
   * - `pointproofs`: you pass its package in the option of this name.
   * - `auto` (default): `tags`, if the map then takes at most 64 MB of memory; else `pointproofs`, if possible; else `merkle`.
   */
  readonly proofs?: ProofsPreference | undefined
  /**
   * When a server's rollback fence checks that the state is no copy, such as a restored backup or a cloned profile. Default: `confirm`.
   *
   * - `confirm`: a copy that is opened is detected before it reveals anything. A copy made while the map is open reveals one lookup at
   *   most.
   * - `strict`: a copy reveals no lookup. Each lookup costs another round trip to one server, which relaxes property P2. Servers without
   *   a fence throw UnsupportedError.
   *
   * See docs/threat-model.md, Old state put back.
   */
  readonly rollback?: RollbackPreference | undefined
  /**
   * In mode `single`: how many lookups new hints serve before the database is downloaded again. From 1 to 1 048 576. Each takes twice a
   * record's bytes of memory. Default: 16 384, or as many as take 16 MiB.
   */
  readonly lookups?: number | undefined
}

/** The options of `open()`. */
export interface OpenOptions extends OpenWithOptions {
  // How is it wired?

  /**
   * Replaces the platform's `fetch()`, for all requests of the map. Replies should have a stream: without one, a hostile server's compressed
   * reply is unpacked in memory before its length is known.
   */
  readonly fetch?: Fetch | undefined
  /**
   * Replaces the platform's durable storage. Node has none: pass `fileStore('a/folder')` of `@keyhush/client/node`. Maps that are to
   * share their state need the same function.
   *
   * Your own function gets the servers' names and resolves to a `DurableStore`, one for each list of names. In mode `auto` with
   * `publisherKey` the map calls it a second time, with one name of its own, and keeps there the newest epoch that the servers have shown.
   */
  readonly store?: OpenDurableStore | undefined
  /**
   * The WebAssembly module, for apps that stream or cache it: `() => fetch(url)`, its bytes, or a compiled module. Default: a part of
   * the JavaScript, loaded with the first map. A page uses the first module that it gets.
   *
   * - `@keyhush/wasm/client_bg.wasm`: for two servers.
   * - `@keyhush/wasm/instant_bg.wasm`: in mode `instant`.
   * - `@keyhush/wasm/single_bg.wasm`: with one server, with three or more, or with `collusion: 'tolerated'`.
   *
   * With `experimental` there is a second module, always a part of the JavaScript; `useOneServerModule` of `@keyhush/wasm/one-server`
   * takes it from elsewhere.
   */
  readonly wasm?: ModuleSource | (() => ModuleSource) | undefined
}

/** What maps must have in common to share a session. */
export interface Wishes {
  readonly storage: StoragePreference
  readonly publisherKey: string | undefined
  readonly witnesses: string | undefined
  readonly rollback: RollbackPreference
  readonly proofs: ProofsPreference
  readonly development: boolean
  readonly packages: ProofsPackages
  readonly lookups: number | undefined
  readonly mode: string
  readonly download: Download
  readonly network: Network
  readonly experimental: boolean
  readonly filter: FilterOptions | undefined
  readonly push: boolean
  readonly apart: Apart
  readonly atLeast: number
}

/**
 * Whether maps may share a session. An app may write the import() of a package anew each time: what it loads is the same. Two functions
 * that are asked may differ in their answers.
 */
export function isSameWish(a: Wishes, b: Wishes): boolean {
  const { packages: ofA, filter, ...others } = a
  const isGivenAlike = PACKAGED.every(kind => (ofA[kind] === undefined) === (b.packages[kind] === undefined))
  const isFilteredAlike = filter?.cover === b.filter?.cover && filter?.meanwhile === b.filter?.meanwhile
  return (
    isGivenAlike &&
    isFilteredAlike &&
    (Object.keys(others) as (keyof typeof others)[]).every(wish => a[wish] === b[wish])
  )
}

/** `OpenWithOptions`, also for schemes that exist only in tests. */
export type Options = Omit<OpenWithOptions, 'mode'> & { readonly mode?: string | undefined }

/** An option without a row in the table does not compile, nor does a row without an option. */
const ROWS: Record<Exclude<keyof OpenOptions, keyof ProofsPackages>, unknown> &
  Record<Exclude<OptionName, keyof OpenOptions>, never> = OPTIONS

/** Throws UsageError for unknown options. */
export function checkOpenOptions(options: OpenOptions): void {
  checkOptions('open', options, ['fetch', 'store', ...PACKAGED], [], WITH_SERVERS)
  checkNames('open', options, [...Object.keys(ROWS), ...PACKAGED])
  checkKeyGiven(options)
}

/**
 * Throws UsageError for `publisherKey: undefined` or `witnesses: undefined`: a misspelt environment variable must not leave the signature
 * unchecked.
 */
export function checkKeyGiven(options: { readonly publisherKey?: unknown; readonly witnesses?: unknown }): void {
  for (const option of ['publisherKey', 'witnesses'] as const) {
    if (!(option in options) || options[option] !== undefined) continue
    const why = 'is the variable that it comes from set? Leave the option out if nothing is signed'
    throw new UsageError(`open: ${option}: expected a value, got nothing; ${why}`)
  }
}

/** Reads options, with defaults in place. Throws UsageError for wrong ones. */
export function readOptions(
  options: Options,
  schemes: ReadonlyMap<string, KnownScheme>,
): { readonly servers: Servers; readonly usable: ReadonlyMap<string, KnownScheme>; readonly wishes: Wishes } {
  checkOptions('open', options, ['onProgress', 'onEvent', 'normalize', ...PACKAGED], BOOLEANS, WITH_SERVERS)
  const { storage = 'preferred', rollback = 'confirm', proofs = 'auto', mode = 'auto', lookups, filter } = options
  oneOf('storage', ['required', 'preferred', 'memory'], storage)
  oneOf('rollback', ['confirm', 'strict'], rollback)
  oneOf('proofs', ['auto', ...PROOFS], proofs)
  const servers = parseServers(options.servers)
  const apart = apartOf(options.servers, options.collusion)
  assertParties(servers, apart, options)
  const publisherKey = options.publisherKey === undefined ? undefined : parsePublisherKey(options.publisherKey)
  checkIntegrity(servers, publisherKey, options)
  const { witnesses } = options
  if (witnesses !== undefined && (typeof witnesses !== 'string' || publisherKey === undefined))
    throw new UsageError(`witnesses: expected the text of a policy, with a publisherKey, got another; pass both`)
  const { atLeast = servers.length } = options
  if (options.atLeast !== undefined) checkAtLeast(atLeast, apart)
  const { experimental = false } = options
  const usable = schemesFor(schemes, apart, experimental)
  const where = options.collusion ? "collusion: 'tolerated'" : numberOf(apart)
  oneOf('mode', ['auto', FILTER, ...usable.keys()], mode, `with ${where}`)
  if (lookups !== undefined) checkLookups(lookups, apart)
  const { download = 'auto', network = 'unmetered' } = options
  if (typeof download !== 'function') oneOf('download', ['auto', 'never'], download, 'or a function')
  oneOf('network', ['any', 'unmetered'], network)
  for (const option of ['download', 'network'] as const) {
    if (options[option] === undefined || mode === 'auto') continue
    throw new UsageError(`${option}: expected mode 'auto', got mode '${mode}'; leave the option out`)
  }
  const scheme = usable.get(mode)
  const { development = false } = options
  const possible = mode === 'auto' ? [...usable.values()] : [scheme]
  if (proofs !== 'auto' && !possible.some(each => each?.kind === 'stateful' && each.provable === true)) {
    const where = mode === 'auto' || apart !== 2 ? `lookups with ${numberOf(apart)}` : `mode '${mode}'`
    throw new UsageError(`proofs: expected mode 'full' or 'auto' with two servers, got ${where}; leave the option out`)
  }
  const missing = proofs === 'auto' ? undefined : missingFor(proofs, options)
  if (missing !== undefined) throw new UsageError(`proofs: expected for '${proofs}' ${missing}`)
  const push = options.push ?? typeof addEventListener === 'function'
  const packages = Object.fromEntries(PACKAGED.map(kind => [kind, options[kind]]))
  const answers = { mode, experimental, filter, download, network, proofs, development, packages, lookups }
  return {
    servers,
    usable,
    wishes: { storage, publisherKey, witnesses, rollback, ...answers, push, apart, atLeast },
  }
}

const BOOLEANS = ['development', 'push', 'experimental'] as const

/** The core's limit. */
const MOST_LOOKUPS = 2 ** 20

function checkLookups(lookups: number, apart: Apart): void {
  if (apart !== 1)
    throw new UsageError(
      `lookups: expected one server, or collusion: 'tolerated', got ${numberOf(apart)}; leave the option out`,
    )
  if (Number.isInteger(lookups) && lookups > 0 && lookups <= MOST_LOOKUPS) return
  throw new UsageError(`lookups: ${expected(`a whole number from 1 to ${MOST_LOOKUPS}`, lookups)}`)
}

/** Throws UsageError for one server without a publisher's key, unless the app trusts that server. */
function checkIntegrity(
  { length }: Servers,
  publisherKey: string | undefined,
  { integrity }: Pick<Options, 'integrity'>,
): void {
  if (integrity !== undefined) oneOf('integrity', ['server'], integrity)
  if (length > 1 || publisherKey !== undefined || integrity === 'server') return
  const why = 'it could invent what is in its database'
  throw new UsageError(
    `servers: expected a publisherKey with one server, got none: ${why}. Pass integrity: 'server' if you trust it`,
  )
}
