// A lookup that the app makes in a task of scheduler.postTask(), which is then aborted. scheduler.yield() is told of that wherever
// the task's promises lead, and rejects, also after a fetch: inside this package, whose work the app must not call off (P5), and
// whose queue others wait in.

import { afterEach, expect, test, vi } from 'vitest'
import { platformEnvironment } from '../src/platform/whole.js'
import { A, B, on } from './support/network.js'
import { World } from './support/world.js'

afterEach(() => {
  vi.unstubAllGlobals()
})

/** As Chromium has it, of a task that `abort` aborts. */
function yieldingTask(): { abort(): void; isOver(): void } {
  const over = () => new DOMException('signal is aborted without reason', 'AbortError')
  let aborted = false
  const next = () =>
    new Promise<void>((resolve, reject) => {
      if (aborted) reject(over())
      else setImmediate(resolve)
    })
  vi.stubGlobal('scheduler', { yield: next })
  return {
    abort() {
      aborted = true
    },
    isOver() {
      aborted = false
    },
  }
}

const { pause } = platformEnvironment()

/** When the task is aborted. */
const moments: [string, (world: World, abort: () => void) => void][] = [
  ['before it is its turn', (_world, abort) => abort()],
  [
    'while servers answer',
    ({ network }, abort) => {
      for (const server of [A, B])
        network.misbehave[server] = on('/v1/answer', genuine => {
          abort()
          return genuine
        })
    },
  ],
]

test.each(moments)('aborted %s: it ends as ever, and so do others', async (_when, arrange) => {
  const world = new World()
  const task = yieldingTask()
  const map = await world.life({ pause }).open()
  arrange(world, () => task.abort())
  await world.checkValues(map, [1])
  task.isOver()
  for (const server of [A, B]) world.network.misbehave[server] = undefined
  await world.checkValues(map, [6, 6, 999])
  for (const server of [A, B]) expect(world.auditor.distinct(server)).toBe(4)
  expect(world.network.queries()).toHaveLength(2 * 4) // nobody hears that anything was given up
  await world.drive(map.reset())
  await world.checkValues(map, [62])
  await world.drive(map.close())
  expect(await world.head()).toMatchObject({ pending: undefined })
  await world.auditor.assertSound()
})

test('what nobody waits for does not go on first, before replies that are there', async () => {
  const first = vi.fn(() => Promise.resolve())
  vi.stubGlobal('scheduler', { yield: first })
  await pause('behind')
  expect(first).not.toHaveBeenCalled()
  await pause()
  expect(first).toHaveBeenCalledOnce()
})
