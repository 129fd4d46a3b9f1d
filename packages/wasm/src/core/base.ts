// What all of it shares: errors, kinds of proof, layouts and directories.

import type { EntryProofs, Proofs } from '@keyhush/protocol'

export type { EntryProofs, Proofs }

// WebAssembly's own types, which TypeScript has for pages: without its library of those, what they have that is used.
export type WasmModule = typeof globalThis extends { WebAssembly: { Module: { prototype: infer M } } } ? M : object
export type WasmMemory = typeof globalThis extends { WebAssembly: { Memory: { prototype: infer M } } }
  ? M
  : { readonly buffer: ArrayBuffer }

/** Stable codes of errors thrown by the core. */
export type CoreErrorCode =
  | 'layout' // impossible (N, ℓ, Q, M, g), or too large for the address space
  | 'length' // a buffer has the wrong length
  | 'index' // a record index, partition or offset out of range, or a name there is not
  | 'directory' // directory bytes that are malformed, or keys that cannot be placed
  | 'update' // update list bytes that are malformed, or do not fit what they are to be applied to
  | 'refused' // a batch with an operation that cannot be; see RefusedError
  | 'query' // a query of the right length that no client makes
  | 'state' // state bytes that are torn, foreign or of another version
  | 'phase' // a call out of order, e.g. a query while another is pending
  | 'condemned' // the hint must never be used again

export interface CoreError extends Error {
  readonly code: CoreErrorCode
}

/** A publisher's batch was refused at one of its operations; nothing has changed. */
export interface RefusedError extends CoreError {
  readonly code: 'refused'
  /** its place in the batch, from 0 */
  readonly operation: number
  readonly reason: string
}

/** 0: the retrieve vector's answers (Fig. 5 qry_2); 1: the refresh vector's (qry_1). */
export type RoleNumber = 0 | 1

/** (N, ℓ, Q, M, g) and the sizes that follow from them. Immutable; holds no WASM memory worth freeing. */
export interface LayoutHandle {
  readonly records: number
  readonly recordBytes: number
  readonly partitions: number
  readonly partitionRecords: number
  /** g */
  readonly blockRecords: number
  /** M·ℓ */
  readonly partitionBytes: number
  /** with a ClientCore: one entry of an answer: ℓ′, and with `merkle` (the default) 32·⌈log2 M′⌉ of opening proof */
  entryBytes(proofs?: Proofs): number
  /** the same: most queries a request may carry with proofs of this kind (`merkle`), of a generation's limit */
  batchLimit(limit: number, proofs?: Proofs): number
  /** the same: most queries a request may carry in a generation that begins with this layout, whatever Q grows to */
  maxBatch(proofs?: Proofs): number
  /** one instant query, to either server */
  readonly instantRequestBytes: number
  /** the answer to one, from either server */
  readonly instantAnswerBytes: number
  /** most instant queries one request may carry */
  readonly instantMaxBatch: number
  free(): void
}

/** The public map from key fingerprint to record index. */
export interface DirectoryHandle {
  readonly keys: number
  encode(): Uint8Array
  /** index of a fingerprint (16 bytes) in a database of `records`; absent keys get a deterministic one */
  index(fingerprint: Uint8Array, records: number): number
  /** the directory of the next epoch, from the list */
  updated(list: Uint8Array, before: LayoutHandle, after: LayoutHandle): DirectoryHandle
  /** the directory after the next entry of a journal, made on a hint of layout `before`; undefined: the same */
  replayed(entry: Uint8Array, before: LayoutHandle): DirectoryHandle | undefined
  /** whether it is of this shape, as it says of itself */
  isOf(shape: DirectoryShapeHandle): boolean
  /** indices of many fingerprints, 16 bytes each, in order */
  indices(fingerprints: Uint8Array, records: number): Uint32Array
  free(): void
}

/** What the blocks of a directory have in common, as a manifest says it: for whoever looks single blocks up. */
export interface DirectoryShapeHandle {
  /** the blocks as a database of 2^b records in one partition */
  readonly layout: LayoutHandle
  /** the block that a fingerprint (16 bytes) falls into */
  number(fingerprint: Uint8Array): number
  /** where to look for a fingerprint, by its block; throws `directory` if it is no block, or leads beyond the database */
  index(block: Uint8Array, fingerprint: Uint8Array, records: number): number
  free(): void
}
