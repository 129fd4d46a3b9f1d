// State in Firefox when a page reloads during a lookup, and in private windows, which keep it while they are open or only in
// the page's memory, as `storage` asks.

import type { Page } from 'puppeteer-core'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { withBrowsers } from '../support/browsers.js'
import { lookUp, openMap, recordAt, Stage } from './stage.js'
import { assertNothingReused } from './transcripts.js'

let stage: Stage
beforeAll(async () => {
  stage = await Stage.start(4096)
})
afterAll(() => stage.close())

await withBrowsers(['firefox'], '%s', (_name, browser) => {
  test.each([0, 1] as const)('a page that is reloaded while server %d is silent goes on', async silent => {
    for (const proxy of stage.proxies) proxy.seen.length = 0
    const page = await stage.page(await browser().createBrowserContext())
    await openMap(page, stage.servers)
    expect(await lookUp(page, [5, 6])).toEqual([5, 6].map(recordAt))
    const asked = stage.silence(silent)
    await page.evaluate(() => {
      globalThis.opened!.map.at(7).catch(() => {})
    })
    await asked
    stage.calm()
    await page.reload()
    expect(await openMap(page, stage.servers)).toEqual(['resumed hint true'])
    expect(await lookUp(page, [7, 5])).toEqual([7, 5].map(recordAt))
    expect(assertNothingReused(stage.proxies).queries).toBe(5)
    expect(stage.bytesOf('/v1/blobs/')).toBe(4096 * 32)
  })
})

await withBrowsers(
  ['chromium', 'firefox'],
  'a private window of %s',
  (name, browser) => {
    /** Firefox was started with private windows only; Chromium's contexts are private. */
    const newPage = async (): Promise<Page> =>
      await stage.page(name === 'firefox' ? browser() : await browser().createBrowserContext())

    const storageOf = (page: Page) => page.evaluate(() => globalThis.opened!.map.storage)

    test('memory: nothing is kept', async () => {
      const page = await newPage()
      expect(await openMap(page, stage.servers, 'memory')).toEqual([])
      expect(await storageOf(page)).toBe('memory')
      expect(await lookUp(page, [8, 9])).toEqual([8, 9].map(recordAt))
      expect(await page.evaluate(() => indexedDB.databases())).toEqual([])
    })

    test('preferred: the map works, with its state on disk or in memory', async () => {
      const page = await newPage()
      const events = await openMap(page, stage.servers, 'preferred')
      const storage = await storageOf(page)
      expect(events).toEqual(storage === 'memory' ? ['storage memory unavailable'] : [])
      expect(await lookUp(page, [8, 9])).toEqual([8, 9].map(recordAt))
      await page.reload()
      const resumed = await openMap(page, stage.servers, 'preferred')
      // The last lookup may be pending: an answer does not wait until its effect is stored.
      expect(resumed).toEqual(storage === 'memory' ? events : [expect.stringMatching(/^resumed hint (true|false)$/)])
      expect(await lookUp(page, [9, 10])).toEqual([9, 10].map(recordAt))
    })

    test('required: durable until the window is closed, or an error', async () => {
      const page = await newPage()
      const outcome = await openMap(page, stage.servers, 'required').catch((error: Error) => error.message)
      if (typeof outcome === 'string') expect(outcome).toMatch(/durable storage, which is required/)
      else expect(await lookUp(page, [8])).toEqual([recordAt(8)])
    })
  },
  { preferences: { 'browser.privatebrowsing.autostart': true } },
)
