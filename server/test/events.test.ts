// Many event streams: whatever is told to all of them is told in slices, and heartbeats are spread over their interval.

import { Socket } from 'node:net'
import { Readable } from 'node:stream'
import { setImmediate as nextTask } from 'node:timers/promises'
import { EVENT_BYTES } from '@keyhush/protocol'
import { expect, onTestFinished, test, vi } from 'vitest'
import { slice } from '../dist/base/pace.js'
import { exchanged, served, twoKeys } from './sockets.js'
import { batchOn } from './updatable-helpers.js'

const STREAMS = 30
const EVENTS = 'GET /v1/events HTTP/1.1\r\nHost: x\r\n\r\n'

/** A server whose slices are as short as can be, with streams, and in which task of the loop each line was told. */
async function listened() {
  const usual = slice.milliseconds
  slice.milliseconds = 0
  const updatable = await twoKeys()
  const { port } = await served({ updatable })
  for (let i = 0; i < STREAMS; i++) await exchanged(port, EVENTS, /"epoch":1/)
  const toldIn: number[] = []
  let [task, isOver] = [0, false]
  const { push } = Readable.prototype
  const spy = vi.spyOn(Readable.prototype, 'push').mockImplementation(function (
    this: Readable,
    chunk: unknown,
    ...more
  ) {
    if (!(this instanceof Socket) && (chunk as Buffer | null)?.length === EVENT_BYTES) toldIn.push(task)
    return push.call(this, chunk, ...more)
  })
  onTestFinished(() => {
    spy.mockRestore()
    slice.milliseconds = usual
    isOver = true
  })
  void (async () => {
    for (; !isOver; task++) await nextTask()
  })()
  return { updatable, toldIn }
}

test('an epoch is told to streams in slices, and requests have their turn between them', async () => {
  const { updatable, toldIn } = await listened()
  await updatable.publish(batchOn(updatable, '{"op":"edit","key":"one","value":"third"}\n'))
  await vi.waitFor(() => expect(toldIn.length).toBe(STREAMS))
  expect(new Set(toldIn).size).toBeGreaterThan(STREAMS / 2)
})

test('heartbeats are spread over their interval, and each stream has one in it', async () => {
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] })
  onTestFinished(() => void vi.useRealTimers())
  const { toldIn } = await listened()
  for (let second = 1; second <= 15; second++) {
    vi.advanceTimersByTime(1000)
    for (let task = 0; task < STREAMS; task++) await nextTask()
    expect(toldIn.length).toBe((second * STREAMS) / 15)
  }
})
