// The core as WebAssembly, and the reference that was written from docs/protocol.md alone, behind one interface: one test holds both to
// the same vectors. (rust-core/core/tests/vectors.rs holds the native core to them.)

import { type Core, type DatabaseHandle, type LayoutHandle, loadCore, type Proofs } from '@keyhush/wasm'
import { concatBytes } from '@noble/hashes/utils.js'
import { commitDatabase, layoutHandle, makeHint, memory, tagsOf } from '../support/wasm.js'
import { Writer } from './reference/bytes.js'
import { Database } from './reference/database.js'
import {
  buildDirectory,
  decodeDirectory,
  directoryCommitment,
  encodeDirectory,
  indexByBlock,
  indexOf,
  type Shape,
} from './reference/directory.js'
import { nextGeneration } from './reference/generation.js'
import { databaseId, fingerprint } from './reference/hash.js'
import { blocksOf, entryBytes, type Layout, maxQueries, planLayout, type Suite } from './reference/layout.js'
import type { Vectors } from './reference/message.js'
import { permutations } from './reference/random.js'
import { Hint } from './reference/scheme.js'
import {
  applyBatch,
  decodeList,
  encodeList,
  followDirectory,
  followRecords,
  nextDirectory,
  type Operation,
} from './reference/update.js'

export interface Implementation {
  fingerprint(key: Uint8Array): Uint8Array
  databaseId(seed: Uint8Array): Uint8Array
  plan(wanted: Wanted): Layout
  permutations(layout: Layout, entropy: Uint8Array): number[][]
  buildDirectory(fingerprints: readonly Uint8Array[], slots: number): Uint8Array
  indicesOf(directory: Uint8Array, fingerprints: readonly Uint8Array[], records: number): number[]
  /** to its directory blocks */
  directoryCommitment(directory: Uint8Array, records: number): Uint8Array
  /** by one directory block with its padding; throws if it is none, or leads beyond the records */
  indexByBlock(shape: Shape, block: Uint8Array, fingerprint: Uint8Array, records: number): number
  sizes(layout: Layout, suite: Suite): { entryBytes: number; maxQueries: number }
  /** `records`: N·ℓ bytes, with empty slots among them if keyed */
  nextGeneration(before: Layout, records: Uint8Array, keyed: boolean, headroom: number): NextGeneration
  /** the epoch that a batch makes of a database; throws with the number of the `operation` that cannot be */
  update(before: State, operations: readonly Operation[]): Updated
  /** the same epoch by its list; throws for bytes that are no list between the two layouts */
  follow(before: State, list: Uint8Array, after: Layout): State
  /** both halves, server and client, over one database of N·ℓ bytes */
  start(layout: Layout, records: Uint8Array, hintEntropy: Uint8Array, suite: Suite): Life
}

/** What a layout is planned for. */
export interface Wanted {
  readonly records: number
  readonly recordBytes: number
  readonly headroom: number
  readonly partitions?: number
  readonly pack: number
}

export interface NextGeneration {
  readonly layout: Layout
  readonly directory: Uint8Array
  readonly commitments: Uint8Array
  readonly contentHashes: Uint8Array
}

/** What a list of updates leads from and to. */
export interface State {
  readonly layout: Layout
  /** N·ℓ bytes */
  readonly records: Uint8Array
  /** of no bytes without keys */
  readonly directory: Uint8Array
}

