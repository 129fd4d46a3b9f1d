// The vectors that the crate, the WebAssembly module and the reference are held to.

import { readFileSync } from 'node:fs'

/** `vectors.json`, made by rust/pointproofs/tests/vectors.rs */
export interface PointproofsVectors {
  readonly ceremony: {
    readonly development: boolean
    readonly begunHash: string
    readonly contributions: readonly {
      readonly name: string
      readonly entropy: string
      readonly receipt: string
      readonly transcriptHash: string
    }[]
    readonly keyHash: string
  }
  readonly databases: readonly {
    readonly partitions: number
    readonly partitionRecords: number
    readonly recordBytes: number
    /** the records are BLAKE3's output stream for this label, but zero for each i with i mod 5 = 4 */
    readonly recordsLabel: string
    readonly rowLists: string
    readonly openingsHashes: readonly string[]
    /** under the manifest's hash and the header that are the streams of "manifest" and "header" */
    readonly answers: readonly { readonly offsets: readonly number[]; readonly proof: string }[]
  }[]
  /** edits of the last database, in their order; the rows they touch, among all, as they are then; answers after them */
  readonly update: {
    readonly edits: readonly { readonly index: number; readonly value: string }[]
    readonly touched: readonly { readonly row: number; readonly commitment: string }[]
    readonly answers: readonly { readonly offsets: readonly number[]; readonly proof: string }[]
  }
}

export const vectors: PointproofsVectors = JSON.parse(readFileSync(new URL('../vectors.json', import.meta.url), 'utf8'))
