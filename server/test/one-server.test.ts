// Lookups with one server, with real threads: right at the epochs that are prepared, refused where they are not, and of the hint that
// whoever makes the epoch has computed.

import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Worker } from 'node:worker_threads'
import {
  contentHash,
  encodeManifest,
  HEADER_BYTES,
  type Manifest,
  parseErrorReply,
  parseInfo,
  toHex,
} from '@keyhush/protocol'
import { type Core, loadCore } from '@keyhush/wasm'
import type { FastifyInstance } from 'fastify'
import { beforeAll, expect, onTestFinished, test, vi } from 'vitest'
import { PUBLISHER } from '../../tests/support/publishing.js'
import { thoroughly } from '../../tests/support/thoroughly.js'
import { FixedEpochs } from '../dist/database/fixed-epochs.js'
import type { Generation } from '../dist/database/generation.js'
import { checkHintable } from '../dist/database/one-server.js'
import {
  buildDataset,
  type Dataset,
  loadDataset,
  type OneServerOptions,
  PublisherRecord,
  publish,
  Readiness,
  UpdatableDatabase,
  type UpdatableOptions,
} from '../dist/index.js'
import { Base } from '../dist/one-server/base.js'
import { preparedBytes } from '../dist/one-server/contents.js'
import { Prepared } from '../dist/one-server/prepared.js'
import { CONTENT, fixed, hex, RECORD_BYTES, RECORDS, withComputations } from './computing.js'
import { builtDataset, builtDirectory, createIn, falselyHinted, faultsOf, pseudoRandom } from './helpers.js'
import { blobAt, codeOf, EXPIRES, found, HINTED, hintAt, lookup, post, ready } from './one-server-helpers.js'
import { standIn } from './stand-in.js'
import { batchOn, opened, RememberingStorage, servedFrom, signatureOf } from './updatable-helpers.js'

const recordOf = (index: number) => hex(CONTENT.subarray(index * RECORD_BYTES, (index + 1) * RECORD_BYTES))

let core: Core
let directory: string
beforeAll(async () => {
  core = await loadCore()
  const folder = await mkdtemp(join(tmpdir(), 'keyhush-test-'))
  directory = join(folder, 'dataset')
  const data = join(folder, 'a.bin')
  await writeFile(data, CONTENT)
  await buildDataset({ data, out: directory, recordBytes: RECORD_BYTES, ...HINTED })
  return () => rm(folder, { recursive: true })
})

/** Of the directory that all tests share: a hint takes a second to make. */
const hinted = async () => {
  const dataset = await loadDataset(directory)
  onTestFinished(() => dataset.close())
  return dataset
}
/** A dataset whose manifest names another hint than that of its records. */
const withOtherHint = (dataset: Dataset): Dataset => {
  const manifest = falselyHinted(dataset.manifest)
  const base = new Base(core, manifest, dataset.directory)
  return { ...dataset, manifest, manifestBytes: encodeManifest(manifest), base }
}
const hintedStore = async (options: UpdatableOptions = {}) =>
  opened(await createIn(new RememberingStorage(), directory), options)

const serving = async (dataset: Dataset, oneServer: OneServerOptions = {}) => {
  const made = await withComputations({ dataset }, { oneServer, instant: false })
  await ready(made.app)
  return made
}

/** Numbers of the threads that run. */
const threads = () => {
  const { workers } = process.report.getReport() as { workers: { header: { threadId: number } }[] }
  return workers.map(({ header }) => header.threadId)
}

/** Edits a record, until when the manifest is valid. */
async function edit(updatable: UpdatableDatabase, index: number, expires = EXPIRES): Promise<string> {
  const value = hex(pseudoRandom(RECORD_BYTES, 50 + index))
  await updatable.publish(batchOn(updatable, [{ op: 'edit', index, value }], { encoding: 'hex', expires }))
  return value
}

