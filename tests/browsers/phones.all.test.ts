// Pages at random as phones treat them: frozen, thawed, offline, online, with another address, killed, looking up all the while.
//
// Chromium freezes a page when it is told so. In WebKit a page is hidden, and its process is stopped, as on iOS.

import type { KeyhushMap } from '@keyhush/client'
import type { Browser } from 'puppeteer-core'
import { afterAll, beforeAll, test } from 'vitest'
import { launchBrowser } from '../../tools/browsers.mjs'
import { launchWebKit, type WebKit } from '../../tools/webkit.mjs'
import {
  type Device,
  keyOf,
  type Lookup,
  type Mode,
  type Outcome,
  type Phone,
  runSchedules,
  SCHEDULES,
  type Seen,
} from '../phones/schedule.js'
import { inBrowsers } from '../support/browsers.js'
import { type Site, startPage } from '../support/web.js'

declare global {
  /** what a page has seen; it is gone when a page that was left is loaded anew */
  var phone: { map?: KeyhushMap; opened?: Outcome; readonly lookups: Lookup[] } | undefined
}

const MODES: readonly Mode[] = ['instant', 'full', 'auto']

/** As far as the tests need a page. */
interface Page {
  evaluate<P extends unknown[], R>(work: (...given: P) => R | Promise<R>, ...given: P): Promise<R>
}

type Habits = Pick<Phone, 'freeze' | 'thaw' | 'show' | 'kill'> & Partial<Pick<Phone, 'tell'>>

/** A page with the SDK that opens a map. */
async function phoneOf(page: Page, servers: [string, string], mode: Mode, habits: Habits): Promise<Phone> {
  const open = () =>
    page.evaluate(
      (servers, mode) => {
        const phone: NonNullable<typeof globalThis.phone> = { lookups: [] }
        globalThis.phone = phone
        const start = performance.now()
        const end = (error?: { code?: unknown; message: string }) => {
          const { code, message } = error ?? {}
          phone.opened = { ms: performance.now() - start, ...(message !== undefined && { error: { code, message } }) }
        }
        const options = { servers, mode, storage: mode === 'instant' ? 'memory' : 'required', push: true } as const
        keyhush.open(options).then(map => {
          phone.map = map
          end()
        }, end)
      },
      servers,
      mode,
    )
  await open()
  return {
    lookUp: index =>
      page.evaluate(
        (index, key) => {
          const { map, lookups } = globalThis.phone!
          if (map === undefined) return
          const start = performance.now()
          const lookup: Lookup = { index, epoch: map.epoch }
          lookups.push(lookup)
          map.getText(key).then(
            value => {
              lookup.ended = { ms: performance.now() - start, value: `${value}` }
            },
            ({ code, message }) => {
              lookup.ended = { ms: performance.now() - start, error: { code, message } }
            },
          )
        },
        index,
        keyOf(index),
      ),
    seen: () =>
      page
        .evaluate(() => {
          const { map, opened, lookups } = globalThis.phone!
          const epoch = map?.mode === undefined ? undefined : map.epoch
          return { opened: opened ?? null, epoch: epoch ?? null, lookups }
        })
        .then(
          ({ opened, epoch, lookups }): Seen => ({ opened: opened ?? undefined, epoch: epoch ?? undefined, lookups }),
        ),
    tell: online =>
      page.evaluate(online => {
        if (navigator.onLine === online) return
        Object.defineProperty(navigator, 'onLine', { configurable: true, get: () => online })
        dispatchEvent(new Event(online ? 'online' : 'offline'))
      }, online),
    ...habits,
    thaw: async () => {
      await habits.thaw()
      if (await page.evaluate(() => globalThis.phone === undefined)) await open()
    },
  }
}

async function inChromium(browser: Browser, site: string): Promise<Device> {
  const context = await browser.createBrowserContext()
  const front = await context.newPage()
  return {
    modes: MODES,
    async start(servers, mode) {
      const page = await context.newPage()
      await page.goto(site)
      const session = await page.createCDPSession()
      const set = (state: 'frozen' | 'active') => session.send('Page.setWebLifecycleState', { state })
      return await phoneOf(page as Page, servers, mode, {
        async freeze() {
          await front.bringToFront() // only what is hidden can be frozen
          await set('frozen')
        },
        thaw: async () => {
          await page.bringToFront()
          await set('active')
        },
        show: () => page.bringToFront(),
        tell: online => page.setOfflineMode(!online),
        kill: () => page.close(),
      })
    },
    close: () => context.close(),
  }
}

/** The window of an app that comes to the front, or goes. */
const appear = (page: Page, visible: boolean) =>
  page.evaluate(visible => {
    Object.defineProperty(document, 'visibilityState', {
      configurable: true,
      get: () => (visible ? 'visible' : 'hidden'),
    })
    document.dispatchEvent(new Event('visibilitychange'))
  }, visible)

/** Its profile is the same for all schedules, so that later ones find what earlier ones have stored. */
function inWebKit(webkit: WebKit, site: string): Device {
  return {
    modes: MODES,
    async start(servers, mode) {
      const window = await webkit.open(site)
      return await phoneOf(window, servers, mode, {
        async freeze() {
          await appear(window, false)
          window.signal('SIGSTOP')
        },
        async thaw() {
          window.signal('SIGCONT')
          await appear(window, true)
        },
        show: async () => {},
        kill: () => window.kill(),
      })
    },
    async close() {},
  }
}

await inBrowsers(['chromium', 'webkit'], 'in %s', name => {
  let browser: Browser
  let webkit: WebKit
  let site: Site
  beforeAll(async () => {
    if (name === 'webkit') webkit = await launchWebKit()
    else browser = await launchBrowser(name)
  })
  afterAll(async () => {
    await browser?.close()
    await webkit?.close()
    await site?.close()
  })

  test(`${SCHEDULES} random schedules`, async () => {
    await runSchedules(async servers => {
      site ??= await startPage(servers)
      if (name === 'chromium') return await inChromium(browser, site.url)
      return inWebKit(webkit, site.url)
    })
  })
})
