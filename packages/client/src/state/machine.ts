// The phase of a map's state, in memory and in the store. The store decides: every write names the version that this tab
// expects, and is refused if another tab, or another life of this page, has moved the state on.
//
//                 restoring.ts, draft.ts                    the store has, or may have, moved on
//        none ────────────────────────────────► live ────────────────────────────────────────────► stale
//         ▲                                      │ ▲                                                  │ │
//         │                                      │ └──────────────── catch-up.ts: in step ────────────┘ │
//         │  memory and the store                │                                                      │
//         └──── may differ: retired ◄────────────┴────────── cannot catch up: retired ◄─────────────────┘
//
//        live ──► lost         in memory alone: an effect could not be stored, and nothing can be read anew
//        any  ──► condemned    after a lie or a rollback (S7). Only a new hint in its place ends it: replacing.ts
//
// This file says what may be used; the other files of this folder change the phase. None sends a lookup.

import { equalBytes, type Manifest } from '@keyhush/protocol'
import type { Core } from '@keyhush/wasm/client'
import { REPLACED_A_CALL, STORE_FAILURES } from '../base/constants.js'
import { ProtocolError, StorageError } from '../base/errors.js'
import type { OnEvent, StorageKind } from '../base/events.js'
import { type OnProgress, ProgressMeter } from '../base/progress.js'
import { inCore } from '../platform/core.js'
import type { Environment } from '../platform/environment.js'
import { preparersOf } from '../platform/preparers.js'
import { LOCAL } from '../scheme/facts.js'
import { assertOffered, lacking } from '../scheme/offered.js'
import type { Scheme, SchemeContext, SchemeOptions, StatefulScheme } from '../scheme/scheme.js'
import type { RollbackPreference } from '../servers/fence.js'
import { isFolder } from '../servers/folder.js'
import type { Agreed } from '../servers/manifests.js'
import { type Apart, identityOf, type Servers } from '../servers/parties.js'
import { OutdatedError } from '../servers/path.js'
import type { RecentLists } from '../servers/recent-lists.js'
import type { Signing } from '../servers/signatures.js'
import type { StatsKeeper } from '../servers/stats.js'
import { type Following, Lag } from '../servers/target.js'
import { type Link, type Links, linksOf } from '../servers/transport.js'
import {
  type Identity,
  type OpenedStore,
  openInMemory,
  type Preparers,
  type StoragePreference,
  StoreFailure,
  watched,
} from '../store/storage.js'
import type { HintRecord, StateStore } from '../store/store.js'
import { Checkpoints } from './checkpoints.js'
import type { Hint } from './hint.js'

/** What a session is given. */
export interface Parts {
  readonly core: Core
  readonly environment: Environment
  readonly servers: Servers
  /** how many parties do not collude */
  readonly apart: Apart
  /** how many servers have to answer and agree */
  readonly atLeast: number
  readonly preference: StoragePreference
  readonly signing: Signing | undefined
  readonly rollback: RollbackPreference
  /** all schemes, by name */
  readonly schemes: ReadonlyMap<string, Scheme>
  /** a scheme's name; `auto`: that of the stored state, or the one that `choose` returns */
  readonly mode: string
  /** the scheme of a new state in mode `auto` */
  readonly choose: (manifest: Manifest) => StatefulScheme
  readonly options: SchemeOptions
  readonly stats: StatsKeeper
  readonly lists: RecentLists
  readonly announce: OnEvent
  /** called with the progress of every download */
  readonly onProgress: OnProgress
  /** Called in mode `auto` when servers give no state what it needs. */
  readonly onUnoffered?: (() => void) | undefined
  /** Throws UnsupportedError where the app has a say over this download and says no. Missing: it has none. */
  readonly mayDownload?: ((mode: string, manifest: Manifest, signal: AbortSignal) => Promise<void>) | undefined
}

/** A download's progress, and the signal that calls it off. */
export interface Caller {
  readonly progress: ProgressMeter
  readonly signal: AbortSignal
  /** by reset(): the app is not asked */
  readonly demanded?: boolean
}

export type Phase =
  | { readonly is: 'none' }
  | { readonly is: 'live' | 'stale' | 'lost'; readonly hint: Hint }
  | Condemned

interface Condemned {
  readonly is: 'condemned'
  readonly hintId: Uint8Array
  /** undefined: the state itself was at fault */
  readonly culprit: string | undefined
  /** the store knows */
  readonly stored: boolean
}

