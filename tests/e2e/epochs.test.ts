// What an open map asks real servers for when the publisher makes an epoch.

import { open } from '@keyhush/client'
import { startServers, type TestServers } from '@keyhush/server/testing'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { reached } from '../support/servers.js'

const EPOCHS = 5
let servers: TestServers
beforeAll(async () => {
  servers = await startServers(Object.fromEntries(Array.from({ length: 300 }, (_, i) => [`key ${i}`, `value ...${i}`])))
})
afterAll(() => servers.close())

describe.each([
  ['instant', 0],
  ['full', 1],
  ['local', 1],
] as const)('mode %s', (mode, lists) => {
  test.each(['with', 'without'])(
    '%s a key: an epoch costs a look at each server, and what is new once',
    async keyed => {
      const { publisherKey } = servers
      const asked: string[] = []
      const counting = async (url: string, init: RequestInit) => {
        const { pathname } = new URL(url)
        asked.push(pathname.replace(/[0-9a-f]{64}/, ''))
        return await fetch(url, init)
      }
      const options = { ...(keyed === 'with' && { publisherKey }), push: true, fetch: counting }
      const map = await open({ servers: servers.servers, mode, storage: 'memory', ...options })
      await expect.poll(() => asked.filter(path => path === '/v1/events').length).toBe(2)
      asked.length = 0
      for (let i = 0; i < EPOCHS; i++) {
        const arrives = reached(map, map.epoch + 1)
        await servers.publish([{ op: 'edit', key: 'key 7', value: `${keyed} ${i}` }])
        await arrives
      }
      expect(await map.getText('key 7')).toBe(`${keyed} ${EPOCHS - 1}`)
      await map.close()
      const times = (path: string) => asked.filter(each => each === path).length / EPOCHS
      expect([times('/v1/info'), times('/v1/manifest'), times('/v1/blobs/')]).toEqual([2, 1, lists])
    },
  )
})
