// The interface of a scheme, which answers lookups in one mode. A scheme is a folder here and a row in table.ts. The rooms above know
// no more of a scheme than this file.
//
//   stateless   begin ─► requests, verdicts, records                                   nothing is kept or stored
//   stateful    prepare ─► (fetch, update …) ─► finish ─► a state ─► replay, update, checkpoint … ─► reopen
//                 held    the state has all records: a lookup reads them, and sends nothing
//                 asked   a lookup is stored, sent, verified and applied: state/ and lookup/ keep this order (S1–S8)
//
// A scheme computes and downloads. It stores nothing, locks nothing, and knows no other scheme. Its manifests are those that all
// servers agree on. Lengths follow from the manifest and a lookup's count alone (P1).

import type { Info, InstantOf, Manifest, Proofs, StoredRecord } from '@keyhush/protocol'
import type { Core, LayoutHandle, Mode, ModeCosts, Usage } from '@keyhush/wasm/client'
import type { TamperedError } from '../base/errors.js'
import type { Environment } from '../platform/environment.js'
import type { Agreed } from '../servers/manifests.js'
import type { StatsKeeper } from '../servers/stats.js'
import type { Link } from '../servers/transport.js'
import type { ProofsPackages } from './kinds.js'

export type Scheme = StatelessScheme | StatefulScheme

/** What is known of a scheme before its code is loaded. */
export type KnownScheme = StatelessScheme | StatefulFacts
export type StatefulFacts = Pick<StatefulScheme, 'name' | 'kind' | 'parties' | 'provable'>

/** What every scheme is given. */
export interface SchemeContext {
  readonly core: Core
  readonly environment: Pick<Environment, 'clock' | 'pause' | 'random'>
  readonly options: SchemeOptions
}

/** The app's options. A scheme reads those that concern it. */
export interface SchemeOptions extends ProofsPackages {
  readonly proofs: ProofsPreference
  /** allows keys of ceremonies for development */
  readonly development?: boolean | undefined
  /** lookups that a state is made for, if it runs out; undefined: the scheme's default */
  readonly lookups?: number | undefined
  /** what costs are computed for */
  readonly usage?: Usage | undefined
}

/** What proves that answers are genuine. See `open({ proofs })`. */
export type ProofsPreference = 'auto' | Proofs

interface AnyScheme {
  /** `map.mode`, and the scheme's name in stored states. Never changes. */
  readonly name: Mode
  /** Whether a server that offers this can be a party (offered.ts). */
  isOffered(offers: Info['offers']): boolean
  /** What a map will cost under this manifest. Throws UnsupportedError if these servers do not offer the scheme. */
  costs(core: Core, manifest: Manifest, options: SchemeOptions): SchemeCosts
}

/** The costs of one mode (docs/costs.md). Bytes are of request and response bodies, all servers together. */
export interface SchemeCosts extends Omit<ModeCosts, 'mode' | 'held'> {
  /** Bytes kept in memory between lookups, by what they are, without the directory. */
  readonly held: Sizes
  /** The most queries of one call. */
  readonly maxQueries: number
  /** How many lookups one download serves. Undefined: any number. */
  readonly lookups?: number | undefined
}

/** Bytes in memory by what they are: parities, tags and others. */
export type Sizes = Readonly<Record<string, number>>

/** Needs no state, lock, journal or fence: each lookup is independent of all others. */
export interface StatelessScheme extends AnyScheme {
  readonly kind: 'stateless'
  /** whether a module of its own has crashed; missing: it has none */
  readonly dead?: boolean
  /** Most queries of one lookup with so many servers. Throws UnsupportedError for a database without such lookups. */
  maxQueries(core: Core, manifest: Manifest, servers: number): number
  /**
   * Downloads what lookups at an epoch need, whatever they ask. Awaited before the first of them sends anything. Missing: nothing is
   * needed.
   */
  equip?(context: SchemeContext, at: Agreed, link: Link, signal: AbortSignal): Promise<Equipment>
  /** Throws SignatureError if `next` contradicts an earlier epoch, where the map is; missing: nothing more than usual is compared. */
  checkNext?(before: Manifest, next: Manifest): void
  /** The error of a server whose reply is forged; missing: no reply is by itself. */
  forged?(server: string): TamperedError
  /**
   * Requests for `indices` of the records, or of the directory's blocks, out of fresh randomness: one request for each of these
   * servers, in their order. `equipment`: what `equip` has resolved to. To be freed.
   */
  begin(
    context: SchemeContext,
    manifest: Manifest,
    servers: readonly string[],
    of: InstantOf,
    indices: Uint32Array,
    equipment?: Equipment,
  ): StatelessRequests
}

