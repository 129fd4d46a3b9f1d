// The shared test vectors, typed. `core.json` and `updates.json` are made by rust-core/core/tests/vectors.rs and read by
// every implementation; `wire.json` is made by wire.test.ts. Bytes are lower-case hex in both.

import { readFileSync } from 'node:fs'
import { blake3 } from '@noble/hashes/blake3.js'
import { utf8ToBytes } from '@noble/hashes/utils.js'
import type { Layout } from './reference/layout.js'

export interface CoreVectors {
  readonly keys: {
    readonly fingerprints: readonly { readonly key: string; readonly fingerprint: string }[]
    readonly databaseIds: readonly { readonly seed: string; readonly id: string }[]
  }
  readonly plans: readonly Layout[]
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
  readonly generations: readonly GenerationVector[]
  readonly lookups: readonly LookupVector[]
  /** the same lives in suite 2 */
  readonly tagLookups: readonly (LookupVector & { readonly tagKey: string; readonly tagsHash: string })[]
  readonly instant: readonly InstantVector[]
  readonly light: readonly LightVector[]
  readonly single: readonly SingleVector[]
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

/** A light hint: what each server is shown, and what it replies. */
export interface LightVector {
  readonly layout: Layout
  /** the records are BLAKE3's output stream for this label */
  readonly recordsLabel: string
  readonly root: string
  readonly hintId: string
  readonly paritiesRequest: string
  readonly tagsRequest: string
  readonly parities: string
  readonly tags: string
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
  /** two lists from one layout to another, and bytes that a reader has to refuse between the same two */
  readonly lists: {
    readonly before: Layout
    readonly after: Layout
    readonly delta: string
    readonly record: string
    readonly refused: readonly {
      readonly because: string
      readonly form: 'delta' | 'record'
      readonly bytes: string
    }[]
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
  /** the update list in either form */
  readonly delta: string
  readonly record: string
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
