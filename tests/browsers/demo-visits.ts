// What a visitor does on the demo's page, for the tests of the demo.

import type { Browser, Page } from 'puppeteer-core'
import { afterAll, beforeAll } from 'vitest'
import type { Demo } from '../../demo/build/node/start.js'
import { launchBrowser } from '../../tools/browsers.mjs'
import { inBrowsers } from '../support/browsers.js'
import { complaintsOf } from '../support/web.js'

export const PAGES = ['', 'wire', 'one', 'three', 'breached', 'add', 'keys', 'cost', 'visit'] as const
export const PHONE = { width: 390, height: 844 }
export const DESKTOP = { width: 1440, height: 900 }

export interface Answer {
  readonly kind: string
  readonly text: string
}

export async function answerOf(page: Page): Promise<Answer> {
  const answer = await page.waitForSelector('#result[aria-busy=false] .answer:not(.before)')
  return await answer!.evaluate(shown => ({ kind: shown.getAttribute('data-kind')!, text: shown.textContent ?? '' }))
}

/** Types into a field, in place of what is there. */
export async function fill(page: Page, field: string, text: string) {
  const input = (await page.waitForSelector(field))!
  await input.evaluate(element => (element as HTMLInputElement).select())
  await input.type(text)
  return input
}

/** Types into the field of the first page and presses Enter. */
export async function ask(page: Page, text: string): Promise<Answer> {
  const input = await fill(page, '#home input[name=text]', text)
  await page.$eval('#result', result => result.replaceChildren())
  await input.press('Enter')
  return await answerOf(page)
}

/** Presses a button of the answer, and waits for the next one. */
export async function press(page: Page, text: string): Promise<Answer> {
  await page.$$eval(
    '.answer button',
    (buttons, text) => {
      const button = buttons.find(({ textContent }) => textContent === text)!
      button.closest('.answer')!.classList.add('before')
      button.focus()
      button.click()
    },
    text,
  )
  return await answerOf(page)
}

/** Shows one of the pages, and waits for its example. */
export async function go(page: Page, url: string, name: (typeof PAGES)[number]): Promise<void> {
  await page.goto(`${url}/#/${name}`)
  const example = {
    '': '#toy-answer',
    wire: '#requests li',
    one: '#one-shown:not([hidden])',
    three: '#pools button',
    breached: '#breached-ready:not([hidden]) #breached-sealed table',
    add: '#looked:not(:empty)',
    keys: '#owner-key[data-own]',
    cost: 'td',
    visit: '#phases li',
  }
  await page.waitForSelector(`#${name || 'home'}:not([hidden]) ${example[name]}`)
}

/** What the last queries show to a server, one after the other. */
export const seenBy = ({ proxies }: Demo, server: 'A' | 'B', last: number) =>
  Buffer.concat(proxies[server].seen.slice(-last).map(({ body }) => body))

/** Counts the queries that a server gets from now on; it keeps the last 64. */
export function counting({ proxies }: Demo, server: 'A' | 'B' | 'C'): () => number {
  const { seen } = proxies[server]
  const last = seen.at(-1)
  return () => seen.length - 1 - (last === undefined ? -1 : seen.indexOf(last))
}

export interface Visit {
  readonly name: 'chromium' | 'firefox'
  /** one page of one browser, for all tests of the group */
  readonly page: () => Page
  /** errors in its console */
  readonly complaints: () => Promise<string[]>
  /** `visit` in a browser that has never been here */
  readonly asStranger: (visit: (stranger: Page) => Promise<void>) => Promise<void>
}

/** A group of tests for each browser, whose page shows `demo` first. */
export async function visiting(
  { browsers, demo }: { browsers: readonly Visit['name'][]; demo: () => Demo },
  tests: (visit: Visit) => void,
): Promise<void> {
  await inBrowsers(browsers, 'in %s', name => {
    let browser: Browser
    let page: Page
    let complaints: Awaited<ReturnType<typeof complaintsOf>>
    beforeAll(async () => {
      browser = await launchBrowser(name)
      page = await browser.newPage()
      complaints = await complaintsOf(page)
      await go(page, demo().url, '')
    })
    afterAll(() => browser.close())
    tests({
      name,
      page: () => page,
      complaints: () => complaints.all(),
      asStranger: async visit => {
        const context = await browser.createBrowserContext()
        await visit(await context.newPage())
        await context.close()
        await page.bringToFront()
      },
    })
  })
}
