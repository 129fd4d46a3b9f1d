// A server's half of docs/protocol.md: digests, and answers with their proofs.

import { concatBytes } from '@noble/hashes/utils.js'
import { hash } from './hash.js'
import { blocksOf, type Layout, partitionBytes, type Suite, split } from './layout.js'
import { commitment, prove, tree } from './merkle.js'
import type { Entries, Vectors } from './message.js'

export class Database {
  /** one after the other */
  readonly partitions: readonly Uint8Array[]
  readonly commitments: readonly Uint8Array[]
  readonly contentHashes: readonly Uint8Array[]
  readonly #blocks: readonly Uint8Array[][]
  readonly #trees: readonly Uint8Array[][][]

  /** `records`: N·ℓ bytes */
  constructor(layout: Layout, records: Uint8Array) {
    const padded = new Uint8Array(layout.partitions * partitionBytes(layout))
    padded.set(records)
    this.partitions = split(padded, partitionBytes(layout))
    this.#blocks = this.partitions.map(partition => split(partition, blocksOf(layout).recordBytes))
    this.#trees = this.#blocks.map(tree)
    this.commitments = this.#trees.map(commitment)
    this.contentHashes = this.partitions.map(hash)
  }

  answer(vectors: Vectors, suite: Suite = 1): Entries {
    return vectors.flatMap(vector => vector.map((m, q) => this.#entry(q, m, suite)))
  }

  #entry(q: number, m: number, suite: Suite): Uint8Array {
    return concatBytes(this.#blocks[q]![m]!, ...(suite === 1 ? prove(this.#trees[q]!, m) : []))
  }
}
