// What instant lookups and the choice of a mode need: every client has it.

import type { DirectoryShapeHandle, LayoutHandle } from './base.js'
import type { DirectorySize, Mode } from './costs.js'

/** Instant queries whose answers are to come: secret, never stored, used once (docs/protocol.md, Instant lookups). */
export interface InstantQueryHandle {
  /** the body for server 0 or 1: the queries in order, `instantRequestBytes` each */
  request(server: 0 | 1): Uint8Array
  /**
   * The records asked for, ℓ bytes each in query order, from both servers' answers at the queries' epoch, whose Q
   * commitments these are. undefined: one of them was changed, and it cannot be told by whom. Throws `length`.
   */
  recon(commitments: Uint8Array, zero: Uint8Array, one: Uint8Array): Uint8Array | undefined
  /** overwrites secrets, then frees */
  free(): void
}

/** One instance of the WASM module, as instant lookups and the choice of a mode need it: what every client has. */
export interface InstantCore {
  readonly memory: { readonly buffer: ArrayBuffer }
  /** of a manifest's numbers; `blockRecords`: g; 1 */
  layout(
    records: number,
    recordBytes: number,
    partitions: number,
    partitionRecords: number,
    blockRecords?: number,
  ): LayoutHandle
  /** BLAKE3, 32 bytes */
  blake3(bytes: Uint8Array): Uint8Array
  /** 16-byte key fingerprint (docs/protocol.md, Hashes) */
  fingerprint(key: Uint8Array): Uint8Array
  /** of 2^log blocks of so many bytes, under a seed of 16; throws `directory`, `layout`, `length` */
  directoryShape(log: number, blockBytes: number, seed: Uint8Array): DirectoryShapeHandle
  /** asks for 1 to `instantMaxBatch` records under 32 bytes of fresh OS entropy; throws `index`, `length` */
  newInstantQuery(layout: LayoutHandle, indices: Uint32Array, entropy: Uint8Array): InstantQueryHandle
  /**
   * The mode for a client that is free to choose and has made so many lookups: the planner's rule, from manifest, offers and
   * count alone. With the count it goes on, and never back.
   */
  chooseMode(
    layout: LayoutHandle,
    directory: DirectorySize,
    offers: { readonly instant: boolean },
    lookups: number,
  ): Mode
}
