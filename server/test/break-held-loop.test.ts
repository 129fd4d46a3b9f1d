// What a start does with a fence of many hints: others have their turns, and it finds all of them, oldest first.

import { toHex } from '@keyhush/protocol'
import { expect, onTestFinished, test } from 'vitest'
import { slice } from '../dist/base/pace.js'
import { CONFIRMED, encodeEntry, NEW, StoredFence } from '../dist/database/stored-fence.js'
import { openLmdb } from '../dist/storage/lmdb.js'
import { MemoryStorage } from '../dist/storage/memory.js'
import { temporaryDirectory } from './helpers.js'

/** How often others had their turn until `work` was done, slices being as short as can be. */
async function turnsDuring<T>(work: () => Promise<T>): Promise<{ result: T; turns: number }> {
  const usual = slice.milliseconds
  slice.milliseconds = 0
  onTestFinished(() => {
    slice.milliseconds = usual
  })
  let [turns, isOver] = [0, false]
  const turn = () => {
    turns++
    if (!isOver) setImmediate(turn)
  }
  setImmediate(turn)
  const result = await work()
  isOver = true
  return { result, turns }
}

/** An id that says nothing of when it came. */
function idOf(n: number): Uint8Array {
  const id = Buffer.alloc(16)
  id.writeUInt32BE(Math.imul(n, 0x9e3779b1) >>> 0)
  return id
}

test('a store counts many keys in pieces, as many as there are', async () => {
  const storage = openLmdb(await temporaryDirectory())
  onTestFinished(() => storage.close())
  const keys = (from: number, to: number) =>
    storage.transact([], transaction => {
      for (let i = from; i < to; i++) transaction.put(`a/${i.toString(16).padStart(8, '0')}`, Buffer.alloc(4))
    })
  await storage.transact([], transaction => {
    for (const key of ['a', 'a0', 'b/1']) transaction.put(key, Buffer.alloc(1))
  })
  let before = 0
  for (const count of [0, 2 ** 16 - 1, 2 ** 16, 2 ** 16 + 1, 2 ** 17 + 1]) {
    await keys(before, count)
    before = count
    const { result, turns } = await turnsDuring(() => storage.count('a/'))
    expect(result).toBe(count)
    expect(turns).toBeGreaterThanOrEqual(Math.floor((count - 1) / 2 ** 16))
  }
  expect(await storage.count('b/')).toBe(1)
})

test('a start takes up the registrations of hours in pieces, and the oldest of them go first', async () => {
  const storage = new MemoryStorage()
  const [hints, now] = [3000, 1_800_000_000]
  const ids = Array.from({ length: hints }, (_, n) => idOf(n + 1))
  await storage.transact([], transaction => {
    for (const [n, id] of ids.entries()) {
      const key = NEW + toHex(id)
      const entry = { version: 0, requestHash: new Uint8Array(32), time: now - hints + n - (n % 2) }
      transaction.put(key, encodeEntry(key, entry))
    }
    const key = CONFIRMED + '0'.repeat(32)
    transaction.put(key, encodeEntry(key, { version: 1, requestHash: new Uint8Array(32), time: now / 86_400 }))
  })
  const options = { entries: 4 * hints, now: () => now, elapsed: () => 0 }
  const { result: fence, turns } = await turnsDuring(() => StoredFence.open(storage, options))
  expect(fence.hints).toBe(hints + 1)
  expect(turns).toBeGreaterThanOrEqual(2 * hints)
  // Each registration takes the place of one: the older half has gone, and nobody else.
  for (let n = 0; n < hints / 2; n++) {
    const hintId = idOf(hints + n + 1)
    await fence.judge({ kind: 'register', hintId, version: 0, requestHash: new Uint8Array(32) } as never, `${n}`)
  }
  for (const [n, id] of ids.entries()) {
    const request = { kind: 'confirm', hintId: id, version: 1, requestHash: new Uint8Array(32).fill(1) }
    expect(await fence.judge(request as never), `${n}`).toBe(n < hints / 2 ? 'refused' : 'granted')
  }
})