test('a server that withholds downloads gives the public hint, and answers', async () => {
  const dataset = await hinted()
  const { app } = await withComputations({ dataset, blobs: false }, { instant: false })
  await ready(app)
  const { manifest } = dataset
  expect(await found(app, manifest, [5])).toBe(recordOf(5))
  expect((await app.inject(`/v1/blobs/${toHex(contentHash(manifest, 0))}`)).statusCode).toBe(404)
})

test('a server finds records, and its replies have the lengths that follow from the manifest', async () => {
  const dataset = await hinted()
  const { app } = await serving(dataset)
  const { manifest } = dataset
  expect(await found(app, manifest, [0])).toBe(recordOf(0))
  expect(await found(app, manifest, [RECORDS - 1, 7, 7])).toBe([RECORDS - 1, 7, 7].map(recordOf).join(''))
  const { body, answerBytes } = lookup(manifest, [5, 6])
  expect((await post(app, body)).headers).toMatchObject({
    'content-length': String(HEADER_BYTES + 2 * answerBytes),
    'cache-control': 'no-store, no-transform',
  })
  expect(parseInfo((await app.inject('/v1/info')).json()).offers.oneServer).toBe(true)
})

test('a keyed database has one hint for records and directory', async () => {
  const lines = Array.from({ length: 40 }, (_, i) => `key-${i},value ${i}\n`)
  const dataset = await builtDataset('a.csv', `key,value\n${lines.join('')}`, HINTED)
  const { app } = await serving(dataset)
  const { manifest } = dataset
  const hint = await hintAt(app, manifest)
  const { hintBytes } = core.oneServerSizes(manifest)
  const { body, read } = lookup(manifest, [0], 'directory')
  const block = read((await post(app, body)).rawPayload, hint.subarray(hintBytes))
  const blocks = new Uint8Array(core.memory.buffer, dataset.blocks!.recordsPointer(), manifest.directoryBlockBytes)
  expect(block).toBe(hex(blocks))
})

test('what is malformed or not offered is refused', async () => {
  const dataset = await hinted()
  const { app } = await serving(dataset)
  const { body } = lookup(dataset.manifest, [5])
  const directory = Buffer.from(body)
  directory[6] = 10
  const faults = [...faultsOf(body), ['a directory without keys', directory, 'bad_request'] as const]
  for (const [name, fault, code] of faults) expect(codeOf(await post(app, fault as Buffer)), name).toBe(code)
  const plain = await fixed()
  const { app: other } = await withComputations({ dataset: plain }, { instant: false })
  expect(codeOf(await post(other, body))).toBe('wrong_database')
  expect(parseInfo((await other.inject('/v1/info')).json()).offers.oneServer).toBe(false)
  const { app: off } = await withComputations({ dataset }, { instant: false, oneServer: false })
  expect((await post(off, body)).statusCode).toBe(404)
})

thoroughly('queries beyond those that may wait are refused, and the others answered', async () => {
  const dataset = await hinted()
  const { app } = await serving(dataset, { waiting: 2 })
  const asked = Array.from({ length: 6 }, (_, i) => found(app, dataset.manifest, [i]))
  const answers = await Promise.all(asked)
  expect(answers.filter(answer => answer === 'instant_full').length).toBeGreaterThan(0)
  for (const [i, answer] of answers.entries()) expect(['instant_full', recordOf(i)]).toContain(answer)
  expect(await found(app, dataset.manifest, [9])).toBe(recordOf(9))
})

thoroughly('another hint than that of the records is not served', async () => {
  const dataset = await hinted()
  const readiness = new Readiness()
  const planted = withOtherHint(dataset)
  const { app } = await withComputations({ dataset: planted, readiness }, { instant: false })
  await ready(app)
  expect((await app.inject('/readyz')).json().problems).toEqual(['lookups with one server cannot be answered'])
  expect(readiness.problems.join()).toMatch(/another public hint than the manifest names/)
  expect(parseInfo((await app.inject('/v1/info')).json()).offers.oneServer).toBe(false)
  expect(codeOf(await post(app, lookup(planted.manifest, [0]).body))).toBe('not_ready')
})

