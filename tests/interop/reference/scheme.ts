// Figs. 4 and 5 of TAPIR as docs/protocol.md, "What a client must do", puts them: points 2, 4 and 6.
//
// A query does not depend on what the database holds, so `Query` needs permutations only.

import { Writer } from './bytes.js'
import { pendingName, queryEntropy } from './hash.js'
import { blocksOf, type Layout, placeOf, type Suite, split } from './layout.js'
import { verify } from './merkle.js'
import type { Entries, Vectors } from './message.js'
import { permutations, swap, Words } from './random.js'
import { linearTag, tagPoint } from './tags.js'

/** One query of a lookup: what it asks of each server, and what its effect will be. */
export interface Query {
  readonly index: number
  readonly retrieve: readonly number[]
  readonly refresh: readonly number[]
  /** q*, the partition of the block asked for */
  readonly partition: number
  /** ind, the column of the hint that holds the block */
  readonly column: number
  /** r_0 … r_{Q−1} */
  readonly swaps: readonly number[]
}

/** Point 4 for one index. The permutations are as they are before its swaps, and stay so. */
function query(layout: Layout, sigma: readonly number[][], index: number, words: Words): Query {
  const { partitionRecords: m } = blocksOf(layout)
  const { q: partition, m: wanted } = placeOf(layout, index)
  const column = sigma[partition]!.indexOf(wanted)
  const dummy = words.below(m)
  const swaps = sigma.map(() => words.below(m))
  return {
    index,
    retrieve: sigma.map((permutation, q) => (q === partition ? dummy : permutation[column]!)),
    refresh: sigma.map((permutation, q) => permutation[swaps[q]!]!),
    partition,
    column,
    swaps,
  }
}

/** The swaps of one query: its effect on the permutations. */
function applySwaps(sigma: readonly number[][], { partition, column, swaps }: Query): void {
  sigma.forEach((permutation, q) => {
    if (q !== partition) swap(permutation, column, swaps[q]!)
  })
}

/** Permutations and parities; in suite 2, tags. */
export class Hint {
  readonly #identity: Identity
  #version = 0
  readonly #layout: Layout
  readonly #suite: Suite
  readonly #point: bigint
  /** by block; none in suite 1 */
  readonly tags: readonly bigint[]
  readonly #commitments: readonly Uint8Array[]
  readonly #parities: readonly Uint8Array[]
  #permutations: readonly number[][]
  #condemned = false

  /** Point 2: `partitions` have been checked against their content hashes. */
  constructor(
    layout: Layout,
    commitments: readonly Uint8Array[],
    partitions: readonly Uint8Array[],
    seed: Uint8Array,
    suite: Suite = 1,
  ) {
    this.#layout = layout
    this.#suite = suite
    this.#identity = identityFrom(seed)
    this.#point = tagPoint(seed)
    this.#commitments = commitments
    const { partitionRecords: m, recordBytes: blockBytes } = blocksOf(layout)
    this.#permutations = permutations(layout.partitions, m, seed)
    const blocks = partitions.map(partition => split(partition, blockBytes))
    this.tags = suite === 1 ? [] : blocks.flat().map(block => linearTag(this.#point, block))
    this.#parities = Array.from({ length: m }, (_, j) => {
      const parity = new Uint8Array(blockBytes)
      this.#permutations.forEach((permutation, q) => void xorInto(parity, blocks[q]![permutation[j]!]!))
      return parity
    })
  }

