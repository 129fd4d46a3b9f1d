// docs/releasing.md, Check what a site serves: an import map with the sum of the one file lets that file run, and no other.

import { createHash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { withBrowsers } from '../support/browsers.js'
import { serve } from '../support/web.js'

const released = await readFile(join(import.meta.dirname, '../../packages/client/dist/keyhush.js'))
const integrity = `sha256-${createHash('sha256').update(released).digest('base64')}`
const map = { imports: { '@keyhush/client': '/keyhush.js' }, integrity: { '/keyhush.js': integrity } }
const PAGE = `<!doctype html><title></title><link rel="icon" href="data:,">
<script type="importmap">${JSON.stringify(map)}</script>
<script type="module">
  import('@keyhush/client').then(({ open }) => { document.title = typeof open }, error => { document.title = error.name })
</script>`

await withBrowsers(['chromium'], 'in %s', (_name, browser) => {
  test.each([
    ['the released file runs', released, 'function'],
    ['a file with another byte does not', Buffer.concat([released, Buffer.from('\n')]), 'TypeError'],
  ])('%s', async (_what, file, title) => {
    const site = await serve((request, response) => {
      const [type, body] = request.url === '/keyhush.js' ? ['text/javascript', file] : ['text/html', PAGE]
      response.setHeader('content-type', type).end(body)
    })
    const page = await browser().newPage()
    await page.goto(site.url)
    await page.waitForFunction(() => document.title !== '')
    expect(await page.title()).toBe(title)
    await page.close()
    await site.close()
  })
})
