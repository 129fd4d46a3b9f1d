// A page whose content security policy forbids WebAssembly is told so, in the words of no engine.

import { expect, test } from 'vitest'
import { launchBrowser } from '../../tools/browsers.mjs'
import { launchWebKit } from '../../tools/webkit.mjs'
import { startPage } from '../support/web.js'

/** Runs on the page. */
const opened = (servers: readonly [string, string]) =>
  pirouette.open({ servers, storage: 'memory' }).then(
    () => 'opened',
    error => [error.code, error.reason, /wasm-unsafe-eval/.test(error.message)].join(' '),
  )
const nowhere = ['http://localhost:1', 'http://localhost:2'] as const

test.each(['chromium', 'firefox', 'webkit'] as const)('in %s', async name => {
  if (name === 'webkit' && process.platform !== 'linux') return // Debian has it; Windows and macOS do not
  const page = await startPage([], "'self'")
  if (name === 'webkit') {
    const webkit = await launchWebKit()
    await webkit.goto(page.url)
    expect(await webkit.evaluate(opened, nowhere)).toBe('unsupported policy true')
    await webkit.close()
  } else {
    const browser = await launchBrowser(name)
    const tab = await browser.newPage()
    await tab.goto(page.url)
    expect(await tab.evaluate(opened, nowhere)).toBe('unsupported policy true')
    await browser.close()
  }
  await page.close()
})