/** What lookups without a state need of an epoch. Public. */
export interface Equipment {
  /** what is asked: the manifest with epoch and records of its base, of which the public hint is */
  readonly base: Manifest
  /** the public one, with the manifest's hash of it */
  readonly hint: Uint8Array
  /** of the epoch's manifest */
  readonly manifestHash: Uint8Array
  /** from the base to the epoch */
  readonly changes: Changes
}

/** Where a key is. */
export interface Place {
  /** undefined: the key is absent, or it is not known where it is */
  readonly index: number | undefined
  /** its stored record, ℓ bytes; all zeros: it is absent; undefined: it is not known */
  readonly record: Uint8Array | undefined
}

/** What has changed between the epoch that records were asked at and that of the answer. */
export interface Changes {
  /** where keys are; unknown: nothing has moved them, so what was asked for counts */
  places(fingerprints: readonly Uint8Array[]): readonly Place[]
  /** the record at an index, if it is another; missing: what was asked for counts */
  at?(index: number): StoredRecord | undefined
}

/** Keeps a state, which must never go backwards (docs/threat-model.md, S1–S8). */
export interface StatefulScheme extends AnyScheme {
  readonly kind: 'stateful'
  /**
   * Names of its parties, in the order of a lookup's requests. Which server is which party is drawn once for a state's life and kept
   * by the server's name (S5). []: a lookup sends nothing.
   */
  readonly parties: readonly string[]
  /** index in `parties` of the party that keeps the rollback fence; undefined: copies of a state do no harm */
  readonly fencedBy: number | undefined
  /** whether `open({ proofs })` chooses what proves answers */
  readonly provable?: boolean
  /** whether its states may have rows (`Rows`) */
  readonly keepsRows?: boolean
  /** `costs().prepareBytes`, where this core has no costs. Throws UnsupportedError if it can keep no such state. */
  prepareBytes?(core: Core, manifest: Manifest): number
  /** Begins a state. Nothing is sent yet. */
  prepare(context: SchemeContext, manifest: Manifest): Promise<Preparation>
  /** Reads what `Preparation.partial` has written. Throws StateUnreadableError. */
  resume(context: SchemeContext, manifest: Manifest, partial: Uint8Array, binding: Uint8Array): Promise<Preparation>
  /** Reads what `checkpoint` has written. Throws StateUnreadableError. */
  reopen(context: SchemeContext, manifest: Manifest, checkpoint: Uint8Array, binding: Uint8Array): Promise<SchemeState>
}

/** An update to the next epoch. */
export interface Update {
  readonly manifest: Manifest
  /** the update list's entries */
  readonly list: Uint8Array
  /** in suite 6 the new commitments of the touched rows */
  readonly rows: Uint8Array
}

// ---- preparing ------------------------------------------------------------------------------------

