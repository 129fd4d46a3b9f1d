// HEAD /v1/events opens a stream that nobody reads and nobody ends.

import { expect, test } from 'vitest'
import { served, twoKeys } from './sockets.js'

test('HEAD requests take no event streams away', async () => {
  const { url } = await served({ updatable: await twoKeys() })
  for (let i = 0; i < 256; i++) await fetch(`${url}/v1/events`, { method: 'HEAD' })
  const reply = await fetch(`${url}/v1/events`)
  await reply.body?.cancel()
  expect(reply.status).toBe(200)
})
