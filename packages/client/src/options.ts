// The options of `open()`, and their checks, before any traffic.

import { PROOFS } from '@keyhush/protocol'
import type { Mode, ModuleSource } from '@keyhush/wasm/client'
import { checkNames, checkOptions, expected, oneOf } from './base/boundary.js'
import { UsageError } from './base/errors.js'
import type { OnEvent } from './base/events.js'
import type { OnProgress } from './base/progress.js'
import type { Normalize } from './lookup/keys.js'
import type { Fetch } from './platform/environment.js'
import { missingFor } from './scheme/kinds.js'
import { schemesFor } from './scheme/known.js'
import type { LoadProofs } from './scheme/packaged.js'
import type { KnownScheme, ProofsPreference } from './scheme/scheme.js'
import type { RollbackPreference } from './servers/fence.js'
import { type Apart, apartOf, assertParties, type Development, parseServers, type Servers } from './servers/parties.js'
import { parsePublisherKey } from './servers/signatures.js'
import type { Download } from './session/consent.js'
import type { OpenDurableStore, StoragePreference } from './store/storage.js'

/** The options of `open()` apart from those that only the whole SDK has, in the order of the questions that they answer. */
export interface OpenWithOptions extends Development {
  // Where?

  /**
   * Base URLs of two servers or more, at most eight, on different hosts, in any order. Lookups stay private unless all operators
   * collude, whichever of them is honest. With three or more, all must answer a lookup. Or of one server: lookups then use mode `local`
   * or `single`, in which it learns nothing. It could invent its database, so you need a `publisherKey`.
   */
  readonly servers: readonly (string | URL)[]

  // Whom must I trust?

  /**
   * The publisher's Ed25519 key: 32 bytes, 64 hex digits, or the line that `keyhush keygen` prints. Put it into your app. The database
   * must then be signed, else SignatureError: servers that lie together cannot invent a record, or go back to an older epoch.
   * Without it the servers are only compared.
   */
  readonly publisherKey?: string | Uint8Array
  /**
   * `server`: you trust one server's database without a `publisherKey`. The server, or anybody who breaks into it, can show each map
   * another database. Your lookups stay private.
   */
  readonly integrity?: 'server' | undefined
  /**
   * `tolerated`: all servers may be one party. Lookups use the modes for one server, and any server answers. All must agree on the
   * database.
   */
  readonly collusion?: 'tolerated' | undefined

  // What may it cost?

  /**
   * How lookups are answered; `auto` if not given.
   *
   * - `local`: the client downloads, verifies and keeps the whole database; a lookup sends nothing.
   * - `full`: the client downloads the database once and keeps a hint; two servers answer.
   * - `instant`: the client downloads and keeps nothing; all servers answer, with far more work, in two round trips for a key.
   * - `single`: the client downloads the database once and keeps hints, and each lookup uses one up; one server answers.
   * - `auto` with two servers: the stored mode, else `instant` at first. Meanwhile the client prepares `local` for databases of at most
   *   16 MiB, and `full` for larger ones once that is cheaper for as many lookups as were made. A lookup
   *   that fails begins no download. When the state is there `map.mode` changes, with an event.
   * - `auto` with three servers or more: the same, with `single` in place of `full`, which trusts two servers.
   * - `auto` with one server: `local` for databases of at most 16 MiB, else `single`.
   *
   * `full` needs exactly two servers. With one server, or `collusion: 'tolerated'`, there are only `single` and `local`.
   */
  readonly mode?: 'auto' | Mode | undefined
  /**
   * In mode `auto`: what the map may download by itself; UsageError in other modes. `auto`, if not given: what is cheaper. `never`:
   * nothing; with two servers lookups stay `instant`. A function is asked before each download of more than 1 MiB, and allows it with
   * `true`. With two servers no lookup waits for its answer. If it says no, or throws, nothing is downloaded until `prepare()`.
   *
   * `prepare()` and `reset()` download without asking, and so do changes of a database whose state is there. What cannot go on
   * without a download throws UnsupportedError: `open()` with one server, or with servers that answer no instant lookups.
   */
  readonly download?: Download | undefined
  /** Whether the state is kept after the page is closed; `preferred` if not given. */
  readonly storage?: StoragePreference | undefined

  // What should I hear?

