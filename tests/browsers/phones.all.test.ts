// Pages at random as phones treat them, in Chromium: frozen, offline, closed, looking up all the while. No value is wrong, and each lookup
// of a page that lives ends. packages/client/test/phones-at-random.test.ts does the same in a simulated world, with more.
//
//   KEYHUSH_SEED=7     from that seed on
//   KEYHUSH_PHONES=100 so many schedules

import { setTimeout } from 'node:timers/promises'
import type { Browser, CDPSession, Page } from 'puppeteer-core'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { drawing } from '../../packages/client/test/support/random.js'
import { launchBrowser } from '../../tools/browsers.mjs'
import { needsBrowser } from '../support/needs.js'
import { onStage, recordAt, type Stage } from './stage.js'

const CHROMIUM = await needsBrowser('chromium')
const FIRST_SEED = Number(process.env['KEYHUSH_SEED'] ?? 1)
const SCHEDULES = Number(process.env['KEYHUSH_PHONES'] ?? 12)
const RECORDS = 1024
const STEPS = 14
const MODES = ['instant', 'full', 'auto'] as const

declare global {
  /** the lookups of a page: what was asked, and what came */
  var asked: { index: number; came: string | undefined }[]
}

let browser: Browser
beforeAll(async () => {
  browser = await launchBrowser('chromium')
})
afterAll(() => browser.close())

/** A page with a map, and whether it is frozen. */
interface Phone {
  readonly page: Page
  readonly session: CDPSession
  frozen: boolean
}

async function phoneOn(stage: Stage, context: { newPage(): Promise<Page> }, mode: string): Promise<Phone> {
  const page = await stage.page(context)
  const session = await page.createCDPSession()
  const storage = mode === 'instant' ? 'memory' : 'required'
  await page.evaluate(
    (servers, mode, storage) => {
      globalThis.asked = []
      const options = { servers, mode, storage } as Parameters<typeof keyhush.open>[0]
      keyhush.open(options).then(
        map => {
          globalThis.opened = { map, events: [] }
        },
        () => {}, // offline: the schedule goes on without a map
      )
    },
    stage.servers,
    mode,
    storage,
  )
  return { page, session, frozen: false }
}

/** Returns what became of all lookups. */
async function run(stage: Stage, seed: number): Promise<{ index: number; came: string | undefined }[]> {
  const draw = drawing(seed)
  const context = await browser.createBrowserContext()
  const front = await context.newPage()
  const mode = () => MODES[draw(MODES.length)]!
  const phones = [await phoneOn(stage, context, mode()), await phoneOn(stage, context, mode())]
  const set = async (phone: Phone, state: 'frozen' | 'active') => {
    await (state === 'frozen' ? front : phone.page).bringToFront() // only what is hidden can be frozen
    await phone.session.send('Page.setWebLifecycleState', { state })
    phone.frozen = state === 'frozen'
  }
  for (let step = 0; step < STEPS; step++) {
    const number = draw(2)
    const phone = phones[number]!
    const act = draw(12)
    if (act < 2 && !phone.frozen) await set(phone, 'frozen')
    else if (act < 5 && phone.frozen) await set(phone, 'active')
    else if (act === 5) await phone.page.setOfflineMode(true)
    else if (act < 8) await phone.page.setOfflineMode(false)
    else if (act === 8) {
      await phone.page.close()
      phones[number] = await phoneOn(stage, context, mode())
    } else if (!phone.frozen) {
      await phone.page.evaluate(index => {
        const lookup: (typeof globalThis.asked)[number] = { index, came: undefined }
        if (globalThis.opened === undefined) return
        globalThis.asked.push(lookup)
        globalThis.opened.map.at(index).then(
          value => {
            lookup.came = new TextDecoder().decode(value).trimEnd()
          },
          error => {
            lookup.came = `error ${error.code}`
          },
        )
      }, draw(RECORDS))
    }
    await setTimeout(draw(250))
  }
  const all = []
  for (const phone of phones) {
    await phone.page.setOfflineMode(false)
    if (phone.frozen) await set(phone, 'active')
    await phone.page.bringToFront()
    await phone.page.waitForFunction(() => globalThis.asked.every(({ came }) => came !== undefined), { polling: 50 })
    all.push(...(await phone.page.evaluate(() => globalThis.asked)))
  }
  await context.close()
  return all
}

test(`${SCHEDULES} random schedules from seed ${FIRST_SEED} on`, CHROMIUM, async () => {
  await onStage(RECORDS, async stage => {
    let answered = 0
    for (let seed = FIRST_SEED; seed < FIRST_SEED + SCHEDULES; seed++) {
      const all = await run(stage, seed)
      const isRight = ({ index, came }: (typeof all)[number]) => came === recordAt(index)
      const wrong = all.filter(lookup => !isRight(lookup) && lookup.came !== 'error network')
      expect(wrong, `KEYHUSH_SEED=${seed}`).toEqual([])
      answered += all.filter(isRight).length
    }
    expect(answered).toBeGreaterThan(SCHEDULES)
  })
})