  /** Point 4 for a lookup. To be recorded, sent as it is until it is answered, and given to `recon`. */
  query(indices: readonly number[], entropy: Uint8Array): Lookup {
    return makeLookup(this.#layout, this.#identity, this.#version, this.#permutations, indices, entropy)
  }

  /** Point 6: the records asked for. Throws if an entry is forged; nothing can be asked thereafter. */
  recon(lookup: Lookup, retrieved: Entries, refreshed: Entries): Uint8Array[] {
    if (this.#condemned) throw new Error('this hint is condemned')
    const genuine = [...this.#verify(lookup.retrieve, retrieved), ...this.#verify(lookup.refresh, refreshed)]
    if (genuine.includes(false)) {
      this.#condemned = true
      throw new Error('a server lied')
    }
    const { recordBytes: blockBytes, partitions, partitionRecords: m } = blocksOf(this.#layout)
    const blockOf = (entries: Entries, i: number, q: number) => entries[i * partitions + q]!.subarray(0, blockBytes)
    const records = lookup.queries.map(({ index, partition, column, swaps }, i) => {
      const block = this.#parities[column]!.slice()
      const others = swaps.map((_, q) => q).filter(q => q !== partition)
      for (const q of others) xorInto(block, blockOf(retrieved, i, q))
      for (const q of others) {
        for (const entries of [retrieved, refreshed]) {
          xorInto(this.#parities[column]!, blockOf(entries, i, q))
          xorInto(this.#parities[swaps[q]!]!, blockOf(entries, i, q))
        }
      }
      const place = placeOf(this.#layout, index)
      if (this.#suite === 2 && !this.#isTagged(partition * m + place.m, block)) {
        throw new Error('the local state is corrupt')
      }
      return place.cut(block)
    })
    this.#permutations = lookup.permutationsAfter
    this.#version++
    return records
  }

  #verify(vectors: Vectors, entries: Entries): boolean[] {
    const { recordBytes, partitions, partitionRecords: m } = blocksOf(this.#layout)
    return vectors.flat().map((offset, k) => {
      const [q, entry] = [k % partitions, entries[k]!]
      if (this.#suite === 2) return this.#isTagged(q * m + offset, entry)
      const proof = split(entry.subarray(recordBytes), 32)
      return verify(this.#commitments[q]!, offset, entry.subarray(0, recordBytes), proof)
    })
  }

  #isTagged(number: number, block: Uint8Array): boolean {
    return this.tags[number] === linearTag(this.#point, block)
  }
}

/** What a hint is given when it is made, beside its permutations. */
export interface Identity {
  readonly id: Uint8Array
  readonly secret: Uint8Array
}

export function identityFrom(seed: Uint8Array): Identity {
  return { id: drawn(seed, 2n ** 64n - 1n, 16), secret: drawn(seed, 2n ** 64n - 3n, 32) }
}

/** Point 4 for a lookup of a hint at a version: its permutations are `before`, and stay so. */
export function makeLookup(
  layout: Layout,
  { id, secret }: Identity,
  version: number,
  before: readonly (readonly number[])[],
  indices: readonly number[],
  entropy: Uint8Array,
): Lookup {
  const material = new Writer().put(entropy, secret).u64(BigInt(version))
  for (const index of indices) material.u32(index)
  const words = new Words(queryEntropy(material.bytes()), 0)
  const after = before.map(permutation => [...permutation])
  const queries = indices.map(index => {
    const made = query(layout, after, index, words)
    applySwaps(after, made)
    return made
  })

  const form = new Writer().put('PIRp').u16(1).u16(0).put(id).u64(BigInt(version))
  const { records, recordBytes, partitions, partitionRecords } = layout
  for (const number of [records, recordBytes, partitions, partitionRecords, queries.length]) form.u32(number)
  for (const { index } of queries) form.u32(index)
  for (const { column } of queries) form.u16(column)
  for (const row of ['swaps', 'retrieve', 'refresh'] as const) {
    for (const offset of queries.flatMap(query => query[row])) form.u16(offset)
  }
  return new Lookup(queries, after, pendingName(secret, form.bytes()))
}

export class Lookup {
  readonly queries: readonly Query[]
  readonly permutationsAfter: readonly number[][]
  /** what the rollback fence knows it by */
  readonly name: Uint8Array

  constructor(queries: readonly Query[], permutationsAfter: readonly number[][], name: Uint8Array) {
    this.queries = queries
    this.permutationsAfter = permutationsAfter
    this.name = name
  }

  get retrieve(): Vectors {
    return this.queries.map(query => query.retrieve)
  }

  get refresh(): Vectors {
    return this.queries.map(query => query.refresh)
  }
}

/** The first bytes of a stream under a seed. */
function drawn(seed: Uint8Array, stream: bigint, bytes: number): Uint8Array {
  const words = new Words(seed, stream)
  const writer = new Writer()
  for (let at = 0; at < bytes; at += 4) writer.u32(words.next())
  return writer.bytes()
}

function xorInto(into: Uint8Array, from: Uint8Array): void {
  for (let i = 0; i < into.length; i++) into[i]! ^= from[i]!
}