thoroughly('what cannot be prepared keeps no thread, and says so', async () => {
  const dataset = await hinted()
  const before = threads()
  const planted = withOtherHint(dataset)
  const { app } = await withComputations({ dataset: planted }, { instant: false })
  await ready(app)
  await vi.waitFor(() => expect(threads().filter(thread => !before.includes(thread))).toEqual([]))
  const refusal = parseErrorReply((await post(app, lookup(planted.manifest, [0]).body)).body)
  expect(refusal).toMatchObject({ code: 'not_ready', message: expect.stringContaining('the reason at /readyz') })
})

thoroughly('a generation that cannot be written keeps no thread', async () => {
  const storage = await createIn(new RememberingStorage(), directory)
  const updatable = await opened(storage)
  await updatable.newest.oneServer!.prepared!.made
  const before = threads()
  storage.fails = key => key.startsWith('generation/')
  const body = batchOn(updatable, [{ op: 'generation', headroom: 10 }], { expires: EXPIRES })
  await expect(updatable.publish(body)).rejects.toThrow('cannot be written')
  expect(threads().filter(thread => !before.includes(thread))).toEqual([])
  storage.fails = () => false
  expect(await updatable.publish(body)).toMatchObject({ generation: 2, epoch: 2 })
})

/** The patch of an epoch: indices, kinds and records of its entries. */
async function patchAt(app: FastifyInstance, { oneServer }: Manifest): Promise<[number, number, string][]> {
  const bytes = Buffer.from(await blobAt(app, oneServer!.patchHash))
  expect(bytes.length).toBe(oneServer!.patchBytes)
  return Array.from({ length: bytes.length / (5 + RECORD_BYTES) }, (_, i) => {
    const at = i * (5 + RECORD_BYTES)
    return [bytes.readUInt32LE(at), bytes[at + 4]!, hex(bytes.subarray(at + 5, at + 5 + RECORD_BYTES))]
  })
}

/** Edits all records: more than a patch has room for. */
async function editAll(updatable: UpdatableDatabase, seed: number): Promise<void> {
  const edits = Array.from({ length: RECORDS }, (_, index) => {
    return { op: 'edit', index, value: hex(pseudoRandom(RECORD_BYTES, (seed + index) % 256)) }
  })
  await updatable.publish(batchOn(updatable, edits, { encoding: 'hex', expires: EXPIRES }))
}

test('an edit is in the patch at once, the same at each copy, and nothing is prepared', async () => {
  const updatable = await hintedStore()
  const copy = await hintedStore({ oneServer: false })
  const { app } = await withComputations({ updatable, blobs: false }, { instant: false })
  await ready(app)
  const begin = vi.spyOn(Prepared, 'begin')
  onTestFinished(() => begin.mockRestore())
  const first = updatable.newest.manifest
  const nine = await edit(updatable, 9)
  const second = updatable.newest.manifest
  const three = await edit(updatable, 3)
  for (const index of [9, 3]) await edit(copy, index)
  expect(copy.newest.manifestHash).toBe(updatable.newest.manifestHash)
  const { manifest } = updatable.newest
  expect(manifest.oneServer).toMatchObject({ hintHash: first.oneServer!.hintHash, baseEpoch: 1, baseRecords: RECORDS })
  expect(await patchAt(app, second)).toEqual([[9, 2, nine]])
  expect(await patchAt(app, manifest)).toEqual([
    [9, 2, nine],
    [3, 2, three],
  ])
  for (const at of [first, second, manifest]) expect(await found(app, at, [9, 3])).toBe(recordOf(9) + recordOf(3))
  expect(begin).not.toHaveBeenCalled()
  await expect(edit(updatable, 4, 0)).rejects.toThrow(/need an expiry/)
})

