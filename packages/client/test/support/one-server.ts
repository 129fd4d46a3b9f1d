// A database for lookups with one server: prepared once, for the base, and then changed by patches (docs/protocol/one-server.md).

import {
  encodeManifest,
  encodePatch,
  type InstantOf,
  instantLayout,
  type Manifest,
  ONE_SERVER_PATH,
  type OneServerFields,
  ownBase,
  updateEntries,
} from '@keyhush/protocol'
import { loadOneServerCore } from '@keyhush/wasm/one-server'
import type { KeyhushMap } from '../../src/index.js'
import type { OpenWithOptions } from '../../src/testing.js'
import { buildDatabase, type Database, someValues } from './database.js'
import { nextEpoch, type Operation } from './epochs.js'
import { core, Harness, hex } from './harness.js'
import { A, Network, type Seen } from './network.js'
import { DAY, NOW, publisherKey, signatureOf } from './signed.js'

await loadOneServerCore() // loaded on demand; here before, for the test's clock does not wait for it

export interface Hinted extends Database {
  readonly hint: Uint8Array
  readonly patch: Uint8Array
  readonly oneServer: NonNullable<Database['oneServer']>
}

const ZERO = new Uint8Array(32)

/** Its own base. */
export function hinted(database: Database): Hinted {
  const { manifest } = database
  const kinds: readonly InstantOf[] = manifest.keyed ? ['records', 'directory'] : ['records']
  const parts = new Map(kinds.map(of => [of, prepared(database, of)]))
  const hint = Buffer.concat([...parts.values()].map(part => part.hint()))
  const oneServer = { answer: (of: InstantOf, queries: Uint8Array) => parts.get(of)!.answer(queries) }
  return withFields({ ...database, hint, patch: new Uint8Array(), oneServer }, ownBase(manifest, core.blake3(hint)))
}

function prepared({ manifest, handle, blocks }: Database, of: InstantOf) {
  const { records, recordBytes } = instantLayout(manifest, of)
  const { databaseId, generation } = manifest
  const part = core.newOneServer({ records, recordBytes }, { databaseId, generation, of })
  part.put(
    new Uint8Array(
      core.memory.buffer,
      (of === 'records' ? handle : blocks!).recordsPointer(),
      records * recordBytes,
    ).slice(),
  )
  while (part.step());
  return part
}

/** Whatever its manifest says then. */
export function withFields(database: Hinted, change: Partial<OneServerFields>): Hinted {
  const { hint, patch } = database
  const oneServer = { ...database.manifest.oneServer!, ...change }
  const manifest: Manifest = { ...database.manifest, expires: NOW + DAY, oneServer }
  const blobs = new Map([...database.blobs, ...[hint, patch].map(blob => [hex(core.blake3(blob)), blob] as const)])
  return { ...database, manifest, manifestBytes: encodeManifest(manifest), blobs }
}

export function withPatch(database: Hinted, patch: Uint8Array): Hinted {
  const patchHash = patch.length === 0 ? ZERO : core.blake3(patch)
  return withFields({ ...database, patch }, { patchBytes: patch.length, patchHash })
}

/** An epoch on the same base. */
export function patched(before: Hinted, operations: readonly Operation[]): Hinted {
  const next = nextEpoch(core, before, operations) as Hinted
  const { recordBytes, updateListHash } = next.manifest
  const entries = [...updateEntries(next.blobs.get(hex(updateListHash))!, recordBytes)]
  const deletes = entries.filter(({ kind }) => kind === 'delete')
  const others = entries.filter(({ kind }) => kind !== 'delete')
  const added = [...deletes, ...others].map(({ index, kind, delta }) => {
    return { index, kind, record: kind === 'delete' ? delta.slice(0, 16) : recordAt(next, index) }
  })
  return withPatch(next, Buffer.concat([before.patch, encodePatch(added, recordBytes)]))
}

