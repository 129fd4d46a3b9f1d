// Two implementations of the algorithms behind one interface, so that one test holds both to the same vectors: the
// core as WebAssembly, and the reference that was written from docs/protocol.md alone. (The native core reads the same
// file in rust-core/core/tests/vectors.rs.)

import { concatBytes } from '@noble/hashes/utils.js'
import { loadCore } from '@pirouette/wasm'
import { Database } from './reference/database.js'
import { buildDirectory, decodeDirectory, encodeDirectory, indexOf } from './reference/directory.js'
import { databaseId, fingerprint } from './reference/hash.js'
import { entryBytes, type Layout, maxBatch, planLayout, split } from './reference/layout.js'
import type { Vectors } from './reference/message.js'
import { permutations } from './reference/random.js'
import { Hint } from './reference/scheme.js'

export interface Implementation {
  fingerprint(key: Uint8Array): Uint8Array
  databaseId(seed: Uint8Array): Uint8Array
  planLayout(records: number, recordBytes: number): Layout
  permutations(layout: Layout, entropy: Uint8Array): number[][]
  buildDirectory(fingerprints: readonly Uint8Array[]): Uint8Array
  indicesOf(directory: Uint8Array, fingerprints: readonly Uint8Array[], records: number): number[]
  sizes(layout: Layout): { entryBytes: number; maxBatch: number }
  /** both halves, server and client, over one database of N·ℓ bytes */
  start(layout: Layout, records: Uint8Array, hintEntropy: Uint8Array): Life
}

export interface Life {
  readonly commitments: Uint8Array
  readonly contentHashes: Uint8Array
  lookUp(indices: readonly number[], entropy: Uint8Array): Lookup
}

/** Everything that one batch gave rise to, flat. */
export interface Lookup {
  readonly retrieve: Exchange
  readonly refresh: Exchange
  readonly records: Uint8Array
}

export interface Exchange {
  readonly vectors: Uint8Array
  readonly answer: Uint8Array
}

export const reference: Implementation = {
  fingerprint,
  databaseId,
  planLayout,
  permutations: ({ partitions, partitionRecords }, entropy) => permutations(partitions, partitionRecords, entropy),
  buildDirectory: prints => encodeDirectory(buildDirectory(prints)),
  indicesOf(bytes, prints, records) {
    const directory = decodeDirectory(bytes)
    return prints.map(print => indexOf(directory, print, records))
  },
  sizes: layout => ({ entryBytes: entryBytes(layout), maxBatch: maxBatch(layout) }),
  start(layout, records, hintEntropy) {
    const database = new Database(layout, records)
    const hint = new Hint(layout, database.commitments, database.partitions, hintEntropy)
    return {
      commitments: concatBytes(...database.commitments),
      contentHashes: concatBytes(...database.contentHashes),
      lookUp(indices, entropy) {
        const batch = hint.query(indices, entropy)
        const [retrieved, refreshed] = [database.answer(batch.retrieve), database.answer(batch.refresh)]
        return {
          retrieve: { vectors: flatten(batch.retrieve), answer: concatBytes(...retrieved) },
          refresh: { vectors: flatten(batch.refresh), answer: concatBytes(...refreshed) },
          records: concatBytes(...hint.recon(batch, retrieved, refreshed)),
        }
      },
    }
  },
}

export async function wasm(): Promise<Implementation> {
  const core = await loadCore()
  const handle = ({ records, recordBytes, partitions, partitionRecords }: Layout) =>
    core.layout(records, recordBytes, partitions, partitionRecords)
  return {
    fingerprint: core.fingerprint,
    databaseId: core.databaseId,
    planLayout(...wanted) {
      const { records, recordBytes, partitions, partitionRecords } = core.planLayout(...wanted)
      return { records, recordBytes, partitions, partitionRecords }
    },
    permutations(layout, entropy) {
      const entries = [...core.hazmatPermutations(handle(layout), entropy)]
      const m = layout.partitionRecords
      return Array.from({ length: layout.partitions }, (_, q) => entries.slice(q * m, (q + 1) * m))
    },
    buildDirectory: prints => core.buildDirectory(concatBytes(...prints)).encode(),
    indicesOf: (bytes, prints, records) => [...core.decodeDirectory(bytes).indices(concatBytes(...prints), records)],
    sizes: layout => handle(layout),
    start(numbers, records, hintEntropy) {
      const layout = handle(numbers)
      const each = <T>(work: (q: number) => T) => Array.from({ length: numbers.partitions }, (_, q) => work(q))

      const database = core.newDatabase(layout)
      const memory = (pointer: number, bytes: number) => new Uint8Array(core.memory.buffer, pointer, bytes)
      const content = () => memory(database.recordsPointer(), numbers.partitions * layout.partitionBytes)
      content().set(records)
      each(q => database.commit(q))
      const commitments = concatBytes(...each(q => database.commitment(q)))
      const contentHashes = concatBytes(...each(q => database.contentHash(q)))

      const builder = core.newHintBuilder(layout, commitments, contentHashes, hintEntropy)
      each(q => {
        builder.begin(0, q)
        const partition = split(content(), layout.partitionBytes)[q]!
        memory(builder.lanePointer(0), layout.partitionBytes).set(partition)
        builder.absorb(0, layout.partitionBytes)
        if (!builder.fold(0)) throw new Error(`partition ${q} does not match its content hash`)
      })
      const client = builder.finish()
      return {
        commitments,
        contentHashes,
        lookUp(indices, entropy) {
          client.query(Uint32Array.from(indices), entropy)
          const retrieve = client.retrieveVectors()
          const refresh = client.refreshVectors()
          const [retrieved, refreshed] = [database.answer(retrieve), database.answer(refresh)]
          if (!client.verify(0, retrieved) || !client.verify(1, refreshed)) throw new Error('an honest answer refused')
          return {
            retrieve: { vectors: retrieve, answer: retrieved },
            refresh: { vectors: refresh, answer: refreshed },
            records: client.recon(),
          }
        },
      }
    },
  }
}

/** Offsets as they follow a query's header: u16, little-endian. */
function flatten(vectors: Vectors): Uint8Array {
  return Uint8Array.from(vectors.flat().flatMap(offset => [offset & 0xff, offset >> 8]))
}
