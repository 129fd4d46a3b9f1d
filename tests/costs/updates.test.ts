// What a day's changes cost a client, as planned and as two real servers send it; and the fence's part in a lookup.

import { decodeManifest, FENCE_REPLY_BYTES, FENCE_REQUEST_BYTES, toHex } from '@keyhush/protocol'
import { loadCore, type Workload } from '@keyhush/wasm'
import { expect, onTestFinished, test } from 'vitest'
import { type Data, distinctRecords, startPair } from '../support/servers.js'

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
const fetched = async (url: string) => new Uint8Array(await (await fetch(url)).arrayBuffer())

test.each(Object.entries(cases))('%s', async (_, { data, workload, operations }) => {
  const plan = core.plan({ ...workload, changesPerDay: operations.length })
  const servers = await startPair(data, { living: true })
  onTestFinished(servers.close)
  await servers.publish(operations)
  const [a, b] = servers.urls
  const manifests = [await fetched(`${a}/v1/manifests?since=1`), await fetched(`${b}/v1/manifests?since=1`)] as const
  const list = await fetched(`${a}/v1/blobs/${toHex(decodeManifest(manifests[0]).updateListHash)}`)
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
