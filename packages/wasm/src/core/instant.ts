// What instant lookups need. Every client has it.

import type { DirectoryShapeHandle, LayoutHandle } from './base.js'
import type { DirectorySize, Mode } from './costs.js'

/** Instant queries whose answers have not arrived: secret, never stored, used once (docs/protocol.md, Instant lookups). */
export interface InstantQueryHandle {
  /** the queries for a server, in order; `instantSizes` says how long each is */
  request(server: number): Uint8Array
  /** whether a server's queries are vectors, and not seeds or keys */
  isVector(server: number): boolean
  /**
   * The records, ℓ bytes each in query order. `commitments`: the Q of the queries' epoch. `answers`: of all servers in order, one
   * after the other. undefined: an answer was changed; by which server cannot be known. Throws `length`.
   */
  recon(commitments: Uint8Array, answers: Uint8Array): Uint8Array | undefined
  /** wipes secrets, then frees */
  free(): void
}

/** What servers offer besides downloads and answers to hints. */
export interface Offers {
  readonly instant: boolean
  /** that do not all collude, 1 to 8; default 2: only two answer `full` */
  readonly servers?: number
}

/** The core's part that every client has: instant lookups, and in WebAssembly the choice of a mode. */
export interface InstantCore {
  /** an instance of the WebAssembly module, or the same in JavaScript */
  readonly kind: 'wasm' | 'script'
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
  /** makes queries for records with 32 bytes of fresh OS entropy, for 2 to 8 servers (default 2); throws `index`, `length` */
  newInstantQuery(layout: LayoutHandle, indices: Uint32Array, entropy: Uint8Array, servers?: number): InstantQueryHandle
  /**
   * The mode for a client with a free choice after `lookups` lookups. It depends on nothing but manifest, offers and this
   * number. As the number grows, it never returns to an earlier mode. The core in JavaScript has none: with it, nothing is prepared.
   */
  chooseMode?(layout: LayoutHandle, directory: DirectorySize, offers: Offers, lookups: number): Mode
}