test('an epoch whose patch has no room is its own base, at each copy; the base before is answered, and none before that', async () => {
  const updatable = await hintedStore()
  const copy = await hintedStore({ oneServer: false })
  const { app } = await withComputations({ updatable }, { instant: false })
  await ready(app)
  const first = updatable.newest.manifest
  for (const each of [updatable, copy]) await editAll(each, 0)
  const second = updatable.newest.manifest
  expect(copy.newest.manifestHash).toBe(updatable.newest.manifestHash)
  expect(second.oneServer).toMatchObject({ baseEpoch: 2, patchBytes: 0 })
  await edit(updatable, 9)
  expect(await found(app, first, [9])).toBe(recordOf(9))
  expect(await found(app, updatable.newest.manifest, [9])).toBe(hex(pseudoRandom(RECORD_BYTES, 9)))
  await editAll(updatable, 1)
  expect(await found(app, first, [9])).toBe('epoch_unknown')
  expect((await app.inject(`/v1/blobs/${toHex(first.oneServer!.hintHash)}`)).statusCode).toBe(404)
  expect(await found(app, second, [9])).toBe(hex(pseudoRandom(RECORD_BYTES, 9)))
  expect(await found(app, updatable.newest.manifest, [9])).toBe(hex(pseudoRandom(RECORD_BYTES, 10)))
})

test('a server that starts again prepares the base from its store, and says so meanwhile', async () => {
  const storage = await createIn(new RememberingStorage(), directory)
  const before = await opened(storage, { oneServer: false, history: 1 })
  const values = [await edit(before, 9), await edit(before, 10), await edit(before, 11)]
  const { manifest } = before.newest
  const after = await opened(await storage.asOf(storage.transactions), { history: 1 })
  const { app } = await withComputations({ updatable: after }, { instant: false })
  const early = [
    await post(app, lookup(manifest, [9]).body),
    await app.inject(`/v1/blobs/${toHex(manifest.oneServer!.hintHash)}`),
  ]
  for (const reply of early) {
    expect([reply.statusCode, codeOf(reply), reply.headers['retry-after']]).toEqual([503, 'not_ready', '5'])
  }
  expect((await patchAt(app, manifest)).map(([, , record]) => record)).toEqual(values)
  await ready(app)
  expect(await found(app, manifest, [9, 10])).toBe(recordOf(9) + recordOf(10))
})

test('epochs of one base may have more partitions than it: lookups at each are answered, also after a start', async () => {
  const storage = await createIn(new RememberingStorage(), directory)
  const before = await opened(storage, { oneServer: false })
  const first = before.newest.manifest
  const added = Array.from({ length: 10 }, (_, n) => ({ op: 'add', value: hex(pseudoRandom(RECORD_BYTES, n)) }))
  await before.publish(batchOn(before, added, { encoding: 'hex', expires: EXPIRES }))
  const { manifest } = before.newest
  expect(manifest.partitions).toBeGreaterThan(first.partitions)
  expect(manifest.oneServer).toMatchObject({ baseEpoch: 1, baseRecords: RECORDS })
  const { app } = await withComputations(
    { updatable: await opened(await storage.asOf(storage.transactions)) },
    { instant: false },
  )
  await ready(app)
  for (const at of [first, manifest]) expect(await found(app, at, [RECORDS - 1])).toBe(recordOf(RECORDS - 1))
  expect((await patchAt(app, manifest)).map(([index, kind]) => [index, kind])[9]).toEqual([RECORDS + 9, 1])
})

