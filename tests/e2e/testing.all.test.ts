// The servers for tests of apps: each misbehaviour shows as documented, and ends when it is switched off.

import { once } from 'node:events'
import { request } from 'node:http'
import { type KeyhushError, open } from '@keyhush/client'
import { type Misbehaviour, startServers, type TestServers } from '@keyhush/server/testing'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { serve } from '../support/web.js'

let both: TestServers

beforeAll(async () => {
  both = await startServers({ otter: 'river', heron: 'shore' })
})
afterAll(() => both.close())

const opened = (mode: 'full' | 'instant' | 'local') => open({ ...both, mode })
const failure = (work: Promise<unknown>) =>
  work.then(
    () => 'nothing',
    (error: KeyhushError & { server?: string }) => [error.code, error.server].join(' ').trim(),
  )

test.each<[Misbehaviour, string]>([
  ['lie', 'tampered'],
  ['cut', 'network'],
  ['down', 'network'],
  ['limit', 'rate_limited'],
  ['portal', 'network'],
])('%s: a lookup fails with %s, which names the server', async (how, code) => {
  for (const server of [0, 1] as const) {
    const map = await opened('full')
    expect(await map.getText('otter')).toBe('river')
    both.misbehave(server, how)
    expect(await failure(map.get('otter'))).toBe(`${code} ${both.servers[server]}`)
    both.misbehave(server, undefined)
    if (how === 'lie') {
      expect(map.condemned).toEqual({ server: both.servers[server] })
      await map.reset()
    }
    expect(await map.getText('otter')).toBe('river')
    await map.close()
  }
})

test('a server that lies cannot be named in mode instant, and is replaced in a download', async () => {
  const map = await opened('instant')
  both.misbehave(1, 'lie')
  expect(await failure(map.get('otter'))).toBe('tampered')
  const local = await opened('local')
  expect([await local.getText('heron'), await failure(local.get('otter'))]).toEqual(['shore', 'nothing'])
  both.misbehave(1, undefined)
  expect(await map.getText('otter')).toBe('river')
  await map.close()
  await local.close()
})

test('a request whose target names another host reaches that host through neither server', async () => {
  let reached = 0
  const other = await serve((_, reply) => {
    reached++
    reply.end()
  })
  const host = `${other.url.replace('http:', '')}/v1/manifest`
  for (const server of both.servers) {
    for (const path of [host, `http:${host}`]) {
      const [reply] = await once(request(server, { path }).end(), 'response')
      await once(reply.resume(), 'end') // 404, or this server's own manifest
    }
  }
  expect(reached).toBe(0)
  await other.close()
})

test('fork: neither server is believed', async () => {
  both.misbehave(0, 'fork')
  expect(await failure(opened('full'))).toBe('servers_disagree')
  both.misbehave(0, undefined)
})

test.each<Misbehaviour>(['silent', 'slow'])('%s: a lookup waits until the server behaves', async how => {
  const map = await opened('full')
  both.misbehave(1, how)
  let over = false
  const lookup = map.getText('otter').finally(() => {
    over = true
  })
  const other = () => map.stats.servers.find(({ server }) => server === both.servers[0])!
  while (other().lookups.bytesDown === 0) await new Promise(resolve => setImmediate(resolve))
  expect(over).toBe(false)
  both.misbehave(1, undefined)
  expect(await lookup).toBe('river')
  await map.close()
})

test('behind: the app sees the newest epoch that both have', async () => {
  const map = await opened('full')
  both.misbehave(1, 'behind')
  const batch = [{ op: 'edit', key: 'otter', value: 'lakes' }] as const
  await both.publish(batch)
  await map.sync()
  expect([map.epoch, await map.getText('otter')]).toEqual([1, 'river'])
  both.misbehave(1, undefined)
  await both.publish(batch) // again: it goes where it is missing
  await map.sync()
  expect([map.epoch, await map.getText('otter')]).toEqual([2, 'lakes'])
  await map.close()
})

test('three servers, of which two must agree: whichever lies, the answer is right', async () => {
  const { close, misbehave, publisherKey, servers } = await startServers({ otter: 'river' }, { count: 3 })
  const map = await open({ servers, publisherKey, mode: 'instant', atLeast: 2 })
  for (const server of [0, 1, 2]) {
    misbehave(server, 'lie')
    expect(await map.getText('otter')).toBe('river')
    misbehave(server, undefined)
  }
  await map.close()
  await close()
})
