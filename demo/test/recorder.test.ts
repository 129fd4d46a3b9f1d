// The recorder limits what it reads: a server's reply may never end.

import { expect, onTestFinished, test, vi } from 'vitest'
import { readBounded } from '../src/page/wire/bounded.js'
import { Recorder } from '../src/page/wire/recorder.js'

const MEGABYTE = 2 ** 20

test('an endless reply is not read on after the app has cancelled it', async () => {
  let megabytes = 0
  const endless = () =>
    new ReadableStream({
      pull: async controller => {
        await new Promise(resolve => setImmediate(resolve))
        if (++megabytes > 100) controller.close()
        else controller.enqueue(new Uint8Array(MEGABYTE))
      },
    })
  const recorder = new Recorder({ A: 'https://a.example', B: 'https://b.example' }, async () => new Response(endless()))
  const given = await recorder.fetch('https://a.example/v1/answer', { method: 'POST', body: new Uint8Array(8) })
  given.body!.cancel().catch(() => {})
  expect(await recorder.since(0)).toMatchObject([{ reply: undefined }])
  expect(megabytes).toBeLessThan(30)
})

test('a reply that does not end in time is given up', async () => {
  vi.useFakeTimers()
  onTestFinished(() => void vi.useRealTimers())
  const withheld = new ReadableStream({ start: controller => controller.enqueue(new Uint8Array(8)) })
  const read = readBounded(new Response(withheld), 100)
  const refused = expect(read).rejects.toThrow('did not end')
  await vi.advanceTimersByTimeAsync(30_000)
  await refused
})

test('a reply within the limit is read whole', async () => {
  const bytes = crypto.getRandomValues(new Uint8Array(60_000))
  const pieces = new ReadableStream({
    start(controller) {
      for (let at = 0; at < bytes.length; at += 7000) controller.enqueue(bytes.subarray(at, at + 7000))
      controller.close()
    },
  })
  expect(await readBounded(new Response(pieces), bytes.length)).toEqual(bytes)
  expect(await readBounded(new Response(null), 0)).toHaveLength(0)
})
