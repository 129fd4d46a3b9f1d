// The demo's first page in a real browser, as a person uses it. `npm run test:all` has it in Firefox too.

import { afterAll, beforeAll, expect, test } from 'vitest'
import { type Demo, phishingDomains, startDemo } from '../../demo/build/node/start.js'
import { needs } from '../support/needs.js'
import { answerOf, ask, counting, go, PHONE, press, seenBy, visiting } from './demo-visits.js'

let demo: Demo
beforeAll(async () => {
  demo = await startDemo({ port: 0 })
})
afterAll(() => demo.close())

await visiting({ browsers: ['chromium', 'firefox'], demo: () => demo }, ({ name, page, complaints, asStranger }) => {
  const counts = needs(name === 'chromium', 'a browser that counts what moves')
  test('nothing that is seen moves while the page opens, on a phone', counts, () =>
    asStranger(async visitor => {
      await visitor.setViewport(PHONE)
      await go(visitor, demo.url, '')
      const moved = await visitor.evaluate(
        () =>
          new Promise<number>(resolve => {
            const sum = (list: PerformanceEntry[]) =>
              list.reduce((sum, entry) => sum + (entry as PerformanceEntry & { value: number }).value, 0)
            const observer = new PerformanceObserver(list => resolve(sum(list.getEntries())))
            observer.observe({ type: 'layout-shift', buffered: true })
            // Two frames later the observer has reported everything.
            requestAnimationFrame(() => requestAnimationFrame(() => resolve(sum(observer.takeRecords()))))
          }),
      )
      expect(moved).toBeLessThan(0.02) // of what the Core Web Vitals call good, a fifth
    }),
  )

  test('the first screen of a phone has the field, and the whole page with an answer fits on three', () =>
    asStranger(async visitor => {
      await visitor.setViewport(PHONE)
      await go(visitor, demo.url, '')
      const bottom = await visitor.$eval('#home form', form => form.getBoundingClientRect().bottom)
      expect(bottom).toBeLessThan(0.6 * PHONE.height)
      const [row, link] = await Promise.all(['nav', 'nav a'].map(of => visitor.$eval(of, it => it.clientHeight)))
      expect(row).toBeLessThan(1.5 * link!)
      expect(await visitor.$eval('#result', result => result.checkVisibility())).toBe(false) // nothing empty
      const height = () => visitor.evaluate(() => document.documentElement.scrollHeight)
      expect(await ask(visitor, 'wikipedia.org')).toMatchObject({ kind: 'absent' })
      expect(await height()).toBeLessThanOrEqual(3 * PHONE.height)
      await press(visitor, 'Make server B lie')
      expect(await height()).toBeLessThanOrEqual(3 * PHONE.height)
    }))

  test('a listed domain is found, in a URL and below it as well; another is proved absent', async () => {
    const listed = phishingDomains().find(domain => domain.split('.').length === 2)!
    for (const typed of [listed, `https://${listed.toUpperCase()}/login?x`, `www.${listed}`]) {
      expect(await ask(page(), typed)).toMatchObject({ kind: 'alarm', text: expect.stringContaining(listed) })
    }
    expect(await ask(page(), 'wikipedia.org')).toMatchObject({
      kind: 'absent',
      text: expect.stringContaining('proved'),
    })
    const asked = counting(demo, 'A')
    expect(await ask(page(), 'two words')).toMatchObject({
      kind: 'error',
      text: expect.stringContaining('example.org'),
    })
    expect(asked()).toBe(0)
  })

  test('the panels draw every byte that each server was sent; the key is not among them', async () => {
    expect(await ask(page(), 'wikipedia.org')).toMatchObject({ kind: 'absent' })
    for (const server of ['A', 'B'] as const) {
      const sent = seenBy(demo, server, 2)
      const panel = (await page().$(`.noise.${server.toLowerCase()}`))!
      expect(await panel.evaluate(({ textContent }) => textContent)).toBe(
        `Server ${server} saw this ${sent.length.toLocaleString('en')} bytes`,
      )
      const drawn = await panel.$eval('canvas', canvas => {
        const { data } = canvas.getContext('2d')!.getImageData(0, 0, canvas.width, canvas.height)
        return Array.from(data).filter((_, i) => i % 4 === 3)
      })
      expect(drawn.slice(0, sent.length)).toEqual([...sent])
      expect(drawn.slice(sent.length).every(value => value === 0)).toBe(true)
      expect(sent.includes('wikipedia')).toBe(false)
    }
    expect(seenBy(demo, 'A', 2)).not.toEqual(seenBy(demo, 'B', 2))
  })

  test('below the answer stand its time and bytes, and that nobody knows what was asked', async () => {
    const { text } = await ask(page(), 'wikipedia.org')
    const sent = seenBy(demo, 'A', 2).length + seenBy(demo, 'B', 2).length
    expect(text).toMatch(/Time[\d.]+ m?sSent/)
    expect(text).toContain(`Sent${(sent / 1000).toFixed(1)} kB`)
    expect(text).toContain('Known to nobody, unless the two servers share what they saw.')
    expect(text).toContain('Known to both servers.')
  })

  test('every lookup asks both servers: the map stays in its first mode', async () => {
    for (let i = 0; i < 3; i += 1) {
      const asked = [counting(demo, 'A'), counting(demo, 'B')]
      await ask(page(), 'wikipedia.org')
      expect(asked.map(count => count())).toEqual([2, 2])
    }
  })

  test('server B is made to lie: the same lookup is refused, and an honest one then answers', async () => {
    const honest = await ask(page(), 'wikipedia.org')
    const seen = seenBy(demo, 'A', 2)
    const refused = await press(page(), 'Make server B lie')
    expect(refused).toMatchObject({ kind: 'caught', text: expect.stringContaining('TamperedError') })
    expect(refused.text).toContain('proof')
    expect(refused.text).toContain('A server lied') // which of the two, the proof does not show
    expect(refused.text).not.toContain('Not on the phishing list')
    expect(await page().$eval('.join', ({ textContent }) => textContent)).toContain('do not fit')
    expect(seenBy(demo, 'A', 1)).not.toEqual(seen.subarray(0, seenBy(demo, 'A', 1).length)) // new noise
    expect([demo.proxies.A.lies, demo.proxies.B.lies]).toEqual([false, false])
    expect(await page().evaluate(() => document.activeElement?.classList.contains('answer'))).toBe(true)
    const again = await press(page(), 'Look it up again')
    expect(again.kind).toBe(honest.kind)
  })

  const offline = needs(name === 'chromium', 'a driver that takes a page offline')
  test('offline nothing is shown as sent, on any page, and a button tries again', offline, () =>
    asStranger(async visitor => {
      await go(visitor, demo.url, '')
      expect(await ask(visitor, 'wikipedia.org')).toMatchObject({ kind: 'absent' })
      await visitor.setOfflineMode(true)
      const asked = counting(demo, 'A')
      const refused = await ask(visitor, 'wikipedia.org')
      expect(refused).toMatchObject({ kind: 'error', text: expect.stringContaining('You are offline') })
      expect(await visitor.$$('#result .noise')).toHaveLength(0)
      await visitor.$$eval('nav a', links => links.find(a => a.hash === '#/three')!.click())
      await visitor.waitForSelector('article:not([hidden]) [data-kind=error] button')
      expect(await visitor.$$('article:not([hidden]) .noise')).toHaveLength(0)
      expect(asked()).toBe(0)
      await visitor.setOfflineMode(false)
      await visitor.$$eval('nav a', links => links.find(a => a.hash === '#/')!.click())
      expect(await press(visitor, 'Try again')).toMatchObject({ kind: 'absent' })
    }),
  )

  test('a lookup and a lie work by keyboard alone', () =>
    asStranger(async visitor => {
      await go(visitor, demo.url, '')
      const focused = () =>
        visitor.evaluate(() => document.activeElement?.getAttribute('name') ?? document.activeElement?.textContent)
      const tabTo = async (what: string) => {
        for (let i = 0; i < 30 && (await focused()) !== what; i += 1) await visitor.keyboard.press('Tab')
        expect(await focused()).toBe(what)
      }
      await tabTo('text')
      await visitor.keyboard.type('wikipedia.org')
      await visitor.keyboard.press('Enter')
      expect(await answerOf(visitor)).toMatchObject({ kind: 'absent' })
      expect(await visitor.$eval('#said', ({ textContent }) => textContent)).toContain('Not on the phishing list')
      await tabTo('Make server B lie')
      await visitor.keyboard.press('Enter')
      await visitor.waitForSelector('.answer[data-kind=caught]')
    }))

  const asks = needs(name === 'chromium', 'a driver that can ask for less motion')
  test('what moves stands still for those who ask for it', asks, () =>
    asStranger(async visitor => {
      const moving = async (value: string) => {
        await visitor.emulateMediaFeatures([{ name: 'prefers-reduced-motion', value }])
        await visitor.goto('about:blank')
        await go(visitor, demo.url, '')
        await ask(visitor, 'wikipedia.org')
        return await visitor.evaluate(() => document.getAnimations().length)
      }
      expect(await moving('reduce')).toBe(0)
      expect(await moving('no-preference')).toBeGreaterThan(2)
    }),
  )

  test('the toy adds up: two choices that differ in one letter give that letter', async () => {
    const choices = () =>
      page().$$eval('#toy .marks', rows => rows.map(row => [...row.children].map(mark => mark.className).join()))
    const letters = await page().$$('#toy .letters label')
    for (const letter of [letters[0]!, letters[9]!, letters[15]!]) {
      await letter.click()
      const name = await letter.evaluate(label => label.textContent)
      const drawn = new Set<string>()
      for (let i = 0; i < 8; i += 1) {
        expect(await page().$eval('#toy-answer', answer => answer.textContent)).toBe(name)
        const [a, b] = (await choices()).map(row => row.split(','))
        const differing = a!.flatMap((mark, i) => (mark === b![i] ? [] : [i]))
        expect(differing).toEqual([letters.indexOf(letter)])
        drawn.add(a!.join())
        await page().click('#toy-again')
      }
      expect(drawn.size).toBeGreaterThan(1)
    }
  })

  test('the browser’s console has no errors', async () => {
    expect(await complaints()).toEqual([])
  })
})
