// What all builds share: errors, kinds of proof, layouts and directories.

import type { EntryProofs, Proofs } from '@keyhush/protocol'

export type { EntryProofs, Proofs }

// WebAssembly's types, which TypeScript has in its library for pages. Without that library: the parts that are used.
export type WasmModule = typeof globalThis extends { WebAssembly: { Module: { prototype: infer M } } } ? M : object
export type WasmMemory = typeof globalThis extends { WebAssembly: { Memory: { prototype: infer M } } }
  ? M
  : { readonly buffer: ArrayBuffer }

/** Stable codes of errors thrown by the core. */
export type CoreErrorCode =
  | 'layout' // an impossible (N, ℓ, Q, M, g), or not enough memory
  | 'length' // a buffer has the wrong length
  | 'index' // a record index, partition or offset out of range, or an unknown name
  | 'directory' // malformed directory bytes, or keys for which no directory was found
  | 'update' // malformed update list bytes, or a list that does not belong to the state or database
  | 'refused' // a batch with an impossible operation; see RefusedError
  | 'query' // a query of the right length that no honest client makes
  | 'state' // stored bytes that are damaged, of another state, or of another version
  | 'phase' // a call out of order, e.g. a query while another is pending
  | 'condemned' // the hint must never be used again

export interface CoreError extends Error {
  readonly code: CoreErrorCode
}

/** A publisher's batch was refused at one of its operations. Nothing has changed. */
export interface RefusedError extends CoreError {
  readonly code: 'refused'
  /** its place in the batch, from 0 */
  readonly operation: number
  readonly reason: string
}

/** A server's role. 0: it gets the retrieve vector (Fig. 5, qry_2). 1: it gets the refresh vector (qry_1). */
export type RoleNumber = 0 | 1

/** (N, ℓ, Q, M, g) and the sizes that follow from them. Immutable. It holds hardly any WASM memory. */
export interface LayoutHandle {
  readonly records: number
  readonly recordBytes: number
  readonly partitions: number
  readonly partitionRecords: number
  /** g */
  readonly blockRecords: number
  /** M·ℓ */
  readonly partitionBytes: number
  /** only with a ClientCore: bytes of an entry of an answer: ℓ′, and with `merkle` (the default) 32·⌈log2 M′⌉ of proof */
  entryBytes(proofs?: Proofs): number
  /** only with a ClientCore: the most queries of a request with this kind of proof (default `merkle`); `limit`: the generation's */
  queryLimit(limit: number, proofs?: Proofs): number
  /** only with a ClientCore: the most queries of a request in a generation that begins with this layout, while Q grows */
  maxQueries(proofs?: Proofs): number
  /** bytes of an instant query, for either server */
  readonly instantRequestBytes: number
  /** bytes of the answer to an instant query, from either server */
  readonly instantAnswerBytes: number
  /** the most instant queries of a request */
  readonly instantMaxQueries: number
  /**
   * The sizes of lookups with 2 to 8 servers: bytes of a query that is a key or a seed, of one that is a vector, of an answer; the
   * most queries of a request. Throws `index`.
   */
  instantSizes(servers: number): Uint32Array
  free(): void
}

/** The public map from key fingerprints to record indices. */
export interface DirectoryHandle {
  readonly keys: number
  encode(): Uint8Array
  /** index of a fingerprint (16 bytes) in a database of `records`; a missing key has one too, always the same */
  index(fingerprint: Uint8Array, records: number): number
  /** the next epoch's directory, from an update list */
  updated(list: Uint8Array, before: LayoutHandle, after: LayoutHandle): DirectoryHandle
  /** only with a ClientCore: the directory after the next entry of a journal on a hint of layout `before`; undefined: unchanged */
  replayed(entry: Uint8Array, before: LayoutHandle): DirectoryHandle | undefined
  /** whether it has this shape */
  isOf(shape: DirectoryShapeHandle): boolean
  /** indices of many fingerprints, 16 bytes each, in order */
  indices(fingerprints: Uint8Array, records: number): Uint32Array
  free(): void
}

/** The shape of a directory's blocks, from the manifest. For clients that look up single blocks. */
export interface DirectoryShapeHandle {
  /** the layout of the blocks: a database of 2^b records in one partition */
  readonly layout: LayoutHandle
  /** the number of the block that a fingerprint (16 bytes) belongs to; with `shards`, among the blocks of as many directories */
  number(fingerprint: Uint8Array, shards?: number): number
  /** the index of a fingerprint, from its block; throws `directory` if the bytes are no block, or it is beyond the database */
  index(block: Uint8Array, fingerprint: Uint8Array, records: number): number
  free(): void
}
