// Servers that withhold downloads (`serve --no-blobs`): batches, a server that catches up, and open maps go on without one.

import { rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { open } from '@keyhush/client'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { runKeyhush } from '../../server/test/command.js'
import { type ServerProcess, startServerProcess } from '../support/processes.js'
import { LyingProxy } from '../support/proxy.js'
import { databaseIdOf, reached, temporaryFolder } from '../support/servers.js'

let folder: Awaited<ReturnType<typeof temporaryFolder>>
let publisherKey: string
let processes: [ServerProcess, ServerProcess]
let proxies: [LyingProxy, LyingProxy]
const path = (name: string) => join(folder.path, name)
const urls = () => [proxies[0].url, proxies[1].url] as const
const begin = (store: string) => {
  const from = ['--store', path(store), '--dataset', path('dataset')]
  return startServerProcess(...from, '--publisher-key', publisherKey, '--no-blobs')
}

beforeAll(async () => {
  folder = await temporaryFolder()
  await writeFile(path('list.csv'), 'key,value\notter,river\nheron,shore\n')
  const options = ['--max-value-bytes', '20', '--name', 'animals', '--record', path('publisher.key.record')]
  await runKeyhush('build', path('list.csv'), '--out', path('dataset'), ...options)
  publisherKey = /[0-9a-f]{64}/.exec(await runKeyhush('keygen', '--out', path('publisher.key')))![0]
  processes = [await begin('a'), await begin('b')]
  proxies = [await LyingProxy.start(processes[0].url), await LyingProxy.start(processes[1].url)]
})
afterAll(async () => {
  for (const each of proxies) await each.close()
  for (const each of processes) await each.stop()
  await folder.remove()
})

async function publish(value?: string): Promise<void> {
  await writeFile(path('batch.jsonl'), `${JSON.stringify({ op: 'edit', key: 'otter', value })}\n`)
  const batch = value === undefined ? [] : [path('batch.jsonl')]
  await runKeyhush('publish', '--servers', urls().join(), '--key', path('publisher.key'), ...batch)
}

test('servers follow three epochs, one catches up from the first, and open maps follow', async () => {
  await publish()
  const options = { servers: urls(), publisherKey, push: true }
  const maps = [await open({ ...options, mode: 'instant' }), await open({ ...options, storage: 'memory' })]
  const arrive = async (epoch: number, value: string) => {
    for (const map of maps) {
      await reached(map, epoch)
      expect([map.mode, await map.getText('otter'), await map.getText('auk')]).toEqual(['instant', value, undefined])
      expect(map.databaseId).toBe(databaseIdOf('animals'))
    }
  }
  await arrive(1, 'river')
  for (const [i, value] of ['lake', 'marsh', 'sea'].entries()) {
    await publish(value)
    await arrive(i + 2, value)
  }

  await processes[1].stop()
  await rm(path('b'), { recursive: true })
  processes[1] = await begin('b')
  proxies[1].target = processes[1].url
  await publish()
  await arrive(4, 'sea')
  await publish('river')
  await arrive(5, 'river')
  for (const map of maps) await map.close()
  expect(proxies.flatMap(({ seen }) => seen).filter(each => each.path.startsWith('/v1/blobs/'))).toEqual([])
})