export interface Updated extends State {
  readonly list: Uint8Array
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

/** Everything that one lookup gave rise to, flat. */
export interface Lookup {
  readonly retrieve: Exchange
  readonly refresh: Exchange
  readonly records: Uint8Array
  /** what the rollback fence knows it by */
  readonly name: Uint8Array
}

export interface Exchange {
  readonly vectors: Uint8Array
  readonly answer: Uint8Array
}

const digestsOf = ({ commitments, contentHashes }: Database) => ({
  commitments: concatBytes(...commitments),
  contentHashes: concatBytes(...contentHashes),
})

export const reference: Implementation = {
  fingerprint,
  databaseId,
  plan({ records, recordBytes, headroom, partitions, pack }) {
    const room = records + headroom
    return { ...planLayout(room, recordBytes, partitions, pack), records, blockRecords: pack === 1 ? undefined : pack }
  },
  permutations: (layout, entropy) => permutations(layout.partitions, blocksOf(layout).partitionRecords, entropy),
  buildDirectory: (prints, slots) => encodeDirectory(buildDirectory(prints, slots)),
  indicesOf(bytes, prints, records) {
    const directory = decodeDirectory(bytes, records)
    return prints.map(print => indexOf(directory, print, records))
  },
  directoryCommitment: (bytes, records) => directoryCommitment(decodeDirectory(bytes, records)),
  indexByBlock: ({ seed }, block, print, records) => indexByBlock(seed, block, print, records),
  sizes: (layout, suite) => ({ entryBytes: entryBytes(layout, suite), maxQueries: maxQueries(layout, suite) }),
  nextGeneration(before, records, keyed, headroom) {
    const { layout, directory, records: placed } = nextGeneration(before, records, keyed, headroom)
    return { layout, directory, ...digestsOf(new Database(layout, placed)) }
  },
  update({ layout: before, records: old, directory: bytes }, operations) {
    const directory = bytes.length === 0 ? undefined : decodeDirectory(bytes, before.records)
    const { layout, records, entries } = applyBatch(before, old, directory, operations)
    const list = encodeList(before, layout, entries)
    const followed = directory && nextDirectory(directory, decodeList(list, before, layout), operations)
    return {
      ...{ layout, records, list, ...digestsOf(new Database(layout, records)) },
      directory: followed === undefined ? bytes : encodeDirectory(followed),
    }
  },
  follow({ layout: before, records, directory }, list, layout) {
    const changes = decodeList(list, before, layout)
    const followed = () => encodeDirectory(followDirectory(decodeDirectory(directory, before.records), changes))
    return {
      layout,
      records: followRecords(layout, records, changes),
      directory: directory.length === 0 ? directory : followed(),
    }
  },
  start(layout, records, hintEntropy, suite) {
    const database = new Database(layout, records)
    const hint = new Hint(layout, database.commitments, database.partitions, hintEntropy, suite)
    const tags = new Writer()
    for (const tag of hint.tags) tags.u64(tag)
    return {
      ...digestsOf(database),
      tags: tags.bytes(),
      lookUp(indices, entropy) {
        const lookup = hint.query(indices, entropy)
        const [retrieved, refreshed] = [database.answer(lookup.retrieve, suite), database.answer(lookup.refresh, suite)]
        return {
          retrieve: { vectors: flatten(lookup.retrieve), answer: concatBytes(...retrieved) },
          refresh: { vectors: flatten(lookup.refresh), answer: concatBytes(...refreshed) },
          records: concatBytes(...hint.recon(lookup, retrieved, refreshed)),
          name: lookup.name,
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
    plan({ records, recordBytes, headroom, partitions, pack }) {
      const room = records + headroom
      return { ...layoutOf(core.planLayout(room, recordBytes, partitions, pack)), records }
    },
    permutations(layout, entropy) {
      const entries = [...core.hazmatPermutations(layoutHandle(core, layout), entropy)]
      const m = blocksOf(layout).partitionRecords
      return Array.from({ length: layout.partitions }, (_, q) => entries.slice(q * m, (q + 1) * m))
    },
    buildDirectory: (prints, slots) => core.buildDirectory(concatBytes(...prints), slots).encode(),
    indicesOf: (bytes, prints, records) => [
      ...core.decodeDirectory(bytes, records).indices(concatBytes(...prints), records),
    ],
    directoryCommitment: (bytes, records) => core.decodeDirectory(bytes, records).database().commitment(0),
    indexByBlock: ({ blockLog, blockBytes, seed }, block, print, records) =>
      core.directoryShape(blockLog, blockBytes, seed).index(block, print, records),
    sizes(layout, suite) {
      const handle = layoutHandle(core, layout)
      return { entryBytes: handle.entryBytes(proofsOf(suite)), maxQueries: handle.maxQueries(proofsOf(suite)) }
    },
    nextGeneration(before, content, keyed, headroom) {
      const old = commitDatabase(core, before, content).handle
      const next = core.nextGeneration(old, keyed, headroom)
      while (next.step(old));
      const made = next.finish()
      const database = made.takeDatabase()!
      return {
        layout: layoutOf(database.layout),
        directory: made.takeDirectory()?.encode() ?? new Uint8Array(),
        commitments: database.commitments(),
        contentHashes: database.contentHashes(),
      }
    },
    update(before, operations) {
      const { handle } = commitDatabase(core, before.layout, before.records)
      const kinds = Uint8Array.from(operations, ({ op }) => 1 + ['add', 'edit', 'delete'].indexOf(op))
      const nothing = new Uint8Array(before.layout.recordBytes)
      const records = operations.map(operation => (operation.op === 'delete' ? nothing : operation.record))
      const places = operations.map((operation, i) =>
        operation.op === 'add' ? records[i]!.subarray(0, 16) : operation.place,
      )
      const epoch =
        before.directory.length === 0
          ? handle.applyKeyless(
              kinds,
              Uint32Array.from(places, place => Number(place) || 0),
              concatBytes(...records),
            )
          : handle.applyKeyed(
              core.decodeDirectory(before.directory, before.layout.records),
              kinds,
              concatBytes(...(places as Uint8Array[])),
              concatBytes(...records),
            )
      return {
        ...stateOf(core, handle, epoch.takeDirectory()?.encode() ?? before.directory),
        list: epoch.list(),
        commitments: handle.commitments(),
        contentHashes: handle.contentHashes(),
      }
    },
    follow(before, list, after) {
      const { handle } = commitDatabase(core, before.layout, before.records)
      const [old, next] = [layoutHandle(core, before.layout), layoutHandle(core, after)]
      handle.applyList(list, next)
      const keyed = before.directory.length > 0
      const directory = keyed && core.decodeDirectory(before.directory, before.layout.records).updated(list, old, next)
      return stateOf(core, handle, directory ? directory.encode() : before.directory)
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
            const answer = database.handle.answer(vectors, suite)
            if (!client.verify(role, answer)) throw new Error('an honest answer was refused')
            return { vectors, answer }
          }
          const retrieve = ask(0, client.retrieveVectors())
          const refresh = ask(1, client.refreshVectors())
          const name = client.pendingName()
          return { retrieve, refresh, records: client.recon(), name }
        },
      }
    },
  }
}

function stateOf(core: Core, handle: DatabaseHandle, directory: Uint8Array): State {
  const layout = layoutOf(handle.layout)
  const content = memory(core, handle.recordsPointer(), layout.records * layout.recordBytes).slice()
  return { layout, records: content, directory }
}

function layoutOf({ records, recordBytes, partitions, partitionRecords, blockRecords }: LayoutHandle): Layout {
  return { records, recordBytes, partitions, partitionRecords, ...(blockRecords === 1 ? {} : { blockRecords }) }
}

/** Offsets as they follow a query's header: u16, little-endian. */
function flatten(vectors: Vectors): Uint8Array {
  return Uint8Array.from(vectors.flat().flatMap(offset => [offset & 0xff, offset >> 8]))
}
