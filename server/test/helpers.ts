// What the server's tests share: temporary directories, datasets from literal text, queries, and an independent check
// of an answer's proofs.

import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { encodeQuery, entryBytes, equalBytes, type Manifest, type Proofs } from '@keyhush/protocol'
import { blake3 } from '@noble/hashes/blake3.js'
import type { FastifyInstance } from 'fastify'
import { onTestFinished } from 'vitest'
import {
  type BuildOptions,
  buildDataset,
  createServer,
  type Dataset,
  loadDataset,
  type ServerOptions,
  type Storage,
  UpdatableDatabase,
} from '../dist/index.js'

/** A directory that goes when the test ends. */
export async function temporaryDirectory(): Promise<string> {
  const dir = await mkdtemp(join(tmpdir(), 'keyhush-test-'))
  onTestFinished(() => rm(dir, { recursive: true, force: true }))
  return dir
}

/** Writes `contents` to a file of that name in a fresh directory. */
export async function dataFile(name: string, contents: string | Uint8Array): Promise<string> {
  const file = join(await temporaryDirectory(), name)
  await writeFile(file, contents)
  return file
}

export type Choices = Omit<BuildOptions, 'data'>

/** Builds a dataset from literal contents; the directory goes when the test ends. */
export async function builtDirectory(
  name: string,
  contents: string | Uint8Array,
  choices: Choices = {},
): Promise<string> {
  const data = await dataFile(name, contents)
  const out = join(await temporaryDirectory(), 'dataset')
  await buildDataset({ data, out, ...choices })
  return out
}

/** Builds and loads a dataset; it is closed when the test ends. */
export async function builtDataset(
  name: string,
  contents: string | Uint8Array,
  choices: Choices = {},
): Promise<Dataset> {
  const dataset = await loadDataset(await builtDirectory(name, contents, choices))
  onTestFinished(() => dataset.close())
  return dataset
}

/** A server until the test ends. */
export async function running(options: ServerOptions): Promise<FastifyInstance> {
  const app = await createServer(options)
  onTestFinished(() => app.close())
  return app
}

/** Begins a store from the dataset in a directory. */
export async function createIn<S extends Storage>(storage: S, dir: string): Promise<S> {
  const dataset = await loadDataset(dir)
  await UpdatableDatabase.create(storage, dataset)
  dataset.close()
  return storage
}

/** Bytes that look random and are the same every time. */
export function pseudoRandom(length: number, seed = 1): Uint8Array {
  return blake3(Uint8Array.of(seed), { dkLen: length })
}

/** Names and contents of all files below a directory. */
export async function contentsOf(dir: string): Promise<Map<string, Buffer>> {
  const names = (await readdir(dir, { recursive: true, withFileTypes: true })).filter(entry => entry.isFile())
  const paths = names.map(entry => join(entry.parentPath, entry.name)).sort()
  return new Map(await Promise.all(paths.map(async path => [path.slice(dir.length), await readFile(path)] as const)))
}

export async function emptyDirectory(): Promise<string> {
  const dir = join(await temporaryDirectory(), 'out')
  await mkdir(dir)
  return dir
}

/** Query vectors: count·Q offsets. */
export function vectors(offsets: readonly number[]): Uint8Array {
  const bytes = new Uint8Array(2 * offsets.length)
  offsets.forEach((offset, i) => {
    bytes[2 * i] = offset & 0xff
    bytes[2 * i + 1] = offset >>> 8
  })
  return bytes
}

/** What `storage.entries` goes through. */
export async function listed(storage: Storage, prefix: string, after?: string): Promise<[string, Uint8Array][]> {
  const entries: [string, Uint8Array][] = []
  for await (const [key, value] of storage.entries(prefix, after)) entries.push([key, value])
  return entries
}

/** A query for the same offset in every partition. */
export function queryAt(manifest: Manifest, offset: number, count = 1, proofs?: Proofs): Buffer<ArrayBuffer> {
  return Buffer.from(encodeQuery(manifest, count, vectors(Array(count * manifest.partitions).fill(offset)), proofs))
}

const derived = (context: string) => blake3(new Uint8Array(), { context: new TextEncoder().encode(context) })
const LEAF = derived('keyhush 2026-11 merkle leaf v1')
const NODE = derived('keyhush 2026-11 merkle node v1')

/** Verifies an entry for `offset` of partition `q` by docs/protocol.md alone, without the core. Gives the record. */
export function verifiedRecord(manifest: Manifest, q: number, offset: number, entry: Uint8Array): Uint8Array {
  const record = entry.subarray(0, manifest.recordBytes)
  let hash = blake3(record, { key: LEAF })
  for (let k = 0; 32 * k < entryBytes(manifest) - manifest.recordBytes; k++) {
    const sibling = entry.subarray(manifest.recordBytes + 32 * k, manifest.recordBytes + 32 * (k + 1))
    const [left, right] = (offset >>> k) & 1 ? [sibling, hash] : [hash, sibling]
    hash = blake3(Buffer.concat([left, right]), { key: NODE })
  }
  if (!equalBytes(hash, manifest.commitments.subarray(32 * q, 32 * (q + 1)))) {
    throw new Error(`the entry for offset ${offset} of partition ${q} does not verify`)
  }
  return record
}