/** A new base, and what it has at index 9, where `nine` was before. */
const newBases: Record<string, (updatable: UpdatableDatabase, nine: string) => Promise<string>> = {
  'the newest base': async updatable => {
    await editAll(updatable, 0)
    return hex(pseudoRandom(RECORD_BYTES, 9))
  },
  'a new generation': async (updatable, nine) => {
    await updatable.publish(batchOn(updatable, [{ op: 'generation', headroom: 10 }], { expires: EXPIRES }))
    return nine
  },
}
for (const [what, begin] of Object.entries(newBases))
  thoroughly(
    `started again before ${what} is signed, a server prepares the base before too, which clients use`,
    async () => {
      const storage = await createIn(new RememberingStorage(), directory)
      const before = await opened(storage, { oneServer: false, history: 1 })
      // So many that the store needs no list any more to know the newest records.
      const edited: string[] = []
      for (let n = 0; n < 80; n++) edited.push(await edit(before, n))
      await before.addSignature(signatureOf(before))
      const { manifest } = before.newest
      const newest = await begin(before, edited[9]!)
      const started = async () => {
        const updatable = await opened(await storage.asOf(storage.transactions), { history: 1 })
        await Promise.all(updatable.bases.map(base => base.prepared!.made))
        return updatable
      }
      const after = await started()
      const { app } = await withComputations({ updatable: after }, { instant: false })
      expect(await found(app, manifest, [9])).toBe(recordOf(9))
      expect((await patchAt(app, manifest)).map(([, , record]) => record)).toEqual(edited)
      expect(await found(app, before.newest.manifest, [9])).toBe(newest)
      await before.addSignature(signatureOf(before))
      expect((await started()).bases.length).toBe(1)
      await edit(before, 9)
      expect((await started()).bases.length).toBe(1)
    },
  )

thoroughly('a copy whose manifest names another hint is found out before it is signed', async () => {
  const good = await hintedStore({ oneServer: false })
  await good.checkHint()
  const dataset = await hinted()
  const storage = new RememberingStorage()
  await UpdatableDatabase.create(storage, withOtherHint(dataset))
  const planted = await opened(storage, { oneServer: false })
  await expect(planted.checkHint()).rejects.toThrow(/a manifest that names another; sign nothing/)
})

test('a publisher without a copy of its own signs no hint, whatever servers agree on', async () => {
  const [a, b] = [await servedFrom(directory, PUBLISHER.publicKey), await servedFrom(directory, PUBLISHER.publicKey)]
  const trustBase = a.updatable.newest.manifestHash
  const signing = publish({ servers: [a.url, b.url], key: PUBLISHER, record: new PublisherRecord(), trustBase })
  await expect(signing).rejects.toThrow(/must be made from your own copy/)
  expect(a.updatable.signed.list()).toEqual([])
})

thoroughly('nor one that servers show only when they are asked again: what was compared is signed', async () => {
  const plain = await builtDirectory('a.bin', CONTENT, { recordBytes: RECORD_BYTES, expires: EXPIRES })
  const [a, b] = [await servedFrom(plain, PUBLISHER.publicKey), await servedFrom(plain, PUBLISHER.publicKey)]
  const planted = falselyHinted(a.updatable.newest.manifest)
  const reply = (path: string, body: Buffer) =>
    path.startsWith('/v1/manifest?') ? Buffer.from(encodeManifest(planted)) : body
  const servers = [await standIn(a.url, { reply }), await standIn(b.url, { reply })]
  const trustBase = a.updatable.newest.manifestHash
  const { manifestHash } = await publish({ servers, key: PUBLISHER, record: new PublisherRecord(), trustBase })
  expect(manifestHash).toBe(trustBase)
  for (const { updatable } of [a, b]) expect(updatable.signed.list().map(({ epoch }) => epoch)).toEqual([1])
})

