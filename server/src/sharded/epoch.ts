// An epoch of a sharded database: its manifest, made of its shards' (docs/protocol/sharded.md), and how its queries are split.

import {
  encodeManifest,
  equalBytes,
  HASH_BYTES,
  type InstantOf,
  instantLayout,
  MAX_QUERIES,
  type Manifest,
  type Sharing,
  SUITE_MERKLE_BLAKE3,
  SUITE_SHARDED,
  shardsField,
  toHex,
} from '@keyhush/protocol'
import type { Core, UpperTreeHandle } from '@keyhush/wasm'
import { DatasetError } from '../base/errors.js'
import type { KnownManifest } from '../base/known-manifest.js'
import { epochUnknown } from '../base/refusal.js'
import type { AnyEpoch } from '../database/epochs.js'
import { named } from '../dataset/keyed.js'
import { layoutOf } from '../dataset/view.js'
import type { Fabric } from './fabric.js'

const NOTHING = new Uint8Array(HASH_BYTES)

/** Fields that all shards have alike. */
const ALIKE = [
  ...([
    'suite',
    'generation',
    'epoch',
    'expires',
    'records',
    'recordBytes',
    'valueBytes',
    'keyed',
    'variable',
  ] as const),
  ...(['partitions', 'partitionRecords', 'blockRecords', 'directoryBlockLog', 'directoryBlockBytes'] as const),
  'directorySeed',
] satisfies readonly (keyof Manifest)[]

/** What an epoch has of its batch and of the one before it, or of how it was stored; missing: it is the first of all. */
type Origin = Pick<Manifest, 'databaseId' | 'previousManifest' | 'expires'>

export class ShardedEpoch implements AnyEpoch {
  readonly core: Core
  readonly manifest: Manifest
  readonly manifestBytes: Uint8Array
  readonly manifestHash: string
  /** hashes of the shards' manifests: in the place of an update list */
  readonly list: Uint8Array
  /** the shards' own */
  readonly shards: readonly KnownManifest[]
  readonly fabric: Fabric
  readonly #trees: Readonly<Record<InstantOf, UpperTreeHandle>>
  isClosed = false

  /** `fabric`: where the shards are. Throws DatasetError, which names a shard that does not fit to the others. */
  constructor(core: Core, fabric: Fabric, shards: readonly KnownManifest[], origin?: Origin) {
    const { manifest: first } = shards[0]!
    const { databaseId, previousManifest, expires } = origin ?? {
      databaseId: first.databaseId.map(() => 0),
      previousManifest: NOTHING,
      expires: first.expires,
    }
    for (const [shard, { manifest }] of shards.entries()) checkAlike(shard, manifest, first)
    const treeOf = (of: InstantOf): UpperTreeHandle => {
      const layout = layoutOf(core, instantLayout(first, of))
      const all = shards.map(({ manifest }) => manifest[of === 'records' ? 'commitments' : 'directoryCommitment'])
      try {
        return core.newUpperTree(layout, shards.length, Buffer.concat(all))
      } catch (error) {
        throw new DatasetError('--shards', (error as Error).message)
      } finally {
        layout.free()
      }
    }
    this.core = core
    this.shards = shards
    this.fabric = fabric
    this.list = Buffer.concat(shards.map(({ bytes }) => core.blake3(bytes)))
    this.#trees = { records: treeOf('records'), directory: treeOf('directory') }
    // The shards' generation begins with the whole's.
    const hasList = first.updateListBytes > 0
    const manifest: Manifest = {
      ...first,
      ...{ databaseId, previousManifest, expires },
      ...{ suite: SUITE_SHARDED, shards: shards.length, maxQueries: MAX_QUERIES },
      ...{ oneServer: undefined, slotMarksHash: undefined },
      ...{ records: shards.length * first.records, partitions: shards.length * first.partitions },
      ...{ directoryBytes: 0, directoryHash: NOTHING, directoryCommitment: this.#trees.directory.root },
      ...{
        updateListBytes: hasList ? this.list.length : 0,
        updateListHash: hasList ? core.blake3(this.list) : NOTHING,
      },
      ...{ commitments: this.#trees.records.root, contentHashes: shardsField(shards.length) },
    }
    this.manifest = origin === undefined ? named(core, manifest) : manifest
    this.manifestBytes = encodeManifest(this.manifest)
    this.manifestHash = toHex(core.blake3(this.manifestBytes))
  }

  /** Of a lookup: most queries of a request, bytes of a shard's answer to one, and bytes of what stands above that. */
  sizes(of: InstantOf, servers: number) {
    const { siblingBytes, layout } = this.#open(of)
    const [, , answerBytes, most] = layout.instantSizes(servers) as unknown as [number, number, number, number]
    return { most, siblingBytes, answerBytes: answerBytes - siblingBytes }
  }

  /** The a of lookups with three servers or more. */
  groupLog(of: InstantOf, servers: number): number {
    return this.core.instantGroupLog(this.#open(of).layout, servers)
  }

  /** Checked queries, split as the core does it: those for the first shard, for the next one, and behind them what stands above. */
  split(of: InstantOf, queries: Uint8Array, { servers, vectors }: Sharing): Uint8Array {
    return this.#open(of).split(queries, servers, vectors)
  }

  /** Throws an `epoch_unknown` Refusal once this is closed. */
  #open(of: InstantOf): UpperTreeHandle {
    if (this.isClosed) throw epochUnknown(this.manifest)
    return this.#trees[of]
  }

  close(): void {
    if (this.isClosed) return
    this.isClosed = true
    for (const tree of Object.values(this.#trees)) tree.free()
  }
}

function checkAlike(shard: number, manifest: Manifest, first: Manifest): void {
  const refuse = (what: string, expected: unknown, got: unknown): never => {
    throw new DatasetError(`shard ${shard}`, `expected ${what} ${expected}, got ${got}; build it with the shape of all`)
  }
  if (manifest.suite !== SUITE_MERKLE_BLAKE3) refuse('suite', SUITE_MERKLE_BLAKE3, manifest.suite)
  for (const field of ALIKE) {
    const [expected, got] = [first[field], manifest[field]]
    const isEqual =
      expected instanceof Uint8Array && got instanceof Uint8Array ? equalBytes(expected, got) : expected === got
    if (!isEqual) refuse(`the ${field} of shard 0,`, expected, got)
  }
}