const NONE: Phase = { is: 'none' }

export class Machine {
  /** the servers, each with a meter for one kind of traffic */
  readonly downloads: Links
  readonly lookups: Links
  readonly fences: Links
  readonly checkpoints = new Checkpoints()
  /** the last caller has its answer: its effect may be stored */
  answering: Promise<void> = Promise.resolve()
  /** the storing of the last effect */
  settling: Promise<void> = Promise.resolve()
  readonly #lag: Lag
  #parts: Parts
  #opened: OpenedStore
  #store: StateStore
  #storage: StorageKind
  #phase: Phase = NONE
  /** a hint has been used in this life of the page */
  #hasBegun = false
  /** hints no longer used, to be freed when the operation is over */
  readonly #retired: Hint[] = []
  #manifest: Manifest | undefined
  /** canonical bytes of the manifest both servers have shown last, signed if a publisher's key was given */
  #shown: Uint8Array | undefined
  /** canonical bytes of the stored manifest that a verified signature covers */
  #vouchedFor: Uint8Array | undefined
  /** the stored state may still be this one, which no update leads on from */
  outdated: { readonly record: HintRecord; readonly reason: OutdatedError['reason'] } | undefined
  /** failures of the store, in a row */
  #failures = 0

  constructor(parts: Parts, opened: OpenedStore) {
    this.#parts = parts
    const { servers, environment, stats } = parts
    this.downloads = linksOf(servers, environment, stats.standing, stats.offline)
    this.lookups = linksOf(servers, environment, stats.standing, stats.online)
    this.fences = linksOf(servers, environment, stats.standing, stats.fence)
    this.#lag = new Lag(parts.announce)
    this.#opened = opened
    this.#store = watched(opened.store)
    this.#storage = opened.storage
  }

  // ---- what there is ---------------------------------------------------------------------------------

  get parts(): Parts {
    return this.#parts
  }

  get phase(): Phase {
    return this.#phase
  }

  /** The hint; undefined: the store has to be asked first. */
  get live(): Hint | undefined {
    if (this.#phase.is === 'lost') {
      throw new StorageError('expected the last change to be stored, but it could not be; call reset(), or open() anew')
    }
    return this.#phase.is === 'live' ? this.#phase.hint : undefined
  }

  /** The hint in memory, even if it may not be used. */
  get known(): Hint | undefined {
    return 'hint' in this.#phase ? this.#phase.hint : undefined
  }

  /** Of the newest epoch this map has been at; undefined: not known. */
  get manifest(): Manifest | undefined {
    return this.#manifest
  }

  get store(): StateStore {
    return this.#store
  }

  get storage(): StorageKind {
    return this.#storage
  }

