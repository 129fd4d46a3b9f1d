// A page whose own service worker keeps all that it fetches, servers' replies too: what changes is not kept.

import { startServers, type TestServers } from '@keyhush/server/testing'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { withBrowsers } from '../support/browsers.js'
import { bundle, type Site, serve } from '../support/web.js'

const WORKER = `
addEventListener('install', () => skipWaiting())
addEventListener('activate', event => event.waitUntil(clients.claim()))
addEventListener('fetch', event => {
  if (event.request.method === 'GET') event.respondWith(keep(event))
})
async function keep(event) {
  const cache = await caches.open('kept')
  const kept = await cache.match(event.request)
  if (kept !== undefined) return kept
  const reply = await fetch(event.request)
  event.waitUntil(cache.put(event.request, reply.clone()))
  return reply
}`

let servers: TestServers
let site: Site

beforeAll(async () => {
  servers = await startServers({ otter: 'river' })
  const script = await bundle("export * from '@keyhush/client'", { format: 'iife', globalName: 'keyhush' })
  site = await serve(({ url }, response) => {
    const code = { '/worker.js': WORKER, '/script.js': script }[url!]
    response.setHeader('content-type', code === undefined ? 'text/html' : 'text/javascript')
    response.end(code ?? '<!doctype html><script src="/script.js"></script>')
  })
})
afterAll(async () => {
  await site.close()
  await servers.close()
})

await withBrowsers(['chromium', 'firefox'], 'in %s', (name, browser) => {
  test('a map follows the list', async () => {
    const page = await browser().newPage()
    await page.goto(site.url)
    await page.evaluate(async () => {
      const { serviceWorker } = navigator
      const controlled = new Promise(resolve => serviceWorker.addEventListener('controllerchange', resolve))
      await serviceWorker.register('/worker.js')
      await controlled
    })
    await page.evaluate(
      async (servers, publisherKey) => {
        globalThis.opened = { map: await keyhush.open({ servers, publisherKey, mode: 'instant' }), events: [] }
      },
      servers.servers as [string, string],
      servers.publisherKey,
    )
    const value = () => page.evaluate(() => globalThis.opened!.map.getText('otter'))
    const [before, edited] = [await value(), { chromium: 'lakes', firefox: 'ponds' }[name]]
    await servers.publish([{ op: 'edit', key: 'otter', value: edited }])
    await page.evaluate(() => globalThis.opened!.map.sync())
    expect([before, await value()]).toEqual([expect.any(String), edited])
    await page.close()
  })
})
