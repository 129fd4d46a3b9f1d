// Pointproofs from one end to the other: a database that is built under a ceremony of two, two servers over HTTP, and the SDK in
// Node with the package that it is handed.

import { estimate, open } from '@keyhush/client'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { about, changed, flippedEverywhere } from '../../../tests/faults/lies.js'
import { LyingProxy } from '../../../tests/support/proxy.js'
import { type ServerPair, startPair, temporaryFolder } from '../../../tests/support/servers.js'
import { ceremonyIn } from './support/proved.js'

const proved = { proofs: 'pointproofs', pointproofs: () => import('@keyhush/pointproofs') } as const
const names = Array.from({ length: 40 }, (_, i) => `name ${i}`)
let folder: Awaited<ReturnType<typeof temporaryFolder>>
let pair: ServerPair
let living: ServerPair
let proxies: LyingProxy[]

beforeAll(async () => {
  folder = await temporaryFolder()
  const { transcript: ceremony, mine: receipt } = await ceremonyIn(folder.path)
  const content = `key,value\n${names.map((name, i) => `${name},value ${i}`).join('\n')}\n`
  const data = { format: 'csv', content, partitions: 2, proofs: 'pointproofs', ceremony, receipt } as const
  pair = await startPair(data)
  living = await startPair({ ...data, headroom: 10 }, { living: true })
  proxies = [await LyingProxy.start(pair.urls[0]), await LyingProxy.start(pair.urls[1])]
})

afterAll(async () => {
  for (const proxy of proxies) await proxy.close()
  await pair.close()
  await living.close()
  await folder.remove()
})

test('keys are found and absent ones proved absent; bodies are as planned; a lie is caught and named', async () => {
  const servers = proxies.map(({ url }) => url) as [string, string]
  const options = { servers, mode: 'full', ...proved, storage: 'memory' } as const
  const map = await open(options)
  expect(await map.getText('name 7')).toBe('value 7')
  expect(await map.getText('nobody')).toBeUndefined()
  const { lookupBytesUp, lookupBytesDown } = (await estimate(servers, { proofs: 'pointproofs' })).modes['full']!
  const { bytesUp, bytesDown } = map.stats.lastLookup!
  expect([bytesUp, bytesDown]).toEqual([lookupBytesUp, lookupBytesDown])
  expect(map.stats.held['verifier']).toBeGreaterThan(49_000)

  proxies[1]!.lie = about('/v1/answer', changed(flippedEverywhere))
  await expect(map.getText('name 8')).rejects.toMatchObject({ code: 'tampered', server: servers[1] })
  proxies[1]!.lie = undefined
  await expect(map.getText('name 8')).rejects.toMatchObject({ code: 'condemned' })
  await map.reset()
  expect(await map.getText('name 8')).toBe('value 8')
  await map.close()
})

test('a map follows what is published, is proved right before and after, and fetches no rows again', async () => {
  const paths: string[] = []
  const counted: typeof fetch = (url, init) => {
    paths.push(new URL(String(url)).pathname)
    return fetch(url, init)
  }
  const map = await open({
    ...{ servers: living.urls, fetch: counted, push: false },
    ...{ mode: 'full', ...proved, storage: 'memory' },
  })
  expect(await map.getText('name 7')).toBe('value 7')
  for (let round = 1; round <= 3; round++) {
    await living.publish([
      { op: 'edit', key: 'name 7', value: `value ${round}` },
      { op: 'add', key: `new ${round}`, value: 'there' },
      { op: 'delete', key: `name ${9 + round}` },
    ])
    // At the epoch before, which is answered as well; then at the newest.
    expect(await map.getText('name 7')).toBe(round === 1 ? 'value 7' : `value ${round - 1}`)
    const before = paths.length
    await map.sync()
    expect(map.epoch).toBe(round + 1)
    expect(await map.getText('name 7')).toBe(`value ${round}`)
    expect(await map.getText(`new ${round}`)).toBe('there')
    expect(await map.getText(`name ${9 + round}`)).toBeUndefined()
    // The update list, and nothing else.
    expect(paths.slice(before).filter(path => path.startsWith('/v1/blobs/'))).toHaveLength(1)
  }
  await map.close()
})
