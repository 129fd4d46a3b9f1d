// The shared test vectors, typed. `core.json` and `updates.json` are made by rust-core/core/tests/vectors.rs and read by
// every implementation; `wire.json` is made by wire.test.ts. Bytes are lower-case hex in both.

import { readFileSync } from 'node:fs'
import { blake3 } from '@noble/hashes/blake3.js'
import { utf8ToBytes } from '@noble/hashes/utils.js'
import type { Wanted } from './implementations.js'
import type { Layout } from './reference/layout.js'

export interface CoreVectors {
  readonly keys: {
    readonly fingerprints: readonly { readonly key: string; readonly fingerprint: string }[]
    readonly databaseIds: readonly { readonly seed: string; readonly id: string }[]
  }
  readonly plans: readonly (Wanted & { readonly layout: Layout })[]
  readonly permutations: readonly {
    readonly layout: Layout
    readonly entropy: string
    readonly permutations: readonly (readonly number[])[]
  }[]
  /** keys are "key 0", "key 1", …; the absent ones are "absent 0" to "absent 7" */
  readonly directories: readonly {
    readonly keys: number
    readonly slots: number
    readonly blockLog: number
    readonly blockBytes: number
    readonly seed: string
    readonly commitment: string
    /** of the keys, in order */
    readonly blocks: readonly number[]
    readonly bytes: string
    readonly indices: readonly number[]
    readonly absentIndices: readonly number[]
  }[]
  /** the same, but by their hashes; `indicesHash` of the keys' indices, u32 each */
  readonly largeDirectories: readonly {
    readonly keys: number
    readonly slots: number
    readonly blockLog: number
    readonly blockBytes: number
    readonly seed: string
    readonly commitment: string
    readonly bytesHash: string
    readonly indicesHash: string
  }[]
  /** indices are of "key 0" to "key 15", and of the fingerprints `added` */
  readonly directoryReading: {
    readonly seed: string
    readonly added: readonly string[]
    readonly taken: readonly (Read & { readonly records: number; readonly indices: readonly number[] })[]
    readonly refused: readonly (Read & { readonly records: number })[]
  }
  /** single directory blocks; indices are of the fingerprints */
  readonly directoryBlocks: {
    readonly blockLog: number
    readonly blockBytes: number
    readonly seed: string
    readonly records: number
    readonly fingerprints: readonly string[]
    readonly taken: readonly (Read & { readonly indices: readonly number[] })[]
    readonly refused: readonly (Read & { readonly fingerprint: string })[]
  }
  readonly generations: readonly GenerationVector[]
  readonly lookups: readonly LookupVector[]
  /** the same lives in suite 2 */
  readonly tagLookups: readonly (LookupVector & { readonly tagPoint: string; readonly tagsHash: string })[]
  readonly instant: readonly InstantVector[]
  /** of `keys` in the directory that `directories` has of so many keys and slots: their directory blocks are asked for */
  readonly instantDirectory: {
    readonly directoryKeys: number
    readonly slots: number
    readonly keys: readonly string[]
    readonly blocks: readonly number[]
    readonly entropy: string
    readonly requests: readonly [string, string]
    readonly answers: readonly [string, string]
    readonly indices: readonly number[]
  }
  readonly instantRefused: {
    /** one query each; refused if the lowest bit of byte `at` of server 0's answer is changed */
    readonly answers: readonly {
      readonly layout: Layout
      readonly recordsLabel: string
      readonly index: number
      readonly entropy: string
      readonly answerBytes: number
      readonly refused: readonly { readonly because: string; readonly at: number }[]
    }[]
    readonly requests: { readonly layout: Layout; readonly taken: string; readonly refused: readonly Read[] }
  }
  readonly single: readonly SingleVector[]
}

/** Bytes that a reader takes or refuses, and what they are. */
interface Read {
  readonly because: string
  readonly bytes: string
}

/** Instant queries, and both servers' answers. */
export interface InstantVector {
  readonly layout: Layout
  /** the records are BLAKE3's output stream for this label */
  readonly recordsLabel: string
  readonly commitments: string
  readonly indices: readonly number[]
  readonly entropy: string
  readonly requests: readonly [string, string]
  readonly answers: readonly [string, string]
  readonly records: string
}

/** Hints for one server, and batches asked with them. */
export interface SingleVector {
  readonly layout: Layout
  /** the records are BLAKE3's output stream for this label */
  readonly recordsLabel: string
  readonly hintEntropy: string
  readonly lookups: number
  readonly batches: readonly {
    readonly indices: readonly number[]
    readonly entropy: string
    readonly queries: string
    readonly answer: string
    readonly records: string
  }[]
}

/** A database and the next generation of it. */
export interface GenerationVector {
  readonly keyed: boolean
  readonly layout: Layout
  /**
   * Four bytes a record are BLAKE3's output stream for this label. With keys, record i is the fingerprint of "key i"
   * and those, but an empty slot where i mod 3 is 2; without, it is those alone.
   */
  readonly valuesLabel: string
  readonly headroom: number
  readonly next: Layout
  readonly directory: string
  readonly commitments: string
  readonly contentHashes: string
}

/** A database, a hint, and the batches of its life. */
export interface LookupVector {
  readonly layout: Layout
  /** the records are BLAKE3's output stream for this label */
  readonly recordsLabel: string
  readonly commitments: string
  readonly contentHashes: string
  readonly hintEntropy: string
  readonly batches: readonly {
    readonly indices: readonly number[]
    readonly entropy: string
    /** what the rollback fence knows the batch by */
    readonly name: string
    readonly retrieve: { readonly vectors: string; readonly answerHash: string }
    readonly refresh: { readonly vectors: string; readonly answerHash: string }
    readonly records: string
  }[]
}

/** `updates.json` */
export interface UpdateVectors {
  readonly lives: readonly LifeVector[]
  /**
   * Batches ("add key 7", values of four zero bytes) on the first database of the keyed life, its values zero as well; the
   * operation that is refused, from 0, or null.
   */
  readonly overfull: readonly {
    readonly because: string
    readonly operations: readonly string[]
    readonly refusedAt: number | null
  }[]
  /** a list from one layout to another, and bytes that a reader has to refuse between the same two */
  readonly lists: {
    readonly before: Layout
    readonly after: Layout
    readonly list: string
    readonly refused: readonly { readonly because: string; readonly bytes: string }[]
  }
}

/** A database and its epochs, each made of a batch. Without keys the directory is of no bytes. */
export interface LifeVector {
  readonly name: 'keyed' | 'keyless' | 'keyed, two a block'
  readonly layout: Layout
  /** four bytes a record are BLAKE3's output stream for this label: with keys, of "key 0", "key 1", … in this order */
  readonly valuesLabel: string
  readonly directory: string
  readonly epochs: readonly EpochVector[]
}

export interface EpochVector {
  readonly operations: readonly {
    readonly op: 'add' | 'edit' | 'delete'
    readonly key?: string
    readonly index?: number
    readonly value?: string
  }[]
  readonly layout: Layout
  readonly list: string
  readonly directory: string
  readonly commitments: string
  readonly contentHashes: string
}

export function readVectors<T>(name: string): T {
  return JSON.parse(readFileSync(vectorsFile(name), 'utf8')) as T
}

export const vectorsFile = (name: string) => new URL(`vectors/${name}.json`, import.meta.url)

/** Bytes that anyone can make again: BLAKE3's output stream for a label. */
export function stream(label: string, bytes: number): Uint8Array {
  return blake3(utf8ToBytes(label), { dkLen: bytes })
}
