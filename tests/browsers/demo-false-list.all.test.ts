// The page *Key directory*: publisher and servers lie together. A demo for each browser, since what is signed stays signed.

import { expect, test } from 'vitest'
import { startDemo } from '../../demo/build/node/start.js'
import { launchBrowser } from '../../tools/browsers.mjs'
import { inBrowsers } from '../support/browsers.js'
import { go, PHONE } from './demo-visits.js'

await inBrowsers(['chromium', 'firefox'], 'in %s', name => {
  test('a list that hides that a key was replaced shows to the auditor at once, and to the owner at the next visit', async () => {
    const [demo, browser] = await Promise.all([startDemo({ port: 0 }), launchBrowser(name)])
    try {
      const visitor = await browser.newPage()
      await visitor.setViewport(PHONE)
      await go(visitor, demo.url, 'keys')
      const text = (selector: string) => visitor.$eval(selector, ({ textContent }) => textContent)
      const says = (at: string, said: string) =>
        visitor.waitForFunction((at, said) => document.querySelector(at)?.textContent?.includes(said), {}, at, said)
      await says('#owner-key', 'it is the owner’s')
      await visitor.click('#hide')
      await says('#replaced', 'Published as version 2')
      expect(await text('#replaced')).toMatch(
        /The auditor says: A CONTRADICTION: epoch 2: expected the records of partition \d+, got others$/,
      )
      // The open page has the list, and believes it.
      await says('#owner-checked', 'Checked at')
      expect([await text('#owner-key'), await text('#owner-news')]).toEqual([
        expect.stringContaining('it is the owner’s'),
        '',
      ])
      await visitor.click('#leave')
      await says('#owner-key', 'The page is closed.')
      await visitor.click('#leave')
      await says('#owner-news', 'Version 2: somebody shows two different lists.')
      expect(await text('#owner-key')).toContain('which is not the owner’s')
    } finally {
      await Promise.all([demo.close(), browser.close()])
    }
  })
})
