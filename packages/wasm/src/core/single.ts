// What lookups with one server need in addition.

import type { LayoutHandle } from './base.js'
import type { AskedHandle, ClientCore, Lanes, ReceivedFormHandle, StoredFormHandle } from './client.js'

/** Hints for lookups with one server, in the making (docs/protocol.md, One server). Secret. */
export interface SingleBuilderHandle extends Lanes {
  /** the id of the hint in the making, 16 bytes */
  readonly hintId: Uint8Array
  step(): boolean
  /** the name (16 bytes) of the next row of tags to be stored, and the row; empty if there is none */
  row(): Uint8Array
  /** tells that the row of this name is stored */
  kept(name: Uint8Array): void
  /** brings it to the next epoch; throws `update` if the database outgrows its hints */
  update(list: Uint8Array, before: LayoutHandle, after: LayoutHandle, contentHashes: Uint8Array): void
  /** the stored form, bound to its manifest's hash (32 bytes) */
  partial(binding: Uint8Array): StoredFormHandle
  /** the client's state; throws `phase` if partitions are missing or rows not stored; uses up this handle all the same */
  finish(version: number): SingleHandle
  /** wipes secrets, then frees */
  free(): void
}

/** Hints, backups and tags for lookups with one server. */
export interface SingleHandle extends AskedHandle {
  /** the bytes after a request's header */
  request(): Uint8Array
  /** verifies both parities of every query, without early exit; false: one is forged, and the handle is condemned */
  verify(parities: Uint8Array): boolean
  /** the names (16 bytes each) of the rows of tags that are still needed to judge the answer: one for each query */
  wants(): Uint8Array
  /** passes the bytes of the first of these rows; throws `state` if it is another */
  hold(row: Uint8Array): void
  /** the names of all its rows of tags */
  rows(): Uint8Array
  /** the name of a row to renew before a checkpoint is written; empty if there is none; `begun`: some were renewed already */
  stale(begun: boolean): Uint8Array
  /** makes the row that replaces it: its name and the row, to be stored; throws `state` for another row, `phase` if a lookup is pending */
  renewed(row: Uint8Array): Uint8Array
  /** replaces the row by the renewed one, which is stored now; throws `phase`, with nothing changed, while a lookup is pending */
  renew(): void
  /** number of queries of the last `recon` whose records no hint contained: those records are zeros, and the call has failed */
  readonly missed: number
  /** brings hints and the pending lookup to the next epoch; throws `update` if the database outgrows its hints */
  update(list: Uint8Array, after: LayoutHandle): Uint8Array
  /** does a part of the work that an update has left, also a replayed one; returns whether there is more. Calls that need it do it */
  step(): boolean
  /** lookups that it was made for, and lookups that are left */
  readonly lookups: number
  readonly left: number
}

/** Stored hints that are being read. */
export interface SingleReopeningHandle {
  /** reads about a MiB more of the same stored form; returns whether there is more; throws `state` */
  step(checkpoint: ReceivedFormHandle): boolean
  /** the client's state; throws `phase` before the last step, `state`; uses up this handle all the same */
  finish(): SingleHandle
  /** wipes secrets, then frees */
  free(): void
}

/** What lookups with one server need in addition. Browsers load it for maps in this mode: it is a module of its own. */
export interface SingleCore extends ClientCore {
  /**
   * Four numbers: the bytes of a query to one server, the bytes of its answer, the most queries of a request, and the default
   * number of lookups of hints. Throws `layout` if one server cannot answer this layout.
   */
  singleBytes(layout: LayoutHandle): Uint32Array
  /** whether hints made for one layout also work with another of its generation; throws `layout` if the first has none */
  singleFollows(before: LayoutHandle, after: LayoutHandle): boolean
  /**
   * begins hints for `lookups` lookups with 32 bytes of fresh OS entropy; throws `layout`, `index`. `inRows` is for tests: it says
   * where tags are stored; otherwise their number decides
   */
  newSingleBuilder(
    layout: LayoutHandle,
    contentHashes: Uint8Array,
    entropy: Uint8Array,
    lookups?: number,
    inRows?: boolean,
  ): SingleBuilderHandle
  /** reads a stored form of `partial`, of the manifest with these values */
  resumeSingleBuilder(
    partial: ReceivedFormHandle,
    layout: LayoutHandle,
    contentHashes: Uint8Array,
    binding: Uint8Array,
  ): SingleBuilderHandle
  /** checks stored hints of the manifest with these values, and begins to read them */
  reopenSingle(checkpoint: ReceivedFormHandle, layout: LayoutHandle, binding: Uint8Array): SingleReopeningHandle
}
