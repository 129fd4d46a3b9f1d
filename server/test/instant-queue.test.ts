// Instant lookups that wait in the queue have room for their answers reserved. They are no replies that stand unread: when
// that room is asked for, nobody is hung up on for having waited.

import { encodeInstantQuery, INSTANT_PATH } from '@keyhush/protocol'
import { loadCore } from '@keyhush/wasm'
import { expect, onTestFinished, test } from 'vitest'
import { Unsent } from '../dist/http/limits/unsent.js'
import { Computations } from '../dist/index.js'
import { pseudoRandom } from './helpers.js'
import { served } from './sockets.js'
import { opened, storageOf } from './updatable-helpers.js'

test('whoever waits for an instant lookup is answered, however much others ask for', async () => {
  const core = await loadCore()
  const updatable = await opened(await storageOf('a.bin', pseudoRandom(64 * 4096), { recordBytes: 4096 }))
  const { manifest } = updatable.newest
  // By default 256 MiB and 5 s; a queue of large databases is longer than that.
  const unsent = new Unsent({ total: 40 * 1024, patienceMilliseconds: 1 })
  const computations = new Computations()
  const lookups = computations.instant!
  const { url, statuses } = await served({ updatable, unsent, computations })
  onTestFinished(() => computations.close())
  // Passes stand still, as they do while an update waits to be made; here until the end.
  const { readers } = updatable.newest.shared()
  const end = readers.begin()
  const writing = readers.exclusively(() => {})

  const ask = async (address: string, count: number) => {
    const layout = core.layout(manifest.records, manifest.recordBytes, manifest.partitions, manifest.partitionRecords)
    const query = core.newInstantQuery(layout, new Uint32Array(count), pseudoRandom(32))
    const body = new Uint8Array(encodeInstantQuery(manifest, 'records', count, query.request(0)))
    query.free()
    layout.free()
    const headers = { 'x-forwarded-for': address }
    return await fetch(url + INSTANT_PATH, { method: 'POST', body, headers }).then(
      ({ status }) => `status ${status}`,
      () => 'hung up on',
    )
  }
  const first = ask('192.0.2.1', 1)
  await expect.poll(() => lookups.waiting).toBe(1)
  const others = [ask('198.51.100.1', 4), ask('203.0.113.1', 4)]
  await expect.poll(() => lookups.waiting).toBe(9)
  await new Promise(resolve => setTimeout(resolve, 20)) // longer than the server's patience
  const last = ask('100.64.0.1', 1)
  await expect.poll(() => lookups.waiting + statuses.length + unsent.bytes).toBeGreaterThan(0)
  await new Promise(resolve => setTimeout(resolve, 100))
  end()
  await writing
  await Promise.all([...others, last])
  expect(await first).toBe('status 200')
})
