// The IndexedDB store in real browsers: the conformance suite that all stores pass, and what only browsers do.

import type { Page } from 'puppeteer-core'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { conformance } from '../../packages/client/src/testing/store.js'
import { withBrowsers } from '../support/browsers.js'
import { needs } from '../support/needs.js'
import { THOROUGH } from '../support/thorough.js'
import { type Site, startModule } from '../support/web.js'
import { storeTests } from './store-page.js'

const names = conformance.map(({ name }) => name)
const SEED = 20_261_120

let site: Site
beforeAll(async () => {
  site = await startModule('tests/browsers/store-page.ts', 'page')
})
afterAll(() => site.close())

await withBrowsers(['chromium', 'firefox'], 'IndexedDB in %s', (name, browser) => {
  let page: Page

  beforeAll(async () => {
    page = await open()
  })

  async function open(): Promise<Page> {
    const page = await browser().newPage()
    await page.goto(site.url)
    return page
  }

  describe.each(['sealed', 'unsealed'] as const)('%s', kind => {
    test.each(names)('%s', async name => {
      await page.evaluate((kind, name) => globalThis.page.storeTests.conform(kind, name), kind, name)
    })

    const runs = (kind === 'sealed' ? 10 : 20) * (THOROUGH ? 4 : 1)
    test(`${runs} random schedules agree with the model`, async () => {
      await page.evaluate((kind, options) => globalThis.page.storeTests.schedules(kind, options), kind, {
        runs,
        seed: SEED,
      })
    })
  })

  test.each(Object.keys(storeTests.specials))('%s', async name => {
    await page.evaluate(name => globalThis.page.storeTests.specials[name]!(), name)
  })

  test('three tabs on one state: each lookup has a version of its own, and no lookup is lost', async () => {
    const tabs = [await open(), await open(), await open()]
    const names = ['first', 'second', 'third']
    await page.evaluate(() => globalThis.page.storeTests.beginContest())
    const got = await Promise.all(
      tabs.map((tab, i) => tab.evaluate(name => globalThis.page.storeTests.contend(name, 40), names[i]!)),
    )
    const makers = await page.evaluate(names => globalThis.page.storeTests.endContest(names), names)
    // Another tab may finish a pending lookup first. Then its owner's commit is refused, but the effect is stored.
    got.forEach((versions, i) => {
      for (const version of versions) expect(makers[version]).toBe(names[i])
    })
    expect(makers).not.toContain(undefined)
    expect(makers.length).toBeGreaterThanOrEqual(120)
    for (const tab of tabs) await tab.close()
  })

  const quota = needs(name === 'chromium', 'a browser whose quota can be set')
  test('a full quota is told from other failures, and changes nothing', quota, async () => {
    // An origin of its own: Chromium remembers for a while how much room another one had.
    const fresh = site.url.replace('127.0.0.1', 'quota.localhost')
    const tab = await browser().newPage()
    await tab.goto(fresh)
    const session = await tab.createCDPSession()
    await session.send('Storage.overrideQuotaForOrigin', { origin: new URL(fresh).origin, quotaSize: 12 * 2 ** 20 })
    await tab.evaluate(() => globalThis.page.storeTests.overflow())
    await tab.close()
  })
})
