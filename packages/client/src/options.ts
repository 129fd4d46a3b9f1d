// What `open()` takes, and what of it can be: read once, before any traffic.

import type { Mode, ModuleSource } from '@keyhush/wasm/client'
import { checkNames, checkOptions, expected, oneOf } from './base/boundary.js'
import { UsageError } from './base/errors.js'
import type { OnEvent } from './base/events.js'
import type { OnProgress } from './base/progress.js'
import type { Normalize } from './lookup/keys.js'
import type { Fetch } from './platform/environment.js'
import { KINDS, missingFor } from './scheme/kinds.js'
import { schemesFor } from './scheme/known.js'
import type { LoadProofs } from './scheme/packaged.js'
import type { KnownScheme, ProofsPreference } from './scheme/scheme.js'
import type { RollbackPreference } from './servers/fence.js'
import { type Allowances, type Apart, apartOf, assertParties, parseServers, type Servers } from './servers/pair.js'
import { parsePublisherKey } from './servers/signatures.js'
import type { OpenDurableStore, StoragePreference } from './store/storage.js'

export interface OpenWithOptions extends Allowances {
  /**
   * Base URLs of two servers, on different hosts, run by operators who do not collude. Order is immaterial. Or of one server,
   * which learns nothing from lookups whatever it does: they are answered in mode `local` or `single`. What is in its
   * database it could make up as it likes, so that a publisherKey is needed.
   */
  readonly servers: readonly [string | URL] | readonly [string | URL, string | URL]
  /**
   * `server`: one server's word for what is in its database suffices. It, and whoever breaks into it, can show each map what it
   * likes, and another database to each; what is looked up stays hidden all the same.
   */
  readonly integrity?: 'server' | undefined
  /**
   * `tolerated`: two servers may be one party. Lookups are answered as with one server, by either of them; what is in the
   * database, both have to agree on.
   */
  readonly collusion?: 'tolerated' | undefined
  /**
   * In mode `single`: how many lookups new hints are good for, before the database has to be downloaded again; if not given,
   * 16 384, or as many as fit 16 MiB: each takes twice a record's bytes of memory.
   */
  readonly lookups?: number | undefined
  /**
   * Takes two servers that are on one host, on two ports. Whoever runs that host sees both queries of each lookup, and so
   * the key. Two ports of this very machine (localhost, 127.0.0.1, [::1]) need no option.
   */
  readonly allowSameHost?: boolean | undefined
  /**
   * Takes servers on other machines over plain http. Whoever is on the way to both sees both queries of each lookup, and so
   * the key.
   */
  readonly allowPlainHttp?: boolean | undefined
  readonly onProgress?: OnProgress | undefined
  /** Calls the opening off. Free at any time: nothing that depends on a lookup is sent before the first. */
  readonly signal?: AbortSignal | undefined
  /** Applied to text keys before they are looked up. Without it keys are taken exactly as they are. */
  readonly normalize?: Normalize | undefined
  /** Whether state is to outlive the page; `preferred` if not given. */
  readonly storage?: StoragePreference | undefined
  /**
   * The publisher's Ed25519 key (32 bytes, 64 hex digits, or the line that `keyhush keygen` prints), known out of band. With
   * it, the database must be signed, else SignatureError: even two servers that lie together cannot make up a record, nor
   * take a map back to where it has been before. Without it, comparing the servers has to do.
   */
  readonly publisherKey?: string | Uint8Array
  /**
   * How copies of the state (a restored backup, a cloned profile) are found out, with the help of the refresh server's
   * rollback fence; `confirm` if not given. A copy that is opened is found out before it shows anything; one that was
   * copied while it was open shows one lookup at most, and with `strict` none. `strict` costs a round trip more in each
   * lookup, in which one server alone is asked (it relaxes P2), and refuses servers without a fence with
   * UnsupportedError. See docs/threat-model.md, Old state put back.
   */
  readonly rollback?: RollbackPreference | undefined
  /**
   * How lookups are answered. `local`: the whole database is kept here, verified and followed by updates, and nothing ever
   * leaves for a lookup. `full`: it is downloaded once and folded into a hint; two servers answer.
   * `instant`: nothing is downloaded and nothing kept; two servers answer, with far more work, in two round trips for a key.
   * `single`: the database is downloaded once and folded into hints, of which each lookup uses one up; one server answers, and
   * learns nothing of it. With one server, or `collusion: 'tolerated'`, there are only `single` and `local`.
   * `auto`, if not given: what is stored here already; else `instant` from the first moment on, and behind it `local` is
   * prepared for databases of at most 16 MiB, `full` for larger ones once so many lookups were made that it would have been
   * cheaper from the beginning; then `map.mode` changes, with an event. With one server: `local`
   * for databases of at most 16 MiB, else `single`.
   */
  readonly mode?: 'auto' | Mode | undefined
  /**
   * What proves that answers are genuine, in modes `full` and `auto` with two servers; in others there is no choice, and
   * UsageError for one. `merkle`: proofs that the servers send. `tags`: nothing
   * on the wire; the map keeps 8 bytes for each record instead, and a lookup is about a tenth as large. `pointproofs`, where
   * servers offer it and its package is at hand (`pointproofs`): one proof of 48 bytes an answer; a lookup is as small as with tags, the map keeps little, and
   * verifying takes about a tenth of a second. `auto`, if not given:
   * tags, unless the map would then take more than 64 MB of memory; else `pointproofs`, where that can be, else `merkle`. The servers see which;
   * see docs/threat-model.md.
   */
  readonly proofs?: ProofsPreference | undefined
  /**
   * What verifies `pointproofs`: `() => import('@keyhush/pointproofs')`, once that package is installed. It is loaded when a map
   * first needs it; without it, `auto` never chooses that kind.
   */
  readonly pointproofs?: LoadProofs | undefined
  /**
   * Takes `pointproofs` under the key of a ceremony for development, which says nothing of who might forge. For trying
   * things out.
   */
  readonly allowDevelopmentCeremony?: boolean | undefined
  /**
   * Whether the map keeps a stream to each server open, to learn of new versions of the database within a second. If not
   * given, it does in browsers; elsewhere a stream would keep the process from ending. Without it a map moves on at `sync()`,
   * and when servers no longer answer its epoch; in mode `local` at `sync()` alone.
   */
  readonly push?: boolean | undefined
  /** Told, after the fact, what becomes of the state. From before `open()` resolves until the map is closed. */
  readonly onEvent?: OnEvent | undefined
}