test('what an operator is told beforehand is the memory that it takes, and a batch that needs too many columns is refused', async () => {
  const { manifest } = await hinted()
  const { databaseId, generation } = manifest
  const large = { ...manifest, records: 100_000, recordBytes: 256 }
  const before = core.memory.buffer.byteLength
  const handle = core.newOneServer(large, { databaseId, generation, of: 'records' }, 0)
  const grown = core.memory.buffer.byteLength - before
  handle.free()
  expect(grown).toBeLessThan(1.02 * preparedBytes(core, large))
  const larger = { ...manifest, records: 500_000, recordBytes: 1024 }
  const adding = (records: number) => checkHintable({ core } as Generation, larger, EXPIRES, records)
  adding(100)
  expect(() => adding(900_000)).toThrow(/expected records that fit 88000 columns of 8192 bytes/)
  const largest = { ...manifest, records: 88_000, recordBytes: 7800 }
  expect(preparedBytes(core, largest)).toBeLessThan(2 ** 32)
})

test('is not built without an expiry, or without commitments', async () => {
  await expect(fixed({ oneServer: true })).rejects.toThrow('--one-server: expected --expires, got none')
  await expect(fixed({ ...HINTED, proofs: 'tags' })).rejects.toThrow('--one-server: expected proofs other than tags')
})

for (const of of ['a dataset', 'a store'])
  thoroughly(`a thread that ends by itself is replaced, of ${of}`, async () => {
    const posting = vi.spyOn(Worker.prototype, 'postMessage')
    onTestFinished(() => posting.mockRestore())
    const served = of === 'a store' ? { updatable: await hintedStore() } : { dataset: await hinted() }
    const { app } = await withComputations(served, { instant: false })
    const { manifest } = served.updatable?.newest ?? (await hinted())
    const lose = () => (posting.mock.contexts.at(-1) as unknown as Worker).terminate()
    await ready(app)
    if (served.updatable !== undefined) for (const index of [7, 9]) await edit(served.updatable, index)
    await lose() // idle
    await vi.waitFor(async () => expect(await found(app, manifest, [9])).toBe(recordOf(9)))
    const asked = found(app, manifest, [7])
    await vi.waitFor(() => expect(posting.mock.lastCall?.[0]).toHaveProperty('answer'))
    await lose() // most likely while it answers
    expect([recordOf(7), 'not_ready']).toContain(await asked)
    await vi.waitFor(async () => expect(await found(app, manifest, [7])).toBe(recordOf(7)))
    const { problems } = (await app.inject('/readyz')).json() as { problems?: string[] }
    expect(problems).toBeUndefined()
  })

test('the base before is answered no more once its thread has ended: clients move on', async () => {
  const updatable = await hintedStore()
  const { app } = await withComputations({ updatable }, { instant: false })
  await ready(app)
  const { manifest } = updatable.newest
  const posting = vi.spyOn(Worker.prototype, 'postMessage')
  onTestFinished(() => posting.mockRestore())
  expect(await found(app, manifest, [9])).toBe(recordOf(9))
  const thread = posting.mock.contexts.at(-1) as unknown as Worker
  await editAll(updatable, 0)
  await thread.terminate()
  await vi.waitFor(async () => expect(await found(app, manifest, [9])).toBe('epoch_unknown'))
  expect(await found(app, updatable.newest.manifest, [9])).toBe(hex(pseudoRandom(RECORD_BYTES, 9)))
})

test('its thread ends with the database: nothing is answered any more', async () => {
  const updatable = await hintedStore()
  const prepared = updatable.newest.oneServer!.prepared!
  await prepared.made
  expect(prepared.ready).toBe(true)
  await updatable.close()
  expect(prepared.ready).toBe(false)
  await expect(prepared.answer('records', new Uint8Array(1))).rejects.toThrow('the thread has ended')
})

test('close() of a fixed database resolves once its thread has ended', async () => {
  const epochs = new FixedEpochs(await fixed({ oneServer: true, expires: 4_000_000_000 }))
  await epochs.prepare()
  let ended = false
  const { terminate } = Worker.prototype
  const spy = vi.spyOn(Worker.prototype, 'terminate').mockImplementation(async function (this: Worker) {
    const code = await terminate.call(this)
    ended = true
    return code
  })
  onTestFinished(() => spy.mockRestore())
  await epochs.close()
  expect(ended).toBe(true)
})