/** A state that is being prepared, at one epoch at a time. */
export interface Preparation {
  /** 16 random bytes: the state's id, sent to its fence alone. */
  readonly id: Uint8Array
  /** whether it suits these options */
  suits(options: SchemeOptions): boolean
  /** as in a state */
  follows?(before: Manifest, next: Manifest): boolean
  /**
   * Downloads what is missing at its manifest: public blobs, checked before they are used. May be aborted at any time, and called
   * again. Throws if it cannot go on; a server that lied is named before others.
   */
  fetch(sources: Sources, signal: AbortSignal): Promise<void>
  /** as in a state */
  foresee?(update: Update): Promise<void> | undefined
  /** Moves to the next epoch. Throws a core error `update`, with nothing changed, if the update is wrong. */
  update(update: Update, before: LayoutHandle, after: LayoutHandle): void
  /** Does the work that `update` has left, and yields the thread; missing: none is left. */
  settle?(): Promise<void>
  /** Its stored form before it is whole (S6), bound to its manifest's hash. */
  partial(binding: Uint8Array): Promise<Uint8Array>
  /** names of the rows that it has stored; undefined: none */
  readonly rows?: readonly string[] | undefined
  /** The finished state, `version` updates after it was first stored. Consumes this, even if it throws. */
  finish(version: number): SchemeState
  /** Overwrites and frees what `finish` has not taken. */
  free(): void
}

/** Where a preparation downloads from, and how. */
export interface Sources {
  /** in the order of the scheme's `parties` */
  readonly parties: readonly Link[]
  /** all servers: a public blob may come from any of them */
  readonly servers: readonly Link[]
  /** notes servers that have failed, or were much slower than the others */
  readonly stats: StatsKeeper
  /** downloads one piece at a time, so that another interruption costs at most one */
  readonly gently: boolean
  /** reports useful bytes; negative: they have to be downloaded again */
  received(bytes: number): void
  /** stores the preparation, if that is worth it */
  save(): Promise<void>
  /** partition q, if the map has a copy of it */
  held(q: number): Uint8Array | undefined
  /** the store's rows for this preparation */
  readonly rows: Rows
}

/**
 * The store's rows: parts of a state that are not held in memory. A row's name follows from its contents, so it never changes. The
 * store removes rows that no state names.
 */
export interface Rows {
  /** Throws StateMovedError if another checkpoint was stored meanwhile, and StateUnreadableError if the row is lost. */
  read(name: string): Promise<Uint8Array>
  put(name: string, row: Uint8Array): Promise<void>
}

// ---- looking up -----------------------------------------------------------------------------------

/** One lookup's requests and the verdicts on their replies. */
export interface Requests {
  /** one request a party, in the order of `parties`, or of the servers; repeated byte for byte */
  readonly asks: readonly Ask[]
  /** how long a server that is not ready is waited for, beside the usual time; missing: no longer */
  readonly unreadyMs?: number
  /**
   * Called before `accept`: does the part of the judgement that takes long, in pieces that yield the thread. Its time depends on the
   * lookup's count alone. Throws WireError, at once, if the reply is malformed. Undefined, or missing: there is no such part.
   */
  weigh?(party: number, reply: Uint8Array): Promise<void> | undefined
  /**
   * Judges a party's reply of the right length, without early exit. Throws WireError if it is malformed. Called once a party, unless
   * it throws.
   */
  accept(party: number, reply: Uint8Array): Verdict
}

/** A request. Everything about it but its bytes follows from manifest and count (P1). */
export interface Ask {
  readonly path: string
  readonly body: Uint8Array
  readonly replyBytes: number
}

/** `genuine` or `forged`: the reply alone shows it. `open`: only all replies together show it, and they do not tell who lied. */
export type Verdict = 'genuine' | 'forged' | 'open'

/** Those of a stateless scheme. */
export interface StatelessRequests extends Requests {
  /** Called with all replies in and none forged: the records, in the order of `indices`. Undefined: together they are not genuine. */
  finish(): Uint8Array | undefined
  free(): void
}

/** What the client keeps between lookups. Secret, unless it is the whole database. */
export type SchemeState = HeldState | AskedState

