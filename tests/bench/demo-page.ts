// The demo's page with its large set, as somebody comes to it who has never been there: from the navigation to the first
// answer on the screen, over the line of the first visits (visits.ts). Somebody else has been there before, and their
// browser has kept the page's files.

import type { BrowserContext } from 'puppeteer-core'
import { startDemo } from '../../demo/build/node/start.js'
import { launchBrowser } from '../../tools/browsers.mjs'
import type { Options } from './options.js'
import type { Section } from './report.js'
import { shapeLine } from './visits.js'

const TARGET_SECONDS = 0.7

export async function demoPage({ repeats }: Options): Promise<Section[]> {
  const demo = await startDemo({ port: 0, large: true })
  const cold: number[] = []
  const kept: number[] = []
  try {
    const browser = await launchBrowser('chromium', { protocolTimeout: 0, unwatched: true })
    try {
      for (let run = 0; run < repeats; run++) {
        const context = await browser.createBrowserContext()
        cold.push((await firstAnswer(context, demo.url)) / 1000)
        kept.push((await firstAnswer(context, demo.url)) / 1000)
        await context.close()
      }
    } finally {
      await browser.close()
    }
  } finally {
    await demo.close()
  }
  const figure = { name: 'first answer, 4.5 million names', unit: 's', target: ['≤', TARGET_SECONDS] } as const
  return [
    {
      title: 'The demo’s page',
      figures: [
        { ...figure, column: 'nothing cached', samples: cold },
        { ...figure, column: 'files cached', samples: kept },
      ],
    },
  ]
}

/** Milliseconds from the start of the navigation until an answer is shown, to the first example, asked when it can be. */
async function firstAnswer(context: BrowserContext, url: string): Promise<number> {
  const page = await context.newPage()
  await shapeLine(page)
  await page.evaluateOnNewDocument(askAtOnce)
  await page.goto(url, { waitUntil: 'domcontentloaded' })
  const answered = () => (globalThis as unknown as { answered?: { ms: number; text: string } }).answered
  const { ms, text } = (await (await page.waitForFunction(answered, { polling: 100 })).jsonValue())!
  if (!text.startsWith('Taken')) throw new Error(`expected a name that is taken, got: ${text}`)
  await page.close()
  return ms
}

/** Runs in the page, before its own scripts. */
function askAtOnce(): void {
  let asked = false
  const look = () => {
    const example = document.querySelector<HTMLElement>('.started #home .examples button')
    if (example !== null && !asked) {
      asked = true
      example.click()
    }
    const verdict = document.querySelector('#result[aria-busy=false] .answer')
    if (verdict === null || !asked) return
    observer.disconnect()
    Object.assign(globalThis, { answered: { ms: performance.now(), text: verdict.textContent } })
  }
  const observer = new MutationObserver(look)
  observer.observe(document, { subtree: true, childList: true, attributes: true })
}
