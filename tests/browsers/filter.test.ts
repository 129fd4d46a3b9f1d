// A filter in a page, from servers of other origins: what a page sends with one, what is left for the next page, and what a page without a
// line answers.

import { startServers, type TestServers } from '@keyhush/server/testing'
import type { Page } from 'puppeteer-core'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { withBrowsers } from '../support/browsers.js'
import { LyingProxy } from '../support/proxy.js'
import { complaintsOf, type Site, startPage } from '../support/web.js'

const ENTRIES = Object.fromEntries(Array.from({ length: 200 }, (_, i) => [`name-${i}.example`, `${i}`]))
const ABSENT = Array.from({ length: 40 }, (_, i) => `absent-${i}.example`)

let both: TestServers
let proxies: readonly [LyingProxy, LyingProxy]
let site: Site

beforeAll(async () => {
  both = await startServers(ENTRIES)
  proxies = [await LyingProxy.start(both.servers[0]), await LyingProxy.start(both.servers[1])]
  site = await startPage(proxies.map(({ url }) => url))
})

afterAll(async () => {
  await site?.close()
  for (const proxy of proxies ?? []) await proxy.close()
  await both?.close()
})

await withBrowsers(['chromium'], 'in %s', (_name, browser) => {
  let page: Page
  let complaints: Awaited<ReturnType<typeof complaintsOf>>

  beforeAll(async () => {
    page = await browser().newPage()
    complaints = await complaintsOf(page)
    await page.goto(site.url)
  })

  const seen = () => proxies.flatMap(({ seen }) => seen.splice(0)).map(({ method, path }) => `${method} ${path}`)
  const isBlob = (request: string) => request.includes('/v1/blobs/')
  const isLookup = (request: string) => request.startsWith('POST')

  /** How many of some absent keys are excluded, and what a listed one has. */
  const visit = (tab: Page) =>
    tab.evaluate(
      async (servers, publisherKey, absent) => {
        const filter = { cover: 0, meanwhile: 'wait' } as const
        const map = await keyhush.open({
          servers,
          publisherKey,
          mode: 'instant',
          filter,
          storage: 'required',
          push: false,
        })
        const text = await map.getText('name-7.example')
        const before = map.stats.servers[0]!.lookups.bytesUp
        let excluded = 0
        for (const key of absent) {
          const sent = map.stats.servers[0]!.lookups.bytesUp
          if ((await map.get(key)) !== undefined) throw new Error('expected no value, got one')
          if (map.stats.servers[0]!.lookups.bytesUp === sent) excluded++
        }
        const { state } = map.filter!
        await map.close()
        return { text, excluded, state, asked: before > 0 }
      },
      proxies.map(({ url }) => url),
      both.publisherKey,
      ABSENT,
    )

  test('absent keys send nothing; the next page, and another tab, download nothing', async () => {
    const first = await visit(page)
    expect(first).toEqual({ text: '7', excluded: first.excluded, state: 'ready', asked: true })
    expect(first.excluded).toBeGreaterThan(ABSENT.length - 5)
    const requests = seen()
    expect(requests.filter(isBlob)).toHaveLength(2)
    expect(requests.filter(isLookup)).toHaveLength(2 * (1 + ABSENT.length - first.excluded))
    await page.reload()
    const other = await browser().newPage()
    await other.goto(site.url)
    for (const tab of [page, other]) {
      expect(await visit(tab)).toEqual(first)
      expect(seen().filter(isBlob)).toEqual([])
    }
    await other.close()
    expect(await complaints.all()).toEqual([])
  })

  test('without a line a page answers for absent keys', async () => {
    await page.setOfflineMode(true)
    const found = await page.evaluate(
      async (servers, publisherKey, absent) => {
        const filter = { cover: 0, meanwhile: 'wait' } as const
        const map = await keyhush.open({
          servers,
          publisherKey,
          mode: 'instant',
          filter,
          storage: 'required',
          push: false,
        })
        const outcomes = await Promise.all(
          [...absent, 'name-7.example'].map(key => map.has(key).catch((error: { code: string }) => error.code)),
        )
        await map.close()
        return { outcomes, isOnline: navigator.onLine }
      },
      proxies.map(({ url }) => url),
      both.publisherKey,
      ABSENT.slice(0, 5),
    )
    await page.setOfflineMode(false)
    expect(found.isOnline).toBe(false)
    expect(found.outcomes.filter(outcome => outcome === false).length).toBeGreaterThan(2)
    expect(found.outcomes.at(-1)).toBe('network')
  })
})
