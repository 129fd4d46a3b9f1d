// Two `keyhush` processes, a recording proxy before each, and a page with the SDK. Their addresses stay the same while
// browsers start and end.

import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { KeyhushMap, MapEvent } from '@keyhush/client'
import type { Browser, Page } from 'puppeteer-core'
import { runKeyhush } from '../../server/test/command.js'
import * as lies from '../support/lies.js'
import { startServerProcess } from '../support/processes.js'
import { LyingProxy } from '../support/proxy.js'
import { temporaryFolder } from '../support/servers.js'
import { startPage } from '../support/web.js'

declare global {
  /** the map that a page has opened, and its events */
  var opened: { map: KeyhushMap; events: string[] } | undefined
  /** of the page, to the test */
  function tell(value: string): void
}

export const RECORD_BYTES = 32
export const PARTITIONS = 16

export const recordAt = (index: number) => `the record at ${index}`

export class Stage {
  private constructor(
    readonly records: number,
    readonly proxies: readonly [LyingProxy, LyingProxy],
    readonly url: string,
    /** a folder for profiles */
    readonly folder: string,
    readonly close: () => Promise<void>,
  ) {}

  static async start(records: number): Promise<Stage> {
    const folder = await temporaryFolder()
    const [data, dataset] = [join(folder.path, 'data.bin'), join(folder.path, 'dataset')]
    const contents = Array.from({ length: records }, (_, i) => recordAt(i).padEnd(RECORD_BYTES))
    await writeFile(data, contents.join(''))
    const shape = ['--record-bytes', `${RECORD_BYTES}`, '--partitions', `${PARTITIONS}`]
    await runKeyhush('build', data, ...shape, '--out', dataset)
    const start = (name: string) => startServerProcess('--dataset', dataset, '--store', join(folder.path, name))
    const servers = [await start('A'), await start('B')] as const
    const proxies = [await LyingProxy.start(servers[0].url), await LyingProxy.start(servers[1].url)] as const
    const site = await startPage(proxies.map(({ url }) => url))
    return new Stage(records, proxies, site.url, folder.path, async () => {
      await site.close()
      for (const proxy of proxies) await proxy.close()
      for (const server of servers) await server.stop()
      await folder.remove()
    })
  }

  get servers(): [string, string] {
    return [this.proxies[0].url, this.proxies[1].url]
  }

  /** All proxies are honest again. */
  calm(): void {
    for (const proxy of this.proxies) proxy.lie = undefined
  }

  /** Resolves when a server has been sent a query that it will not answer. */
  silence(server: 0 | 1): Promise<void> {
    return new Promise(resolve => {
      this.proxies[server].lie = lies.about('/v1/answer', (...exchange) => {
        resolve()
        return lies.silent(...exchange)
      })
    })
  }

  /** A page of the app, without a map. */
  async page(browser: Pick<Browser, 'newPage'>): Promise<Page> {
    const page = await browser.newPage()
    await page.goto(this.url)
    return page
  }

  /** Bytes of replies whose path begins like this, as far as the proxies have passed them on. */
  bytesOf(path: string): number {
    const exchanges = this.proxies.flatMap(({ seen }) => seen).filter(exchange => exchange.path.startsWith(path))
    return exchanges.reduce((sum, { reply }) => sum + (reply?.body.length ?? 0), 0)
  }
}

/** Opens a map in a page. Returns the events so far, in words. */
export async function openMap(
  page: Page,
  servers: readonly [string, string],
  storage: 'required' | 'preferred' | 'memory' = 'required',
): Promise<string[]> {
  return await page.evaluate(
    async (servers, storage) => {
      const events: string[] = []
      const onEvent = (event: MapEvent) => {
        if (event.type !== 'slow') events.push(Object.values(event).join(' ')) // that is up to the machine
      }
      globalThis.opened = { map: await keyhush.open({ servers, mode: 'full', storage, onEvent }), events }
      await Promise.resolve() // events come in microtasks of their own
      return events
    },
    servers,
    storage,
  )
}

/** The values at some indices, looked up one after the other. */
export async function lookUp(page: Pick<Page, 'evaluate'>, indices: readonly number[]): Promise<string[]> {
  return await page.evaluate(async indices => {
    const found: string[] = []
    for (const index of indices) {
      found.push(new TextDecoder().decode(await globalThis.opened!.map.at(index)).trimEnd())
    }
    return found
  }, indices)
}

export async function onStage(records: number, work: (stage: Stage) => Promise<void>): Promise<void> {
  const stage = await Stage.start(records)
  try {
    await work(stage)
  } finally {
    await stage.close()
  }
}
