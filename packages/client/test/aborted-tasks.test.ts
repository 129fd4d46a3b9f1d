// An app looks up in a task of scheduler.postTask(), then aborts the task. scheduler.yield() then rejects inside the SDK as well, even
// after a fetch. But the app must not stop a lookup that has begun (P5), nor others in its queue.

import { afterEach, expect, test, vi } from 'vitest'
import { platformEnvironment } from '../src/platform/whole.js'
import { A, B, on } from './support/network.js'
import { World } from './support/world.js'

afterEach(() => {
  vi.unstubAllGlobals()
})

/** scheduler.yield() as in Chromium, of a task that `abort` aborts. */
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
    ({ network }, abort) =>
      network.both(
        on('/v1/answer', genuine => {
          abort()
          return genuine
        }),
      ),
  ],
]

test.each(moments)('a task aborted %s: its lookup and others end as usual', async (_when, arrange) => {
  const world = new World()
  const task = yieldingTask()
  const map = await world.life({ pause }).open()
  arrange(world, () => task.abort())
  await world.checkValues(map, [1])
  task.isOver()
  world.network.both(undefined)
  await world.checkValues(map, [6, 6, 999])
  for (const server of [A, B]) expect(world.auditor.distinct(server)).toBe(4)
  expect(world.network.queries()).toHaveLength(2 * 4) // no server notices that a task was aborted
  await world.drive(map.reset())
  await world.checkValues(map, [62])
  await world.drive(map.close())
  expect(await world.head()).toMatchObject({ pending: undefined })
})

test('background work does not run before replies that have arrived', async () => {
  const first = vi.fn(() => Promise.resolve())
  vi.stubGlobal('scheduler', { yield: first })
  await pause('background')
  expect(first).not.toHaveBeenCalled()
  await pause()
  expect(first).toHaveBeenCalledOnce()
})
