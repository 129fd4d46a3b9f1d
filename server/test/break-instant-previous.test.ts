// Instant lookups at the epoch before: what the last update brought has to be taken out of each answer, record by record and
// node by node. On the main thread one anonymous request of some kilobytes would keep the event loop, and so everything else
// the process does; in the pass it keeps a worker thread.

import { encodeInstantQuery, INSTANT_PATH, type Manifest } from '@pirouette/protocol'
import { loadCore } from '@pirouette/wasm'
import { expect, onTestFinished, test } from 'vitest'
import { createServer } from '../dist/index.js'
import { busyRatio } from './event-loop.js'
import { pseudoRandom } from './helpers.js'
import { batchOn, opened, storageOf } from './updatable-helpers.js'

const RECORDS = 40_000
const QUERIES = 64

test('lookups at the epoch before leave the event loop as free as lookups at the newest do', async () => {
  const core = await loadCore()
  const updatable = await opened(await storageOf('a.bin', pseudoRandom(RECORDS * 8), { recordBytes: 8 }))
  const app = await createServer({ datasets: [{ updatable }], instant: { workers: 1 } })
  onTestFinished(() => app.close())
  const url = await app.listen({ host: '127.0.0.1', port: 0 })
  const before = updatable.newest.manifest
  const fresh = Buffer.from(pseudoRandom(RECORDS * 8, 2))
  const edits = Array.from({ length: RECORDS }, (_, index) => ({
    op: 'edit',
    index,
    value: fresh.subarray(8 * index, 8 * index + 8).toString('base64'),
  }))
  await updatable.publish(batchOn(updatable, edits, { encoding: 'base64' }))

  const request = (manifest: Manifest) => () => {
    const { records, recordBytes, partitions, partitionRecords } = manifest
    const layout = core.layout(records, recordBytes, partitions, partitionRecords)
    const query = core.newInstantQuery(layout, new Uint32Array(QUERIES), pseudoRandom(32))
    const body = encodeInstantQuery(manifest, 'records', QUERIES, query.request(0))
    query.free()
    layout.free()
    return body
  }
  const ratio = await busyRatio(url + INSTANT_PATH, request(before), request(updatable.newest.manifest))
  expect(ratio).toBeLessThan(10) // fifty, when it was done on the main thread
}, 120_000)
