// What answers lookups. A scheme is a folder here and a line in table.ts: how it prepares, which parties it has, what a
// lookup sends to whom and how long the reply is, what an accepted reply does to the client's state, how updates change
// that, how it runs out, and what it costs. Nothing above this room knows more of the one in use.
//
//   stateless   begin ─► a batch: requests, verdicts, records                           nothing is kept, nothing is stored
//   stateful    prepare ─► (fetch, update …) ─► finish ─► a state ─► replay, update, checkpoint … ─► reopen
//                 held    the state has all records: a lookup reads them, and nothing leaves
//                 asked   a lookup is stored, sent, verified and applied: state/ and lookup/ see to the order (S1–S8)
//
// A scheme computes and fetches; it stores nothing, locks nothing, and knows no other scheme. What it is handed comes from
// manifests that all servers agree on. Lengths follow from the manifest and a batch's count alone (P1).

import type { Info, InstantOf, Manifest, Proofs } from '@keyhush/protocol'
import type { Core, LayoutHandle, ModeCosts, Usage } from '@keyhush/wasm/client'
import type { Environment } from '../platform/environment.js'
import type { Link } from '../servers/transport.js'
import type { LoadProofs } from './packaged.js'

export type Scheme = StatelessScheme | StatefulScheme

/** What can be known of a scheme before its code is loaded. */
export type KnownScheme = StatelessScheme | StatefulFacts
export type StatefulFacts = Pick<StatefulScheme, 'name' | 'kind' | 'parties' | 'provable'>

/** What every scheme is made with. */
export interface SchemeContext {
  readonly core: Core
  readonly environment: Pick<Environment, 'clock' | 'pause' | 'random'>
  readonly options: SchemeOptions
}

/** What an app may choose. A scheme looks at what is its own. */
export interface SchemeOptions {
  readonly proofs: ProofsPreference
  /** keys of ceremonies for development are taken */
  readonly allowDevelopmentCeremony?: boolean | undefined
  /** what verifies Pointproofs */
  readonly pointproofs?: LoadProofs | undefined
  /** how many lookups a state is to be good for, where it runs out; undefined: the scheme's own number */
  readonly lookups?: number | undefined
  /** what costs are told for */
  readonly usage?: Usage | undefined
}

export type ProofsPreference = 'auto' | Proofs

interface AnyScheme {
  /** `map.mode`, and how stored state says whose it is. Never changes. */
  readonly name: string
  /**
   * What its parties are called, in the order of a lookup's requests. Which server is which is drawn once for a state's
   * life and kept by the server's name (S5); stateless schemes draw anew for each lookup. []: nothing leaves for a lookup.
   */
  readonly parties: readonly string[]
  /** What a map will cost, from the manifest alone. Throws UnsupportedError if these servers do not offer it. */
  costs(core: Core, manifest: Manifest, options: SchemeOptions): SchemeCosts
}

/** What the planner says (docs/costs.md). Bytes of bodies; all parties together. */
export interface SchemeCosts extends Omit<ModeCosts, 'mode' | 'held'> {
  /** between lookups, by what they are, without the directory */
  readonly held: Sizes
  /** queries that one lookup may make */
  readonly maxBatch: number
  /** lookups that one preparation is good for; undefined: any number */
  readonly lookups?: number | undefined
}

/** Bytes in memory, by what they are. */
export type Sizes = Readonly<Record<string, number>>

/** Needs no state, no lock, no journal and no fence: each lookup is independent of every other. */
export interface StatelessScheme extends AnyScheme {
  readonly kind: 'stateless'
  /** Whether a server that offers this can be a party. */
  isOffered(offers: Info['offers']): boolean
  /** Throws UnsupportedError for a database without such lookups. */
  assertIn(core: Core, manifest: Manifest): void
  /** A batch for `indices` of the records, or of the directory's blocks, out of fresh randomness. To be freed. */
  begin(context: SchemeContext, manifest: Manifest, of: InstantOf, indices: Uint32Array): StatelessBatch
}

/** Keeps a state, which must never go backwards (docs/threat-model.md, S1–S8). */
export interface StatefulScheme extends AnyScheme {
  readonly kind: 'stateful'
  /** the party that keeps the rollback fence, by its place in `parties`; undefined: copies of a state do no harm */
  readonly fencedBy: number | undefined
  /** whether there is a choice of what proves answers: `open({ proofs })` */
  readonly provable?: boolean
  /** whether its states may have rows (`Rows`) */
  readonly keepsRows?: boolean
  /** Begins a state. Nothing is asked yet. */
  prepare(context: SchemeContext, manifest: Manifest): Preparation
  /** Takes up what `Preparation.partial` has given. Throws StateUnreadableError. */
  resume(context: SchemeContext, manifest: Manifest, partial: Uint8Array, binding: Uint8Array): Promise<Preparation>
  /** Takes up what `checkpoint` has given. Throws StateUnreadableError. */
  reopen(context: SchemeContext, manifest: Manifest, checkpoint: Uint8Array, binding: Uint8Array): Promise<SchemeState>
}

