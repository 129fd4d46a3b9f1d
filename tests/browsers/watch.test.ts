// Watched keys in browsers: an open page hears of a change, and a page that was closed hears at its next visit of those between.

import { startServers, type TestServers } from '@keyhush/server/testing'
import type { Browser } from 'puppeteer-core'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { launchBrowser } from '../../tools/browsers.mjs'
import { launchWebKit, type WebKit } from '../../tools/webkit.mjs'
import { inBrowsers } from '../support/browsers.js'
import { sampled } from '../support/thorough.js'
import { type Site, startPage } from '../support/web.js'

declare global {
  /** what a page was told */
  var heard: string[]
}

/** Bytes of a value; all have as many. */
const VALUE = (text: string) => text.padEnd(12)
const MODES = sampled(['instant', 'full', 'local', 'auto'] as const)

let both: TestServers
let site: Site
beforeAll(async () => {
  both = await startServers(Object.fromEntries(MODES.map(mode => [mode, VALUE('own')])))
  site = await startPage(both.servers)
})
afterAll(async () => {
  await site.close()
  await both.close()
})

const publish = (key: string, value: string) => both.publish([{ op: 'edit', key, value: VALUE(value) }])

await inBrowsers(['chromium', 'firefox', 'webkit'], 'in %s', name => {
  let browser: Browser | undefined
  let page: Pick<WebKit, 'goto' | 'evaluate' | 'close'>
  beforeAll(async () => {
    if (name !== 'webkit') browser = await launchBrowser(name)
    page = ((await browser?.newPage()) ?? (await launchWebKit())) as WebKit
  })
  afterAll(async () => {
    await page.close()
    await browser?.close()
  })

  /** Opens the page, which watches `key`, and keeps its mark. Returns the value. */
  async function visit(mode: (typeof MODES)[number]): Promise<string> {
    await page.goto(site.url)
    return await page.evaluate(
      async (servers, publisherKey, mode) => {
        globalThis.heard = []
        const text = (value: Uint8Array | undefined) => new TextDecoder().decode(value).trimEnd()
        const map = await keyhush.open({ servers, publisherKey, mode })
        const watch = await map.watch(
          mode,
          ({ value, before, how }) => void globalThis.heard.push(`${text(before)} → ${text(value)}, ${how}`),
          {
            since: localStorage.getItem(mode) ?? undefined,
            save: mark => localStorage.setItem(mode, mark),
          },
        )
        return text(watch.value)
      },
      both.servers as [string, string],
      both.publisherKey,
      mode,
    )
  }
  const heard = () => page.evaluate(() => globalThis.heard)

  test.each(MODES)(
    'mode %s: an open page hears of a change, and the next visit of those that nobody saw',
    async mode => {
      expect(await visit(mode)).toBe('own')
      await publish(mode, 'false')
      await expect.poll(heard).toEqual(['own → false, list'])
      await page.goto(`${site.url}/elsewhere`)
      await publish(mode, 'falser')
      await publish(mode, 'own')
      expect(await visit(mode)).toBe('own')
      await expect.poll(heard).toEqual(['false → falser, list', 'falser → own, list'])
      await page.goto(`${site.url}/elsewhere`)
      expect(await visit(mode)).toBe('own')
      expect(await heard()).toEqual([])
    },
  )
})
