// Pointproofs as JavaScript sees them: what `rust/wasm` exports to who verifies and who takes part in a ceremony
// (docs/protocol.md, Pointproofs).

/** A database as far as its proofs depend on it: Q partitions of M records of ℓ bytes, as blocks where it has such. */
export interface Shape {
  readonly partitions: number
  readonly partitionRecords: number
  readonly recordBytes: number
}

/** A verifier's key and the rows of one epoch. `free()` gives their memory back. */
export interface PointproofsVerifier {
  /**
   * Begins to verify that an answer's 48-byte proof holds for its records (count·Q·ℓ bytes), its header (40 bytes), the hash of its
   * manifest and the offsets that were asked for. Throws with code `length`, `index` or `rows`.
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

/** An answer that is being verified, in pieces of some milliseconds, so that a page can have its thread back in between. */
export interface PointproofsVerification {
  /** Does a piece. Whether another is to be done. How many there are follows from how many entries the answer has. */
  step(): boolean
  /** Does what is left, one more piece after all steps, and says whether the proof holds. Frees this. Throws with code `rows`. */
  finish(): boolean
  /** Frees what `finish` has not. */
  free(): void
}

/** A transcript all of which has been verified. `free()` gives its memory back. */
export interface Ceremony {
  /** who contributed, in order */
  readonly names: string[]
  readonly development: boolean
  /** BLAKE3 of the transcript */
  readonly hash: Uint8Array
  /** Whether the contribution that this receipt (32 bytes) was given for is in it. */
  has(receipt: Uint8Array): boolean
  /** The verifier's key. Throws with code `transcript` before anybody has contributed. */
  key(): Uint8Array
  /** The transcript with one contribution more, made with 32 bytes of fresh entropy, and behind it the receipt, 32 bytes. */
  contribute(name: string, entropy: Uint8Array): Uint8Array
  free(): void
}

/** The module's functions. Their errors have a `code`: `length`, `index`, `point`, `key`, `rows`, `transcript`, `name`. */
export interface Pointproofs {
  /** Reads a key, whose BLAKE3 has to be `keyHash`, and the Q row lists one behind the other. */
  verifier(
    key: Uint8Array,
    keyHash: Uint8Array,
    allowDevelopment: boolean,
    shape: Shape,
    rowLists: Uint8Array,
  ): PointproofsVerifier
  /** A transcript nobody has contributed to. */
  beginCeremony(development: boolean): Uint8Array
  /** Reads a transcript and verifies it, with 32 bytes of fresh entropy. */
  ceremony(transcript: Uint8Array, entropy: Uint8Array): Ceremony
}
