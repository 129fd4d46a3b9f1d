// A reply that has arrived at its declared length, but never ends, for example under an encoding whose last bytes are withheld. The
// client does not wait for its end, and hangs up, so that such replies cannot hold connections open.

import { expect, test } from 'vitest'
import { settle } from './support/clock.js'
import { Harness, keyless } from './support/harness.js'
import { bytesOf, type Misbehave } from './support/network.js'

/** Replies without end, and how many have begun. */
function withholding(path: string, more: Uint8Array | undefined) {
  const open = new Set<object>()
  let begun = 0
  const misbehave: Misbehave = async (seen, genuine) => {
    if (!seen.path.startsWith(path) || genuine.status !== 200) return genuine
    const bytes = await bytesOf(genuine)
    const reply = {}
    const body = new ReadableStream<Uint8Array>({
      start(controller) {
        controller.enqueue(bytes)
        if (more !== undefined) controller.enqueue(more)
        open.add(reply)
        begun++
      },
      cancel: () => void open.delete(reply),
    })
    return new Response(body, { headers: { 'content-length': `${bytes.length}` } })
  }
  return { misbehave, open, begun: () => begun }
}

test.each([
  ['/v1/blobs/', undefined],
  ['/v1/answer', undefined],
  ['/v1/blobs/', new Uint8Array(1)],
  ['/v1/answer', new Uint8Array(1)],
])('replies to %s that are withheld the end of are let go, %s', async (path, more) => {
  const { network, database } = keyless()
  const harness = new Harness(network)
  const { misbehave, open, begun } = withholding(path, more)
  network.both(misbehave)
  const map = await harness.open({ push: false })
  for (const index of [3, 4]) expect(await harness.drive(map.at(index))).toEqual(database.byIndex[index])
  expect(begun()).toBeGreaterThan(3)
  while (harness.clock.waiting > 0) {
    harness.clock.advance()
    await settle()
  }
  expect(open.size).toBe(0)
})
