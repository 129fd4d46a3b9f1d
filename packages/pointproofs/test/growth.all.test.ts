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
  publish,
  UpdatableDatabase,
} from '../../../server/dist/index.js'
import { dataFile, pseudoRandom, temporaryDirectory } from '../../../server/test/helpers.js'
import { ceremonyIn } from './support/proved.js'

const BYTES = 8
/** Of one record each: a quarter more than the planner's 16, and one. */
const PARTITIONS = 21

test('what is published where a new generation is due, and has to be built, is signed', async () => {
  const dir = await temporaryDirectory()
  const { transcript: ceremony, mine: receipt } = await ceremonyIn(dir)
  const data = await dataFile('records.bin', pseudoRandom(PARTITIONS * BYTES))
  const out = join(dir, 'dataset')
  const proofs = { proofs: 'pointproofs', ceremony, receipt } as const
  await buildDataset({ data, out, recordBytes: BYTES, partitions: PARTITIONS, ...proofs })
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
  const servers = [urls[0]!, urls[1]!] as const
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
