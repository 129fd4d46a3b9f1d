// A page that is frozen, or offline, in the middle of its first download goes on when it is back, from what it has. While the user saves
// data, none begins.

import { setTimeout } from 'node:timers/promises'
import type { Browser, Page } from 'puppeteer-core'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { launchBrowser } from '../../tools/browsers.mjs'
import { needsBrowser } from '../support/browsers.js'
import { lookUp, onStage, PARTITIONS, recordAt, Stage } from './stage.js'

const CHROMIUM = await needsBrowser('chromium')

/** A server that is silent for so long has failed. */
const SILENCE_MS = 10_000

declare global {
  /** requests of the page that have failed */
  var failed: number
}

let browser: Browser
beforeAll(async () => {
  browser = await launchBrowser('chromium')
})
afterAll(() => browser.close())

/** A reply that a server holds back. */
interface Held {
  answer(): void
  cut(): void
}

/** A page that downloads, of which both servers hold the second blobs back. */
async function downloading(work: (page: Page, stage: Stage, held: readonly Held[]) => Promise<void>): Promise<void> {
  const stage = await Stage.start(4096)
  try {
    const held: Held[] = []
    for (const proxy of stage.proxies) {
      let blobs = 0
      proxy.lie = (genuine, { path }, connection) => {
        if (!path.startsWith('/v1/blobs/') || ++blobs === 1) return genuine
        held.push({
          answer: () => void connection.writeHead(genuine.status, genuine.headers).end(genuine.body),
          cut: () => void connection.destroy(),
        })
        return undefined
      }
    }
    const page = await stage.page(await browser.createBrowserContext())
    await page.evaluate(async servers => {
      globalThis.failed = 0
      const counting = (url: string, init: RequestInit) =>
        fetch(url, init).catch(error => {
          globalThis.failed++
          throw error
        })
      const opening = keyhush.open({ servers, mode: 'full', storage: 'required', fetch: counting })
      opening.then(map => {
        globalThis.opened = { map, events: [] }
      }, globalThis.reportError)
    }, stage.servers)
    await expect.poll(() => held.length).toBe(2)
    stage.calm()
    await work(page, stage, held)
    await page.waitForFunction(() => globalThis.opened !== undefined, { polling: 100 })
    expect(await lookUp(page, [7])).toEqual([recordAt(7)])
    await page.browserContext().close()
  } finally {
    await stage.close()
  }
}

const blobsOf = (stage: Stage) =>
  stage.proxies.flatMap(({ seen }) => seen.map(({ path }) => path)).filter(path => path.startsWith('/v1/blobs/'))

test('frozen for longer than any server may keep silent: it asks for nothing again', CHROMIUM, async () => {
  await downloading(async (page, stage, held) => {
    const other = await page.browserContext().newPage()
    await other.bringToFront() // only what is hidden can be frozen
    const cdp = await page.createCDPSession()
    await cdp.send('Page.setWebLifecycleState', { state: 'frozen' })
    await setTimeout(SILENCE_MS + 2_000)
    await cdp.send('Page.setWebLifecycleState', { state: 'active' })
    for (const each of held) each.answer()
    await page.bringToFront()
    await page.waitForFunction(() => globalThis.opened !== undefined, { polling: 100 })
    expect(new Set(blobsOf(stage)).size).toBe(blobsOf(stage).length)
  })
})

test(
  'offline for longer than it takes to try three times: it asks again for what has broken, and for no more',
  CHROMIUM,
  async () => {
    await downloading(async (page, stage, held) => {
      await page.setOfflineMode(true)
      for (const each of held) each.cut()
      await expect.poll(() => page.evaluate(() => globalThis.failed)).toBeGreaterThanOrEqual(6)
      await page.setOfflineMode(false)
      await page.waitForFunction(() => globalThis.opened !== undefined, { polling: 100 })
      expect(blobsOf(stage).length - new Set(blobsOf(stage)).size).toBe(2)
    })
  },
)

test('while the user saves data, nothing large is downloaded beside lookups; after that, it is', CHROMIUM, async () => {
  await onStage(2 ** 16, async stage => {
    const page = await stage.page(await browser.createBrowserContext())
    const cdp = await page.createCDPSession()
    await cdp.send('Emulation.setDataSaverOverride', { dataSaverEnabled: true })
    await page.evaluate(async servers => {
      const events: string[] = []
      const onEvent = ({ type }: { type: string }) => void events.push(type)
      globalThis.opened = { map: await keyhush.open({ servers, storage: 'memory', onEvent }), events }
    }, stage.servers)
    expect(await lookUp(page, [1, 2, 3])).toEqual([1, 2, 3].map(recordAt))
    await page.waitForFunction(() => globalThis.opened!.events.includes('postponed'), { polling: 100 })
    expect(blobsOf(stage)).toEqual([])
    await cdp.send('Emulation.setDataSaverOverride', { dataSaverEnabled: false })
    expect(await lookUp(page, [4])).toEqual([recordAt(4)])
    await page.waitForFunction(() => globalThis.opened!.map.mode === 'local', { polling: 100 })
    expect(blobsOf(stage).length).toBe(PARTITIONS)
    await page.browserContext().close()
  })
})