export interface OpenOptions extends OpenWithOptions {
  /** Replaces the platform's fetch: every request of the map goes through it. */
  readonly fetch?: Fetch | undefined
  /**
   * Replaces the platform's durable storage; for Node, which has none:
   * `fileStore('a/folder')`, from `@keyhush/client/node`. Maps share their state if it is the same function.
   */
  readonly store?: OpenDurableStore | undefined
  /**
   * Where the WebAssembly module is, for apps that stream it or keep it: `() => fetch(url)` of the file
   * `@keyhush/wasm/client_bg.wasm` (in mode `instant`, `@keyhush/wasm/instant_bg.wasm`, a third of it; with one server, or
   * `collusion: 'tolerated'`, `@keyhush/wasm/single_bg.wasm`), its bytes, or what was compiled of them. If not given, it is
   * loaded as JavaScript when it is needed. A page has one module of each: the first one counts.
   */
  readonly wasm?: ModuleSource | (() => ModuleSource) | undefined
}

/** What maps must have in common to share a session. */
export interface Wishes {
  readonly storage: StoragePreference
  readonly publisherKey: string | undefined
  readonly rollback: RollbackPreference
  readonly proofs: ProofsPreference
  readonly allowDevelopmentCeremony: boolean
  readonly pointproofs: LoadProofs | undefined
  readonly lookups: number | undefined
  readonly mode: string
  readonly push: boolean
  readonly apart: Apart
}

/** Whether maps may share a session. An app may write the import() of a package anew each time: what it loads is the same. */
export function isSameWish(a: Wishes, b: Wishes): boolean {
  const isSame = (one: unknown, other: unknown) =>
    one === other || (typeof one === 'function' && typeof other === 'function')
  return (Object.keys(a) as (keyof Wishes)[]).every(wish => isSame(a[wish], b[wish]))
}

/** `OpenWithOptions`, of schemes that may exist in tests alone. */
export type Options = Omit<OpenWithOptions, 'mode'> & { readonly mode?: string | undefined }

const OPTIONS: Record<keyof OpenOptions, true> = {
  servers: true,
  integrity: true,
  collusion: true,
  lookups: true,
  allowSameHost: true,
  allowPlainHttp: true,
  onProgress: true,
  signal: true,
  normalize: true,
  storage: true,
  publisherKey: true,
  rollback: true,
  mode: true,
  proofs: true,
  allowDevelopmentCeremony: true,
  pointproofs: true,
  push: true,
  onEvent: true,
  fetch: true,
  store: true,
  wasm: true,
}