  /** Aborts the opening. Safe at any time: nothing that depends on a lookup has been sent. */
  readonly signal?: AbortSignal | undefined
  /**
   * How many milliseconds `open()` and each call of the map wait for servers; 15 000 if not given, `Infinity`: until requests give up
   * by themselves. Then TimeoutError. While a download goes on, only the time since its last piece counts.
   */
  readonly timeoutMs?: number | undefined
  /** Called after each event of the state, from before `open()` resolves until the map is closed. */
  readonly onEvent?: OnEvent | undefined
  /** Called wherever the map downloads its state, until it is closed: in `open()`, behind lookups, in `prepare()` and `reset()`. */
  readonly onProgress?: OnProgress | undefined

  // How is it wired?

  /** Applied to text keys before each lookup. If not given, keys are looked up as they are. */
  readonly normalize?: Normalize | undefined
  /**
   * Whether the map keeps a stream to each server open, and so follows new epochs within a second. If not given: in browsers yes,
   * elsewhere no, because a stream keeps a process from ending. Without streams a map follows at `sync()`, and when servers no longer
   * answer its epoch; in mode `local` at `sync()` alone.
   */
  readonly push?: boolean | undefined

  // What do I give up? Few apps set any of these.

  /**
   * What proves that answers are genuine, in modes `full` and `auto` with two servers; UsageError in other modes. The servers see which
   * (docs/threat-model.md).
   *
   * - `merkle`: the servers send proofs.
   * - `tags`: the map keeps 8 bytes a record, and a lookup is about a tenth as large.
   * - `pointproofs`, if the servers offer it and you pass its package (`pointproofs`): one proof of 48 bytes an answer. A lookup is as
   *   small as with tags, the map keeps little, and verifying takes about a tenth of a second.
   * - `auto`, if not given: tags, if the map then takes at most 64 MB of memory; else `pointproofs`, if possible; else `merkle`.
   */
  readonly proofs?: ProofsPreference | undefined
  /**
   * The package that verifies `pointproofs`: `() => import('@keyhush/pointproofs')`. It is loaded when a map first needs it. Without it
   * `auto` never chooses that kind.
   */
  readonly pointproofs?: LoadProofs | undefined
  /**
   * How the refresh server's rollback fence detects copies of the state (a restored backup, a cloned profile); `confirm` if not given.
   * A copy that is opened is detected before it reveals anything. A copy made while the map is open reveals one lookup at most, with
   * `strict` none. `strict` costs each lookup another round trip, in which one server alone is asked (it relaxes P2), and throws
   * UnsupportedError for servers without a fence. See docs/threat-model.md, Old state put back.
   */
  readonly rollback?: RollbackPreference | undefined
  /**
   * In mode `single`: the number of lookups before the database is downloaded again. Each takes twice a record's bytes of memory. If
   * not given: 16 384, or as many as fit into 16 MiB.
   */
  readonly lookups?: number | undefined
}

export interface OpenOptions extends OpenWithOptions {
  // How is it wired?

  /** Replaces the platform's fetch for all requests of the map. */
  readonly fetch?: Fetch | undefined
  /**
   * Replaces the platform's durable storage. Node has none: pass `fileStore('a/folder')` of `@keyhush/client/node`. Maps share their
   * state if it is the same function.
   */
  readonly store?: OpenDurableStore | undefined
  /**
   * The WebAssembly module, for apps that stream or cache it: `() => fetch(url)`, its bytes, or a compiled module. The file is
   * `@keyhush/wasm/client_bg.wasm`; in mode `instant`, `instant_bg.wasm`, a third as large; with one server, or `collusion:
   * 'tolerated'`, `single_bg.wasm`. If not given, it is loaded as JavaScript when it is needed. A page uses the first one it is given.
   */
  readonly wasm?: ModuleSource | (() => ModuleSource) | undefined
}

/** What maps must have in common to share a session. */
export interface Wishes {
  readonly storage: StoragePreference
  readonly publisherKey: string | undefined
  readonly rollback: RollbackPreference
  readonly proofs: ProofsPreference
  readonly development: boolean
  readonly pointproofs: LoadProofs | undefined
  readonly lookups: number | undefined
  readonly mode: string
  readonly download: Download
  readonly push: boolean
  readonly apart: Apart
}

/**
 * Whether maps may share a session. An app may write the import() of a package anew each time: what it loads is the same. Two functions
 * that are asked may differ in their answers.
 */
export function isSameWish(a: Wishes, b: Wishes): boolean {
  const loads = ({ pointproofs }: Wishes) => pointproofs !== undefined
  const isSame = (wish: keyof Wishes) => (wish === 'pointproofs' ? loads(a) === loads(b) : a[wish] === b[wish])
  return (Object.keys(a) as (keyof Wishes)[]).every(isSame)
}

