// Where a map's state stands, in memory and in the store. The store decides: every write names the version that this tab
// believes the state to be at, and is refused if another tab, or another life of this page, has moved it on.
//
//                 restoring.ts, draft.ts                    the store has, or may have, moved on
//        none ────────────────────────────────► live ────────────────────────────────────────────► stale
//         ▲                                      │ ▲                                                  │ │
//         │                                      │ └──────────────── catch-up.ts: followed ───────────┘ │
//         │  what memory has may not be what     │                                                      │
//         └──── the store has: retired ◄─────────┴────────── cannot be followed: retired ◄──────────────┘
//
//        live ──► lost         in memory alone, where nothing can be read anew: an effect could not be noted
//        any  ──► condemned    a lie, or a rollback (S7). Only another hint, begun in its place, ends it: replacing.ts
//
// This file knows what may be used; the others of this room take it from one of these to another. None sends a lookup.

import { equalBytes, type Manifest } from '@keyhush/protocol'
import type { Core } from '@keyhush/wasm/client'
import { REPLACED_A_CALL, STORE_FAILURES } from '../base/constants.js'
import { ProtocolError, StorageError } from '../base/errors.js'
import type { OnEvent, StorageKind } from '../base/events.js'
import type { ProgressMeter } from '../base/progress.js'
import type { Environment } from '../platform/environment.js'
import { preparersOf } from '../platform/preparers.js'
import type { Scheme, SchemeContext, SchemeOptions, StatefulScheme } from '../scheme/scheme.js'
import type { RollbackPreference } from '../servers/fence.js'
import type { Agreed } from '../servers/manifests.js'
import { type Apart, identityOf, type Servers } from '../servers/pair.js'
import type { Publisher } from '../servers/signatures.js'
import type { StatsKeeper } from '../servers/stats.js'
import { type Links, linksOf } from '../servers/transport.js'
import type { OutdatedError } from '../servers/updates.js'
import {
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

/** What a map is made of. */
export interface Parts {
  readonly core: Core
  readonly environment: Environment
  readonly servers: Servers
  /** how many parties do not share what they learn */
  readonly apart: Apart
  readonly preference: StoragePreference
  readonly publisher: Publisher | undefined
  /** origins at which servers may have blobs lie */
  readonly rollback: RollbackPreference
  /** all there are, by name */
  readonly schemes: ReadonlyMap<string, Scheme>
  /** a scheme's name; `auto`: what is stored, or else is chosen */
  readonly mode: string
  /** what a new state is made for in mode `auto` */
  readonly choose: (manifest: Manifest) => StatefulScheme
  readonly options: SchemeOptions
  readonly stats: StatsKeeper
  readonly announce: OnEvent
}

/** A download, how far it has come, and how to call it off. */
export interface Watch {
  readonly progress: ProgressMeter
  readonly signal: AbortSignal
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
  readonly parts: Parts
  /** the ways to the servers, metered by what goes over them */
  readonly downloads: Links
  readonly lookups: Links
  readonly fences: Links
  readonly checkpoints = new Checkpoints()
  /** whoever asked last has the thread, and then its effect is handed to the store */
  answering: Promise<void> = Promise.resolve()
  /** the storing of the last effect */
  settling: Promise<void> = Promise.resolve()
  #opened: OpenedStore
  #store: StateStore
  #storage: StorageKind
  #phase: Phase = NONE
  /** a hint has been used in this life of the page */
  #hasBegun = false
  /** hints no longer used, to be freed when nobody reads what they have answered */
  readonly #retired: Hint[] = []
  #manifest: Manifest | undefined
  /** canonical bytes of the manifest both servers have shown last, signed if that is asked */
  #shown: Uint8Array | undefined
  /** canonical bytes of the stored manifest whose signature was seen to hold last */
  #vouchedFor: Uint8Array | undefined
  /** what is stored may be this, which no update leads on from */
  outdated: { readonly record: HintRecord; readonly reason: OutdatedError['reason'] } | undefined
  /** failures of the store, in a row */
  #failures = 0

  constructor(parts: Parts, opened: OpenedStore) {
    this.parts = parts
    this.downloads = linksOf(parts.servers, parts.environment, parts.stats.offline)
    this.lookups = linksOf(parts.servers, parts.environment, parts.stats.online)
    this.fences = linksOf(parts.servers, parts.environment, parts.stats.fence)
    this.#opened = opened
    this.#store = watched(opened.store)
    this.#storage = opened.storage
  }

  // ---- what there is ---------------------------------------------------------------------------------

  get phase(): Phase {
    return this.#phase
  }

  /** The hint, unless the store has to be asked first. */
  get live(): Hint | undefined {
    if (this.#phase.is === 'lost') {
      throw new StorageError('the last change could not be stored; call reset(), or open() anew')
    }
    return this.#phase.is === 'live' ? this.#phase.hint : undefined
  }

  /** The hint in memory, whether it may be used or not. */
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

  /** The tabs that prepare hints in this store; undefined: nobody knows. */
  get preparers(): Preparers | undefined {
    const { preparers } = this.#opened
    return preparers === 'platform' ? preparersOf(identityOf(this.parts.servers)) : preparers
  }

  /** Whether other tabs, or later lives of this page, may share the state. */
  get durable(): boolean {
    return this.#store.durable
  }

  // ---- from one to another ---------------------------------------------------------------------------

  /** A hint that the store has, too. */
  adopt(hint: Hint, journalBytes: number): void {
    this.#hasBegun = true
    this.#phase = { is: 'live', hint }
    this.#manifest = hint.manifest
    this.checkpoints.note(journalBytes)
  }

  /** The store has, or may have, something else than memory. */
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

  /** Somebody has begun anew. */
  pardon(): void {
    if (this.#phase.is === 'condemned') this.#phase = NONE
  }

  /** To be called when an operation is over: until then it may still read what a hint has answered. */
  freeRetired(): void {
    for (const hint of this.#retired.splice(0)) hint.free()
  }

  // ---- epochs ----------------------------------------------------------------------------------------

  /** The map is at this epoch now. */
  movedTo(manifest: Manifest): void {
    const { generation, epoch } = manifest
    if (epoch !== this.#manifest?.epoch) this.parts.announce({ type: 'updated', generation, epoch })
    this.#manifest = manifest
  }

  /** What is stored is of this epoch. */
  remembers(manifest: Manifest | undefined): void {
    this.#manifest ??= manifest
  }

  /** Both servers show this, and the publisher vouches for it, if that is asked. */
  show({ bytes }: Agreed): void {
    this.#shown = bytes
  }

  isShown({ bytes }: Agreed): boolean {
    return this.#shown !== undefined && equalBytes(this.#shown, bytes)
  }

  /** Whether its publisher's word for this has been seen, from the servers or stored. */
  isVouchedFor(base: Agreed): boolean {
    return this.isShown(base) || (this.#vouchedFor !== undefined && equalBytes(this.#vouchedFor, base.bytes))
  }

  /** The same, and if it has not been seen yet, what is stored is looked at. */
  async hasVouchedFor(base: Agreed): Promise<boolean> {
    if (this.isVouchedFor(base)) return true
    const holds = (await this.parts.publisher?.hasSigned(base)) === true
    if (holds) this.#vouchedFor = base.bytes
    return holds
  }

  // ---- schemes ---------------------------------------------------------------------------------------

  get context(): SchemeContext {
    const { core, environment, options } = this.parts
    return { core, environment, options }
  }

  /** What a new hint is made for. */
  schemeFor(manifest: Manifest): StatefulScheme {
    return this.schemeOf(this.parts.mode) ?? this.parts.choose(manifest)
  }

  /** Whether a state of this map may keep rows besides its stored form. */
  get keepsRows(): boolean {
    return [...this.parts.schemes.values()].some(scheme => scheme.kind === 'stateful' && scheme.keepsRows === true)
  }

  /** The scheme of this name that keeps a state; undefined: this software has it not. */
  schemeOf(name: string): StatefulScheme | undefined {
    const scheme = this.parts.schemes.get(name)
    return scheme?.kind === 'stateful' ? scheme : undefined
  }

  /**
   * Whether stored state may be used: the app may insist on another mode, or on other
   * options. On options only when the map is opened: two tabs that insist on two kinds of proof would else begin anew in
   * turn, lookup after lookup.
   */
  suits(scheme: StatefulScheme, made: { suits(options: SchemeOptions): boolean }): boolean {
    const { mode, options } = this.parts
    const ofMode = mode === 'auto' || mode === scheme.name
    return ofMode && (this.#hasBegun || made.suits(options))
  }

  // ---- the store -------------------------------------------------------------------------------------

  tellTabs(): void {
    if (this.durable) this.parts.environment.tabs.notify(tabsName(this.parts.servers))
  }

  /** Whether it was the store itself that has failed; counted. */
  noteFailure(error: unknown): boolean {
    const failed = error instanceof StoreFailure
    if (failed) this.#failures++
    return failed
  }

  noteSuccess(): void {
    this.#failures = 0
  }

  /** Whether the store has failed too often, and state may be kept in memory instead. */
  get fallsBack(): boolean {
    return this.#failures >= STORE_FAILURES && this.durable && this.parts.preference === 'preferred'
  }

  get failsForGood(): boolean {
    return this.#failures >= STORE_FAILURES && !this.fallsBack
  }

  /**
   * A store that has failed too often is left alone, as it is, and state is kept in memory from now on, beginning anew:
   * whatever the store holds stays whole and is never used besides.
   */
  async fallBackIfFailing(): Promise<void> {
    if (!this.fallsBack) return
    this.retire()
    await this.#store.close().catch(() => {})
    this.#opened = await openInMemory(this.parts.environment, identityOf(this.parts.servers))
    this.#store = watched(this.#opened.store)
    this.#storage = this.#opened.storage
    this.#failures = 0
    this.parts.announce({ type: 'storage', storage: 'memory', reason: 'failed' })
  }

  /** Asks the platform to keep the state from eviction, if it can be asked. */
  async persist(): Promise<void> {
    const { persist } = this.#opened
    if (this.#storage !== 'best-effort' || persist === undefined) return
    if (!(await persist().catch(() => false)) || this.#storage !== 'best-effort') return
    this.#storage = 'persistent'
    this.parts.announce({ type: 'storage', storage: 'persistent', reason: 'granted' })
  }

  /** Whether the journal has become too long, and nothing is under way. */
  get checkpointDue(): boolean {
    const hint = this.#phase.is === 'live' ? this.#phase.hint : undefined
    return hint !== undefined && this.durable && this.checkpoints.isDue(hint) && !hint.isPending
  }

  async writeCheckpoint(): Promise<void> {
    if (this.#phase.is === 'live' && this.checkpointDue) await this.checkpoints.write(this.#store, this.#phase.hint)
  }

  /** Overwrites and frees secrets, and lets go of the store. */
  async close(): Promise<void> {
    await this.settling
    this.retire()
    this.freeRetired()
    await this.#store.close()
  }
}

/** Under which the tabs of one identity find each other. */
export function tabsName(servers: Servers): string {
  return `keyhush tabs ${identityOf(servers).join(' ')}`
}

/** What an operation fails with that has started over too often. */
export function tooManyRestarts(): StorageError {
  return new StorageError('the store refuses every change, or other tabs keep beginning anew; try again')
}

/** What a call fails with for which REPLACED_A_CALL new hints did not suffice. */
export function replacedTooOften(): ProtocolError {
  const expected = 'expected the database to stay the same for one call'
  const message = `${expected}; it was replaced ${REPLACED_A_CALL} times. Ask their operators`
  return new ProtocolError('the servers', message)
}
