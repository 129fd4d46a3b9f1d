// Light hints at the epoch before: what the last update overwrote has to be put back for them. On the main thread, for all
// partitions at once, one anonymous request of a hundred bytes would keep the event loop, and so everything else the process
// does, and take as much memory as the database again. In the computation it keeps a worker thread.

import { encodeLightRequest, lightPath, type Manifest } from '@pirouette/protocol'
import { expect, onTestFinished, test } from 'vitest'
import { createServer } from '../dist/index.js'
import { busyRatio } from './event-loop.js'
import { pseudoRandom } from './helpers.js'
import { batchOn, opened, storageOf } from './updatable-helpers.js'

const RECORDS = 64_000
const RECORD_BYTES = 256

test('light hints at the epoch before leave the event loop as free as those at the newest do', async () => {
  const choices = { recordBytes: RECORD_BYTES, partitions: 256 }
  const updatable = await opened(await storageOf('a.bin', pseudoRandom(RECORDS * RECORD_BYTES), choices))
  const app = await createServer({ datasets: [{ updatable }], light: { computations: 1 } })
  onTestFinished(() => app.close())
  const url = await app.listen({ host: '127.0.0.1', port: 0 })
  const before = updatable.newest.manifest
  const edits = Array.from({ length: RECORDS / 2 }, (_, i) => ({
    op: 'edit',
    index: 2 * i,
    value: Buffer.alloc(RECORD_BYTES, i + 1).toString('base64'),
  }))
  await updatable.publish(batchOn(updatable, edits, { encoding: 'base64' }))

  const request = (manifest: Manifest) => () => encodeLightRequest('tags', manifest, pseudoRandom(8))
  const ratio = await busyRatio(url + lightPath('tags'), request(before), request(updatable.newest.manifest))
  expect(ratio).toBeLessThan(5) // thirteen, when it was done on the main thread
}, 120_000)
