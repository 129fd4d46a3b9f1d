// Starts the whole demo: three real servers, a watching proxy in front of each, their publisher, and the page. Server C has the
// phishing list alone, for the page *Three servers*. For *One server*, a further process starts behind proxy A on request; for *Check a
// password* a server and an evaluator behind both.
//
//   page ──► proxy A ──► server A      The page speaks to the proxies as if they were the servers; it asks its own
//     └────► proxy B ──► server B      origin to publish, and to make a proxy lie. Published changes are kept in a
//                                      folder that is deleted when the demo ends.

import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { DatabaseName, ServerName } from '../page/backstage.js'
import { startAlone } from './alone.js'
import { startBreached } from './breached.js'
import { folders, prepareData, prepareNames } from './data.js'
import { hideReplacement } from './false-list.js'
import { createPageServer } from './page-server.js'
import { closeServer, listen, startProxy, type Watcher } from './proxy.js'
import { Publisher } from './publisher.js'
import { startServer } from './servers.js'
import { readShapes } from './shape.js'

export { breachedPasswords, dataIsReady, keyDirectory, phishingDomains, prepareData } from './data.js'
export { exportPage } from './export.js'
export type { Watcher } from './proxy.js'

export interface Demo {
  /** the page's address */
  readonly url: string
  /** addresses of the servers themselves */
  readonly servers: Readonly<Record<ServerName, string>>
  /** the proxies in front of them, which the page takes for the servers */
  readonly proxies: Readonly<Record<ServerName, Watcher>>
  /** what server A of *Check a password* keeps on its disk; undefined: it was not asked for */
  breachedStore(): string | undefined
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
    const alone = new OnRequest(() => startAlone(folder, publisher.publicKey))
    const breached = new OnRequest(() => startBreached(folder, publisher))
    closers.push(
      () => alone.close(),
      () => breached.close(),
    )
    const behind = (name: ServerName) => (path: string) => {
      if (name === 'A' && path.startsWith('/alone/') && alone.running) return new URL(path, alone.running.url)
      const operator = name !== 'C' && path.startsWith('/breached/') && breached.running?.operators[name]
      if (!operator) return undefined
      const [, evaluate] = /^\/breached(\/v1\/evaluate)$/.exec(path) ?? []
      return evaluate === undefined ? new URL(path, operator.server) : new URL(evaluate, operator.evaluator)
    }
    const start = async (name: ServerName, mounted = mounts) => {
      const served = mounted.flatMap(([database, dataset]) => [
        ...['--dataset', `${database}=${dataset}`],
        ...['--store', `${database}=${join(folder, name, database)}`],
      ])
      const server = await startServer([...served, '--publisher-key', publisher.publicKey])
      closers.push(server.close)
      const proxy = await startProxy(server.url, behind(name))
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
      prepareAlone: async () => void (await alone.start()),
      prepareBreached: async () => (await breached.start()).shown,
      published: () => publisher.published(),
      change: change => publisher.change(servers, change),
      replaceKey: byFalse => publisher.replaceKey(two, byFalse),
      hideReplacement: () =>
        hideReplacement({ publisher, servers: two, proxies: [a.proxy, b.proxy], store: join(folder, 'auditor') }),
    })
    return { url, servers, proxies, breachedStore: () => breached.running?.store, close }
  } catch (error) {
    await close()
    throw error
  }
}

/** What starts when a page asks for it, once. A failure is not kept. */
class OnRequest<Running extends { close(): Promise<void> }> {
  readonly #begin: () => Promise<Running>
  #starting: Promise<Running> | undefined
  running: Running | undefined

  constructor(begin: () => Promise<Running>) {
    this.#begin = begin
  }

  async start(): Promise<Running> {
    this.#starting ??= this.#begin()
    try {
      this.running = await this.#starting
      return this.running
    } catch (error) {
      this.#starting = undefined
      throw error
    }
  }

  async close(): Promise<void> {
    await (await this.#starting?.catch(() => undefined))?.close()
  }
}
