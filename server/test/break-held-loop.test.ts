// What a start does with a fence of many hints: others have their turns, and it counts all of them.

import { expect, onTestFinished, test } from 'vitest'
import { slice } from '../dist/base/pace.js'
import { openLmdb } from '../dist/storage/lmdb.js'
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
