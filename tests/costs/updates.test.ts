// What a day's changes cost a client, as planned and as two real servers send it; and the fence's part in a lookup.

import { decodeManifest, encodeBatch, FENCE_REPLY_BYTES, FENCE_REQUEST_BYTES, fromHex, toHex } from '@keyhush/protocol'
import { createServer, loadDataset, MemoryStorage, UpdatableDatabase } from '@keyhush/server'
import { loadCore, type Workload } from '@keyhush/wasm'
import { expect, onTestFinished, test } from 'vitest'
import { buildInto, type Data, distinctRecords, temporaryFolder } from '../support/servers.js'

/** One of the two servers: the database after one batch, and the length of what it sends for a path. */
async function changedServer(data: Data, operations: readonly object[]) {
  const folder = await temporaryFolder()
  onTestFinished(folder.remove)
  const dataset = await loadDataset(await buildInto(folder.path, data))
  const storage = new MemoryStorage()
  await UpdatableDatabase.create(storage, dataset)
  dataset.close()
  const living = await UpdatableDatabase.open(storage)
  onTestFinished(() => living.close())
  const { manifest, manifestHash } = living.newest
  await living.publish(
    encodeBatch({
      encoding: 'utf8',
      databaseId: manifest.databaseId,
      generation: manifest.generation,
      epoch: manifest.epoch + 1,
      expires: 0,
      previousManifest: fromHex(manifestHash),
      operations: new TextEncoder().encode(operations.map(each => `${JSON.stringify(each)}\n`).join('')),
    }),
  )
  const app = await createServer({ datasets: [{ updatable: living }] })
  onTestFinished(() => app.close())
  return { living, get: async (path: string) => new Uint8Array((await app.inject(path)).rawPayload) }
}

const keys = Array.from({ length: 300 }, (_, i) => `key-${i}`)
const cases: Record<string, { data: Data; workload: Workload; operations: readonly object[] }> = {
  'a keyless database': {
    data: { format: 'bin', content: Buffer.concat(distinctRecords(1003, 7)), recordBytes: 7 },
    workload: { records: 1003, valueBytes: 7 },
    operations: [0, 5, 62, 63, 1002].map(index => ({ op: 'edit', index, value: 'changed' })),
  },
  'a keyed database': {
    data: { format: 'csv', content: `key,value\n${keys.map(key => `${key},something\n`).join('')}` },
    workload: { records: 300, valueBytes: 9, keyed: true },
    operations: keys.slice(0, 20).map(key => ({ op: 'edit', key, value: 'different' })),
  },
  'one change': {
    data: { format: 'csv', content: 'key,value\none,1\ntwo,22\n' },
    workload: { records: 2, valueBytes: 2, keyed: true, variable: true },
    operations: [{ op: 'delete', key: 'one' }],
  },
}

const core = await loadCore()

test.each(Object.entries(cases))('%s', async (_, { data, workload, operations }) => {
  const plan = core.plan({ ...workload, changesPerDay: operations.length })
  const [a, b] = [await changedServer(data, operations), await changedServer(data, operations)]
  const manifests = [await a.get('/v1/manifests?since=1'), await b.get('/v1/manifests?since=1')] as const
  const list = await a.get(`/v1/blobs/${toHex(decodeManifest(manifests[0]).updateListHash)}`)
  for (const costs of [plan.merkle, plan.tags]) {
    expect(list.length).toBe(costs.updateListBytes)
    expect(list.length + manifests[0].length + manifests[1].length).toBe(costs.updateBytes)
  }
})

test('only a database that changes has the costs of a fence and of updates', () => {
  const { merkle, tags } = core.plan({ records: 1000, valueBytes: 8, changesPerDay: 1 })
  for (const costs of [merkle, tags]) {
    expect([costs.fenceBytesUp, costs.fenceBytesDown]).toEqual([FENCE_REQUEST_BYTES, FENCE_REPLY_BYTES])
  }
  const still = core.plan({ records: 1000, valueBytes: 8, changesPerDay: 0 }).merkle
  expect([still.fenceBytesUp, still.fenceBytesDown, still.updateListBytes, still.updateBytes]).toEqual([0, 0, 0, 0])
})

test('a day costs its lookups, their fence, and its changes', () => {
  const { merkle, tags } = core.plan({ records: 1000, valueBytes: 8, lookupsPerDay: 7, changesPerDay: 3 })
  for (const costs of [merkle, tags]) {
    expect(costs.dayBytesUp).toBe(7 * (costs.lookupBytesUp + costs.fenceBytesUp))
    expect(costs.dayBytesDown).toBe(7 * (costs.lookupBytesDown + costs.fenceBytesDown) + costs.updateBytes)
  }
})
