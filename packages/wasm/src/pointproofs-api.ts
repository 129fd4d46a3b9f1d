// Pointproofs as JavaScript sees them: what `rust-core/pointproofs-wasm` exports to who verifies and who takes part in a ceremony
// (docs/protocol.md, Pointproofs).

import type * as pointproofsGlue from '../generated/pointproofs.js'

/** A database as far as its proofs depend on it: Q partitions of M records of ℓ bytes, as blocks where it has such. */
export interface Shape {
  readonly partitions: number
  readonly partitionRecords: number
  readonly recordBytes: number
}

/** A verifier's key and the rows of one epoch. `free()` gives their memory back. */
export interface PointproofsVerifier {
  /**
   * Whether an answer's 48-byte proof holds for its records (count·Q·ℓ bytes), its header (40 bytes), the hash of its manifest
   * and the offsets that were asked for. Throws with code `length`, `index` or `rows`.
   */
  verify(
    manifestHash: Uint8Array,
    header: Uint8Array,
    offsets: Uint16Array,
    records: Uint8Array,
    proof: Uint8Array,
  ): boolean
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

/** What builds for verifying and for proving have in common. */
export type SharedGlue = Pick<typeof pointproofsGlue, 'VerifierHandle' | 'CeremonyHandle' | 'beginCeremony'>

export function pointproofs(glue: SharedGlue): Pointproofs {
  return {
    verifier: (key, keyHash, allowDevelopment, { partitions, partitionRecords, recordBytes }, rowLists) =>
      new glue.VerifierHandle(key, keyHash, allowDevelopment, partitions, partitionRecords, recordBytes, rowLists),
    beginCeremony: glue.beginCeremony,
    ceremony: (transcript, entropy) => new glue.CeremonyHandle(transcript, entropy),
  }
}

/** A loader that starts one instance, and after a failure another time the next one. */
export function once<T>(load: () => Promise<T>): () => Promise<T> {
  let loading: Promise<T> | undefined
  return () => {
    loading ??= load().catch(error => {
      loading = undefined
      throw error
    })
    return loading
  }
}
