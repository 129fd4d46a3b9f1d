// Servers and witnesses that begin a reply and do not end it, where the platform's fetch has forgotten its signal: Node's does so once memory
// is collected.

import { setImmediate } from 'node:timers/promises'
import { expect, onTestFinished, test, vi } from 'vitest'
import { PublishedServer } from '../dist/publisher/server.js'
import { ReadTiles } from '../dist/publisher/tiles.js'
import { askWitness } from '../dist/publisher/witnesses.js'

const WITNESS = { url: 'https://w.example' } as unknown as Parameters<typeof askWitness>[0]
const CHECKPOINT = {
  note: { text: 'log\n0\n\n', signatures: [] },
  leaves: { length: 0 },
  old: 0,
} as unknown as Parameters<typeof askWitness>[1]

test.each<[string, () => Promise<unknown>]>([
  ['a server', () => new PublishedServer('https://s.example').newest()],
  ['a witness', () => askWitness(WITNESS, CHECKPOINT)],
  ['a host of a log', () => ReadTiles.at('https://l.example').checkpoint()],
])('%s is waited for no longer than it may take, and its connection ends', async (_, ask) => {
  const late = new AbortController()
  let isCancelled = false
  const body = new ReadableStream<Uint8Array>({
    start: stream => stream.enqueue(Uint8Array.of(0)),
    pull: async stream => {
      late.abort(new Error('it is late'))
      await setImmediate()
      if (!isCancelled) stream.close() // else a reader that waits would do so for ever
    },
    cancel: () => {
      isCancelled = true
    },
  })
  const mocks = [
    vi.spyOn(AbortSignal, 'timeout').mockReturnValue(late.signal),
    vi.spyOn(globalThis, 'fetch').mockImplementation(async () => new Response(body)),
  ]
  onTestFinished(() => {
    for (const mock of mocks) mock.mockRestore()
  })
  const came = await ask().catch((error: Error) => ({ reason: error.message }))
  expect([came, isCancelled]).toEqual([{ reason: expect.stringContaining('it is late') }, true])
})
