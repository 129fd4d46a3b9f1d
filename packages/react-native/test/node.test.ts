// The package in Node, with a network like React Native's.

import { expect, test, vi } from 'vitest'
import { run } from './app.js'
import { ask } from './network.js'
import { suite } from './suite.js'

const listeners = vi.hoisted(() => new Set<(state: string) => void>())
vi.mock('react-native', () => ({
  AppState: {
    addEventListener(_type: 'change', listener: (state: string) => void) {
      listeners.add(listener)
      return { remove: () => void listeners.delete(listener) }
    },
  },
}))

/** React Native's: it ignores `redirect`, and its replies have no `body`. */
async function fetchWhole(url: string, init: RequestInit): Promise<Response> {
  const { method = 'GET', headers, body, signal } = init
  expect(init).not.toHaveProperty('cache')
  expect(body === undefined || new Headers(headers).has('content-type')).toBe(true)
  const reply = await ask(
    { url, method, headers: headers as Record<string, string>, body: body as Uint8Array<ArrayBuffer> },
    signal,
  )
  const { buffer } = reply.body
  return { ...reply, headers: new Headers(reply.headers), body: undefined, arrayBuffer: async () => buffer } as never
}

suite('Node', async random => ({
  async run(command) {
    vi.stubGlobal('fetch', fetchWhole)
    if (!random) vi.stubGlobal('crypto', undefined)
    return await run(command).finally(() => vi.unstubAllGlobals())
  },
  activate() {
    for (const listener of listeners) listener('active')
  },
  async close() {},
}))

test('a map that was closed leaves no listener once the app has come to the front', async () => {
  await expect.poll(() => listeners.size).toBe(0)
})
