// What instant lookups and the choice of a mode need. Every client has it.

import type { DirectoryShapeHandle, LayoutHandle } from './base.js'
import type { DirectorySize, Mode } from './costs.js'

/** Instant queries whose answers have not arrived: secret, never stored, used once (docs/protocol.md, Instant lookups). */
export interface InstantQueryHandle {
  /** the request's body for server 0 or 1: the queries in order, `instantRequestBytes` each */
  request(server: 0 | 1): Uint8Array
  /**
   * The records, ℓ bytes each in query order, from both servers' answers. `commitments`: the Q of the queries' epoch.
   * undefined: an answer was changed; by which server cannot be known. Throws `length`.
   */
  recon(commitments: Uint8Array, zero: Uint8Array, one: Uint8Array): Uint8Array | undefined
  /** wipes secrets, then frees */
  free(): void
}

/** An instance of the WASM module, with what every client has: instant lookups and the choice of a mode. */
export interface InstantCore {
  readonly memory: { readonly buffer: ArrayBuffer }
  /** the layout of a manifest's numbers; `blockRecords`: g, default 1 */
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
  /** the shape of 2^log blocks of `blockBytes`, with a seed of 16 bytes; throws `directory`, `layout`, `length` */
  directoryShape(log: number, blockBytes: number, seed: Uint8Array): DirectoryShapeHandle
  /** makes queries for 1 to `instantMaxBatch` records with 32 bytes of fresh OS entropy; throws `index`, `length` */
  newInstantQuery(layout: LayoutHandle, indices: Uint32Array, entropy: Uint8Array): InstantQueryHandle
  /**
   * The mode for a client with a free choice after `lookups` lookups. It depends on nothing but manifest, offers and this
   * number. As the number grows, it never returns to an earlier mode.
   */
  chooseMode(
    layout: LayoutHandle,
    directory: DirectorySize,
    offers: { readonly instant: boolean },
    lookups: number,
  ): Mode
}
