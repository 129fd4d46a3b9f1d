// `npm run docs` builds the site, and a browser reads it: every page at the width of a phone, with nothing from elsewhere. What is
// planted in a small site fails.

import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Browser, Page } from 'puppeteer-core'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { launchBrowser } from '../tools/browsers.mjs'
import { buildSite } from '../tools/site/build.mjs'
import { needsBrowser } from './support/browsers.js'
import { temporaryFolder } from './support/servers.js'
import { complaintsOf, type Site, serveFiles } from './support/web.js'

const PHONE = { width: 390, height: 844 }

/** Builds a site of these documents, without a reference. Returns its folder. */
async function siteOf(documents: Record<string, string>): Promise<string> {
  const folder = await temporaryFolder()
  onTestFinished(() => folder.remove())
  const [from, to] = [join(folder.path, 'from'), join(folder.path, 'to')]
  await mkdir(join(from, 'docs'), { recursive: true })
  for (const [path, text] of Object.entries(documents)) await writeFile(join(from, path), text)
  const files = Object.keys(documents).filter(path => path.endsWith('.md'))
  await buildSite({ from, to, files, reference: false })
  return to
}

const README = '# Home\n\n[a page](docs/costs.md#a-heading-of-it), [its source](main.rs)\n'
const PAGE = '# Page\n\n## A heading: `of` it!\n\nText with {{ braces }}. [home](../README.md)\n'

test('links work on the site as they do in the repository', async () => {
  const folder = await siteOf({ 'README.md': README, 'docs/costs.md': PAGE, 'main.rs': '' })
  const home = await readFile(join(folder, 'index.html'), 'utf8')
  expect(home).toContain('href="/costs.html#a-heading-of-it"')
  expect(home).toMatch(/<a href="https:\/\/github\.com\/[^"]+\/main\.rs"[^>]*>its source/)
  const page = await readFile(join(folder, 'costs.html'), 'utf8')
  expect(page).toContain('id="a-heading-of-it"')
  expect(page).toContain('Text with {{ braces }}.')
  expect(page).toContain('href="/"')
})

test.each([
  [
    'a dead link, to a page or a file,',
    '[gone](gone.md) [gone](../main.rs)',
    [/Found dead link.*docs\/gone/s, /Found dead link.*main\.rs/s],
  ],
  [
    'a dead anchor, and an image from elsewhere,',
    '[gone](costs.md#gone) ![](https://a.example/x.png)',
    ['costs.html: link to /costs.html#gone: no such heading', 'costs.html loads https://a.example/x.png'],
  ],
])('%s fails the build', async (_, planted, messages) => {
  const documents = { 'README.md': '# Home\n', 'docs/costs.md': `# Page\n\n${planted}\n` }
  const failure = await siteOf(documents).then(String, String)
  for (const message of messages) expect(failure).toMatch(message)
})

/** What is cut off, or makes the page scroll sideways. Tables and code scroll by themselves. */
async function tooWide(page: Page): Promise<string[]> {
  return await page.evaluate(width => {
    const doc = document.documentElement
    const found = doc.scrollWidth > width ? [`the page is ${doc.scrollWidth} px wide`] : []
    for (const element of document.querySelectorAll('.vp-doc *')) {
      const { right } = element.getBoundingClientRect()
      if (right <= width || element.closest('table, pre') !== null) continue
      found.push(`<${element.tagName.toLowerCase()}> ends at ${right}: ${element.textContent?.slice(0, 60)}`)
    }
    for (const element of document.querySelectorAll('.vp-doc table, .vp-doc div[class*=language-]')) {
      const { right } = element.getBoundingClientRect()
      if (right > width) found.push(`<${element.tagName.toLowerCase()}> does not scroll: it ends at ${right}`)
    }
    return found
  }, PHONE.width)
}

