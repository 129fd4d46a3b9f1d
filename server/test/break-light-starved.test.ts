// A light hint that is being computed keeps updates of its database waiting, and passes of instant lookups go before its
// steps. Whoever keeps asking for instant lookups of something else in the same process (another database, the generation
// before) must not be able to hold a publisher's batch for as long as they like.

import { lightRequestBytes } from '@keyhush/protocol'
import { loadCore } from '@keyhush/wasm'
import { expect, onTestFinished, test } from 'vitest'
import { FixedEpochs } from '../dist/database/epochs.js'
import { Computations } from '../dist/index.js'
import { builtDataset, pseudoRandom } from './helpers.js'
import { served } from './sockets.js'
import { batchOn, opened, storageOf } from './updatable-helpers.js'

/** Far more than the steps of a hint, however they take turns with passes. */
const LOOKUPS = 4000
/** Waiting at any time: two passes' worth and more. */
const OUTSTANDING = 24

test('an update is made while somebody keeps the passes busy with another database', async () => {
  const core = await loadCore()
  const records = 80_000
  const updatable = await opened(await storageOf('a.bin', pseudoRandom(records * 256), { recordBytes: 256 }))
  const other = await builtDataset('b.bin', pseudoRandom(300 * 8), { recordBytes: 8 })
  const computations = new Computations({ instant: { workers: 1 } })
  onTestFinished(() => computations.close())
  await served({ updatable, computations })
  const [lookups, hints] = [computations.instant!, computations.light!]

  const { manifest } = other
  const layout = core.layout(manifest.records, manifest.recordBytes, manifest.partitions, manifest.partitionRecords)
  const query = core.newInstantQuery(layout, Uint32Array.of(7), pseudoRandom(32))
  const queries = query.request(0)
  query.free()
  layout.free()
  const epochs = new FixedEpochs(other)
  let asked = 0
  const ask = async () => {
    while (asked++ < LOOKUPS) {
      const wish = {
        epochs,
        of: 'records',
        generation: 1,
        epoch: 1,
        queries: queries.slice(),
        count: 1,
        network: 'b',
      } as const
      await lookups.submit(wish).answers
    }
  }
  const secrets = pseudoRandom(lightRequestBytes('tags') - 40)
  const hint = hints.submit({ part: 'tags', epochs: updatable, generation: 1, epoch: 1, secrets, network: 'a' })
  await expect.poll(() => hints.computing, { interval: 1, timeout: 20_000 }).toBe(1)
  const flood = Promise.all(Array.from({ length: OUTSTANDING }, ask))
  const publishing = updatable.publish(batchOn(updatable, [{ op: 'edit', index: 1, value: 'x'.repeat(256) }]))
  const first = await Promise.race([publishing.then(() => 'the update'), flood.then(() => 'the flood')])
  expect(first).toBe('the update')
  await Promise.all([hint.reply, flood])
}, 60_000)
