// A page over plain http on another host than localhost, as on a phone that uses `keyhush dev --host`: browsers withhold crypto.subtle
// and locks from it, and the SDK works without.

import { startServers, type TestServers } from '@keyhush/server/testing'
import type { Page } from 'puppeteer-core'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { OTHER_HOST } from '../../tools/browsers.mjs'
import { withBrowsers } from '../support/browsers.js'
import { type Site, startPage } from '../support/web.js'

const elsewhere = (url: string) => url.replace('127.0.0.1', OTHER_HOST)

let both: TestServers
let servers: [string, string]
let site: Site

beforeAll(async () => {
  both = await startServers({ otter: 'river', heron: 'shore' })
  servers = [elsewhere(both.servers[0]), elsewhere(both.servers[1])]
  site = await startPage(servers)
})
afterAll(async () => {
  await site.close()
  await both.close()
})

await withBrowsers(['chromium', 'firefox'], 'in %s', (_name, browser) => {
  let page: Page

  beforeAll(async () => {
    page = await browser().newPage()
    await page.goto(elsewhere(site.url))
  })

  test('the page has no crypto.subtle and no locks', async () => {
    const has = await page.evaluate(() => [isSecureContext, 'subtle' in crypto, 'locks' in navigator])
    expect(has).toEqual([false, false, false])
  })

  test.each(['auto', 'instant', 'full', 'local'] as const)('mode %s: signed lookups work', async mode => {
    const options = { servers, publisherKey: both.publisherKey, development: true, mode }
    const seen = await page.evaluate(async options => {
      const map = await keyhush.open(options)
      const seen = [await map.getText('otter'), await map.has('auk')]
      await map.close()
      return seen
    }, options)
    expect(seen).toEqual(['river', false])
  })

  test('state is kept in IndexedDB, and the next map resumes it', async () => {
    const options = { servers, development: true, mode: 'full', storage: 'required' } as const
    const [first, second] = await page.evaluate(async options => {
      await keyhush.discardState({ servers: options.servers })
      const visit = async () => {
        const events: string[] = []
        const map = await keyhush.open({ ...options, onEvent: ({ type }) => void events.push(type) })
        await map.close()
        return [map.storage, events.includes('resumed')]
      }
      return [await visit(), await visit()]
    }, options)
    expect([first, second]).toEqual([
      ['best-effort', false],
      ['best-effort', true],
    ])
  })
})