/** Throws UsageError for options that there are not. */
export function checkOpenOptions(options: OpenOptions): void {
  checkOptions('open', options, ['fetch', 'store', 'pointproofs'])
  checkNames('open', options, Object.keys(OPTIONS))
  checkKeyGiven(options)
}

/**
 * Throws UsageError for a publisherKey that is there and is nothing: an environment variable with another name must not leave the
 * signature unchecked without a word.
 */
function checkKeyGiven(options: { readonly publisherKey?: unknown }): void {
  if (!('publisherKey' in options) || options.publisherKey !== undefined) return
  const why = 'leave the option out if nothing is signed; is the variable that it comes from set?'
  throw new UsageError(`open: publisherKey: expected a key, got nothing; ${why}`)
}

/** What maps with these options have in common, defaults in place. Throws UsageError for options that cannot be. */
export function readOptions(
  options: Options,
  schemes: ReadonlyMap<string, KnownScheme>,
): { readonly servers: Servers; readonly usable: ReadonlyMap<string, KnownScheme>; readonly wishes: Wishes } {
  checkOptions('open', options, ['onProgress', 'onEvent', 'normalize', 'pointproofs'], BOOLEANS)
  const { storage = 'preferred', rollback = 'confirm', proofs = 'auto', mode = 'auto', lookups } = options
  oneOf('storage', ['required', 'preferred', 'memory'], storage)
  oneOf('rollback', ['confirm', 'strict'], rollback)
  oneOf('proofs', ['auto', ...Object.keys(KINDS)], proofs)
  const servers = parseServers(options.servers)
  const apart = apartOf(options.servers, options.collusion)
  assertParties(servers, apart, options)
  const publisherKey = options.publisherKey === undefined ? undefined : parsePublisherKey(options.publisherKey)
  checkIntegrity(servers, publisherKey, options)
  const usable = schemesFor(schemes, apart)
  oneOf('mode', ['auto', ...usable.keys()], mode, apart === 1 ? 'with one server' : 'with two servers')
  if (lookups !== undefined) checkLookups(lookups, apart)
  const scheme = usable.get(mode)
  const { allowDevelopmentCeremony = false, pointproofs } = options
  const possible = scheme === undefined ? [...usable.values()] : [scheme]
  if (proofs !== 'auto' && !possible.some(each => each.kind === 'stateful' && each.provable === true)) {
    const where = scheme === undefined || apart === 1 ? 'where one server is asked' : `in mode '${mode}'`
    throw new UsageError(`proofs: there is no choice of them ${where}, but in mode 'full'`)
  }
  const missing = proofs === 'auto' ? undefined : missingFor(proofs, options)
  if (missing !== undefined) throw new UsageError(`proofs: '${proofs}' needs ${missing}`)
  const push = options.push ?? typeof addEventListener === 'function'
  const answers = { mode, proofs, allowDevelopmentCeremony, pointproofs, lookups }
  return {
    servers,
    usable,
    wishes: { storage, publisherKey, rollback, ...answers, push, apart },
  }
}

const BOOLEANS = ['allowSameHost', 'allowPlainHttp', 'allowDevelopmentCeremony', 'push'] as const

/** As the core bounds them. */
const MOST_LOOKUPS = 2 ** 20

function checkLookups(lookups: number, apart: Apart): void {
  if (apart !== 1) throw new UsageError("lookups: expected one server, or collusion: 'tolerated', to go with it")
  if (Number.isInteger(lookups) && lookups > 0 && lookups <= MOST_LOOKUPS) return
  throw new UsageError(`lookups: ${expected(`a whole number from 1 to ${MOST_LOOKUPS}`, lookups)}`)
}

/** Throws UsageError if nobody vouches for what one server has, and the app has not said that nobody need. */
function checkIntegrity(
  { length }: Servers,
  publisherKey: string | undefined,
  { integrity }: Pick<Options, 'integrity'>,
): void {
  if (integrity !== undefined) oneOf('integrity', ['server'], integrity)
  if (length > 1 || publisherKey !== undefined || integrity === 'server') return
  const why = 'nobody would notice if it made up what is in its database'
  throw new UsageError(`servers: of one server, ${why}. Pass its publisherKey, or integrity: 'server' if it may`)
}
