// What the server's tests share: temporary directories, datasets from literal text, queries, and an independent check
// of an answer's proofs.

import { once } from 'node:events'
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { type AddressInfo, createServer as createListener } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import {
  contentHash,
  encodeFenceRequest,
  encodeQuery,
  entryBytes,
  equalBytes,
  type FenceRequest,
  type Manifest,
  ownBase,
  type Proofs,
  toHex,
} from '@keyhush/protocol'
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

/** 100 records of 8 bytes: 16 partitions of 7, so batches of up to 64. */
export const small = (choices: Choices = {}) => builtDataset('a.bin', pseudoRandom(800), { recordBytes: 8, ...choices })

/** The dataset with another `answer`. */
export const answeringWith = (dataset: Dataset, value: () => never): Dataset => ({
  ...dataset,
  database: Object.create(dataset.database, { answer: { value } }),
})

/** A server until the test ends. */
export async function running(options: ServerOptions): Promise<FastifyInstance> {
  const app = await createServer(options)
  onTestFinished(async () => {
    app.server.closeAllConnections()
    await app.close()
  })
  return app
}

/** One on a port of the system's choosing. */
export async function listening(options: ServerOptions) {
  const app = await running(options)
  const url = await app.listen({ host: '127.0.0.1', port: 0 })
  return { app, url, port: Number(new URL(url).port) }
}

/** A port that was free a moment ago: for what must be told its own, or come back at it. */
export async function freePort(): Promise<number> {
  const server = createListener().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  await new Promise(resolve => server.close(resolve))
  return port
}

/** Asks a server without a socket. */
export const post = (app: FastifyInstance, url: string, payload: Uint8Array | string, headers = {}) =>
  app.inject({ method: 'POST', url, payload: Buffer.from(payload as Uint8Array), headers })

/** The option of a server that logs, and the lines that it has logged. */
export function logged(level: 'trace' | 'info' | 'warn') {
  const lines: string[] = []
  return { lines, log: { level, stream: { write: (line: string) => void lines.push(line) } } }
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

/** What a fence is asked of a hint: nothing is requested at version 0. */
export function fenceRequest(
  databaseId: Uint8Array,
  kind: FenceRequest['kind'],
  id: number,
  version = 0,
  requestHash: Uint8Array = new Uint8Array(32),
): Buffer<ArrayBuffer> {
  const hintId = new Uint8Array(16)
  new DataView(hintId.buffer).setUint32(0, id)
  return Buffer.from(encodeFenceRequest({ kind, databaseId, hintId, version, requestHash }))
}

/** A promise, and what resolves it. */
export function latch(): { open(): void; readonly opened: Promise<void> } {
  let open = () => {}
  const opened = new Promise<void>(resolve => {
    open = resolve
  })
  return { open, opened }
}

/** The hashes of all partitions. */
export const partitionHashes = (manifest: Manifest) =>
  Array.from({ length: manifest.partitions }, (_, q) => toHex(contentHash(manifest, q)))

/** `bytes` with some of them replaced. */
export function changed(bytes: Uint8Array, at: number, ...by: number[]): Buffer<ArrayBuffer> {
  const copy = Buffer.from(bytes)
  copy.set(by, at)
  return copy
}

/** A query of any suite, with the header of docs/protocol.md and a fault in it; and the code of the reply. */
export const faultsOf = (query: Uint8Array): [string, Buffer, string][] => [
  ['another magic', changed(query, 0, 0), 'bad_request'],
  ['another format', changed(query, 4, 2), 'bad_request'],
  ['another suite', changed(query, 6, 1), 'bad_request'],
  ['another database', changed(query, 8, 0, 0, 0, 0), 'wrong_database'],
  ['another generation', changed(query, 24, 2), 'epoch_unknown'],
  ['another epoch', changed(query, 28, 2), 'epoch_unknown'],
  ['another Q', changed(query, 32, 15), 'bad_request'],
  ['no query', changed(query, 36, 0), 'bad_request'],
  ['reserved bytes', changed(query, 38, 1), 'bad_request'],
  ['a byte too few', query.subarray(0, -1) as Buffer, 'bad_request'],
  ['a byte too many', Buffer.concat([query, Buffer.alloc(1)]), 'bad_request'],
]

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

/** The manifest of an epoch that is its own base, with another public hint than that of its records. */
export function falselyHinted(manifest: Manifest): Manifest {
  return { ...manifest, oneServer: ownBase(manifest, new Uint8Array(32).fill(1)) }
}