  get #identity(): Identity {
    const { servers, apart, atLeast } = this.parts
    return identityOf(servers, apart, atLeast)
  }

  /** The tabs that prepare hints in this store; undefined: not known. */
  get preparers(): Preparers | undefined {
    const { preparers } = this.#opened
    return preparers === 'platform' ? preparersOf(this.#identity) : preparers
  }

  /** Whether other tabs, or later lives of this page, may share the state. */
  get durable(): boolean {
    return this.#store.durable
  }

  /** Of what the map does by itself. */
  caller(signal: AbortSignal): Caller {
    return { progress: new ProgressMeter(this.parts.onProgress), signal }
  }

  // ---- from one to another ---------------------------------------------------------------------------

  /** From now on with this core. Nothing of the one before may be in use. */
  equip(core: Core): void {
    this.#parts = { ...this.#parts, core }
  }

  /** Takes a hint that the store has too. */
  adopt(hint: Hint, journalBytes: number): void {
    this.#hasBegun = true
    this.#phase = { is: 'live', hint }
    this.#manifest = hint.manifest
    this.checkpoints.note(journalBytes)
  }

  /** The store may have moved on. */
  doubt(): void {
    if ('hint' in this.#phase) this.#phase = { is: 'stale', hint: this.#phase.hint }
  }

  /** The hint in memory is not used again. */
  retire(): void {
    if (!('hint' in this.#phase)) return
    this.#retired.push(this.#phase.hint)
    this.#phase = NONE
  }

  /** Memory no longer agrees with the store. */
  lose(hint: Hint): void {
    if (this.durable) this.retire()
    else if (this.known === hint) this.#phase = { is: 'lost', hint }
  }

  condemn(hintId: Uint8Array, culprit: string | undefined, stored: boolean): void {
    this.retire()
    this.#phase = { is: 'condemned', hintId, culprit, stored }
  }

  /** Another hint has taken its place. */
  pardon(): void {
    if (this.#phase.is === 'condemned') this.#phase = NONE
  }

  /** To be called when an operation is over: until then it may read from a retired hint. */
  freeRetired(): void {
    for (const hint of this.#retired.splice(0)) hint.free()
  }

  // ---- epochs ----------------------------------------------------------------------------------------

  /** The map is at this epoch now. */
  movedTo(manifest: Manifest): void {
    const { generation, epoch } = manifest
    const isNew = epoch !== this.#manifest?.epoch
    this.#manifest = manifest
    if (isNew) this.parts.announce({ type: 'updated', generation, epoch })
  }

  /** The stored state is at this epoch. */
  remembers(manifest: Manifest | undefined): void {
    this.#manifest ??= manifest
  }

  /** Both servers show this manifest, and the publisher has signed it if a key was given. */
  show({ bytes }: Agreed): void {
    this.#shown = bytes
  }

  isShown({ bytes }: Agreed): boolean {
    return this.#shown !== undefined && equalBytes(this.#shown, bytes)
  }

  /** Whether the publisher's signature over this was verified, from the servers or from the store. */
  isVouchedFor(base: Agreed): boolean {
    return this.isShown(base) || (this.#vouchedFor !== undefined && equalBytes(this.#vouchedFor, base.bytes))
  }

  /** A signature covers it, of this epoch or of a later one. */
  vouchFor(base: Agreed): void {
    this.#vouchedFor = base.bytes
  }

  /** As isVouchedFor, after verifying the stored signature if need be. */
  async hasVouchedFor(base: Agreed): Promise<boolean> {
    if (this.isVouchedFor(base)) return true
    const { core, signing } = this.parts
    const hashOf = (bytes: Uint8Array) => inCore(core, () => core.blake3(bytes))
    const holds = (await signing?.hasSigned(base, hashOf)) === true
    if (holds) this.vouchFor(base)
    return holds
  }

  /** Whether the hint's signature has expired: it answers nothing. */
  get hasExpired(): boolean {
    return this.known !== undefined && this.parts.signing?.hasExpired(this.known.manifest) === true
  }

  /** Whether the map has all records, and a valid signature of them if it asks for one. */
  async needsNoServer(): Promise<boolean> {
    if (this.known?.state.kind !== 'held' || this.hasExpired) return false
    return this.parts.signing === undefined || (await this.hasVouchedFor(this.known.base))
  }

  /** What is needed to follow the servers. */
  get following(): Following {
    const { core, signing, stats, environment } = this.parts
    return { core, links: this.downloads, signing, stats, pause: environment.pause, lag: this.#lag }
  }

  // ---- schemes ---------------------------------------------------------------------------------------

  get context(): SchemeContext {
    const { core, environment, options } = this.parts
    return { core, environment, options }
  }

  /** Whether one of the servers is known to be a folder. */
  get hasFolder(): boolean {
    return this.downloads.some(isFolder)
  }

  /** The scheme of a new hint: in mode `auto` one that the servers offer. Throws UnsupportedError if they do not offer the app's. */
  schemeFor(manifest: Manifest): StatefulScheme {
    const { mode, choose, atLeast, onUnoffered } = this.parts
    const demanded = this.schemeOf(mode)
    const chosen = demanded ?? choose(manifest)
    if (this.offers(chosen)) return chosen
    if (demanded === undefined && this.areDownloadsOffered) return this.schemeOf(LOCAL.name)!
    onUnoffered?.()
    const isWithheld = ({ server, standing }: Link) => standing.offers.get(server.name)?.blobs === false
    const lacks = this.downloads.some(isWithheld) ? 'keeps its downloads to itself' : undefined
    assertOffered(chosen, this.downloads, atLeast, lacks)
    return chosen
  }

  /** Whether a server gives what every state is made of, as they said last. */
  get areDownloadsOffered(): boolean {
    return this.offers(this.schemeOf(LOCAL.name)!)
  }

  /** Whether the servers, as they said last, answer states of this scheme. */
  offers(scheme: StatefulScheme): boolean {
    return lacking(scheme, this.downloads, this.parts.atLeast) === undefined
  }

  /** Throws if the servers do not answer states of this scheme any more: OutdatedError if another scheme can take its place. */
  assertOffered(scheme: StatefulScheme, { manifest }: Agreed): void {
    if (this.offers(scheme)) return
    this.schemeFor(manifest) // throws UnsupportedError
    throw new OutdatedError('offer')
  }

  /** Whether a state of this map may keep rows beside its stored form. */
  get keepsRows(): boolean {
    return [...this.parts.schemes.values()].some(scheme => scheme.kind === 'stateful' && scheme.keepsRows === true)
  }

  /** The scheme of this name that keeps a state; undefined: there is none. */
  schemeOf(name: string): StatefulScheme | undefined {
    const scheme = this.parts.schemes.get(name)
    return scheme?.kind === 'stateful' ? scheme : undefined
  }

  /**
   * Whether stored state may be used: the app may demand another mode or other options. Options are compared only when the
   * map opens: else two tabs that demand two kinds of proof would begin anew in turn, at each lookup.
   */
  suits(scheme: StatefulScheme, made: { suits(options: SchemeOptions): boolean }): boolean {
    const { mode, options } = this.parts
    const ofMode = mode === 'auto' || mode === scheme.name
    return ofMode && (this.#hasBegun || made.suits(options))
  }

  // ---- the store -------------------------------------------------------------------------------------

  tellTabs(): void {
    if (this.durable) this.parts.environment.tabs.notify(tabsName(this.parts))
  }

  /** Counts failures of the store itself, and says whether this is one. */
  noteFailure(error: unknown): boolean {
    const failed = error instanceof StoreFailure
    if (failed) this.#failures++
    return failed
  }

  noteSuccess(): void {
    this.#failures = 0
  }

  /** Whether the store has failed too often, and memory may take its place. */
  get fallsBack(): boolean {
    return this.#failures >= STORE_FAILURES && this.durable && this.parts.preference === 'preferred'
  }

  get failsForGood(): boolean {
    return this.#failures >= STORE_FAILURES && !this.fallsBack
  }

  /**
   * Leaves a store that has failed too often, and begins anew in memory. What the store holds stays as it is and is not
   * used any more.
   */
  async fallBackIfFailing(): Promise<void> {
    if (!this.fallsBack) return
    this.retire()
    await this.fallBack()
  }

  /** Goes on in memory. */
  async fallBack(): Promise<void> {
    await this.#store.close().catch(() => {})
    this.#opened = await openInMemory(this.parts.environment, this.#identity)
    this.#store = watched(this.#opened.store)
    this.#storage = this.#opened.storage
    this.#failures = 0
    this.parts.announce({ type: 'storage', storage: 'memory', reason: 'failed' })
  }

  /** Asks the platform not to evict the state, where it can be asked. */
  async persist(): Promise<void> {
    const { persist } = this.#opened
    if (this.#storage !== 'best-effort' || persist === undefined) return
    if (!(await persist().catch(() => false)) || this.#storage !== 'best-effort') return
    this.#storage = 'persistent'
    this.parts.announce({ type: 'storage', storage: 'persistent', reason: 'granted' })
  }

  /** Whether the journal is too long and no lookup is pending. */
  get checkpointDue(): boolean {
    const hint = this.#phase.is === 'live' ? this.#phase.hint : undefined
    return hint !== undefined && this.durable && this.checkpoints.isDue(hint) && !hint.isPending
  }

  async writeCheckpoint(): Promise<void> {
    if (this.#phase.is === 'live' && this.checkpointDue) await this.checkpoints.write(this.#store, this.#phase.hint)
  }

  /** Overwrites and frees secrets, and closes the store. */
  async close(): Promise<void> {
    await this.settling
    this.retire()
    this.freeRetired()
    await this.#store.close()
  }
}

/** The name by which the tabs of one identity find each other. */
export function tabsName({ servers, apart, atLeast }: Pick<Parts, 'servers' | 'apart' | 'atLeast'>): string {
  return `keyhush tabs ${identityOf(servers, apart, atLeast).join(' ')}`
}

/** The error of an operation that has started over too often. */
export function tooManyRestarts(): StorageError {
  const message = 'expected to change the state, but the store refuses, or other tabs replace it each time; call again'
  return new StorageError(message, { retryable: true })
}

/** The error of a call that has downloaded REPLACED_A_CALL hints in vain. */
export function replacedTooOften(): ProtocolError {
  const expected = 'expected the database to stay the same for one call'
  const message = `${expected}; it was replaced ${REPLACED_A_CALL} times. Call again later, or ask their operators`
  return new ProtocolError('the servers', message)
}
