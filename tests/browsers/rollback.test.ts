// Mode `auto` with a publisher's key in a real browser: what instant lookups have shown is in IndexedDB, and holds for the next page.

import { startServers } from '@keyhush/server/testing'
import { expect, test } from 'vitest'
import { launchBrowser } from '../../tools/browsers.mjs'
import { inBrowsers } from '../support/browsers.js'
import { startPage } from '../support/web.js'

/** A reply, as it can be handed to a page. */
interface Kept {
  readonly body: readonly number[]
  readonly headers: [string, string][]
}

await inBrowsers(['chromium', 'firefox'], 'in %s', name => {
  test('both servers show an older signed epoch to the next page: refused', async () => {
    const { servers, publisherKey, publish, close } = await startServers({ otter: 'river' })
    const site = await startPage(servers)
    const browser = await launchBrowser(name)
    const page = await browser.newPage()
    /** A new page of the app. `replayed`: what both servers say of their epoch. */
    const visit = async (replayed: Record<string, Kept> = {}) => {
      await page.goto(site.url)
      return await page.evaluate(
        async (servers, publisherKey, replayed) => {
          const kept: Record<string, Kept> = {}
          const options = { servers, publisherKey, download: 'never', storage: 'required', push: false } as const
          try {
            const map = await keyhush.open({
              ...options,
              fetch: async (url, init) => {
                const again = replayed[url]
                if (again !== undefined) return new Response(new Uint8Array(again.body), { headers: again.headers })
                const reply = await fetch(url, init)
                const body = [...new Uint8Array(await reply.clone().arrayBuffer())]
                if (/\/v1\/(manifest|info)$/.test(url)) kept[url] = { body, headers: [...reply.headers] }
                return reply
              },
            })
            const seen = [map.mode, map.epoch, await map.getText('otter')]
            await map.close()
            return { seen, kept }
          } catch (error) {
            return { seen: [(error as { code: string }).code], kept }
          }
        },
        servers,
        publisherKey,
        replayed,
      )
    }
    try {
      const before = await visit()
      expect(before.seen).toEqual(['instant', 1, 'river'])
      await publish([{ op: 'edit', key: 'otter', value: 'lakes' }])
      expect((await visit()).seen).toEqual(['instant', 2, 'lakes'])
      expect((await visit(before.kept)).seen).toEqual(['signature'])
      expect((await visit()).seen).toEqual(['instant', 2, 'lakes'])
    } finally {
      await browser.close()
      await site.close()
      await close()
    }
  })
})
