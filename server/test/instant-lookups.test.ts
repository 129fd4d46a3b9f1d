// Instant lookups that wait: for an update, for a generation that ends, for a thread, for their place in the queue.

import { encodeInstantQuery, INSTANT_PATH, TWO_SERVERS } from '@keyhush/protocol'
import { expect, onTestFinished, test } from 'vitest'
import { Unsent } from '../dist/http/limits/unsent.js'
import { Computations } from '../dist/index.js'
import { InstantLookups } from '../dist/instant/lookups.js'
import { queriesFor } from './computing.js'
import { pseudoRandom } from './helpers.js'
import { served } from './sockets.js'
import { batchOn, opened, storageOf } from './updatable-helpers.js'

// What is to happen after the update happens once, not once for each lookup that was cancelled.
test('lookups that are cancelled while an update waits leave nothing behind', async () => {
  const updatable = await opened(await storageOf('a.bin', pseudoRandom(64 * 8), { recordBytes: 8 }))
  const { manifest } = updatable.newest
  const { queries } = await queriesFor(manifest, 1)

  // All threads are taken: being woken, they look for what there is to do, and take nothing.
  let woken = 0
  const source = new InstantLookups({}, () => {
    woken++
    if (woken <= 50) source.next()
  })
  const { readers } = updatable.newest.shared()
  const end = readers.begin()
  const writing = readers.exclusively(() => {})
  for (let i = 0; i < 50; i++) {
    const of = { epochs: updatable, generation: 1, epoch: 1, network: `${i}` }
    const lookup = source.submit({ ...of, of: 'records', ...TWO_SERVERS, queries: queries.slice(), count: 1 })
    lookup.cancel()
    await Promise.allSettled([lookup.answers])
  }
  expect(woken).toBe(50)
  end()
  await writing
  expect(woken).toBe(50 + 1)
})

// The core knows nothing of a handle that was freed: the whole process would end.
test('a generation that ends while a pass is prepared is not freed under it', async () => {
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

  const { queries } = await queriesFor(manifest, 1)
  const lookups = new InstantLookups({}, () => {})
  const asked = [1, 2, 3].map(number =>
    lookups.submit({
      ...{ epochs: updatable, of: 'records', generation: 1, epoch: 1, ...TWO_SERVERS },
      ...{ queries: queries.slice(), count: 1, network: `${number}` },
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

// The last update has to be taken out again. On the main thread a request of some hundred bytes would keep the event loop.
// Where no worker ever runs, what was to be computed stays as empty as it began.
test('the main thread computes nothing of an instant lookup at the epoch before', async () => {
  const [records, recordBytes] = [200, 64]
  const storage = await storageOf('a.bin', pseudoRandom(records * recordBytes), { recordBytes, partitions: 8 })
  const epochs = await opened(storage)
  const before = epochs.newest.manifest
  const value = Buffer.from(pseudoRandom(recordBytes, 2)).toString('base64')
  const edits = Array.from({ length: records }, (_, index) => ({ op: 'edit', index, value }))
  await epochs.publish(batchOn(epochs, edits, { encoding: 'base64' }))
  const lookups = new InstantLookups({}, () => {})
  const { queries, answerBytes } = await queriesFor(before, 3)
  const at = { epochs, generation: 1, epoch: 1, network: 'one', of: 'records' } as const
  const { answers } = lookups.submit({ ...at, ...TWO_SERVERS, queries, count: 3 })
  // Says of all that it wants done that it is done.
  let works = 0
  for (let work = lookups.next(); work !== undefined; work = lookups.next(), works++) work.done()
  expect(works).toBe(1)
  expect(await answers).toEqual(Buffer.alloc(3 * answerBytes))
  await lookups.close()
})

// Room for the answer is reserved while a lookup waits in the queue; that is no reply that its client does not read.
test('a client that waits for an instant lookup is answered, however much others ask for', async () => {
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
    const { queries } = await queriesFor(manifest, count)
    const body = new Uint8Array(encodeInstantQuery(manifest, 'records', count, queries))
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
