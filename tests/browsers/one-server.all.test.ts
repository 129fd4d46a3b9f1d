// Instant lookups with one server, in real browsers: right, checked, and no older epoch on the next visit than this one has seen.

import { startServers, type TestServers } from '@keyhush/server/testing'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { withBrowsers } from '../support/browsers.js'
import { type Site, startPage } from '../support/web.js'

let one: TestServers<readonly [string]>
let site: Site
beforeAll(async () => {
  one = await startServers({ otter: 'river', heron: 'shore' }, { count: 1 })
  site = await startPage(one.servers)
})
afterAll(async () => {
  await site.close()
  await one.close()
})

await withBrowsers(['chromium', 'firefox'], 'in %s', (_name, browser) => {
  test('one server answers without a download, and a lie of it fails', async () => {
    const page = await browser().newPage()
    await page.goto(site.url)
    const look = () =>
      page.evaluate(
        async (servers, publisherKey) => {
          const map = await keyhush.open({ servers, publisherKey, mode: 'instant', experimental: true })
          const found = [await map.getText('otter'), await map.has('auk')]
          const failed = await map.get('heron').then(
            () => 'nothing',
            (error: { code: string }) => error.code,
          )
          const { mode } = map
          await map.close()
          return { found, failed, mode }
        },
        [...one.servers],
        one.publisherKey,
      )
    expect(await look()).toEqual({ found: ['river', false], failed: 'nothing', mode: 'instant' })
    const lied = page.evaluate(
      async (servers, publisherKey) => {
        const map = await keyhush.open({ servers, publisherKey, mode: 'instant', experimental: true })
        await map.get('otter')
        document.title = 'has its hint'
        const until = () => new Promise(resolve => document.addEventListener('lies', resolve, { once: true }))
        await until()
        const code = await map.get('otter').then(
          () => 'nothing',
          (error: { code: string }) => error.code,
        )
        await map.close()
        return code
      },
      [...one.servers],
      one.publisherKey,
    )
    await page.waitForFunction(() => document.title === 'has its hint')
    one.misbehave(0, 'lie')
    await page.evaluate(() => document.dispatchEvent(new Event('lies')))
    expect(await lied).toBe('tampered')
    one.misbehave(0, undefined)
    await page.close()
  })
})
