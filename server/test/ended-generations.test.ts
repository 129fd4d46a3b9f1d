// A generation that has ended is answered for a time, and its memory goes when that is over: also if this is found out while
// queries of it are put together for a pass. What the pass was to read must not be gone then: of a handle that was freed the
// core knows nothing, and the whole process would end.

import { loadCore } from '@keyhush/wasm'
import { expect, test } from 'vitest'
import { InstantLookups } from '../dist/instant/lookups.js'
import { pseudoRandom } from './helpers.js'
import { batchOn, opened, storageOf } from './updatable-helpers.js'

test('a generation whose time is over while a pass is put together is not freed under it', async () => {
  const core = await loadCore()
  let now = 1_000_000
  /** how often the time is asked for before the generation's is over; undefined: it stands still */
  let left: number | undefined
  const clock = () => {
    if (left !== undefined && left-- === 0) now += 100_000
    return now
  }
  const storage = await storageOf('a.bin', pseudoRandom(64 * 8), { recordBytes: 8 })
  const updatable = await opened(storage, { lingerHours: 1, now: clock })
  const { manifest } = updatable.newest
  await updatable.publish(batchOn(updatable, [{ op: 'generation', headroom: 5 }]))
  expect(updatable.list().map(({ generation }) => generation)).toEqual([1, 2])

  const layout = core.layout(manifest.records, manifest.recordBytes, manifest.partitions, manifest.partitionRecords)
  const query = core.newInstantQuery(layout, Uint32Array.of(7), pseudoRandom(32))
  const queries = query.request(0)
  query.free()
  layout.free()
  const lookups = new InstantLookups({}, () => {})
  const asked = [1, 2, 3].map(number =>
    lookups.submit({
      ...{ epochs: updatable, of: 'records', generation: 1, epoch: 1, queries: queries.slice(), count: 1 },
      network: `${number}`,
    }),
  )
  const outcomes = Promise.allSettled(asked.map(({ answers }) => answers))
  left = 1 // the first is found, and for the second it is over
  const pass = lookups.next()
  expect(pass).toBeDefined()
  left = undefined
  pass?.done()
  const codes = (await outcomes).map(outcome => (outcome.status === 'rejected' ? outcome.reason.code : 'answered'))
  expect(codes).toEqual(['answered', 'epoch_unknown', 'epoch_unknown'])
})
