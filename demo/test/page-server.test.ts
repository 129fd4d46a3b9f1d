// The headers that the page is served with: caching, early connections, no requests from other sites.

import { readdirSync } from 'node:fs'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { createPageServer } from '../src/node/page-server.js'
import { pageFolder } from '../src/node/paths.js'
import { closeServer, listen } from '../src/node/proxy.js'
import type { Config } from '../src/page/backstage.js'

const watcher = (url: string) => ({ url, seen: [], lies: false, replace() {}, close: async () => {} })
const proxies = {
  A: watcher('http://127.0.0.1:1'),
  B: watcher('http://127.0.0.1:2'),
  C: watcher('http://127.0.0.1:3'),
}

const row = { file: 'data', at: 0, hex: '00' }

let url: string
const page = createPageServer()
beforeAll(async () => {
  url = await listen(page.server, 0)
  page.publish({
    proxies,
    databases: {},
    publisherKey: '00',
    prepareAlone: async () => {},
    prepareBreached: async () => ({ evaluationKey: '00', plain: row, sealed: row }),
    published: async () => [],
    change: async () => ({ refusals: [] }),
    replaceKey: async () => ({ refusals: [] }),
    hideReplacement: async () => ({ refusals: [] }),
  })
})
afterAll(() => closeServer(page.server))

test('the page opens connections to both servers early, and is never cached', async () => {
  const { headers } = await fetch(url)
  expect(headers.get('link')).toBe(
    '<http://127.0.0.1:1>; rel=preconnect; crossorigin, <http://127.0.0.1:2>; rel=preconnect; crossorigin',
  )
  expect(headers.get('cache-control')).toBe('no-store')
})

test('files with a hash in their name are cached, and the configuration is not', async () => {
  const names = readdirSync(`${pageFolder}/assets`)
  expect(names.length).toBeGreaterThan(5)
  for (const name of names) expect(name).toMatch(/-[\w-]{8}\.(js|css|wasm)$/)
  const file = await fetch(`${url}/assets/${names[0]}`)
  expect(file.headers.get('cache-control')).toBe('public, max-age=31536000, immutable')
  await file.body?.cancel()
  const config = await fetch(`${url}/config.json`)
  expect(config.headers.get('cache-control')).toBe('no-store')
  expect((await config.json()) as Config).toMatchObject({ servers: { A: 'http://127.0.0.1:1' }, hosted: true })
})

test('the page makes one server lie, or none; anything else is refused', async () => {
  const set = async (body: string) => {
    const headers = { 'content-type': 'application/json' }
    const { status } = await fetch(`${url}/liar`, { method: 'POST', headers, body })
    return [status, proxies.A.lies, proxies.B.lies]
  }
  expect(await set('"B"')).toEqual([204, false, true])
  expect(await set('"C"')).toEqual([400, false, true])
  expect(await set('"A"')).toEqual([204, true, false])
  expect(await set('null')).toEqual([204, false, false])
})

test('a page of another site can not make a server lie or start, nor publish', async () => {
  for (const path of ['liar', 'publish', 'key', 'alone', 'breached']) {
    const send = (headers: Record<string, string>) =>
      fetch(`${url}/${path}`, {
        method: 'POST',
        headers,
        body: path !== 'publish' ? 'null' : '{"op":"add","domain":"a.example"}',
      })
    for (const type of ['text/plain', 'application/x-www-form-urlencoded', 'multipart/form-data']) {
      expect((await send({ 'content-type': type })).status).toBe(400)
    }
    expect((await send({ 'content-type': 'application/json' })).ok).toBe(true)
  }
})
