// Starts the whole demo: three real servers, a watching proxy in front of each, their publisher, and the page. Server C has the
// phishing list alone, for the page *Three servers*. For *One server*, a further process starts behind proxy A on request.
//
//   page ──► proxy A ──► server A      The page speaks to the proxies as if they were the servers; it asks its own
//     └────► proxy B ──► server B      origin to publish, and to make a proxy lie. Published changes are kept in a
//                                      folder that is deleted when the demo ends.

import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { DatabaseName, ServerName } from '../page/backstage.js'
import { startAlone } from './alone.js'
import { folders, prepareData, prepareNames } from './data.js'
import { hideReplacement } from './false-list.js'
import { createPageServer } from './page-server.js'
import { closeServer, listen, startProxy, type Watcher } from './proxy.js'
import { Publisher } from './publisher.js'
import { type RunningServer, startServer } from './servers.js'
import { readShapes } from './shape.js'

export { dataIsReady, keyDirectory, phishingDomains, prepareData } from './data.js'
export { exportPage } from './export.js'
export type { Watcher } from './proxy.js'

export interface Demo {
  /** the page's address */
  readonly url: string
  /** addresses of the servers themselves */
  readonly servers: Readonly<Record<ServerName, string>>
  /** the proxies in front of them, which the page takes for the servers */
  readonly proxies: Readonly<Record<ServerName, Watcher>>
  close(): Promise<void>
}

export interface DemoOptions {
  /** the page's port, 8080 if undefined; 0: any. If it is taken, the demo uses a free one. */
  readonly port?: number | undefined
  /** serve the large database as well; a list: with these names instead of all */
  readonly large?: boolean | readonly string[] | undefined
}

export const DEFAULT_PORT = 8080

/** a domain that is published at each start */
const EXAMPLE = 'login.bank-check.example'

export async function startDemo({ port = DEFAULT_PORT, large = false }: DemoOptions = {}): Promise<Demo> {
  await prepareData()
  const names = large === false ? undefined : await prepareNames(large === true ? undefined : large)
  const mounts = Object.entries({ ...folders, ...(names !== undefined && { names }) })
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
      return listen(page.server, 0)
    })
    closers.push(() => closeServer(page.server))

    const publisher = await Publisher.create(folder)
    let alone: RunningServer | undefined
    let starting: Promise<void> | undefined
    const prepareAlone = () => {
      starting ??= startAlone(folder, publisher.publicKey).then(server => {
        alone = server
      })
      return starting.catch(error => {
        starting = undefined
        throw error
      })
    }
    closers.push(async () => {
      await starting?.catch(() => {})
      await alone?.close()
    })
    const behind = (path: string) => (path.startsWith('/alone/') ? alone?.url : undefined)
    const start = async (name: ServerName, mounted = mounts) => {
      const served = mounted.flatMap(([database, dataset]) => [
        ...['--dataset', `${database}=${dataset}`],
        ...['--store', `${database}=${join(folder, name, database)}`],
      ])
      const server = await startServer([...served, '--publisher-key', publisher.publicKey])
      closers.push(server.close)
      const proxy = await startProxy(server.url, name === 'A' ? behind : undefined)
      closers.push(proxy.close)
      return { server, proxy }
    }
    const a = await start('A')
    const b = await start('B')
    const c = await start(
      'C',
      mounts.filter(([database]) => database === 'phishing'),
    )
    const servers = { A: a.server.url, B: b.server.url, C: c.server.url }
    const { C: _, ...two } = servers
    for (const [database] of mounts) {
      await publisher.sign(database === 'phishing' ? servers : two, database as DatabaseName)
    }
    await publisher.change(servers, { op: 'add', domain: EXAMPLE }) // for the page to show
    const proxies = { A: a.proxy, B: b.proxy, C: c.proxy }
    page.publish({
      proxies,
      databases: await readShapes([servers.A, servers.B]),
      publisherKey: publisher.publicKey,
      prepareAlone,
      published: () => publisher.published(),
      change: change => publisher.change(servers, change),
      replaceKey: byFalse => publisher.replaceKey(two, byFalse),
      hideReplacement: () =>
        hideReplacement({ publisher, servers: two, proxies: [a.proxy, b.proxy], store: join(folder, 'auditor') }),
    })
    return { url, servers, proxies, close }
  } catch (error) {
    await close()
    throw error
  }
}
