// The servers for tests of apps, where a DOM for tests has put its own AbortController in the place of Node's, as happy-dom and jsdom do.

import { startServers } from '@keyhush/server/testing'
import { afterEach, expect, test, vi } from 'vitest'

afterEach(() => vi.unstubAllGlobals())

test('they start, misbehave and end', async () => {
  class ForeignController {
    signal = { addEventListener() {}, removeEventListener() {} }
    abort() {}
  }
  vi.stubGlobal('AbortController', ForeignController)
  const { servers, misbehave, close } = await startServers({ otter: 'river' })
  const asked = () => fetch(`${servers[0]}/v1/info`, { signal: AbortSignal.timeout(60_000) })
  expect((await asked()).status).toBe(200)
  for (const how of ['silent', 'slow'] as const) {
    misbehave(0, how)
    const reply = asked().then(
      ({ status }) => status,
      () => 'hung up',
    )
    misbehave(0, undefined)
    expect(['hung up', 200]).toContain(await reply)
  }
  await close()
})