/** What leads to the next epoch. */
export interface Update {
  readonly manifest: Manifest
  /** the update list's entries */
  readonly list: Uint8Array
  /** in suite 6 the commitments of the rows it touches */
  readonly rows: Uint8Array
}

// ---- preparing ------------------------------------------------------------------------------------

/** A state in the making, at one epoch at a time. */
export interface Preparation {
  /** 16 random bytes: the state's id, known to its fence alone. */
  readonly id: Uint8Array
  /** whether it is what these options ask for */
  suits(options: SchemeOptions): boolean
  /** as of a state */
  follows?(before: Manifest, next: Manifest): boolean
  /**
   * Fetches what is still missing at its manifest: public blobs, checked before they are used. May be called off at any
   * time, and called again. Throws once it cannot go on; the error names a server that lied first.
   */
  fetch(sources: Sources, signal: AbortSignal): Promise<void>
  /** Brings what there is to the next epoch. Throws a core error `update`, with nothing changed, for what cannot be. */
  update(update: Update, before: LayoutHandle, after: LayoutHandle): void
  /** Does the work that `update` has left, giving the thread back in between; if there is no such method, there is none. */
  settle?(): Promise<void>
  /** What is to be stored of it as it is now, before it is whole (S6), bound to its manifest's hash. */
  partial(binding: Uint8Array): Promise<Uint8Array>
  /** the names of the rows that it has had kept; undefined: none */
  readonly rows?: readonly string[] | undefined
  /** The state, all being there, `version` updates after it was first stored. Consumes this, even when it throws. */
  finish(version: number): SchemeState
  /** Overwrites and frees what `finish` has not taken. */
  free(): void
}

/** Where a preparation fetches from, and how. */
export interface Sources {
  /** of the party names of the state in the making, in their order; of a scheme without parties, none */
  readonly parties: readonly Link[]
  /** all servers: a public blob may come from any of them */
  readonly servers: readonly Link[]
  /** failures of servers so far: whoever has one is not asked again in this phase. Shared with the directory's download. */
  readonly failures: Failures
  /** one piece under way at a time, so that an interruption costs at most one: for what was interrupted before */
  readonly gently: boolean
  /** bytes of use more, or fewer if negative */
  received(bytes: number): void
  /** something more is worth storing */
  save(): Promise<void>
  /** where rows of the state in the making are kept */
  readonly rows: Rows
}

/**
 * Where a state keeps rows of itself that are not to be held in memory, from its preparation on. Each is named by what is in it,
 * and never changes. What the store does with those that nothing names any more is its own business.
 */
export interface Rows {
  /** Throws StateMovedError where another checkpoint has come meanwhile, and StateUnreadableError where it is lost. */
  read(name: string): Promise<Uint8Array>
  put(name: string, row: Uint8Array): Promise<void>
}

/** What servers have failed with, in the order of `Sources.servers`. */
export interface Failures {
  readonly failed: readonly boolean[]
  /** Notes that a server is not to be asked again. What is not a server's fault is thrown on. */
  note(server: number, error: unknown, signal: AbortSignal): void
  /** what all of them have failed with, as one error */
  readonly error: Error
}

// ---- looking up -----------------------------------------------------------------------------------

/** One lookup's traffic: what is sent, what comes back, what it says. */
export interface Batch {
  /** one request a party, in the order of `parties`. Asked again they are the same, byte for byte. */
  readonly asks: readonly Ask[]
  /**
   * Does what takes longer than a page can do without its thread, in pieces, and how long depends on the batch's count alone: before
   * `accept`. Throws WireError, at once, if the reply is none. Undefined, or missing: there is nothing.
   */
  weigh?(party: number, reply: Uint8Array): Promise<void> | undefined
  /**
   * Judges a party's reply, of the length asked for, without early exit. Throws WireError if it is none. Called once a
   * party, unless it throws.
   */
  accept(party: number, reply: Uint8Array): Verdict
}

/** A request. Everything about it but its bytes follows from manifest and count (P1). */
export interface Ask {
  readonly path: string
  readonly body: Uint8Array
  readonly replyBytes: number
}

/**
 * `genuine` and `forged` where a reply proves itself, by proofs an entry or over the whole answer; `open` where only all
 * replies together do, and who has lied cannot be told.
 */
export type Verdict = 'genuine' | 'forged' | 'open'

