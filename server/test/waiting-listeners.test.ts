// While an update waits to be made, nothing of its database begins to be computed. Whoever asks and goes away, again and
// again, must leave nothing behind: what is to happen when the update is over happens once, not once for each who has asked.

import { loadCore } from '@keyhush/wasm'
import { expect, test } from 'vitest'
import { InstantLookups } from '../dist/instant/lookups.js'
import { pseudoRandom } from './helpers.js'
import { opened, storageOf } from './updatable-helpers.js'

const ASKED = 50

test('whoever asks and leaves while an update waits leaves nothing behind', async () => {
  const core = await loadCore()
  const updatable = await opened(await storageOf('a.bin', pseudoRandom(64 * 8), { recordBytes: 8 }))
  const { manifest } = updatable.newest
  const layout = core.layout(manifest.records, manifest.recordBytes, manifest.partitions, manifest.partitionRecords)
  const query = core.newInstantQuery(layout, Uint32Array.of(7), pseudoRandom(32))
  const queries = query.request(0)
  query.free()
  layout.free()

  // All threads are taken: being woken, they look for what there is to do, and take nothing.
  let woken = 0
  const source = new InstantLookups({}, () => {
    woken++
    if (woken <= ASKED) source.next()
  })
  const { readers } = updatable.newest.shared()
  const end = readers.begin()
  const writing = readers.exclusively(() => {})
  for (let i = 0; i < ASKED; i++) {
    const of = { epochs: updatable, generation: 1, epoch: 1, network: `${i}` }
    const lookup = source.submit({ ...of, of: 'records', queries: queries.slice(), count: 1 })
    lookup.cancel()
    await Promise.allSettled([lookup.answers])
  }
  expect(woken).toBe(ASKED)
  end()
  await writing
  expect(woken).toBe(ASKED + 1)
})
