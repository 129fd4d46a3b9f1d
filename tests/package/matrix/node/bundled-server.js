// Two servers in an app of their own, and lookups from there. All is in one file but the packages, which load their own files.

import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { open } from '@keyhush/client'
import { buildDataset, createServer, loadDataset } from '@keyhush/server'
import { probe } from '../probe.js'

const folder = await mkdtemp(join(tmpdir(), 'matrix-bundled-'))
const [data, out] = [join(folder, 'data.csv'), join(folder, 'dataset')]
await writeFile(data, 'key,value\notter,river\nheron,shore\n')
await buildDataset({ data, out })

const apps = []
const urls = []
for (let i = 0; i < 2; i++) {
  const app = await createServer({ datasets: [{ dataset: await loadDataset(out) }] })
  urls.push(await app.listen({ host: '127.0.0.1', port: 0 }))
  apps.push(app)
}
console.log(await probe(options => open({ ...options, servers: urls.slice(0, options.servers.length) })))

for (const app of apps) await app.close()
await rm(folder, { recursive: true })