interface AnyState {
  readonly id: Uint8Array
  /** lookups and updates applied */
  readonly version: number
  readonly sizes: Sizes
  /** lookups that it was made for, and those left; undefined: any number */
  readonly lookups?: number | undefined
  readonly lookupsLeft?: number | undefined
  /** most queries of a lookup, if fewer than the manifest allows */
  maxQueries?(manifest: Manifest): number
  /** N and Q, from its own bytes */
  readonly reach: { readonly records: number; readonly partitions: number }
  suits(options: SchemeOptions): boolean
  /** Whether an update can lead from one epoch to the next of its generation; missing: it can. */
  follows?(before: Manifest, next: Manifest): boolean
  /** Does the long part of `update` beforehand, and yields the thread. Nothing changes. Undefined, or missing: there is none. */
  foresee?(update: Update): Promise<void> | undefined
  /** Moves it to the next epoch, with its pending lookup. Returns the journal's entry. Throws as `Preparation.update`. */
  update(update: Update, after: LayoutHandle): Uint8Array
  /** Applies the next entry of the journal. Throws StateUnreadableError. */
  replay(entry: Uint8Array): void
  /**
   * Does some milliseconds of the work that `update` and `replay` have left, and says whether there is more; missing: none is left. A
   * method that needs the work done does it at once.
   */
  step?(): boolean
  /** Called after the last entry: the state is now at this manifest. Throws StateUnreadableError if it cannot be. */
  arrive(manifest: Manifest): Promise<void> | undefined
  /** names of the rows that belong to its stored form; undefined: none */
  readonly rows?: readonly string[] | undefined
  /** Its stored form, bound to its manifest's hash. Writes rows anew that are worth it; without `rows`, none. */
  checkpoint(binding: Uint8Array, rows?: Rows): Promise<Uint8Array>
  /** Overwrites and frees it. */
  free(): void
}

/** Has every record: a lookup sends and changes nothing. */
export interface HeldState extends AnyState {
  readonly kind: 'held'
  /** count·ℓ bytes, in the order of `indices` */
  records(indices: Uint32Array): Uint8Array
}

/** Sends one lookup at a time to its parties. */
export interface AskedState extends AnyState {
  readonly kind: 'asked'
  /** queries of the pending lookup; 0: none */
  readonly pending: number
  /** Whether `finish` compares records with what the database had. A malformed record is then malformed in the database. */
  readonly recognises: boolean
  /**
   * Downloads public blobs that judging replies at this manifest needs: the same ones for every question. Awaited before a lookup is
   * stored or sent. Undefined, or missing: nothing is needed.
   */
  equip?(
    manifest: Manifest,
    sources: Pick<Sources, 'servers' | 'stats' | 'received'>,
    signal: AbortSignal,
  ): Promise<void> | undefined
  /** What `equip` has downloaded, updated to this epoch. Public. A new array after each change. Undefined, or missing: none. */
  readonly verifier?: Uint8Array | undefined
  /** Takes the stored `verifier` of an earlier life, if it is that of this manifest; undefined, or missing: there is none. */
  recall?(manifest: Manifest, read: () => Promise<Uint8Array | undefined>): Promise<void> | undefined
  /** Makes a pending lookup out of fresh randomness. Nothing leaves before `pendingBytes` are stored (S1). */
  query(indices: Uint32Array): void
  pendingBytes(): Uint8Array
  /** Reads a stored pending lookup. Throws StateUnreadableError. */
  resume(pending: Uint8Array): void
  /**
   * Reads the rows that judging the pending lookup's replies needs: the same number for every question. Awaited before a lookup is
   * stored or sent. Undefined, or missing: none. Throws as `Rows.read`.
   */
  provide?(rows: Rows): Promise<void> | undefined
  /** Forgets a pending lookup that was neither stored nor sent. */
  withdraw(): void
  /** the fence's name of the pending lookup: the same at every epoch, and 32 zero bytes if there is none */
  pendingName(): Uint8Array
  /** The pending lookup's requests at this manifest. The same each time. */
  requests(manifest: Manifest): Requests
  /** Called with all replies in and none forged: their result. Undefined: together they are not genuine. */
  finish(): Brought | undefined
}

/** The result of a lookup. */
export interface Brought {
  /** count·ℓ bytes in the lookup's order */
  readonly records: Uint8Array
  /** the journal's entry */
  readonly effect: Uint8Array
  /** queries that no hint could ask, whose records are missing; servers cannot tell them apart; undefined: none */
  readonly missed?: number
}
