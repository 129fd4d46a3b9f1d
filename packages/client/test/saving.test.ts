// When a half-made hint is stored: now and then, one at a time, and for no more than two bytes for each one downloaded.

import { expect, test } from 'vitest'
import { SAVE_PAUSE_MS } from '../src/base/constants.js'
import { Saving } from '../src/state/saving.js'
import { deferred, ManualClock } from './support/clock.js'

/** Saves of so many bytes each. */
function saves(bytes = 1) {
  const clock = new ManualClock()
  const seen = { begun: 0, ended: 0 }
  let end = deferred()
  const saving = new Saving(clock, async () => {
    seen.begun++
    await end.promise
    seen.ended++
    return bytes
  })
  const finish = async () => {
    end.resolve()
    end = deferred()
    await new Promise<void>(resolve => void setImmediate(resolve))
  }
  return { clock, seen, saving, finish, fail: (error: Error) => end.reject(error) }
}

test('none before the pause is over, however much there is', () => {
  const { clock, seen, saving } = saves()
  clock.pass(SAVE_PAUSE_MS - 1)
  void saving.more(1e12)
  expect(seen.begun).toBe(0)
  clock.pass(1)
  void saving.more(1)
  expect(seen.begun).toBe(1)
})

test('none while one is under way, however long it takes; the next, a pause after that has ended', async () => {
  const { clock, seen, saving, finish } = saves()
  clock.pass(SAVE_PAUSE_MS)
  const first = saving.more(1)
  for (let i = 0; i < 3; i++) {
    clock.pass(10 * SAVE_PAUSE_MS)
    await saving.more(1) // does not wait for the first
  }
  expect(seen).toEqual({ begun: 1, ended: 0 })
  await finish()
  await first
  clock.pass(SAVE_PAUSE_MS - 1)
  await saving.more(1)
  expect(seen).toEqual({ begun: 1, ended: 1 })
  clock.pass(1)
  void saving.more(1)
  expect(seen.begun).toBe(2)
})

test('none that would write more than two bytes for each one downloaded since the last', async () => {
  const { clock, seen, saving, finish } = saves(100)
  clock.pass(SAVE_PAUSE_MS)
  void saving.more(1)
  void saving.more(20) // while it is written: the next one has it
  await finish()
  clock.pass(SAVE_PAUSE_MS)
  await saving.more(29)
  expect(seen.begun).toBe(1)
  void saving.more(1)
  expect(seen.begun).toBe(2)
})

test('one that fails says so to whoever began it, and the next is tried after a pause', async () => {
  const { clock, seen, saving, fail } = saves()
  clock.pass(SAVE_PAUSE_MS)
  const first = saving.more(1)
  fail(new Error('the disk is full'))
  await expect(first).rejects.toThrow('the disk is full')
  await saving.more(1)
  expect(seen.begun).toBe(1)
  clock.pass(SAVE_PAUSE_MS)
  saving.more(1).catch(() => {})
  expect(seen.begun).toBe(2)
})
