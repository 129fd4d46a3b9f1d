// For servers: the module with their half of Pointproofs. Each thread that loads it has an instance of its own.

import { readFile } from 'node:fs/promises'
import * as glue from '../../generated/prover.js'
import type { Ceremony, Pointproofs, Shape } from '../api.js'
import { once, pointproofs, type SharedGlue } from '../glue.js'

/** Bytes of one opening, as a server keeps it. */
export const OPENING_BYTES = 96

/** Bytes of an edit of one record. */
export const EDIT_BYTES = 33

/** What commits to the partitions of one database, and opens all their records. `free()` gives its memory back. */
export interface PointproofsProver {
  /**
   * The row list of partition `q` (M·ℓ bytes), and behind it the openings of its records, 96 bytes each: the same bytes
   * whenever and wherever it is done. About four milliseconds a record.
   */
  prove(q: number, partition: Uint8Array): Uint8Array
  /** Whether a row list commits to a partition, with 32 bytes of fresh entropy: in a fraction of that time. */
  commits(q: number, partition: Uint8Array, rowList: Uint8Array, entropy: Uint8Array): boolean
  /** Edits of the records at n indices, EDIT_BYTES each, of what was there and what is there now, n·ℓ bytes each. */
  edits(indices: Uint32Array, old: Uint8Array, now: Uint8Array): Uint8Array
  /** Row commitments, 48 bytes each, after edits, the nth of which is in row `rows[n]` of these. Throws with code `point`. */
  follow(commitments: Uint8Array, rows: Uint32Array, edits: Uint8Array): Uint8Array
  /**
   * As `proveTogether`, of so many partitions, from openings that were made before edits, the nth of which is in the row of
   * entry `entries[n]`.
   */
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
  /** The openings of a row, 96 bytes each, brought up to date with edits of it: some hundredths of a second. */
  fold(openings: Uint8Array, edits: Uint8Array): Uint8Array
  /** One for a database of another shape, which shares this one's tables, and is to be freed as well. */
  shaped(partitions: number, partitionRecords: number, recordBytes: number): PointproofsProver
  /** Makes the tables that `follow` and `proveEdited` need, which takes half a second, before the first of them does. */
  warm(): void
  free(): void
}

export interface Proving extends Pointproofs {
  /** What provers are made of, wherever they work. Throws with code `transcript` before anybody has contributed. */
  setup(ceremony: Ceremony): Uint8Array
  /** Of what `setup` gave, in this thread or another: it is trusted. Throws with code `length`, `index` or `point`. */
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
    // The two builds' classes are alike but for what one of them lacks; only their private parts tell them apart.
    ...pointproofs(glue as unknown as SharedGlue),
    setup: ceremony => (ceremony as glue.CeremonyHandle).setup(),
    prover: (setup, { partitions, partitionRecords, recordBytes }) =>
      new glue.ProverHandle(setup, partitions, partitionRecords, recordBytes),
    proveTogether: ({ partitions, partitionRecords, recordBytes }, ...rest) =>
      glue.proveTogether(partitions, partitionRecords, recordBytes, ...rest),
  }
})
