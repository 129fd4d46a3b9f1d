// Starts the whole demo: two real servers, a watching proxy in front of each, and the page.
//
//   page ──► proxy A ──► server A      The page speaks to the proxies as if they were the servers; it asks its own
//     └────► proxy B ──► server B      origin what they saw.

import { decodeManifest } from '@pirouette/protocol'
import type { DatabaseName, ServerName } from '../page/backstage.js'
import { databases, prepareData } from './data.js'
import { createPageServer } from './page-server.js'
import { closeServer, listen, startProxy, type Watcher } from './proxy.js'
import { type RunningServer, startServer } from './servers.js'

export { dataIsReady, keyDirectory, phishingDomains, prepareData } from './data.js'
export type { Watcher } from './proxy.js'

export interface Demo {
  /** the page's address */
  readonly url: string
  /** addresses of the servers themselves */
  readonly servers: Readonly<Record<ServerName, string>>
  /** what stands in front of them, and what the page takes for the servers */
  readonly proxies: Readonly<Record<ServerName, Watcher>>
  close(): Promise<void>
}

export interface DemoOptions {
  /** the page's port; if it is taken, or not given and 8080 is taken, a free one is found. 0: any */
  readonly port?: number | undefined
  /** print nothing */
  readonly quiet?: boolean
}

const DEFAULT_PORT = 8080

export async function startDemo({ port = DEFAULT_PORT, quiet = false }: DemoOptions = {}): Promise<Demo> {
  await prepareData()
  const closers: (() => Promise<void>)[] = []
  const close = async () => {
    await Promise.all(closers.splice(0).map(closer => closer()))
  }
  try {
    const page = createPageServer()
    const url = await listen(page.server, port).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== 'EADDRINUSE') throw error
      if (!quiet) console.log(`Port ${port} is taken; using another.`)
      return listen(page.server, 0)
    })
    closers.push(() => closeServer(page.server))

    const datasets = Object.entries(databases).flatMap(([name, folder]) => ['--dataset', `${name}=${folder}`])
    const start = async () => {
      const server = await startServer(datasets)
      closers.push(server.close)
      const proxy = await startProxy(server.url)
      closers.push(proxy.close)
      return { server, proxy }
    }
    const a = await start()
    const b = await start()
    const proxies = { A: a.proxy, B: b.proxy }
    page.publish({
      proxies,
      partitionRecords: { phishing: await readM(a.server, 'phishing'), keys: await readM(a.server, 'keys') },
    })
    return { url, servers: { A: a.server.url, B: b.server.url }, proxies, close }
  } catch (error) {
    await close()
    throw error
  }
}

/** M of one database, to draw its vectors to scale. */
async function readM(server: RunningServer, database: DatabaseName): Promise<number> {
  const response = await fetch(`${server.url}/${database}/v1/manifest`)
  if (!response.ok) throw new Error(`${response.url}: ${response.status}`)
  return decodeManifest(new Uint8Array(await response.arrayBuffer())).partitionRecords
}
