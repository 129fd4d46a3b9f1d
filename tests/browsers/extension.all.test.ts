// The example of a browser extension in Chromium and Firefox: what is listed gets a warning, what is not stays, nothing is blocked while
// servers are away or lie, and servers see the same of every visit that asks.

import { cp, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { startServers, type TestServers } from '@keyhush/server/testing'
import { build } from 'esbuild'
import type { Browser, Page } from 'puppeteer-core'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { hostAndParents } from '../../demo/src/page/domains.js'
import { launchBrowser } from '../../tools/browsers.mjs'
import { inBrowsers } from '../support/browsers.js'
import { needs } from '../support/needs.js'
import { LyingProxy } from '../support/proxy.js'
import { temporaryFolder } from '../support/servers.js'
import { type Site, serve } from '../support/web.js'

const root = join(import.meta.dirname, '../..')
const HOSTS = ['phish.example', 'login.phish.example', 'a.b.c.fine.example', 'fine.example', 'last.phish.example']

test('the extension asks for the names that the demo asks for', async () => {
  const { namesOf } = await import(join(root, 'demo/examples/extension/names.js'))
  for (const host of ['evil.example', 'a.b.c.d.e.f.g.h.evil.example', 'localhost', '192.168.0.1', '[::1]']) {
    expect(namesOf(`http://${host}:8080/path`)).toEqual(hostAndParents(host))
  }
})

await inBrowsers(['chromium', 'firefox'], 'in %s', name => {
  let both: TestServers
  let proxies: readonly [LyingProxy, LyingProxy]
  let folder: Awaited<ReturnType<typeof temporaryFolder>>
  let site: Site
  let browser: Browser
  let page: Page
  /** a tab with the popup */
  let popup: Page

  beforeAll(async () => {
    both = await startServers({ 'phish.example': '', 'other.example': '' })
    proxies = [await LyingProxy.start(both.servers[0]), await LyingProxy.start(both.servers[1])]
    folder = await temporaryFolder()
    const built = join(folder.path, 'extension')
    await cp(join(root, 'demo/examples/extension'), built, { recursive: true })
    const printed = { servers: proxies.map(({ url }) => url), publisherKey: both.publisherKey }
    const lines = Object.entries(printed).map(([name, value]) => `export const ${name} = ${JSON.stringify(value)}\n`)
    await writeFile(join(folder.path, 'servers.js'), lines.join(''))
    await build({
      entryPoints: [join(built, 'worker.js')],
      outfile: join(built, 'background.js'),
      ...{ bundle: true, minify: true, nodePaths: [join(root, 'node_modules')], logLevel: 'error' },
    })
    site = await serve((_, response) => {
      response.setHeader('content-type', 'text/html').end('<!doctype html><link rel="icon" href="data:,"><p>A page')
    })
    browser = await launchBrowser(name, { hosts: HOSTS, extensions: true })
    await browser.installExtension(built)
    page = await browser.newPage()
  })
  afterAll(async () => {
    await browser?.close()
    await site?.close()
    for (const proxy of proxies ?? []) await proxy.close()
    await both?.close()
    await folder?.remove()
  })

  const addressOf = (host: string) => `http://${host}:${new URL(site.url).port}/`

  /** Opens an address. The navigation may never end: a warning takes its place. */
  const visit = (host: string, tab = page) => void tab.goto(addressOf(host)).catch(() => {})

  /** Firefox's driver does not hear of an extension's pages, and may not open them. */
  const urlOf = (tab: Page) => tab.evaluate(() => location.href).catch(() => '')

  /** What the popup says. Its script runs anew, as it does whenever a popup opens. */
  const popupSays = () =>
    popup.evaluate(`(async () => {
        document.querySelector('ul').replaceChildren()
        await import('./popup.js?' + crypto.randomUUID())
        return document.body.innerText
      })()`) as Promise<string>

  const checked = async () => Number(/Pages checked: (\d+)/.exec(await popupSays())![1])

  async function visitAndCheck(host: string): Promise<void> {
    const before = await checked()
    visit(host)
    await expect.poll(checked).toBe(before + 1)
  }

  const bodies = () => proxies.map(({ seen }) => seen.filter(({ method }) => method === 'POST').map(shapeOf))
  const shapeOf = ({ path, body }: LyingProxy['seen'][number]) => `${path} ${body.length}`
  const forget = () => {
    for (const { seen } of proxies) seen.length = 0
  }

  test('a listed page gets a warning, in whose place the popup opens', async () => {
    // Once the worker runs it opens the map.
    await expect.poll(() => proxies.every(({ seen }) => seen.length > 0)).toBe(true)
    popup = await browser.newPage()
    visit('phish.example', popup)
    await expect.poll(() => urlOf(popup)).toContain('warning.html')
    await popup.evaluate(() => void location.replace('popup.html'))
    await expect.poll(() => urlOf(popup)).toContain('popup.html')
    await popup.waitForSelector('li')
    expect(await checked()).toBe(1)
  })

  test('a listed page gets a warning, one below it too; another page stays', async () => {
    for (const host of ['phish.example', 'login.phish.example']) {
      visit(host)
      await expect.poll(() => urlOf(page)).toMatch(new RegExp(`warning\\.html#.*${host}`))
    }
    await visitAndCheck('a.b.c.fine.example')
    await expect.poll(() => urlOf(page)).toBe(addressOf('a.b.c.fine.example'))
    const said = await popupSays()
    expect(said).toMatch(/Version \d+, 2 entries\./)
    for (const { url } of proxies) expect(said).toContain(`${url}: answers`)
  })

  test('once the filter has come, visits that ask have one shape, whatever the page and however often it was opened', async () => {
    const shapeAt = async (host: string) => {
      forget()
      await visitAndCheck(host)
      return bodies()
    }
    // Records alone, in one request to each server.
    await expect.poll(async () => (await shapeAt('phish.example')).map(({ length }) => length)).toEqual([1, 1])
    const asking = await shapeAt('phish.example')
    expect(await shapeAt('login.phish.example')).toEqual(asking)
    for (const host of ['fine.example', 'fine.example', 'a.b.c.fine.example']) {
      expect([[[], []], asking]).toContainEqual(await shapeAt(host)) // most ask nothing
    }
  })

  test('"Open it anyway" opens the page', async () => {
    await visitAndCheck('phish.example')
    await expect.poll(() => urlOf(page)).toContain('warning.html')
    await page.waitForFunction(() => document.querySelector('code')?.textContent !== '') // its script has run
    await page.evaluate(() => document.querySelector<HTMLElement>('[name=open]')!.click())
    await expect.poll(() => urlOf(page)).toBe(addressOf('phish.example'))
  })

  test('servers that are away block nothing, and the page is checked when they are back', async () => {
    for (const server of [0, 1]) both.misbehave(server, 'down')
    visit('last.phish.example')
    await expect.poll(popupSays).toContain('could not be checked (network)')
    await expect.poll(() => urlOf(page)).toBe(addressOf('last.phish.example'))
    for (const server of [0, 1]) both.misbehave(server, undefined)
    await expect.poll(() => urlOf(page)).toContain('warning.html')
  })

  test('a lie blocks nothing, and the popup says so', async () => {
    both.misbehave(1, 'lie')
    visit('phish.example')
    await expect.poll(popupSays).toContain('could not be checked (tampered)')
    await expect.poll(() => urlOf(page)).toBe(addressOf('phish.example'))
    both.misbehave(1, undefined)
    visit('last.phish.example')
    await expect.poll(() => urlOf(page)).toContain('warning.html')
  })

  const ends = needs(name === 'chromium', 'a driver that can end a worker')
  test('a worker that was ended starts anew for the next visit', ends, async () => {
    const target = await browser.waitForTarget(target => target.type() === 'service_worker')
    const gone = new Promise(resolve => browser.on('targetdestroyed', each => each === target && resolve(undefined)))
    await (await target.worker())!.close()
    await gone
    visit('login.phish.example')
    await expect.poll(() => urlOf(page)).toMatch(/warning\.html#.*login/)
    expect(await checked()).toBe(1)
  })
})
