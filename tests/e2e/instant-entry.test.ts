// `@keyhush/client/instant`: the same lookups as mode instant of `open()`, and options that hold nothing else.

import { readFile } from 'node:fs/promises'
import { open as openAny, UsageError } from '@keyhush/client'
import * as entry from '@keyhush/client/instant'
import { startServers, type TestServers } from '@keyhush/server/testing'
import { afterAll, beforeAll, expect, expectTypeOf, test } from 'vitest'

let both: TestServers
beforeAll(async () => {
  both = await startServers({ otter: 'river', heron: 'shore' })
})
afterAll(() => both.close())

test('looks up, follows the database, and catches a lie, with the classes of the other entry', async () => {
  const { servers, publisherKey } = both
  const map = await entry.open({ servers, publisherKey })
  expect([map.mode, map.storage, map.size]).toEqual(['instant', 'memory', 2])
  expect([await map.getText('otter'), await map.has('auk')]).toEqual(['river', false])
  await both.publish([{ op: 'edit', key: 'otter', value: 'lakes' }])
  await map.sync()
  expect([map.epoch, await map.getText('otter')]).toEqual([2, 'lakes'])
  both.misbehave(1, 'lie')
  await expect(map.get('otter')).rejects.toBeInstanceOf(entry.TamperedError)
  both.misbehave(1, undefined)
  expect(await map.getText('heron')).toBe('shore')
  await map.close()
  await expect(map.get('otter')).rejects.toBeInstanceOf(entry.ClosedError)
})

test('lives beside a map of the other entry', async () => {
  const { servers, publisherKey } = both
  const maps = [
    await entry.open({ servers, publisherKey }),
    await openAny({ servers, publisherKey, mode: 'instant' }),
    await openAny({ servers, publisherKey, mode: 'full' }),
  ]
  for (const map of maps) expect(await map.getText('heron')).toBe('shore')
  for (const map of maps) await map.close()
})

test('takes a module that is handed in', async () => {
  const file = new URL('../../packages/wasm/generated/instant_bg.wasm', import.meta.url)
  const map = await entry.open({ ...both, wasm: async () => new Uint8Array(await readFile(file)) })
  expect(await map.getText('heron')).toBe('shore')
  await map.close()
})

test('refuses what only other modes take, in types and when it runs', async () => {
  expectTypeOf<entry.InstantOptions>().not.toHaveProperty('mode')
  expectTypeOf<entry.InstantOptions>().not.toHaveProperty('store')
  const { servers } = both
  const options = [{ servers, storage: 'memory' }, { servers, mode: 'full' }, { servers: [servers[0]] }]
  for (const given of [...options, { servers, publisherKey: undefined }]) {
    await expect(entry.open(given as never)).rejects.toBeInstanceOf(UsageError)
  }
  await expect(entry.open({ servers: servers.slice(1) })).rejects.toThrow(
    /servers: expected two or more, .*, got one; for one/,
  )
})
