import { expect, test } from 'vitest'
import { MemoryStore } from '../../src/store/memory.js'
import { newSealingKey, SealedStore } from '../../src/store/sealed.js'
import type { StateStore } from '../../src/store/store.js'
import { bytes, recordOf } from '../../src/testing/fixtures.js'
import { testConformance } from './conform.js'

/** What two stores share stays, whatever happens to the handles. */
function benchOf(handle: () => StateStore) {
  return async () => {
    const bench = {
      store: handle(),
      other: handle(),
      async crash() {
        bench.store = handle()
        bench.other = handle()
      },
      async remove() {},
    }
    return bench
  }
}

testConformance('memory', async () => {
  const store = new MemoryStore({ durable: true })
  return await benchOf(() => store)()
})

testConformance('sealed', async () => {
  const inner = new MemoryStore({ durable: true })
  const key = newSealingKey()
  return await benchOf(() => new SealedStore(inner, () => key))()
})

test('a memory store that is not durable keeps no entries, and nothing once it is closed', async () => {
  const store = new MemoryStore()
  const record = recordOf(1)
  await store.begin(record, new Uint8Array(), new Uint8Array(), undefined)
  await store.complete(record.hintId, 0, new Uint8Array())
  await store.putPending(record.hintId, 0, bytes('pending', 10))
  expect(await store.commit(record.hintId, 0, bytes('effect', 10))).toEqual({ journalBytes: 0 })
  const update = { entry: bytes('update', 10), manifest: bytes('manifest', 10), pending: undefined }
  expect(await store.advance(record.hintId, 1, update)).toEqual({ journalBytes: 0 })
  expect((await store.readHint(record.hintId)).entries).toEqual([])
  const head = await store.read()
  expect([head?.version, head?.record.manifest]).toEqual([2, update.manifest])
  await store.close()
  expect(await store.read()).toBeUndefined()
})
