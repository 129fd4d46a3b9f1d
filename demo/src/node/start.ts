// Starts the whole demo: two real servers, a watching proxy in front of each, their publisher, and the page.
//
//   page ──► proxy A ──► server A      The page speaks to the proxies as if they were the servers; it asks its own
//     └────► proxy B ──► server B      origin what they saw, and has it publish. What is published is kept in a folder
//                                      that goes when the demo ends.

import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { DatabaseName, ServerName } from '../page/backstage.js'
import { databases, prepareData, prepareNames } from './data.js'
import { createPageServer } from './page-server.js'
import { closeServer, listen, startProxy, type Watcher } from './proxy.js'
import { Publisher } from './publisher.js'
import { startServer } from './servers.js'
import { readFirstBytes, readShape } from './shape.js'

export { dataIsReady, keyDirectory, leakedPasswords, phishingDomains, prepareData } from './data.js'
export { exportPage } from './export.js'
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
  /** the large database as well; a list: of these names instead of all there are */
  readonly large?: boolean | readonly string[] | undefined
  /** print nothing */
  readonly quiet?: boolean
}

const DEFAULT_PORT = 8080

export async function startDemo({
  port = DEFAULT_PORT,
  large = false,
  quiet = false,
}: DemoOptions = {}): Promise<Demo> {
  await prepareData()
  const names = large === false ? undefined : await prepareNames(large === true ? undefined : large)
  const mounts = Object.entries({ ...databases, ...(names !== undefined && { names }) })
  const asked = mounts.map(([database]) => database as DatabaseName)
  const closers: (() => Promise<void>)[] = []
  const folder = await mkdtemp(join(tmpdir(), 'keyhush-demo-'))
  const close = async () => {
    await Promise.all(closers.splice(0).map(closer => closer()))
    await rm(folder, { recursive: true, force: true })
  }
  try {
    const page = createPageServer()
    const url = await listen(page.server, port).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== 'EADDRINUSE') throw error
      if (!quiet) console.log(`Port ${port} is taken; using another.`)
      return listen(page.server, 0)
    })
    closers.push(() => closeServer(page.server))

    const publisher = await Publisher.create(folder)
    const start = async (name: ServerName) => {
      const served = mounts.flatMap(([database, dataset]) => [
        ...['--dataset', `${database}=${dataset}`],
        ...['--store', `${database}=${join(folder, name, database)}`],
      ])
      const server = await startServer([...served, '--publisher-key', publisher.publicKey])
      closers.push(server.close)
      const proxy = await startProxy(server.url)
      closers.push(proxy.close)
      return { server, proxy }
    }
    const a = await start('A')
    const b = await start('B')
    const servers = { A: a.server.url, B: b.server.url }
    for (const database of asked) await publisher.sign(servers, database)
    const proxies = { A: a.proxy, B: b.proxy }
    const shapes = await Promise.all(asked.map(async name => [name, (await readShape(servers.A, name))!] as const))
    const first = asked.map(async name => [name, await readFirstBytes([servers.A, servers.B], name)] as const)
    page.publish({
      proxies,
      partitionRecords: Object.fromEntries(shapes.map(([name, { partitionRecords }]) => [name, partitionRecords])),
      slots: Object.fromEntries(shapes.map(([name, { slots }]) => [name, slots])),
      firstBytes: Object.fromEntries(await Promise.all(first)),
      publisherKey: publisher.publicKey,
      published: () => publisher.published(),
      change: change => publisher.change(servers, change),
    })
    return { url, servers, proxies, close }
  } catch (error) {
    await close()
    throw error
  }
}