/** `OpenWithOptions`, also for schemes that exist only in tests. */
export type Options = Omit<OpenWithOptions, 'mode'> & { readonly mode?: string | undefined }

const OPTIONS: Record<keyof OpenOptions, true> = {
  servers: true,
  publisherKey: true,
  integrity: true,
  collusion: true,
  mode: true,
  download: true,
  storage: true,
  signal: true,
  timeoutMs: true,
  onEvent: true,
  onProgress: true,
  normalize: true,
  push: true,
  fetch: true,
  store: true,
  wasm: true,
  development: true,
  proofs: true,
  pointproofs: true,
  rollback: true,
  lookups: true,
}

/** Throws UsageError for unknown options. */
export function checkOpenOptions(options: OpenOptions): void {
  checkOptions('open', options, ['fetch', 'store', 'pointproofs'])
  checkNames('open', options, Object.keys(OPTIONS))
  checkKeyGiven(options)
}

/**
 * Throws UsageError for `publisherKey: undefined`: a misspelt environment variable must not leave the signature unchecked.
 */
function checkKeyGiven(options: { readonly publisherKey?: unknown }): void {
  if (!('publisherKey' in options) || options.publisherKey !== undefined) return
  const why = 'is the variable that it comes from set? Leave the option out if nothing is signed'
  throw new UsageError(`open: publisherKey: expected a key, got nothing; ${why}`)
}

/** Reads options, with defaults in place. Throws UsageError for wrong ones. */
export function readOptions(
  options: Options,
  schemes: ReadonlyMap<string, KnownScheme>,
): { readonly servers: Servers; readonly usable: ReadonlyMap<string, KnownScheme>; readonly wishes: Wishes } {
  checkOptions('open', options, ['onProgress', 'onEvent', 'normalize', 'pointproofs'], BOOLEANS)
  const { storage = 'preferred', rollback = 'confirm', proofs = 'auto', mode = 'auto', lookups } = options
  oneOf('storage', ['required', 'preferred', 'memory'], storage)
  oneOf('rollback', ['confirm', 'strict'], rollback)
  oneOf('proofs', ['auto', ...PROOFS], proofs)
  const servers = parseServers(options.servers)
  const apart = apartOf(options.servers, options.collusion)
  assertParties(servers, apart, options)
  const publisherKey = options.publisherKey === undefined ? undefined : parsePublisherKey(options.publisherKey)
  checkIntegrity(servers, publisherKey, options)
  const usable = schemesFor(schemes, apart)
  oneOf('mode', ['auto', ...usable.keys()], mode, `with ${describe(apart)}`)
  if (lookups !== undefined) checkLookups(lookups, apart)
  const { download = 'auto' } = options
  if (typeof download !== 'function') oneOf('download', ['auto', 'never'], download, 'or a function')
  if (options.download !== undefined && mode !== 'auto') {
    throw new UsageError(`download: expected mode 'auto', got mode '${mode}'; leave the option out`)
  }
  const scheme = usable.get(mode)
  const { development = false, pointproofs } = options
  const possible = scheme === undefined ? [...usable.values()] : [scheme]
  if (proofs !== 'auto' && !possible.some(each => each.kind === 'stateful' && each.provable === true)) {
    const where = scheme === undefined || apart !== 2 ? `lookups with ${describe(apart)}` : `mode '${mode}'`
    throw new UsageError(`proofs: expected mode 'full' or 'auto' with two servers, got ${where}; leave the option out`)
  }
  const missing = proofs === 'auto' ? undefined : missingFor(proofs, options)
  if (missing !== undefined) throw new UsageError(`proofs: expected for '${proofs}' ${missing}`)
  const push = options.push ?? typeof addEventListener === 'function'
  const answers = { mode, download, proofs, development, pointproofs, lookups }
  return {
    servers,
    usable,
    wishes: { storage, publisherKey, rollback, ...answers, push, apart },
  }
}

const BOOLEANS = ['development', 'push'] as const

function describe(apart: Apart): string {
  return ['one server', 'two servers'][apart - 1] ?? 'three servers or more'
}

/** The core's limit. */
const MOST_LOOKUPS = 2 ** 20

function checkLookups(lookups: number, apart: Apart): void {
  if (apart !== 1)
    throw new UsageError(
      `lookups: expected one server, or collusion: 'tolerated', got ${describe(apart)}; leave the option out`,
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