describe('in chromium', await needsBrowser('chromium'), () => {
  let folder: Awaited<ReturnType<typeof temporaryFolder>>
  let site: Site
  let pages: number
  let browser: Browser

  beforeAll(async () => {
    folder = await temporaryFolder()
    pages = await buildSite({ to: folder.path })
    site = await serveFiles(folder.path)
    browser = await launchBrowser('chromium')
  })
  afterAll(async () => {
    await browser?.close()
    await site?.close()
    await folder.remove()
  })

  /** A tab that writes down what it asks other hosts for. */
  async function openTab(): Promise<{ page: Page; elsewhere: string[] }> {
    const page = await browser.newPage()
    onTestFinished(() => page.close())
    const elsewhere: string[] = []
    page.on('request', request => {
      if (!/^(data|blob):/.test(request.url()) && !request.url().startsWith(`${site.url}/`))
        elsewhere.push(request.url())
    })
    return { page, elsewhere }
  }

  test('every page fits a phone, loads nothing from elsewhere, and complains of nothing; of the reference, which one template makes, each fifth', async () => {
    const files = await readdir(folder.path, { recursive: true })
    const paths = files.filter(file => file.endsWith('.html') && file !== '404.html').sort()
    expect(paths).toHaveLength(pages)
    expect(paths).toEqual(expect.arrayContaining(['index.html', 'protocol.html', 'packages/client/index.html']))
    expect(paths).toContain('reference/client/functions/open.html')
    const few = paths.filter((path, i) => !path.startsWith('reference/') || i % 5 === 0)
    const faults: string[] = []
    const visit = async () => {
      const { page, elsewhere } = await openTab()
      await page.setViewport(PHONE)
      const complaints = await complaintsOf(page)
      for (let path = few.pop(); path !== undefined; path = few.pop()) {
        await page.goto(`${site.url}/${path}`, { waitUntil: 'load' })
        faults.push(...(await tooWide(page)).map(fault => `${path}: ${fault}`), ...(await complaints.all()))
      }
      faults.push(...elsewhere)
    }
    await Promise.all([visit(), visit(), visit()])
    expect(faults).toEqual([])
  })

  test('search finds a call and leads to it, without another host', async () => {
    const { page, elsewhere } = await openTab()
    await page.goto(site.url)
    await (await page.waitForSelector('#local-search button'))!.click()
    const input = await page.waitForSelector('.VPLocalSearchBox input')
    await input!.type('getMany')
    const first = await page.waitForSelector('.VPLocalSearchBox .result[href*=getmany]')
    await first!.click()
    await page.waitForFunction(() => location.hash.includes('getmany') && document.querySelector(location.hash))
    expect(elsewhere).toEqual([])
  })

  test('dark is what the visitor prefers, and a switch', async () => {
    const { page } = await openTab()
    await page.setViewport({ width: 1280, height: 900 })
    await page.emulateMediaFeatures([{ name: 'prefers-color-scheme', value: 'dark' }])
    await page.goto(site.url)
    const background = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor)
    const dark = await background()
    await (await page.waitForSelector('.VPNavBarAppearance .VPSwitchAppearance'))!.click()
    await page.waitForFunction(dark => getComputedStyle(document.body).backgroundColor !== dark, {}, dark)
    expect([dark, await background()]).toEqual(['rgb(27, 27, 31)', 'rgb(255, 255, 255)'])
  })

  test('a page that is too wide is seen', async () => {
    const { page } = await openTab()
    await page.setViewport(PHONE)
    await page.setContent('<div class="vp-doc"><table style="display: block; width: 500px"></table><p>Text</p></div>')
    expect(await tooWide(page)).toEqual(expect.arrayContaining([expect.stringContaining('<table> does not scroll')]))
    await page.setContent('<div class="vp-doc" style="overflow: hidden"><p style="width: 500px">Text</p></div>')
    expect(await tooWide(page)).toEqual([expect.stringContaining('<p> ends at')])
  })
})
