// Servers that are a plugin in an app of somebody's own, with a dataset that never changes: all modes work, and nothing is asked for
// that is not there.

import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { open } from '@keyhush/client'
import { buildDataset, keyhushPlugin, loadDataset } from '@keyhush/server'
import { type FastifyInstance, fastify } from 'fastify'
import { afterAll, beforeAll, expect, test } from 'vitest'

const apps: FastifyInstance[] = []
const servers: string[] = []
let folder: string
/** what the app's own handler said was not there */
const refused: string[] = []

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'own-app-'))
  const [data, out] = [join(folder, 'a.csv'), join(folder, 'dataset')]
  await writeFile(data, 'key,value\notter,river\nheron,shore\n')
  await buildDataset({ data, out })
  for (let i = 0; i < 2; i++) {
    const app = fastify()
    app.addHook('onResponse', async ({ method, url }, { statusCode }) => {
      if (statusCode >= 400) refused.push(`${method} ${url} ${statusCode}`)
    })
    await app.register(keyhushPlugin, { dataset: await loadDataset(out) })
    servers.push(await app.listen({ host: '127.0.0.1', port: 0 }))
    apps.push(app)
  }
})
afterAll(async () => {
  for (const app of apps) {
    app.server.closeAllConnections()
    await app.close()
  }
  await rm(folder, { recursive: true })
})

const MODES = [
  { mode: 'instant' },
  { mode: 'local' },
  { mode: 'full' },
  { mode: 'full', proofs: 'merkle' },
  { mode: 'single', collusion: 'tolerated' },
] as const
test.each(MODES)('%o', async options => {
  const map = await open({ servers, storage: 'memory', push: true, ...options })
  expect([await map.getText('otter'), await map.has('auk')]).toEqual(['river', false])
  await map.close()
})

test('what these servers do not offer was asked for once a map, or not at all', () => {
  expect(refused.filter(request => request !== 'GET /v1/events 404')).toEqual([])
  expect(refused.length).toBeLessThanOrEqual(MODES.length * servers.length)
})
