// Two implementations of the algorithms behind one interface, so that one test holds both to the same vectors: the
// core as WebAssembly, and the reference that was written from docs/protocol.md alone. (The native core reads the same
// file in rust-core/core/tests/vectors.rs.)

import { concatBytes } from '@noble/hashes/utils.js'
import { loadCore, type Proofs } from '@pirouette/wasm'
import { commitDatabase, layoutHandle, makeHint, tagsOf } from '../support/wasm.js'
import { Writer } from './reference/bytes.js'
import { Database } from './reference/database.js'
import { buildDirectory, decodeDirectory, encodeDirectory, indexOf } from './reference/directory.js'
import { nextGeneration } from './reference/generation.js'
import { databaseId, fingerprint } from './reference/hash.js'
import { entryBytes, type Layout, maxBatch, planLayout, type Suite } from './reference/layout.js'
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
  sizes(layout: Layout, suite: Suite): { entryBytes: number; maxBatch: number }
  /** `records`: N·ℓ bytes, with empty slots among them if keyed */
  nextGeneration(before: Layout, records: Uint8Array, keyed: boolean, headroom: number): NextGeneration
  /** both halves, server and client, over one database of N·ℓ bytes */
  start(layout: Layout, records: Uint8Array, hintEntropy: Uint8Array, suite: Suite): Life
}

export interface NextGeneration {
  readonly layout: Layout
  readonly directory: Uint8Array
  readonly commitments: Uint8Array
  readonly contentHashes: Uint8Array
}

export interface Life {
  readonly commitments: Uint8Array
  readonly contentHashes: Uint8Array
  /** u64 each; none in suite 1 */
  readonly tags: Uint8Array
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
    const directory = decodeDirectory(bytes, records)
    return prints.map(print => indexOf(directory, print, records))
  },
  sizes: (layout, suite) => ({ entryBytes: entryBytes(layout, suite), maxBatch: maxBatch(layout, suite) }),
  nextGeneration(before, records, keyed, headroom) {
    const { layout, directory, records: placed } = nextGeneration(before, records, keyed, headroom)
    const { commitments, contentHashes } = new Database(layout, placed)
    return {
      ...{ layout, directory },
      commitments: concatBytes(...commitments),
      contentHashes: concatBytes(...contentHashes),
    }
  },
  start(layout, records, hintEntropy, suite) {
    const database = new Database(layout, records)
    const hint = new Hint(layout, database.commitments, database.partitions, hintEntropy, suite)
    const tags = new Writer()
    for (const tag of hint.tags) tags.u64(tag)
    return {
      commitments: concatBytes(...database.commitments),
      contentHashes: concatBytes(...database.contentHashes),
      tags: tags.bytes(),
      lookUp(indices, entropy) {
        const batch = hint.query(indices, entropy)
        const [retrieved, refreshed] = [database.answer(batch.retrieve, suite), database.answer(batch.refresh, suite)]
        return {
          retrieve: { vectors: flatten(batch.retrieve), answer: concatBytes(...retrieved) },
          refresh: { vectors: flatten(batch.refresh), answer: concatBytes(...refreshed) },
          records: concatBytes(...hint.recon(batch, retrieved, refreshed)),
        }
      },
    }
  },
}

const proofsOf = (suite: Suite): Proofs => (suite === 1 ? 'merkle' : 'tags')

export async function wasm(): Promise<Implementation> {
  const core = await loadCore()
  return {
    fingerprint: core.fingerprint,
    databaseId: core.databaseId,
    planLayout(...wanted) {
      const { records, recordBytes, partitions, partitionRecords } = core.planLayout(...wanted)
      return { records, recordBytes, partitions, partitionRecords }
    },
    permutations(layout, entropy) {
      const entries = [...core.hazmatPermutations(layoutHandle(core, layout), entropy)]
      const m = layout.partitionRecords
      return Array.from({ length: layout.partitions }, (_, q) => entries.slice(q * m, (q + 1) * m))
    },
    buildDirectory: prints => core.buildDirectory(concatBytes(...prints)).encode(),
    indicesOf: (bytes, prints, records) => [
      ...core.decodeDirectory(bytes, records).indices(concatBytes(...prints), records),
    ],
    sizes(layout, suite) {
      const handle = layoutHandle(core, layout)
      return { entryBytes: handle.entryBytes(proofsOf(suite)), maxBatch: handle.maxBatch(proofsOf(suite)) }
    },
    nextGeneration(before, content, keyed, headroom) {
      const old = commitDatabase(core, before, content).handle
      const next = core.nextGeneration(old, keyed, headroom)
      while (next.step(old));
      const made = next.finish()
      const database = made.takeDatabase()!
      const { records, recordBytes, partitions, partitionRecords } = database.layout
      const digests = (of: (q: number) => Uint8Array) =>
        concatBytes(...Array.from({ length: partitions }, (_, q) => of(q)))
      return {
        layout: { records, recordBytes, partitions, partitionRecords },
        directory: made.takeDirectory()?.encode() ?? new Uint8Array(),
        commitments: digests(q => database.commitment(q)),
        contentHashes: digests(q => database.contentHash(q)),
      }
    },
    start(layout, records, hintEntropy, suite) {
      const database = commitDatabase(core, layout, records)
      const client = makeHint(core, layout, database, hintEntropy, proofsOf(suite))
      return {
        commitments: database.commitments,
        contentHashes: database.contentHashes,
        tags: tagsOf(client),
        lookUp(indices, entropy) {
          client.query(Uint32Array.from(indices), entropy)
          const ask = (role: 0 | 1, vectors: Uint8Array) => {
            const answer = database.handle.answer(vectors, client.proofs)
            if (!client.verify(role, answer)) throw new Error('an honest answer was refused')
            return { vectors, answer }
          }
          const retrieve = ask(0, client.retrieveVectors())
          const refresh = ask(1, client.refreshVectors())
          return { retrieve, refresh, records: client.recon() }
        },
      }
    },
  }
}

/** Offsets as they follow a query's header: u16, little-endian. */
function flatten(vectors: Vectors): Uint8Array {
  return Uint8Array.from(vectors.flat().flatMap(offset => [offset & 0xff, offset >> 8]))
}
