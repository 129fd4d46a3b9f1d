// A database with Pointproofs for which a new generation would pay: none can be begun by a batch, so what is published is signed all
// the same. A publisher who insisted would leave every epoch from there on without a signature, and clients that ask for one behind.

import { join } from 'node:path'
import { decodeManifest, fromHex, parseInfo, signedBytes, toHex } from '@keyhush/protocol'
import { ed25519 } from '@noble/curves/ed25519.js'
import { blake3 } from '@noble/hashes/blake3.js'
import { expect, onTestFinished, test } from 'vitest'
import {
  buildDataset,
  createKeyFile,
  createServer,
  loadDataset,
  MemoryStorage,
  PublisherRecord,
  type PublishListOptions,
  publish,
  publishList,
  UpdatableDatabase,
} from '../../../server/dist/index.js'
import { type Choices, dataFile, pseudoRandom, temporaryDirectory } from '../../../server/test/helpers.js'
import { ceremonyIn } from './support/proved.js'

const BYTES = 8
/** Of one record each: a quarter more than the planner's 16, and one. */
const PARTITIONS = 21

/** Two servers of a database with Pointproofs, and its publisher. */
async function published(name: string, contents: string | Uint8Array, choices: Choices) {
  const dir = await temporaryDirectory()
  const { transcript: ceremony, mine: receipt } = await ceremonyIn(dir)
  const data = await dataFile(name, contents)
  const out = join(dir, 'dataset')
  const proofs = { proofs: 'pointproofs', ceremony, receipt } as const
  await buildDataset({ data, out, ...choices, ...proofs })
  const key = await createKeyFile(join(dir, 'key'))
  const record = new PublisherRecord()
  const apps = await Promise.all(
    ['a', 'b'].map(async () => {
      const dataset = await loadDataset(out)
      const { databaseId, epoch } = dataset.manifest
      await record.addManifest({ databaseId: toHex(databaseId), epoch, hash: toHex(blake3(dataset.manifestBytes)) })
      const storage = new MemoryStorage()
      await UpdatableDatabase.create(storage, dataset)
      dataset.close()
      const updatable = await UpdatableDatabase.open(storage)
      const app = await createServer({ datasets: [{ updatable, publisherKeys: [key.publicKey] }] })
      onTestFinished(async () => {
        app.server.closeAllConnections()
        await app.close()
        await updatable.close()
      })
      return app
    }),
  )
  const urls = await Promise.all(apps.map(app => app.listen({ host: '127.0.0.1', port: 0 })))
  return { apps, key, record, servers: [urls[0]!, urls[1]!] as const }
}

test('what is published where a new generation is due, and has to be built, is signed', async () => {
  const bytes = pseudoRandom(PARTITIONS * BYTES)
  const choices = { recordBytes: BYTES, partitions: PARTITIONS }
  const { apps, key, record, servers } = await published('records.bin', bytes, choices)
  for (const epoch of [2, 3]) {
    const value = `${epoch}`.repeat(2 * BYTES)
    const operations = Buffer.from(`${JSON.stringify({ op: 'edit', index: 0, value })}\n`)
    const summary = await publish({ servers, key, record, operations, encoding: 'hex' })
    expect(summary).toMatchObject({
      epoch,
      generation: 1,
      began: false,
      growth: expect.stringMatching(/21 partitions/),
    })
    for (const app of apps) {
      const { rawPayload } = await app.inject('/v1/manifest')
      const { signatures } = parseInfo((await app.inject('/v1/info')).json())
      const entry = signatures.find(signature => signature.epoch === decodeManifest(rawPayload).epoch)
      expect(entry).toMatchObject({ epoch, publicKey: toHex(key.publicKey) })
      expect(ed25519.verify(fromHex(entry!.signature), signedBytes(rawPayload), key.publicKey)).toBe(true)
    }
  }
})

test('a new file is published by batches; one that adds more than there is room for is refused, with what to build', async () => {
  const csv = (count: number) => `key,value\n${Array.from({ length: count }, (_, i) => `key ${i},${count}\n`).join('')}`
  const { apps, key, record, servers } = await published('list.csv', csv(20), { maxValueBytes: 4 })
  const bring = async (count: number, options: Partial<PublishListOptions> = {}) =>
    await publishList({ servers, key, record, data: await dataFile('new.csv', csv(count)), ...options })
  expect(await bring(19, { batchBytes: 400 })).toMatchObject({ adds: 0, edits: 19, deletes: 1, batches: 3 })
  expect(await bring(19)).toMatchObject({ batches: 0, published: { epoch: 4 } })
  expect(await bring(6000, { dryRun: true })).toMatchObject({
    begins: false,
    growth: expect.stringMatching(/partitions/),
  })
  await expect(bring(6000)).rejects.toThrow(/begin a new.*With Pointproofs you build it: `keyhush build .*--succeeds/)
  for (const app of apps) expect(decodeManifest((await app.inject('/v1/manifest')).rawPayload).epoch).toBe(4)
})
