// Pages of one origin follow a database that changes over HTTP/1.1, where browsers open six connections to a server. One page reads
// each server's events, and only while it is visible.

import type { BrowserContext, Frame, Page } from 'puppeteer-core'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { withBrowsers } from '../support/browsers.js'
import { LyingProxy } from '../support/proxy.js'
import { type ServerPair, startPair } from '../support/servers.js'
import { THOROUGH } from '../support/thorough.js'
import { type Site, startPage } from '../support/web.js'
import { lookUp } from './stage.js'

/** Above 16 MiB, so that mode `auto` answers without a state. */
const RECORDS = 70_000
const RECORD_BYTES = 256
const PAGES = 12

let servers: ServerPair
let proxies: readonly [LyingProxy, LyingProxy]
let site: Site
let epoch = 1
beforeAll(async () => {
  const content = Buffer.from(Array.from({ length: RECORDS }, (_, i) => `${i}`.padEnd(RECORD_BYTES)).join(''))
  servers = await startPair({ format: 'bin', content, recordBytes: RECORD_BYTES }, { living: true })
  proxies = [await LyingProxy.start(servers.urls[0]), await LyingProxy.start(servers.urls[1])]
  site = await startPage(proxies.map(({ url }) => url))
})
afterAll(async () => {
  await site.close()
  for (const proxy of proxies) await proxy.close()
  await servers.close()
})

async function publish(): Promise<void> {
  epoch++
  await servers.publish([{ op: 'edit', index: 5, value: `in epoch ${epoch}`.padEnd(RECORD_BYTES) }])
}

const epochOf = (frame: Frame) => frame.evaluate(() => globalThis.opened!.map.epoch)

/** Resolves when all have moved to the newest epoch, and find what it has changed. */
async function followed(frames: readonly Frame[]): Promise<void> {
  await expect.poll(() => Promise.all(frames.map(epochOf))).toEqual(frames.map(() => epoch))
  const found = await Promise.all(frames.map(frame => lookUp(frame, [5])))
  expect(found.flat()).toEqual(frames.map(() => `in epoch ${epoch}`))
}

/** Opens a map and looks up. Returns the milliseconds that opening took. */
async function open(frame: Frame, mode: string): Promise<number> {
  const urls = proxies.map(({ url }) => url) as [string, string]
  const ms = await frame.evaluate(
    async (servers, mode) => {
      const start = performance.now()
      globalThis.opened = { map: await keyhush.open({ servers, mode: mode as 'auto' }), events: [] }
      return performance.now() - start
    },
    urls,
    mode,
  )
  expect(await lookUp(frame, [6])).toEqual(['6'])
  return ms
}

const streams = () => proxies.map(proxy => proxy.streams)

await withBrowsers(['chromium', 'firefox'], 'in %s', (name, browser) => {
  let context: BrowserContext
  async function newPage(): Promise<Page> {
    const page = await context.newPage()
    await page.goto(site.url)
    return page
  }

  /** All of one page, so that all are visible. */
  async function newFrames(count: number): Promise<Frame[]> {
    context = await browser().createBrowserContext()
    const page = await newPage()
    await page.evaluate(async count => {
      const loading = Array.from({ length: count }, () => {
        const frame = document.createElement('iframe')
        frame.src = location.href
        document.body.append(frame)
        return new Promise(resolve => frame.addEventListener('load', resolve))
      })
      await Promise.all(loading)
    }, count)
    return page.frames().filter(frame => frame !== page.mainFrame())
  }

  test.each(THOROUGH ? ['auto', 'instant', 'full'] : ['auto'])(
    `mode %s: ${PAGES} frames open, look up, and hear of new epochs`,
    async mode => {
      const frames = await newFrames(PAGES)
      const ms = await Promise.all(frames.map(frame => open(frame, mode)))
      if (process.env['KEYHUSH_FIGURES']) console.log(name, mode, 'opened in ms:', ms.map(Math.round).join(' '))
      await expect.poll(streams).toEqual([1, 1])
      for (let i = 0; i < 2; i++) {
        await publish()
        await followed(frames)
      }
      expect(streams()).toEqual([1, 1])
      await context.close()
      await expect.poll(streams).toEqual([0, 0])
    },
  )

  test.each(THOROUGH ? ['instant', 'local'] : ['local'])(
    'mode %s: a page that freezes while it reads the events hands them on',
    async mode => {
      const frames = await newFrames(2)
      for (const frame of frames) await open(frame, mode)
      const dispatch = (frame: Frame, type: string) =>
        frame.evaluate(type => void document.dispatchEvent(new Event(type)), type)
      for (const [frozen, other] of [frames, [...frames].reverse()] as [Frame, Frame][]) {
        await dispatch(frozen, 'freeze')
        await publish()
        await followed([other])
        await expect.poll(streams).toEqual([1, 1])
        await dispatch(frozen, 'resume')
        await followed(frames)
      }
      await context.close()
    },
  )

  test('a hidden page reads no events; it hears of them from a visible one', async () => {
    context = await browser().createBrowserContext()
    const [first, second, empty] = [await newPage(), await newPage(), await newPage()]
    for (const page of [first, second]) {
      await page.bringToFront()
      await open(page.mainFrame(), 'instant')
    }
    await expect.poll(streams).toEqual([1, 1])
    await publish()
    await followed([first.mainFrame(), second.mainFrame()])
    await empty.bringToFront()
    await expect.poll(streams).toEqual([0, 0])
    await publish()
    expect(await epochOf(first.mainFrame())).toBe(epoch - 1)
    await first.bringToFront()
    await followed([first.mainFrame(), second.mainFrame()])
    expect(streams()).toEqual([1, 1])
    await context.close()
  })
})
