// Two operators' own Fastify apps, with every kind of database under a prefix each: one that is fixed or changes, with keys or without.

import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { open } from '@keyhush/client'
import { buildDataset, keyhushPlugin, loadDataset, MemoryStorage, UpdatableDatabase } from '@keyhush/server'
import { fastify } from 'fastify'

const folder = await mkdtemp(join(tmpdir(), 'matrix-fastify-'))
const datasets = { keyed: join(folder, 'keyed'), keyless: join(folder, 'keyless') }
await writeFile(join(folder, 'data.csv'), 'key,value\notter,river\nheron,shore\n')
await writeFile(join(folder, 'data.bin'), 'rivershore')
await buildDataset({ data: join(folder, 'data.csv'), out: datasets.keyed })
await buildDataset({ data: join(folder, 'data.bin'), recordBytes: 5, out: datasets.keyless })

const opened = []
async function updatable(dataset) {
  const storage = new MemoryStorage()
  await UpdatableDatabase.create(storage, dataset)
  const database = await UpdatableDatabase.open(storage)
  opened.push(database)
  return { updatable: database }
}

const apps = [fastify(), fastify()]
const servers = []
for (const app of apps) {
  for (const [kind, place] of Object.entries(datasets)) {
    await app.register(keyhushPlugin, { prefix: `/fixed-${kind}`, dataset: await loadDataset(place) })
    await app.register(keyhushPlugin, { prefix: `/changing-${kind}`, ...(await updatable(await loadDataset(place))) })
  }
  servers.push(await app.listen({ host: '127.0.0.1', port: 0 }))
}

const EXPECTED = { keyed: 'river false', keyless: 'shore' }
for (const change of ['fixed', 'changing']) {
  for (const [kind, expected] of Object.entries(EXPECTED)) {
    for (const mode of ['instant', 'full', 'local', 'single']) {
      const own = mode === 'single' ? { integrity: 'server' } : {}
      const urls = servers.slice(0, mode === 'single' ? 1 : 2).map(url => `${url}/${change}-${kind}`)
      const map = await open({ servers: urls, storage: 'memory', mode, ...own })
      const text = bytes => new TextDecoder().decode(bytes)
      const said = kind === 'keyed' ? `${await map.getText('otter')} ${await map.has('auk')}` : text(await map.at(1))
      if (said !== expected) throw new Error(`expected ${expected} of ${change}, ${kind}, ${mode}, got ${said}`)
      await map.close()
    }
  }
}

for (const app of apps) {
  app.server.closeAllConnections()
  await app.close()
}
for (const database of opened) await database.close()
await rm(folder, { recursive: true })
console.log('works')
