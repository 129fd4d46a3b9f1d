// Threads that prove and end while nobody waits for them: on their own, for want of memory, or because they were idle for long.
// Whoever has one in hand is told, and does not wait for ever, as folding did, and close() with it.

import { setImmediate as nextTask } from 'node:timers/promises'
import { afterEach, expect, test, vi } from 'vitest'
import { ProverThread } from '../dist/server/prover-threads.js'

const setup = new Uint8Array(100) // of which nothing can be proved
const task = { openings: new Uint8Array(), edits: new Uint8Array() }

afterEach(() => {
  vi.useRealTimers()
})

test('of one that has ended nothing is waited for', async () => {
  const thread = ProverThread.take(setup)
  await thread.end()
  const waiting = thread.do(task).then(
    () => 'done',
    (error: Error) => error.message,
  )
  const turns = async () => {
    for (let turn = 0; turn < 100; turn++) await nextTask()
    return 'nothing'
  }
  expect(await Promise.race([waiting, turns()])).toMatch(/ended/)
})

test('one that was idle for long is handed out no more', async () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
  const thread = ProverThread.take(setup)
  thread.giveBack()
  const again = ProverThread.take(setup)
  expect(again).toBe(thread)
  thread.giveBack()
  vi.advanceTimersByTime(3_600_000) // it is ending
  const other = ProverThread.take(setup)
  expect(other).not.toBe(thread)
  await Promise.all([thread.end(), other.end()])
})

test('one that could not begin tells whoever gives it something to do, however late', async () => {
  const thread = ProverThread.take(setup)
  await expect(thread.do(task)).rejects.toThrow()
  await expect(thread.do(task)).rejects.toThrow(/ended/)
  thread.giveBack()
  const other = ProverThread.take(setup)
  expect(other).not.toBe(thread)
  await other.end()
})
