// What lookups with one server need besides.

import type { LayoutHandle } from './base.js'
import type { AskedHandle, ClientCore, Lanes, ReceivedFormHandle, StoredFormHandle } from './client.js'

/** Hints for lookups with one server, in the making (docs/protocol.md, One server). Secret. */
export interface SingleBuilderHandle extends Lanes {
  /** the id of the hint to be, 16 bytes */
  readonly hintId: Uint8Array
  step(): boolean
  /** the next row of tags that is to be kept outside, behind its name (16 bytes); empty: none is */
  row(): Uint8Array
  /** the row of a name has been kept */
  kept(name: Uint8Array): void
  /** brings it to the next epoch; throws `update` where the database outgrows its hints */
  update(list: Uint8Array, before: LayoutHandle, after: LayoutHandle, contentHashes: Uint8Array): void
  /** its stored form, bound to its manifest's hash (32 bytes) */
  partial(binding: Uint8Array): StoredFormHandle
  /** the client's state; `phase` if partitions are missing or rows were not kept, and the handle is gone */
  finish(version: number): SingleHandle
  /** overwrites secrets, then frees */
  free(): void
}

/** Hints, backups and tags for lookups with one server. */
export interface SingleHandle extends AskedHandle {
  /** the bytes after a request's header */
  request(): Uint8Array
  /** verifies both parities of every query, without early exit; false: forged, and the handle is condemned */
  verify(parities: Uint8Array): boolean
  /** names (16 bytes each) of rows of tags that judging the pending batch takes and that are not at hand: one a query */
  wants(): Uint8Array
  /** takes the first of them; throws `state` if it is another */
  hold(row: Uint8Array): void
  /** names of all rows that it consists of besides its checkpoint */
  rows(): Uint8Array
  /** the name of a row to be made anew before a checkpoint is written; empty: none is. `begun`: others were */
  stale(begun: boolean): Uint8Array
  /** what takes its place, behind its name: to be kept; throws `state` if these are not its bytes, `phase` while a batch is pending */
  renewed(row: Uint8Array): Uint8Array
  /** that has been kept; throws `phase`, with nothing changed, while a batch is pending */
  renew(): void
  /** queries of the last `recon` whose record no hint contained: those are zeros, and the call has failed */
  readonly missed: number
  /** by an update list; throws `update` where the database outgrows its hints */
  update(list: Uint8Array, after: LayoutHandle): Uint8Array
  /** does a piece of the work that an update has left, also one that was replayed; whether there is more. What needs it done does it */
  step(): boolean
  /** lookups that it was made for, and that it is good for still */
  readonly lookups: number
  readonly left: number
}

/** What lookups with one server need besides. Browsers load it for maps that have them: it is in a module of its own. */
export interface SingleCore extends ClientCore {
  /**
   * Bytes of a query to one server, and of its answer; most queries of a request; and lookups that hints are made for unless it
   * is said. Throws `layout` where one server cannot answer.
   */
  singleBytes(layout: LayoutHandle): Uint32Array
  /** whether hints made for one layout go on with another, of the same generation; throws `layout` where there are none */
  singleFollows(before: LayoutHandle, after: LayoutHandle): boolean
  /**
   * begins hints for so many lookups under 32 bytes of fresh OS entropy; throws `layout`, `index`. `inRows`: where tags are kept,
   * for tests; otherwise as many as there are say it
   */
  newSingleBuilder(
    layout: LayoutHandle,
    contentHashes: Uint8Array,
    entropy: Uint8Array,
    lookups?: number,
    inRows?: boolean,
  ): SingleBuilderHandle
  /** takes up what `partial` has given under the manifest it was begun under */
  resumeSingleBuilder(
    partial: ReceivedFormHandle,
    layout: LayoutHandle,
    contentHashes: Uint8Array,
    binding: Uint8Array,
  ): SingleBuilderHandle
  /** brings stored hints back under the manifest they were stored under */
  reopenSingle(checkpoint: ReceivedFormHandle, layout: LayoutHandle, binding: Uint8Array): SingleHandle
}
