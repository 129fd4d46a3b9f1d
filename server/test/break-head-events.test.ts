// HEAD /v1/events opens a stream that nobody reads and nobody ends.

import { fastify } from 'fastify'
import { expect, onTestFinished, test } from 'vitest'
import { MemoryStorage, pirouettePlugin, UpdatableDatabase } from '../dist/index.js'
import { builtDataset } from './helpers.js'

test('HEAD requests take no event streams away', async () => {
  const storage = new MemoryStorage()
  const dataset = await builtDataset('a.csv', 'key,value\none,first\n')
  await UpdatableDatabase.create(storage, dataset)
  const updatable = await UpdatableDatabase.open(storage)
  onTestFinished(() => updatable.close())
  const app = fastify()
  await app.register(pirouettePlugin, { updatable })
  const url = await app.listen({ host: '127.0.0.1', port: 0 })
  onTestFinished(() => {
    app.server.closeAllConnections()
    return app.close()
  })
  for (let i = 0; i < 256; i++) await fetch(`${url}/v1/events`, { method: 'HEAD' })
  app.server.closeAllConnections()
  const reply = await fetch(`${url}/v1/events`)
  await reply.body?.cancel()
  expect(reply.status).toBe(200)
}, 60_000)
