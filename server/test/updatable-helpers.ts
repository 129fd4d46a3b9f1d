// What tests of an updatable database share: one in memory storage, batches for it, and reading it as a client does.

import {
  type Batch,
  encodeBatch,
  entryBytes,
  fromHex,
  type Manifest,
  type Proofs,
  signedBytes,
  suiteOf,
  toHex,
} from '@keyhush/protocol'
import { ed25519 } from '@noble/curves/ed25519.js'
import { blake3 } from '@noble/hashes/blake3.js'
import { expect, onTestFinished } from 'vitest'
import { PUBLISHER } from '../../tests/support/publishing.js'
import { Refusal } from '../dist/base/refusal.js'
import {
  MemoryStorage,
  type Storage,
  type Transaction,
  UpdatableDatabase,
  type UpdatableOptions,
} from '../dist/index.js'
import { StorageError } from '../dist/storage/storage.js'
import { builtDirectory, type Choices, createIn, listed, listening, vectors, verifiedRecord } from './helpers.js'

const text = (bytes: Uint8Array) => new TextDecoder().decode(bytes)

/** A storage that can fail to write: `fails` says which keys. */
export class FailingStorage extends MemoryStorage {
  fails = (_key: string) => false

  override transact<T>(keys: readonly string[], work: (transaction: Transaction) => T): Promise<T> {
    return super.transact(keys, transaction =>
      work({
        get: key => transaction.get(key),
        remove: key => transaction.remove(key),
        put: (key, value) => {
          if (this.fails(key)) throw new StorageError('ENOSPC')
          transaction.put(key, value)
        },
      }),
    )
  }
}

/** What transactions have written, to be had as of any of them. */
export class RememberingStorage extends FailingStorage {
  #written: [string, Uint8Array | undefined][][] = []

  override async transact<T>(keys: readonly string[], work: (transaction: Transaction) => T): Promise<T> {
    const writes: [string, Uint8Array | undefined][] = []
    const result = await super.transact(keys, transaction =>
      work({
        get: key => transaction.get(key),
        remove: key => {
          writes.push([key, undefined])
          transaction.remove(key)
        },
        put: (key, value) => {
          transaction.put(key, value)
          writes.push([key, Uint8Array.from(value)])
        },
      }),
    )
    this.#written.push(writes)
    return result
  }

  get transactions(): number {
    return this.#written.length
  }

  /** Keys that the nth transaction wrote. */
  keys(n: number): string[] {
    return this.#written[n]!.map(([key]) => key)
  }

  async asOf(count: number): Promise<FailingStorage> {
    const copy = new FailingStorage()
    await copy.transact([], transaction => {
      for (const [key, value] of this.#written.slice(0, count).flat()) {
        if (value === undefined) transaction.remove(key)
        else transaction.put(key, value)
      }
    })
    return copy
  }
}

export async function storageOf(
  name: string,
  contents: string | Uint8Array,
  choices: Choices = {},
): Promise<FailingStorage> {
  return createIn(new FailingStorage(), await builtDirectory(name, contents, choices))
}

export async function opened(storage: Storage, options: UpdatableOptions = {}): Promise<UpdatableDatabase> {
  const updatable = await UpdatableDatabase.open(storage, options)
  onTestFinished(() => updatable.close())
  return updatable
}

/** A server with a database of its own, which begins with the dataset in `dir`, and publishers if there are any. */
export async function servedFrom(dir: string, ...publisherKeys: readonly Uint8Array[]) {
  const updatable = await opened(await createIn(new MemoryStorage(), dir))
  return { updatable, ...(await listening({ datasets: [{ updatable, publisherKeys }] })) }
}

export const KEYED = 'key,value\none,first\ntwo,second\nthree,third\n'
export const keyed = async (choices: Choices = {}, options: UpdatableOptions = {}) =>
  opened(await storageOf('a.csv', KEYED, { maxValueBytes: 20, ...choices }), options)

/** An updatable database, or a sharded one. */
interface Changing {
  readonly newest: { readonly manifest: Manifest; readonly manifestBytes: Uint8Array; readonly manifestHash: string }
}

