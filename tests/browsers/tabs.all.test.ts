// Several real pages of one origin share one state: they look up at once, and one is closed or frozen. Every value is right, no
// query is used twice, and no page waits for ever.

import type { Browser, Page } from 'puppeteer-core'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { launchBrowser } from '../../tools/browsers.mjs'
import { needsBrowser } from '../support/browsers.js'
import { answers } from '../support/shapes.js'
import { THOROUGH } from '../support/thorough.js'
import { lookUp, openMap, recordAt, Stage } from './stage.js'
import { assertNothingReused } from './transcripts.js'

const CHROMIUM = await needsBrowser('chromium')

let stage: Stage
let browser: Browser
beforeAll(async () => {
  stage = await Stage.start(4096)
  browser = await launchBrowser('chromium')
})
afterAll(async () => {
  await browser.close()
  await stage.close()
})
beforeEach(() => {
  for (const proxy of stage.proxies) proxy.seen.length = 0
})

/** Pages with a map each, in a context of their own: a fresh state. */
async function pages(count: number): Promise<Page[]> {
  const context = await browser.createBrowserContext()
  const all: Page[] = []
  for (let i = 0; i < count; i++) {
    const page = await stage.page(context)
    await openMap(page, stage.servers)
    all.push(page)
  }
  return all
}

/** Some records, many of them in common with other pages. */
const wanted = (page: number, count: number) =>
  Array.from({ length: count }, (_, i) => ((page % 2) * 7 + i * 13) % 4096)

/** The values that a page finds for all of them at once. */
function lookUpAtOnce(page: Page, indices: readonly number[]): Promise<string[]> {
  return page.evaluate(
    indices =>
      Promise.all(indices.map(index => globalThis.opened!.map.at(index))).then(values =>
        values.map(value => new TextDecoder().decode(value).trimEnd()),
      ),
    indices,
  )
}

test.each(THOROUGH ? [2, 3, 5] : [3])('%i pages look up at once', CHROMIUM, async count => {
  const all = await pages(count)
  const found = await Promise.all(all.map((page, i) => (i % 2 ? lookUp : lookUpAtOnce)(page, wanted(i, 20))))
  found.forEach((values, i) => {
    expect(values).toEqual(wanted(i, 20).map(recordAt))
  })
  expect(assertNothingReused(stage.proxies).queries).toBe(count * 20)
  // One download served them all.
  expect(stage.bytesOf('/v1/blobs/')).toBe(4096 * 32)
})

test('a page is closed in the middle of a lookup: the others finish it and go on', CHROMIUM, async () => {
  const [first, ...others] = await pages(3)
  const silenced = stage.silence(0)
  const asking = lookUp(first!, [1, 2, 3]).catch(() => {})
  await silenced
  await first!.close()
  stage.calm()
  await asking
  const found = await Promise.all(others.map((page, i) => lookUp(page, wanted(i, 10))))
  found.forEach((values, i) => {
    expect(values).toEqual(wanted(i, 10).map(recordAt))
  })
  const { queries, resent } = assertNothingReused(stage.proxies)
  expect(queries).toBe(1 + 20)
  expect(resent).toBeGreaterThan(0)
})

test(
  'a page is frozen while it holds the lock: another goes on, and the frozen page follows when it thaws',
  CHROMIUM,
  async () => {
    const [first, second] = (await pages(2)) as [Page, Page]
    const cdp = await first.createCDPSession()
    const silenced = stage.silence(1)
    const asking = lookUp(first, [1, 2, 3])
    await silenced
    await second.bringToFront() // only what is hidden can be frozen
    await cdp.send('Page.setWebLifecycleState', { state: 'frozen' })
    stage.calm()
    expect(await lookUp(second, wanted(1, 10))).toEqual(wanted(1, 10).map(recordAt))
    const meanwhile = answers(stage.proxies[0].seen).length
    await cdp.send('Page.setWebLifecycleState', { state: 'active' })
    const [found, alsoFound] = await Promise.all([asking, lookUp(second, wanted(2, 10))])
    expect(found).toEqual([1, 2, 3].map(recordAt))
    expect(alsoFound).toEqual(wanted(2, 10).map(recordAt))
    expect(answers(stage.proxies[0].seen).length).toBeGreaterThan(meanwhile)
    expect(assertNothingReused(stage.proxies, { frozen: true }).queries).toBe(3 + 20)
  },
)

test(
  'a page in front keeps the lock between lookups until another asks for it; a hidden page does not',
  CHROMIUM,
  async () => {
    const [first, second] = (await pages(2)) as [Page, Page]
    const held = () =>
      first.evaluate(async () => {
        const { held = [] } = await navigator.locks.query()
        return held.filter(({ name }) => /^keyhush http.*\d$/.test(name!)).length
      })
    await first.bringToFront()
    for (const [page, kept] of [
      [first, 1],
      [second, 0],
      [first, 1],
    ] as const) {
      expect(await lookUp(page, wanted(0, 3))).toEqual(wanted(0, 3).map(recordAt))
      await expect.poll(held).toBe(kept)
    }
    await second.bringToFront()
    await expect.poll(held).toBe(0)
  },
)

test('a reset in one page: the others follow it to the new hint', CHROMIUM, async () => {
  const [first, second] = (await pages(2)) as [Page, Page]
  const lookups = lookUp(second, wanted(1, 20))
  await first.evaluate(() => globalThis.opened!.map.reset())
  expect(await lookups).toEqual(wanted(1, 20).map(recordAt))
  expect(await lookUp(second, wanted(0, 5))).toEqual(wanted(0, 5).map(recordAt))
  expect(await lookUp(first, wanted(0, 5))).toEqual(wanted(0, 5).map(recordAt))
  expect(stage.bytesOf('/v1/blobs/')).toBe(2 * 4096 * 32)
})
