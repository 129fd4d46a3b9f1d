// Which tabs prepare hints, by the locks of real browsers. Rows of a living tab are not swept up; rows of a tab that is closed,
// killed or left are. No tab waits for one that is about to be frozen.

import type { Page } from 'puppeteer-core'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { preparersOf } from '../../packages/client/src/platform/preparers.js'
import { withBrowsers } from '../support/browsers.js'
import { type Site, startModule } from '../support/web.js'

declare global {
  var tab: { readonly preparersOf: typeof preparersOf }
  /** of a tab that has joined */
  var leave: () => void
  /** ends what a tab does while nobody prepares */
  var swept: () => void
}

let site: Site
beforeAll(async () => {
  site = await startModule('packages/client/src/platform/preparers.ts', 'tab')
})
afterAll(() => site.close())

await withBrowsers(['chromium', 'firefox'], 'in %s', (_name, browser) => {
  async function tab(): Promise<Page> {
    const page = await browser().newPage()
    await page.goto(site.url)
    return page
  }

  /** Each test has servers of its own. */
  let pairs = 0
  const join = (page: Page, pair: number) =>
    page.evaluate(async pair => {
      globalThis.leave = await globalThis.tab.preparersOf([`https://${pair}.example`])!.join()
    }, pair)
  /** Whether this tab sees no other that prepares. */
  const isAlone = (page: Page, pair: number) =>
    page.evaluate(async pair => {
      let alone = false
      await globalThis.tab.preparersOf([`https://${pair}.example`])!.whileNone(async () => {
        alone = true
      })
      return alone
    }, pair)
  const becomesAlone = async (page: Page, pair: number) => {
    while (!(await isAlone(page, pair))) await page.evaluate(() => new Promise(resolve => setTimeout(resolve)))
  }

  test('a tab that prepares is seen, by itself too, until it has left as often as it joined, or is closed', async () => {
    const [one, other] = [await tab(), await tab()]
    const pair = ++pairs
    expect(await isAlone(other, pair)).toBe(true)
    await join(one, pair)
    expect([await isAlone(one, pair), await isAlone(other, pair), await isAlone(other, ++pairs)]).toEqual([
      false,
      false,
      true,
    ])
    const first = await one.evaluateHandle(() => globalThis.leave)
    await join(one, pair)
    await join(other, pair)
    await one.evaluate(leave => leave(), first)
    await other.evaluate(() => globalThis.leave())
    expect(await isAlone(other, pair)).toBe(false)
    await one.close()
    await becomesAlone(other, pair)
    await other.close()
  })

  test('a tab that was left no longer counts, and counts again when its page is back', async () => {
    const [one, other] = [await tab(), await tab()]
    const pair = ++pairs
    await join(one, pair)
    await one.evaluate(() => dispatchEvent(new PageTransitionEvent('pagehide', { persisted: true })))
    await becomesAlone(other, pair)
    await one.evaluate(() => dispatchEvent(new PageTransitionEvent('pageshow', { persisted: true })))
    while (await isAlone(other, pair)) await one.evaluate(() => new Promise(resolve => setTimeout(resolve)))
    await one.evaluate(() => globalThis.leave())
    await becomesAlone(other, pair)
    for (const page of [one, other]) await page.close()
  })

  test('a tab that joins waits for one that sweeps, until that one is left or ends', async () => {
    const [one, other] = [await tab(), await tab()]
    for (const leaves of [true, false]) {
      const pair = ++pairs
      const sweeping = await one.evaluate(
        pair =>
          new Promise<boolean>(resolve => {
            globalThis.tab.preparersOf([`https://${pair}.example`])!.whileNone(() => {
              resolve(true)
              return new Promise(resolve => {
                globalThis.swept = resolve
              })
            })
          }),
        pair,
      )
      expect(sweeping).toBe(true)
      let joined = false
      const joining = join(other, pair).then(() => {
        joined = true
      })
      expect(await isAlone(other, pair)).toBe(false)
      expect(joined).toBe(false)
      if (leaves) await one.evaluate(() => dispatchEvent(new PageTransitionEvent('pagehide', { persisted: true })))
      else await one.evaluate(() => globalThis.swept())
      await joining
      if (leaves) await one.evaluate(() => dispatchEvent(new PageTransitionEvent('pageshow', { persisted: true })))
      expect(await isAlone(one, pair)).toBe(false)
      await other.evaluate(() => globalThis.leave())
    }
    for (const page of [one, other]) await page.close()
  })
})