/** The next batch, unless something else is said. */
export function batchOn(
  updatable: Changing,
  operations: readonly object[] | string,
  other: Partial<Batch> = {},
): Uint8Array<ArrayBuffer> {
  const { manifest, manifestHash } = updatable.newest
  const lines =
    typeof operations === 'string' ? operations : operations.map(each => `${JSON.stringify(each)}\n`).join('')
  return encodeBatch({
    encoding: 'utf8',
    databaseId: manifest.databaseId,
    generation: manifest.generation,
    epoch: manifest.epoch + 1,
    expires: 0,
    previousManifest: fromHex(manifestHash),
    operations: new TextEncoder().encode(lines),
    ...other,
  })
}

/** The stored record at an index, its proof verified against the manifest of that epoch, if it has any; with tags it is the same. */
export function recordAt(updatable: UpdatableDatabase, manifest: Manifest, index: number): Uint8Array {
  const offsets = vectors(Array(manifest.partitions).fill(index % manifest.partitionRecords))
  const epoch = updatable.find(manifest.generation, manifest.epoch)!
  const q = Math.floor(index / manifest.partitionRecords)
  const answered = (proofs: Proofs) => {
    const size = entryBytes(manifest, proofs)
    return (epoch.answer(offsets, suiteOf(proofs)) as Uint8Array).slice(q * size, (q + 1) * size)
  }
  const bare = answered('tags')
  if (manifest.suite === suiteOf('tags')) return bare
  const record = verifiedRecord(manifest, q, index % manifest.partitionRecords, answered('merkle'))
  expect(toHex(bare)).toBe(toHex(record))
  return record
}

/** The publisher's signature of an epoch, if not another the newest, as it is sent. */
export function signatureOf({ newest }: Changing, { publicKey, secretKey } = PUBLISHER, of = newest) {
  const { generation, epoch } = of.manifest
  const signature = toHex(ed25519.sign(signedBytes(of.manifestBytes), secretKey))
  return { publicKey: toHex(publicKey), generation, epoch, signature }
}

/** Generation and epoch, with a point between them. */
export const numbers = ({ generation, epoch }: { readonly generation: number; readonly epoch: number }) =>
  `${generation}.${epoch}`

export async function bodyOf(updatable: UpdatableDatabase, hash: Uint8Array | string): Promise<Uint8Array> {
  const blob = (await updatable.findBlob(typeof hash === 'string' ? hash : toHex(hash)))!
  const chunks: Uint8Array[] = []
  for await (const chunk of await blob.open(0, blob.bytes - 1)) chunks.push(chunk as Uint8Array)
  return Buffer.concat(chunks)
}

/** Values by key: every key is looked up through the directory's blob, as a client does. */
export async function contents(updatable: UpdatableDatabase): Promise<Map<string, string>> {
  const { manifest } = updatable.newest
  const found = new Map<string, string>()
  for (let i = 0; i < manifest.records; i++) {
    const record = recordAt(updatable, manifest, i)
    if (record.every(byte => byte === 0)) continue
    const length = record[16]! | (record[17]! << 8)
    found.set(toHex(record.subarray(0, 16)), text(record.subarray(18, 18 + length)))
  }
  return found
}

export const printOf = (key: string) =>
  toHex(
    blake3(new TextEncoder().encode(key), {
      context: new TextEncoder().encode('keyhush 2026-11 key fingerprint v1'),
    }),
  ).slice(0, 32)

export async function refusal(work: Promise<unknown>): Promise<Refusal> {
  const error = await work.then(
    () => undefined,
    (reason: unknown) => reason,
  )
  expect(error).toBeInstanceOf(Refusal)
  return error as Refusal
}

/** Any value of the storage changed or removed: it is refused, naming the storage. All are as they were afterwards. */
export async function expectChangesRefused(storage: MemoryStorage): Promise<void> {
  for (const [key, bytes] of await listed(storage, '')) {
    for (const at of [0, bytes.length >> 1, bytes.length - 1]) {
      const changed = bytes.slice()
      changed[at]! ^= 0x01
      await storage.transact([], transaction => transaction.put(key, changed))
      await expect(UpdatableDatabase.open(storage), `${key} at ${at}`).rejects.toThrow(/^memory: /)
    }
    await storage.transact([], transaction => transaction.remove(key))
    await expect(UpdatableDatabase.open(storage), `${key} removed`).rejects.toThrow(/^memory: /)
    await storage.transact([], transaction => transaction.put(key, bytes))
  }
}
