// Pointproofs from one end to the other: a database that is proved, two servers over HTTP, and the SDK in Node with the package that
// it is handed.

import { estimate, open } from '@keyhush/client'
import { createServer, type Dataset, loadDataset } from '@keyhush/server'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { about, changed, flippedEverywhere } from '../../../tests/support/lies.js'
import { LyingProxy } from '../../../tests/support/proxy.js'
import { DATASET } from './support/small.js'

const proved = { proofs: 'pointproofs', pointproofs: () => import('@keyhush/pointproofs') } as const
let dataset: Dataset
let apps: Awaited<ReturnType<typeof createServer>>[]
let proxies: LyingProxy[]

beforeAll(async () => {
  dataset = await loadDataset(DATASET)
  apps = [await createServer({ datasets: [{ dataset }] }), await createServer({ datasets: [{ dataset }] })]
  proxies = []
  for (const app of apps) proxies.push(await LyingProxy.start(await app.listen({ host: '127.0.0.1', port: 0 })))
})

afterAll(async () => {
  for (const proxy of proxies) await proxy.close()
  for (const app of apps) {
    app.server.closeAllConnections()
    await app.close()
  }
  dataset.close()
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
  await expect(map.getText('name 6')).rejects.toMatchObject({ code: 'tampered', server: servers[1] })
  proxies[1]!.lie = undefined
  await expect(map.getText('name 6')).rejects.toMatchObject({ code: 'condemned' })
  await map.reset()
  expect(await map.getText('name 6')).toBe('value 6')
  await map.close()
})