/** The next epoch, prepared anew. */
export function rebased(before: Hinted, operations: readonly Operation[]): Hinted {
  return hinted(nextEpoch(core, before, operations, { oneServer: undefined }))
}

function recordAt({ handle, manifest: { recordBytes } }: Database, index: number): Uint8Array {
  return new Uint8Array(core.memory.buffer, handle.recordsPointer() + index * recordBytes, recordBytes).slice()
}

/** An entry of a patch, which may be malformed. */
export function entry(index: number, kind: number, record: Uint8Array, recordBytes: number): Uint8Array {
  const bytes = new Uint8Array(5 + recordBytes)
  new DataView(bytes.buffer).setUint32(0, index, true)
  bytes[4] = kind
  bytes.set(record, 5)
  return bytes
}

export const NAMES = Array.from({ length: 40 }, (_, i) => `name-${i}.example`)
const text = (value: string) => new TextEncoder().encode(value)

/** What is under each key, and the epochs that led there. */
export class World {
  readonly epochs: Hinted[]
  readonly values: Map<string, string>

  constructor(first: Hinted, values: Iterable<readonly [string, string]>) {
    this.epochs = [first]
    this.values = new Map(values)
  }

  get newest(): Hinted {
    return this.epochs.at(-1)!
  }

  /** A value: it is added, or edited; undefined: it is deleted. The same key may come twice. */
  change(...changes: readonly (readonly [string, string | undefined])[]): Hinted {
    this.epochs.push(patched(this.newest, this.operations(changes)))
    return this.newest
  }

  operations(changes: readonly (readonly [string, string | undefined])[]): Operation[] {
    return changes.map(([key, value]) => {
      const op = value === undefined ? 'delete' : this.values.has(key) ? 'edit' : 'add'
      if (value === undefined) this.values.delete(key)
      else this.values.set(key, value)
      return { op, key, ...(value !== undefined && { value: text(value) }) }
    })
  }
}

const FIRST = NAMES.map((name, i) => [name, `first value ${i}`] as const)
let first: Hinted | undefined

/** Of forty names; prepared once for all tests of a file. */
export function world(): World {
  const values = FIRST.map(([, value]) => text(value))
  const shape = { variable: true, partitions: 4, partitionRecords: 16, marked: true }
  first ??= hinted(buildDatabase(core, { keys: NAMES, values, ...shape }))
  return new World(first, FIRST)
}

/** Without keys: five records, of which some are edited and cleared, and then more. */
export function keylessEpochs(): Hinted[] {
  const epochs = [hinted(buildDatabase(core, { values: someValues(5, 9), partitions: 2, partitionRecords: 8 }))]
  const change = (...operations: readonly Operation[]) => epochs.push(patched(epochs.at(-1)!, operations))
  const [value, other] = someValues(20, 9).slice(18) as [Uint8Array, Uint8Array]
  change({ op: 'edit', index: 1, value }, { op: 'delete', index: 2 }, { op: 'add', value })
  change({ op: 'add', value: other }, { op: 'edit', index: 5, value: other })
  return epochs
}

/** A server that has these epochs, and the publisher's signatures of them. */
export function serverOf(epochs: readonly Hinted[]): Network {
  const network = new Network({ [A]: epochs })
  network.signatures.push(...epochs.map(epoch => signatureOf(epoch)))
  return network
}

/** A map on the server. */
export async function openedOn(
  network: Network,
  options: Partial<OpenWithOptions> = {},
  seed = 1,
): Promise<{ harness: Harness; map: KeyhushMap }> {
  const harness = new Harness(network, seed)
  const usual = { servers: [A], mode: 'instant', experimental: true, publisherKey } as const
  return { harness, map: await harness.open({ ...usual, ...options }) }
}

/** What a server has seen of lookups, but for what is drawn anew. */
export function lookups({ seen }: Network, skip = 0): Seen[] {
  return seen.filter(({ path }) => path === ONE_SERVER_PATH).slice(skip)
}
