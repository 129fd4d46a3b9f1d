// What is asked at the epoch before: the last update has to be taken out again, record by record and node by node. On the
// main thread one anonymous request of some hundred bytes would keep the event loop, and so everything else the process does.
// Worker threads do all of it: where none ever runs, what was to be computed is as empty as it began.

import type { Manifest } from '@keyhush/protocol'
import { loadCore } from '@keyhush/wasm'
import { expect, test } from 'vitest'
import { InstantLookups } from '../dist/instant/lookups.js'
import type { Source } from '../dist/workers/workers.js'
import { pseudoRandom } from './helpers.js'
import { batchOn, opened, storageOf } from './updatable-helpers.js'

const RECORDS = 200
const RECORD_BYTES = 64
const network = 'one'

/** A database that has changed, and the epoch before. */
async function changed() {
  const choices = { recordBytes: RECORD_BYTES, partitions: 8 }
  const epochs = await opened(await storageOf('a.bin', pseudoRandom(RECORDS * RECORD_BYTES), choices))
  const before = epochs.newest.manifest
  const value = Buffer.from(pseudoRandom(RECORD_BYTES, 2)).toString('base64')
  const edits = Array.from({ length: RECORDS }, (_, index) => ({ op: 'edit', index, value }))
  await epochs.publish(batchOn(epochs, edits, { encoding: 'base64' }))
  return { epochs, before, at: { epochs, generation: before.generation, epoch: before.epoch, network } }
}

/** Says to whatever it wants done that it is done, and does nothing; how much that was. */
function neglect(source: Source): number {
  let works = 0
  for (let work = source.next(); work !== undefined; work = source.next(), works++) work.done()
  return works
}

test('the main thread computes nothing of an instant lookup at the epoch before', async () => {
  const { before, at } = await changed()
  const lookups = new InstantLookups({}, () => {})
  const { queries, answerBytes } = await queriesOf(before, 3)
  const { answers } = lookups.submit({ ...at, of: 'records', queries, count: 3 })
  expect(neglect(lookups)).toBe(1)
  expect(await answers).toEqual(Buffer.alloc(3 * answerBytes))
  await lookups.close()
})

async function queriesOf(manifest: Manifest, count: number) {
  const core = await loadCore()
  const { records, recordBytes, partitions, partitionRecords } = manifest
  const layout = core.layout(records, recordBytes, partitions, partitionRecords)
  const query = core.newInstantQuery(layout, new Uint32Array(count), pseudoRandom(32))
  const sizes = { queries: query.request(0), answerBytes: layout.instantAnswerBytes }
  query.free()
  layout.free()
  return sizes
}
