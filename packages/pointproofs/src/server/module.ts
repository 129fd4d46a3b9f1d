// Loads the WebAssembly module for servers. Each thread has an instance of its own.

import { readFile } from 'node:fs/promises'
import * as glue from '../../generated/prover.js'
import type { Ceremony, Pointproofs, Shape } from '../api.js'
import { once, pointproofs, type SharedGlue } from '../glue.js'

/** Bytes of one opening, as a server keeps it. */
export const OPENING_BYTES = 96

/** Bytes of an edit of one record. */
export const EDIT_BYTES = 33

/** Commits to the partitions of one database, and opens their records. `free()` frees its memory. */
export interface PointproofsProver {
  /**
   * The row list of partition `q` (M·ℓ bytes), and behind it the openings of its records, 96 bytes each. Deterministic. Takes about
   * four milliseconds a record.
   */
  prove(q: number, partition: Uint8Array): Uint8Array
  /** Whether a row list commits to a partition. Needs 32 bytes of fresh entropy, and a fraction of that time. */
  commits(q: number, partition: Uint8Array, rowList: Uint8Array, entropy: Uint8Array): boolean
  /** Edits of n records, EDIT_BYTES each, from their old and new bytes, n·ℓ each. */
  edits(indices: Uint32Array, old: Uint8Array, now: Uint8Array): Uint8Array
  /** Row commitments, 48 bytes each, after edits; edit n is in row `rows[n]` of these. Throws with code `point`. */
  follow(commitments: Uint8Array, rows: Uint32Array, edits: Uint8Array): Uint8Array
  /** As `proveTogether`, from openings that are older than some edits; edit n is in the row of entry `entries[n]`. */
  proveEdited(
    partitions: number,
    manifestHash: Uint8Array,
    header: Uint8Array,
    offsets: Uint16Array,
    records: Uint8Array,
    openings: Uint8Array,
    entries: Uint32Array,
    edits: Uint8Array,
  ): Uint8Array
  /** A row's openings, 96 bytes each, after edits of the row. Takes some hundredths of a second. */
  fold(openings: Uint8Array, edits: Uint8Array): Uint8Array
  /** A prover for another shape, with the same tables. To be freed, too. */
  shaped(partitions: number, partitionRecords: number, recordBytes: number): PointproofsProver
  /** Makes the tables that `follow` and `proveEdited` need, which takes half a second. */
  warm(): void
  free(): void
}

export interface Proving extends Pointproofs {
  /** The setup that provers are made of, in any thread. Throws with code `transcript` before the first contribution. */
  setup(ceremony: Ceremony): Uint8Array
  /** A prover of a result of `setup`, which is trusted. Throws with code `length`, `index` or `point`. */
  prover(setup: Uint8Array, shape: Shape): PointproofsProver
  /** The proof of an answer (48 bytes), from the openings of its entries in order. Throws with code `length`, `index`, `point`. */
  proveTogether(
    shape: Shape,
    manifestHash: Uint8Array,
    header: Uint8Array,
    offsets: Uint16Array,
    records: Uint8Array,
    openings: Uint8Array,
  ): Uint8Array
}

/**
 * Instantiates the module, or returns the running one.
 * @throws {WebAssembly.CompileError} where there is no SIMD
 * @example
 * const { prover, setup } = await loadProving()
 */
export const loadProving: () => Promise<Proving> = once(async () => {
  const bytes = await readFile(new URL('../../generated/prover_bg.wasm', import.meta.url))
  glue.initSync({ module: await WebAssembly.compile(bytes) })
  return {
    // TypeScript tells the classes of the two builds apart by their private members alone.
    ...pointproofs(glue as unknown as SharedGlue),
    setup: ceremony => (ceremony as glue.CeremonyHandle).setup(),
    prover: (setup, { partitions, partitionRecords, recordBytes }) =>
      new glue.ProverHandle(setup, partitions, partitionRecords, recordBytes),
    proveTogether: ({ partitions, partitionRecords, recordBytes }, ...rest) =>
      glue.proveTogether(partitions, partitionRecords, recordBytes, ...rest),
  }
})