/** A batch of a stateless scheme. */
export interface StatelessBatch extends Batch {
  /** All replies are in and none is forged: what was asked for, in the batch's order. Undefined: together they are not genuine. */
  finish(): Uint8Array | undefined
  free(): void
}

/** What the client holds between lookups. Secret, unless it is the whole database. */
export type SchemeState = HeldState | AskedState

interface AnyState {
  readonly id: Uint8Array
  /** batches and updates applied */
  readonly version: number
  readonly sizes: Sizes
  /** lookups that it was made for, and that it is good for still; undefined: any number */
  readonly lookups?: number | undefined
  readonly lookupsLeft?: number | undefined
  /** most queries of a batch, where manifests allow for more */
  maxBatch?(manifest: Manifest): number
  /** N and Q, as its own bytes have them */
  readonly reach: { readonly records: number; readonly partitions: number }
  suits(options: SchemeOptions): boolean
  /** Whether an update can lead from one epoch to the next of its generation; if there is no such method, it can. */
  follows?(before: Manifest, next: Manifest): boolean
  /** Brings it to the next epoch, a pending batch included. Gives the journal's entry. Throws as `Preparation.update`. */
  update(update: Update, after: LayoutHandle): Uint8Array
  /** Does what the next entry of a journal says. Throws StateUnreadableError. */
  replay(entry: Uint8Array): void
  /**
   * Does a piece, some milliseconds long, of the work that `update` and `replay` have left. Whether there is more; if there is no
   * such method, there is none. What needs it done does it at once.
   */
  step?(): boolean
  /** All entries are replayed, and have led to this manifest. Throws StateUnreadableError if they cannot have. */
  arrive(manifest: Manifest): void
  /** the names of the rows that it consists of besides its stored form; undefined: none */
  readonly rows?: readonly string[] | undefined
  /** Its stored form, as it is now, bound to its manifest's hash. Rows that are worth it are made anew; undefined: none are. */
  checkpoint(binding: Uint8Array, rows?: Rows): Promise<Uint8Array>
  /** Overwrites and frees it. */
  free(): void
}

/** Has every record: nothing leaves for a lookup, and a lookup changes nothing. */
export interface HeldState extends AnyState {
  readonly kind: 'held'
  /** count·ℓ bytes, in the order of `indices` */
  records(indices: Uint32Array): Uint8Array
}

/** Asks its parties, one batch at a time. */
export interface AskedState extends AnyState {
  readonly kind: 'asked'
  /** queries of the pending batch; 0: none */
  readonly pending: number
  /** Whether `finish` compares records with what the database had: one that makes no sense then makes none there. */
  readonly recognises: boolean
  /**
   * Fetches what judging replies at this manifest takes, where that is more than the state has: public blobs, checked, and the
   * same whatever is asked. Awaited before anything of a batch is stored or leaves; undefined, or missing: nothing is.
   */
  equip?(
    manifest: Manifest,
    sources: Pick<Sources, 'servers' | 'failures' | 'received'>,
    signal: AbortSignal,
  ): Promise<void> | undefined
  /** What `equip` has fetched, brought to this epoch: public. Another array once it is another. Undefined, or missing: none. */
  readonly verifier?: Uint8Array | undefined
  /** Takes up, at this manifest, what an earlier life had as `verifier`, if it is right; undefined, or missing: there is none. */
  recall?(manifest: Manifest, read: () => Promise<Uint8Array | undefined>): Promise<void> | undefined
  /** Makes a pending batch out of fresh randomness. Nothing leaves before `pendingBytes` are stored (S1). */
  query(indices: Uint32Array): void
  pendingBytes(): Uint8Array
  /** Takes up a stored pending batch. Throws StateUnreadableError. */
  resume(pending: Uint8Array): void
  /**
   * Reads the rows that judging the pending batch's replies takes: as many for each query, whatever is asked and found. Awaited
   * before anything of it is stored or leaves; undefined, or missing: none. Throws as `Rows.read`.
   */
  provide?(rows: Rows): Promise<void> | undefined
  /** Forgets a pending batch that was provably neither stored nor sent. */
  withdraw(): void
  /** what the fence knows the pending batch by: the same at every epoch, and 32 zero bytes if there is none */
  batchName(): Uint8Array
  /** The pending batch's traffic at this manifest. The same each time. */
  batch(manifest: Manifest): Batch
  /** All replies are in and none is forged: what they brought. Undefined: together they are not genuine. */
  finish(): Brought | undefined
}

/** What a batch brought. */
export interface Brought {
  /** count·ℓ bytes in its order */
  readonly records: Uint8Array
  /** the journal's entry */
  readonly effect: Uint8Array
  /** queries whose records the state could not ask for, and are not in `records`: all the same to a server; undefined: none */
  readonly missed?: number
}
