// IndexedDB does not go on. A page that stands still in the middle of a transaction, for example because it shows alert(): other pages of
// its origin wait for a time, and go on without storage. Or the browser closes the connection: the transaction is made once more.

import type { Page } from 'puppeteer-core'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { launchBrowser } from '../../tools/browsers.mjs'
import { needsBrowser, withBrowsers } from '../support/browsers.js'
import { lookUp, openMap, recordAt, Stage } from './stage.js'

const CHROMIUM = await needsBrowser('chromium')

let stage: Stage
beforeAll(async () => {
  stage = await Stage.start(1024)
})
afterAll(() => stage.close())

await withBrowsers(['chromium', 'firefox'], 'in %s', (_name, browser) => {
  /** A page that has begun to write, and does not go on until the result is called. */
  async function stopped(page: Page): Promise<() => Promise<void>> {
    const shown = new Promise<() => Promise<void>>(resolve => {
      page.once('dialog', dialog => resolve(() => dialog.accept()))
    })
    const standing = page.evaluate(async () => {
      const opening = indexedDB.open('keyhush')
      const database = await new Promise<IDBDatabase>(resolve => {
        opening.onsuccess = () => resolve(opening.result)
      })
      const tx = database.transaction([...database.objectStoreNames], 'readwrite')
      const reading = tx.objectStore('heads').get('nobody')
      await new Promise(resolve => {
        reading.onsuccess = resolve
      })
      tx.objectStore('heads').get('nobody')
      alert('One moment')
      database.close()
    })
    const goOn = await shown
    return async () => {
      await goOn()
      await standing
    }
  }

  test('the others open without storage, and look up', async () => {
    const context = await browser().createBrowserContext()
    const first = await stage.page(context)
    await openMap(first, stage.servers)
    expect(await lookUp(first, [1])).toEqual([recordAt(1)])
    await first.evaluate(() => globalThis.opened!.map.close())
    const second = await stage.page(context)
    const goOn = await stopped(first)
    const start = Date.now()
    const events = await openMap(second, stage.servers, 'preferred')
    expect(events).toEqual(['storage memory unavailable'])
    expect(await lookUp(second, [2, 3])).toEqual([recordAt(2), recordAt(3)])
    expect(Date.now() - start).toBeLessThan(30_000) // Chromium lets it stand for a minute, Firefox for ever
    await goOn()
    await context.close()
  })
})

test(
  'site data is cleared during lookups: none fails, and the map keeps its state in the store',
  CHROMIUM,
  async () => {
    const browser = await launchBrowser('chromium')
    for (let round = 0; round < 5; round++) {
      const context = await browser.createBrowserContext()
      const page = await stage.page(context)
      const events = await openMap(page, stage.servers, 'preferred')
      expect(events).toEqual([])
      const wanted = Array.from({ length: 30 }, (_, i) => i)
      const looking = lookUp(page, wanted)
      const cdp = await page.createCDPSession()
      await cdp.send('Storage.clearDataForOrigin', { origin: stage.url, storageTypes: 'all' })
      expect(await looking).toEqual(wanted.map(recordAt))
      expect(await page.evaluate(() => globalThis.opened!.map.storage)).not.toBe('memory')
      await context.close()
    }
    await browser.close()
  },
)
