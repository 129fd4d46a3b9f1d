// The interface of the WebAssembly modules (docs/protocol.md, Pointproofs): verifying answers, and ceremonies.

/** The layout that proofs depend on: Q partitions of M records of ℓ bytes. With blocks, a record is a block. */
export interface Shape {
  readonly partitions: number
  readonly partitionRecords: number
  readonly recordBytes: number
}

/** A verifier's key and the rows of one epoch. `free()` frees their memory. */
export interface PointproofsVerifier {
  /**
   * Begins to verify that an answer's 48-byte proof holds for its records (count·Q·ℓ bytes), its header (40 bytes), the hash of its
   * manifest and the offsets of its query. Throws with code `length`, `index` or `rows`.
   */
  begin(
    manifestHash: Uint8Array,
    header: Uint8Array,
    offsets: Uint16Array,
    records: Uint8Array,
    proof: Uint8Array,
  ): PointproofsVerification
  free(): void
}

/** Verifies an answer in pieces of some milliseconds, so that the caller can yield the thread. */
export interface PointproofsVerification {
  /** Does a piece, and says whether there is another. Their number follows from the number of entries. */
  step(): boolean
  /** Does the last piece, and says whether the proof holds. Frees this. Throws with code `rows`. */
  finish(): boolean
  /** Frees what `finish` has not. */
  free(): void
}

/** A verified transcript. `free()` frees its memory. */
export interface Ceremony {
  /** names of the contributors, in order */
  readonly names: string[]
  readonly development: boolean
  /** BLAKE3 of the transcript */
  readonly hash: Uint8Array
  /** Whether the contribution with this receipt (32 bytes) is in it. */
  has(receipt: Uint8Array): boolean
  /** The verifier's key. Throws with code `transcript` before the first contribution. */
  key(): Uint8Array
  /** Contributes with 32 bytes of fresh entropy: the new transcript, then the receipt, 32 bytes. */
  contribute(name: string, entropy: Uint8Array): Uint8Array
  free(): void
}

/** The module's functions. Their errors have a `code`: `length`, `index`, `point`, `key`, `rows`, `transcript`, `name`. */
export interface Pointproofs {
  /** Reads a key with BLAKE3 `keyHash`, and the Q row lists, one behind the other. */
  verifier(
    key: Uint8Array,
    keyHash: Uint8Array,
    allowDevelopment: boolean,
    shape: Shape,
    rowLists: Uint8Array,
  ): PointproofsVerifier
  /** A transcript without contributions. */
  beginCeremony(development: boolean): Uint8Array
  /** Reads a transcript and verifies it, with 32 bytes of fresh entropy. */
  ceremony(transcript: Uint8Array, entropy: Uint8Array): Ceremony
}
