// The demo in real browsers, as a person uses it. `npm run test:all` runs it in Firefox too; `npm test` runs the SDK there
// (sdk.test.ts).

import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { loadCore, type ModeCosts } from '@keyhush/wasm'
import axe from 'axe-core'
import type { Browser, Page } from 'puppeteer-core'
import { afterAll, beforeAll, expect, test } from 'vitest'
import {
  type Demo,
  exportPage,
  keyDirectory,
  leakedPasswords,
  phishingDomains,
  startDemo,
} from '../../demo/build/node/start.js'
import { launchBrowser } from '../../tools/browsers.mjs'
import { inBrowsers } from '../support/needs.js'
import { temporaryFolder } from '../support/servers.js'
import { THOROUGH } from '../support/thorough.js'
import { complaintsOf, serveFiles } from '../support/web.js'

/** Instead of 4.5 million names. */
const PACKAGES = Array.from({ length: 500 }, (_, i) => `package-${i}`)

let demo: Demo
beforeAll(async () => {
  demo = await startDemo({ port: 0, large: ['left-pad', 'react', ...PACKAGES] })
})
afterAll(() => demo.close())

/** One tab of the page. */
class Panel {
  constructor(
    private readonly page: Page,
    private readonly id: 'phishing' | 'keys' | 'passwords' | 'names' | 'own-lookup',
  ) {}

  async ready(): Promise<void> {
    await this.page.waitForSelector(`#${this.id} .search button:not([disabled])`)
  }

  /** Types and presses Enter. Returns the verdict's text and kind. */
  async ask(text: string): Promise<{ kind: string; text: string }> {
    const input = await this.page.waitForSelector(`#${this.id}:not([aria-busy=true]) input[name=text]`)
    await input!.evaluate(element => element.select())
    await input!.type(text)
    await input!.press('Enter')
    const verdict = await this.page.waitForSelector(`#${this.id} .verdict[data-kind]:not([data-kind=none])`)
    return verdict!.evaluate(shown => ({ kind: shown.getAttribute('data-kind')!, text: shown.textContent ?? '' }))
  }

  /** Waits until the page has followed to an epoch by itself; returns its news. */
  async newsOf(epoch: number): Promise<string> {
    const arrived = (id: string, epoch: number) =>
      document.querySelector(`#${id} .epoch`)?.textContent === `Version ${epoch}` &&
      document.querySelector(`#${id} .news`)?.textContent
    // Not by animation frames: only the page in front has them.
    const news = await this.page.waitForFunction(arrived, { polling: 'mutation' }, this.id, epoch)
    return (await news.jsonValue()) as string
  }

  /** The mode that the page says answers. */
  async mode(): Promise<string> {
    return await this.page.$eval(`#${this.id} .mode-title`, shown => shown.textContent ?? '')
  }

  /** The page's words when another mode has taken over. */
  async changeOfMode(): Promise<string> {
    const said = (id: string) => {
      const text = document.querySelector(`#${id} .change`)?.textContent ?? ''
      return text.startsWith('Changed') && text
    }
    const text = await this.page.waitForFunction(said, { polling: 'mutation' }, this.id)
    return (await text.jsonValue()) as string
  }

  async startAfresh(): Promise<void> {
    await (await this.page.waitForSelector(`#${this.id} .verdict button`))!.click()
    await this.page.waitForSelector(`#${this.id} .verdict[data-kind=none]`)
    await this.ready()
  }
}

await inBrowsers(THOROUGH ? ['chromium', 'firefox'] : ['chromium'], 'in %s', name => {
  let browser: Browser
  let page: Page
  let complaints: Awaited<ReturnType<typeof complaintsOf>>
  const phishing = () => new Panel(page, 'phishing')
  const keys = () => new Panel(page, 'keys')

  /** ids of what the servers had seen before this browser started */
  let earlier: Record<'A' | 'B', number>
  const seenBy = (server: 'A' | 'B') => demo.proxies[server].seen.filter(({ id }) => id > earlier[server])

  beforeAll(async () => {
    earlier = { A: demo.proxies.A.seen.at(-1)?.id ?? 0, B: demo.proxies.B.seen.at(-1)?.id ?? 0 }
    browser = await launchBrowser(name)
    page = await browser.newPage()
    complaints = await complaintsOf(page)
    await page.goto(demo.url)
    await phishing().ready()
  })
  afterAll(() => browser.close())

  const makeLie = async (server: 'A' | 'B' | '') => {
    await (await page.waitForSelector(`#liar input[value="${server}"]`))!.click()
    const said = server === '' ? '' : `Server ${server} lies from now on. Look something up.`
    await page.waitForFunction(said => document.querySelector('#liar-note')?.textContent === said, {}, said)
  }

  // Firefox does not count what moves.
  const inChromium = name === 'chromium' ? test : () => {}
  inChromium('nothing that is seen moves while the page opens, on a phone', async () => {
    const context = await browser.createBrowserContext()
    const visitor = await context.newPage()
    await visitor.setViewport({ width: 390, height: 844 })
    await visitor.goto(demo.url)
    await new Panel(visitor, 'phishing').ready()
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
    await context.close()
    await page.bringToFront()
  })

  test('the address names the tab, before and after another is chosen', async () => {
    const context = await browser.createBrowserContext()
    const visitor = await context.newPage()
    const chosen = () => visitor.$eval('[role=tab][aria-selected=true]', tab => tab.textContent?.trim())
    await visitor.goto(`${demo.url}/#passwords`)
    await new Panel(visitor, 'passwords').ready()
    expect(await chosen()).toBe('Leaked passwords')
    await (await visitor.$('#keys-tab'))!.click()
    expect(await visitor.evaluate(() => location.hash)).toBe('#keys')
    await visitor.evaluate(() => {
      location.hash = '#own'
    })
    await visitor.waitForSelector('#own-tab[aria-selected=true]')
    await context.close()
    await page.bringToFront()
  })

  test.each([
    [390, 844],
    [1440, 900],
  ])(
    'the first screen, %i by %i, says what server A learns: before anything is asked, and beside an answer',
    async (width, height) => {
      const context = await browser.createBrowserContext()
      const visitor = await context.newPage()
      await visitor.setViewport({ width, height })
      await visitor.goto(demo.url)
      const panel = new Panel(visitor, 'phishing')
      await panel.ready()
      const said = async () => {
        const figure = (await visitor.$('#phishing .learnt figure.a'))!
        return await figure.evaluate(figure => ({
          title: figure.querySelector('figcaption')?.textContent,
          learns: figure.querySelector('.quiet')?.textContent,
          bottom: figure.querySelector('.quiet')!.getBoundingClientRect().bottom,
        }))
      }
      const before = await said()
      expect(before.title).toBe('Server A will see')
      expect(before.learns).toMatch(/^It will know that you ask, and when. Not what/)
      expect(await panel.ask('wikipedia.org')).toMatchObject({ kind: 'absent' })
      await visitor.waitForSelector('#phishing:not([aria-busy=true])')
      const after = await said()
      expect(after.title).toMatch(/^Server A saw \d+ B$/)
      expect(after.learns).toMatch(/^It knows that you asked, and when. Not what/)
      // In one browser only: what fits depends on the installed fonts.
      if (name === 'chromium') for (const { bottom } of [before, after]) expect(bottom).toBeLessThanOrEqual(height)
      // By then the costs further down are planned, visible or not.
      await visitor.waitForSelector('#plan-costs .recommended')
      const hints = await visitor.$$eval('#phishing .clock dt', all => all.map(({ textContent }) => textContent))
      expect(hints).toEqual([...['Just ask, and it knows', 'Instant', 'Full hint (here)', 'One server', 'Keep it all']])
      const moved = await visitor.$$eval('#phishing .clock dd', all => all.map(({ textContent }) => textContent))
      const { estimate } = await import('@keyhush/client')
      const { modes } = await estimate([`${demo.servers.A}/phishing`, `${demo.servers.B}/phishing`])
      const { firstBytes, lookupBytesUp, lookupBytesDown } = modes['local']!
      expect(moved.at(-1)).toBe(`${((firstBytes + lookupBytesUp + lookupBytesDown) / 1000).toFixed(0)} kB`)
      await context.close()
      await page.bringToFront()
    },
  )

  test('a listed domain is found, in a URL and below it as well', async () => {
    const listed = phishingDomains().find(domain => domain.split('.').length === 2)!
    for (const typed of [listed, `https://${listed.toUpperCase()}/login?x`, `www.${listed}`]) {
      expect(await phishing().ask(typed)).toMatchObject({ kind: 'alarm', text: expect.stringContaining(listed) })
    }
  })

  test('an unlisted domain is proved absent, and the card says who learnt what', async () => {
    expect(await phishing().ask('wikipedia.org')).toMatchObject({ kind: 'absent' })
    await page.waitForSelector('#phishing:not([aria-busy=true]) .learnt:not([hidden])')
    const told = await page.$$eval('#phishing .learnt figure', all => all.map(figure => figure.textContent))
    expect(told).toHaveLength(3)
    expect(told[0]).toContain('GET /phishing?domain=wikipedia.org\n→ not listed')
    for (const [i, server] of ['A', 'B'].entries()) {
      const { bytes } = demo.proxies[server as 'A' | 'B'].seen.at(-1)!
      expect(told[i + 1]).toContain(`Server ${server} saw ${bytes} B`)
      expect(told[i + 1]).not.toContain('wikipedia')
    }
  })

  test('a name in the key directory leads to its key, an unknown name to none', async () => {
    const [{ name, key }] = keyDirectory() as unknown as [{ name: string; key: string }]
    await (await page.waitForSelector('#keys-tab'))!.click()
    await keys().ready()
    const found = await keys().ask(name)
    expect(found.kind).toBe('found')
    expect(found.text.replaceAll(' ', '')).toContain(key)
    expect(await keys().ask('alice@example.org')).toMatchObject({ kind: 'absent' })
    await (await page.waitForSelector('#phishing-tab'))!.click()
  })

  test('mode auto answers instantly at first, and says so', async () => {
    await (await page.waitForSelector('#keys-tab'))!.click()
    expect(await keys().mode()).toBe('Instant')
    expect(demo.proxies.B.seen.at(-1)).toMatchObject({ database: 'keys', of: 'bytes', vectors: [expect.any(Array)] })
    const [{ name, key }] = keyDirectory() as unknown as [{ name: string; key: string }]
    const found = await keys().ask(name)
    expect(found).toMatchObject({ kind: 'found' })
    expect(found.text.replaceAll(' ', '')).toContain(key)
    await (await page.waitForSelector('#phishing-tab'))!.click()
  })

  test('a lie in an instant answer is caught, names no server, and begins no download', async () => {
    const context = await browser.createBrowserContext() // with nothing stored
    const stranger = await context.newPage()
    const complaintsOfStranger = await complaintsOf(stranger)
    await stranger.goto(demo.url)
    await (await stranger.waitForSelector('#keys-tab'))!.click()
    const theirs = new Panel(stranger, 'keys')
    await theirs.ready()
    demo.proxies.A.lie = 'byte'
    const caught = await theirs.ask('alice@example.org').finally(() => {
      demo.proxies.A.lie = undefined
    })
    expect(caught).toMatchObject({ kind: 'caught', text: expect.stringContaining('A server lied, and was caught') })
    expect(caught.text).not.toMatch(/Server [AB] /)
    expect(await theirs.ask('alice@example.org')).toMatchObject({ kind: 'absent' })
    expect(await theirs.mode()).toBe('Instant')
    expect(await complaintsOfStranger.all()).toEqual([])
    await context.close()
    await page.bringToFront()
  })

  test('a free name and a taken name look the same to both servers', async () => {
    const names = new Panel(page, 'names')
    await page.click('#names-tab')
    await names.ready()
    expect(await names.ask('left-pad')).toMatchObject({ kind: 'found', text: expect.stringContaining('Taken') })
    expect(await names.ask('my-idea')).toMatchObject({ kind: 'absent', text: expect.stringContaining('Still free') })
    // The page reports its own traffic.
    await page.waitForSelector('#side-by-side .same')
    expect(await page.$$eval('#checks li', lines => lines.map(line => line.dataset['holds']))).toEqual(
      Array(6).fill('true'),
    )
    const compared = await page.$$eval('#side-by-side td[data-equal]', cells => cells.map(cell => cell.textContent))
    const [found, absent] = [0, 1].map(column => compared.filter((_, i) => i % 2 === column))
    expect(found).toEqual(absent)
    expect(found).toHaveLength(8)
    const explained = await page.$$eval('#requests table', tables => tables.map(table => table.rows.length))
    expect(explained.length).toBe(8)
    await page.click('#phishing-tab')
    for (const server of ['A', 'B'] as const) {
      const own = seenBy(server).filter(({ database }) => database === 'names')
      const shapes = own.map(({ bytes, columns, vectors }) => [bytes, columns, vectors.length])
      expect(shapes).toHaveLength(4) // of each a block of the directory, and a record
      expect(shapes.slice(2)).toEqual(shapes.slice(0, 2))
    }
  })

  test('the page builds a visitor’s file twice and looks it up; a faulty file is refused with the reason', async () => {
    await page.click('#own-tab')
    await page.waitForFunction(() => document.querySelector<HTMLTextAreaElement>('#own textarea')?.value !== '')
    const builds = async (text: string, kind: string) => {
      await page.$eval('#own textarea', (area, text) => Object.assign(area, { value: text }), text)
      await page.click('#own form button')
      const outcome = await page.waitForSelector(`#own-outcome[data-kind=${kind}]`)
      return await outcome!.evaluate(shown => shown.textContent ?? '')
    }
    expect(await builds('key,value\none,1\none,2\n', 'error')).toContain(
      'Line 3: the same key as on line 2; delete one of them.',
    )
    expect(await builds('key,value\notter,river\nheron,"pond, lake"\n', 'found')).toContain('Built twice: 2 records')
    const seen = demo.proxies.A.seen.length
    const own = new Panel(page, 'own-lookup')
    await own.ready()
    expect(await own.ask('heron')).toMatchObject({ kind: 'found', text: expect.stringContaining('pond, lake') })
    await page.waitForSelector('#own [aria-busy=false] .learnt:not([hidden])')
    expect(await own.ask('badger')).toMatchObject({ kind: 'absent' })
    await page.waitForFunction(() => document.querySelectorAll('#checks [data-holds=true]').length === 6)
    expect(demo.proxies.A.seen).toHaveLength(seen) // it went nowhere
    await page.click('#phishing-tab')
  })

  test('the page as static files, with servers on another origin, looks up, and offers only what works there', async () => {
    const folder = await temporaryFolder()
    const { publisherKey } = (await (await fetch(`${demo.url}/config.json`)).json()) as { publisherKey: string }
    const out = join(folder.path, 'page')
    const servers = [demo.servers.A, demo.servers.B] as const
    expect(await exportPage({ servers, publisherKey, out })).toEqual(['phishing', 'keys', 'passwords', 'names'])
    await expect(exportPage({ servers, out })).rejects.toThrow('is not empty')
    await expect(exportPage({ servers: [demo.url, demo.url], out: `${out}2` })).rejects.toThrow('in common')
    await expect(exportPage({ servers: ['nowhere', demo.url], out: `${out}2` })).rejects.toThrow('URL of a server')
    const site = await serveFiles(out)
    const elsewhere = await browser.newPage()
    const complaintsOfElsewhere = await complaintsOf(elsewhere)
    await elsewhere.goto(`${site.url}/#names`)
    const names = new Panel(elsewhere, 'names')
    await names.ready()
    expect(await names.ask('left-pad')).toMatchObject({ kind: 'found' })
    expect(await names.ask('my-idea')).toMatchObject({ kind: 'absent' })
    await elsewhere.waitForSelector('#names:not([aria-busy=true]) .learnt figure.b')
    await elsewhere.waitForFunction(() => document.querySelectorAll('#checks [data-holds=true]').length === 6)
    for (const part of ['#lying', '#publishing', '#watched', '#near', '#phishing']) {
      expect(await elsewhere.$eval(part, shown => shown.checkVisibility()), part).toBe(false)
    }
    expect(await elsewhere.$eval('#asking', shown => shown.checkVisibility())).toBe(true)

    // Without a signature, the page offers nothing that needs one.
    const { publisherKey: _, ...unsigned } = JSON.parse(await readFile(join(out, 'config.json'), 'utf8'))
    await writeFile(join(out, 'config.json'), JSON.stringify(unsigned))
    await elsewhere.reload()
    await names.ready()
    expect(await elsewhere.$eval('#asking', shown => shown.checkVisibility())).toBe(false)
    if (THOROUGH) {
      await elsewhere.click('#measure')
      await elsewhere.waitForFunction(() =>
        document.querySelector('#measured')?.textContent?.startsWith('To keep it all'),
      )
      expect(await elsewhere.$eval('[data-mode=single] td', cell => cell.textContent)).toBe('not offered')
    }
    expect(await complaintsOfElsewhere.all()).toEqual([])
    await elsewhere.close()
    await site.close()
    await folder.remove()
    await page.bringToFront()
  })

  test('what belongs to the phishing list is shown with that list alone', async () => {
    const shown = () => page.$eval('#publishing', section => section.checkVisibility())
    expect(await shown()).toBe(true)
    await (await page.waitForSelector('#keys-tab'))!.click()
    expect(await shown()).toBe(false)
    await (await page.waitForSelector('#phishing-tab'))!.click()
    expect(await shown()).toBe(true)
  })

  test('the toy adds up: two choices that differ in one letter give that letter', async () => {
    const letters = await page.$$('#toy .letters label')
    for (const letter of [letters[0]!, letters[9]!, letters[15]!]) {
      await letter.click()
      const name = await letter.evaluate(label => label.textContent)
      expect(await page.$eval('#toy-answer', answer => answer.textContent)).toBe(name)
      const [a, b] = await page.$$eval('#toy .marks', rows =>
        rows.map(row => [...row.children].map(mark => mark.className)),
      )
      const differing = a!.flatMap((mark, i) => (mark === b![i] ? [] : [i]))
      expect(differing).toEqual([letters.indexOf(letter)])
    }
    await page.click('#toy-many')
    expect(await page.$eval('#toy-said', said => said.textContent)).toContain('Of 1,000 draws')
  })

  test('a first visit is measured in every mode, and can be stopped', async () => {
    const cells = () =>
      page.$$eval('#first-visit tbody tr', rows =>
        rows.map(row => ({
          mode: row.getAttribute('data-mode'),
          cells: [...row.querySelectorAll('td')].map(cell => cell.textContent),
        })),
      )
    const says = async (start: string) => {
      const said = await page.waitForFunction(
        start => {
          const text = document.querySelector('#measured')?.textContent ?? ''
          return text.startsWith(start) && text
        },
        { polling: 'mutation' },
        start,
      )
      return (await said.jsonValue()) as string
    }
    await page.click('#measure')
    await page.click('#measure-stop')
    await says('Stopped.')
    expect((await cells()).at(-1)).toEqual({ mode: 'local', cells: ['–', '–', '–'] })

    await page.click('#measure')
    expect(await says('To keep it all moves')).toMatch(/ [\d,]+ times as much as “Instant” before the first answer\.$/)
    const rows = await cells()
    expect(rows.map(({ mode }) => mode)).toEqual(['instant', 'full', 'single', 'local'])
    const moved = rows.map(({ cells: [text] }) => Number(/^([\d.]+) kB$/.exec(text!)?.[1] ?? Number.NaN) * 1e3)
    const megabytes = rows.map(({ cells: [text] }) => Number(/^([\d.]+) MB$/.exec(text!)?.[1] ?? Number.NaN))
    const { estimate } = await import('@keyhush/client')
    const { modes: ofTwo, directoryBytes } = await estimate([`${demo.servers.A}/keys`, `${demo.servers.B}/keys`])
    const modes = { ...(await estimate([`${demo.servers.A}/keys`])).modes, ...ofTwo }
    // The manifests of both servers are added.
    const least = (mode: keyof typeof modes) =>
      (mode === 'instant' ? 0 : directoryBytes) + modes[mode]!.prepareBytes + modes[mode]!.lookupBytesDown
    expect(moved[0]).toBeGreaterThan(least('instant'))
    expect(moved[0]).toBeLessThan(least('instant') + 20_000)
    for (const [i, mode] of [
      [1, 'full'],
      [2, 'single'],
      [3, 'local'],
    ] as const) {
      expect(Math.abs(megabytes[i]! - least(mode) / 1e6)).toBeLessThan(0.1)
    }
    for (const { cells } of rows) for (const text of cells.slice(1)) expect(text).toMatch(/^[\d.]+ m?s$/)
    expect(await page.$('#measure-stop[hidden]')).not.toBeNull()
  })

  test('what the servers saw is drawn', async () => {
    expect((await page.$$('#seen > li')).length).toBeGreaterThan(0)
    const ofBoth = seenBy('A').filter(({ of }) => of !== 'stripes') // the rest was for A alone
    expect(ofBoth).toHaveLength(seenBy('B').length)
  })

  test('axe finds nothing, and nothing is wider than the screen: on phone and desktop, light and dark', async () => {
    await page.evaluate(axe.source)
    for (const width of [390, 1440]) {
      await page.setViewport({ width, height: 850 })
      for (const value of THOROUGH ? ['light', 'dark'] : [width === 390 ? 'dark' : 'light']) {
        if (name === 'firefox' && value === 'dark') continue // its driver cannot ask for it
        if (name === 'chromium') await page.emulateMediaFeatures([{ name: 'prefers-color-scheme', value }])
        for (const tab of ['keys', 'passwords', 'phishing'] as const) {
          if (!THOROUGH && (width === 390) !== (tab === 'keys')) continue
          await page.click(`#${tab}-tab`)
          const panel = new Panel(page, tab)
          await panel.ready()
          await panel.ask('wikipedia.org')
          await page.waitForSelector(`#${tab}:not([aria-busy=true]) .learnt:not([hidden])`)
          const { violations } = await page.evaluate(() => (window as unknown as { axe: typeof axe }).axe.run())
          const found = violations.map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html).join(' ')}`)
          expect(found, `${width} px, ${value}, ${tab}`).toEqual([])
          expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBeLessThanOrEqual(width)
        }
      }
    }
  })

  test('with one server chosen server A alone answers, and its lie is caught; then both answer again', async () => {
    const choose = async (asked: 'one' | 'two', mode: string) => {
      await page.click(`#asked input[value=${asked}]`)
      const shown = (mode: string) => document.querySelector('#phishing .mode-title')?.textContent === mode
      await page.waitForFunction(shown, { polling: 'mutation' }, mode)
      await phishing().ready()
    }
    await choose('one', 'One server')
    const { length } = demo.proxies.B.seen
    const listed = phishingDomains()[0]!
    expect(await phishing().ask(listed)).toMatchObject({ kind: 'alarm', text: expect.stringContaining(listed) })
    expect(await phishing().ask('wikipedia.org')).toMatchObject({ kind: 'absent' })
    expect(demo.proxies.A.seen.at(-1)).toMatchObject({ database: 'phishing', of: 'stripes', claimed: true })
    await page.waitForSelector('#phishing:not([aria-busy=true])')
    expect(await page.$$('#seen > li:first-child figure.a')).toHaveLength(1)
    expect(await page.$$('#seen > li:first-child figure.b')).toHaveLength(0)
    await makeLie('A')
    expect(await phishing().ask('wikipedia.org')).toMatchObject({
      kind: 'caught',
      text: expect.stringContaining('Server A lied, and was caught'),
    })
    await makeLie('')
    await phishing().startAfresh()
    expect(await phishing().ask('wikipedia.org')).toMatchObject({ kind: 'absent' })
    expect(demo.proxies.B.seen).toHaveLength(length)
    await choose('two', 'Full hint')
    expect(await phishing().ask('wikipedia.org')).toMatchObject({ kind: 'absent' })
    expect(demo.proxies.B.seen.at(-1)).toMatchObject({ database: 'phishing', of: 'offsets' })
  })

  test('the chosen kind of proof checks answers, catches a lie, and its cost is shown', async () => {
    const shown = () => page.$eval('#proving', section => section.checkVisibility())
    expect(await shown()).toBe(false)
    await (await page.waitForSelector('#passwords-tab'))!.click()
    expect(await shown()).toBe(true)
    const passwords = new Panel(page, 'passwords')
    await passwords.ready()
    const { estimate } = await import('@keyhush/client')
    const servers = [`${demo.servers.A}/passwords`, `${demo.servers.B}/passwords`] as const
    for (const [i, proofs] of (['merkle', 'tags'] as const).entries()) {
      if (i > 0) {
        const before = demo.proxies.B.seen.length
        await page.click(`#proving [value=${proofs}]`)
        // The previous map is closed, and the page shows nothing of it.
        await page.waitForSelector('#passwords .search button:disabled')
        await passwords.ready()
        expect(demo.proxies.B.seen).toHaveLength(before)
      }
      expect(await passwords.ask(leakedPasswords()[7]!)).toMatchObject({ kind: 'alarm' })
      expect(await passwords.ask('correct horse battery')).toMatchObject({ kind: 'absent' })
      await page.waitForSelector('#passwords:not([aria-busy=true])')
      const row = `#proving tr[data-proofs=${proofs}] td`
      const cells = await page.$$eval(row, cells => cells.map(cell => cell.textContent))
      const { modes } = await estimate(servers, { proofs })
      const { lookupBytesDown } = modes['full']!
      expect(cells[0]).toBe(
        lookupBytesDown < 1000 ? `${lookupBytesDown} B` : `${(lookupBytesDown / 1000).toFixed(1)} kB`,
      )
      await makeLie('B')
      expect(await passwords.ask('correct horse battery')).toMatchObject({
        kind: 'caught',
        text: expect.stringContaining('Server B lied, and was caught'),
      })
      await makeLie('')
      await passwords.startAfresh()
    }
    await (await page.waitForSelector('#phishing-tab'))!.click()
  })

  test.each(['A', 'B'] as const)(
    'a lie of server %s is caught, and lookups work again after starting afresh',
    async liar => {
      await makeLie(liar)
      expect(await phishing().ask('wikipedia.org')).toMatchObject({
        kind: 'caught',
        text: expect.stringContaining(`Server ${liar} lied, and was caught`),
      })
      await page.waitForSelector('#phishing:not([aria-busy=true])')
      const kept = ['.costs', '.clock'].map(part => `#phishing ${part}`)
      for (const part of kept) expect(await page.$eval(part, shown => shown.checkVisibility()), part).toBe(false) // of the lookup before
      await makeLie('')
      expect(await phishing().ask('wikipedia.org')).toMatchObject({ kind: 'caught' }) // condemned
      await page.reload()
      await phishing().ready()
      const said = await page.$eval('#phishing .verdict[data-kind=caught]', verdict => verdict.textContent)
      expect(said).toContain(`Server ${liar} had lied.`)
      await phishing().startAfresh()
      expect(await phishing().ask('wikipedia.org')).toMatchObject({ kind: 'absent' })
    },
  )

  // In a page of its own: browsers log an error for a reply that ends half-way.
  test('no wrong value is shown for an answer of zeros, nor for one that ends half-way', async () => {
    const context = await browser.createBrowserContext()
    const visitor = await context.newPage()
    await visitor.goto(demo.url)
    const panel = new Panel(visitor, 'phishing')
    await panel.ready()
    const make = async (lie: string, server: string, said: string) => {
      await visitor.select('#liar [name=lie]', lie)
      await (await visitor.waitForSelector(`#liar input[value="${server}"]`))!.click()
      await visitor.waitForFunction(said => document.querySelector('#liar-note')?.textContent === said, {}, said)
    }
    await make('zeros', 'B', 'Server B lies from now on. Look something up.')
    expect(await panel.ask('wikipedia.org')).toMatchObject({
      kind: 'caught',
      text: expect.stringContaining('Server B lied, and was caught'),
    })
    await make('byte', '', '')
    await panel.startAfresh()
    await make('half', 'A', 'Server A breaks off from now on. Look something up.')
    const nothing = { kind: 'error', text: expect.stringContaining('No answer') }
    expect(await panel.ask('wikipedia.org')).toMatchObject(nothing)
    await make('byte', '', '')
    expect(await panel.ask('wikipedia.org')).toMatchObject({ kind: 'absent' }) // nothing is lost
    await context.close()
    await page.bringToFront()
  })

  test('every open page learns of a published epoch, and the epoch is signed', async () => {
    const publish = async (op: 'add' | 'delete', domain: string) => {
      const input = (await page.$('#publish [name=domain]'))!
      await input.evaluate(element => (element as HTMLInputElement).select())
      await input.type(domain)
      await page.click(`#publish [value=${op}]`)
      await page.click('#publish button')
      const outcome = await page.waitForSelector('#publish-outcome[data-kind]:not([data-kind=none])')
      return outcome!.evaluate(shown => ({ kind: shown.getAttribute('data-kind')!, text: shown.textContent ?? '' }))
    }
    const epochNow = async () =>
      Number((await page.$eval('#phishing .epoch', e => e.textContent!)).replace('Version ', ''))
    const domain = `${name}.publishing.example`
    const other = await browser.newPage()
    const complaintsOfOther = await complaintsOf(other)
    await other.goto(demo.url)
    await new Panel(other, 'phishing').ready()
    await page.bringToFront()
    const epoch = await epochNow()
    expect(await phishing().ask(`www.${domain}`)).toMatchObject({ kind: 'absent' })
    const both = [phishing(), new Panel(other, 'phishing')]
    const seen = demo.proxies.A.seen.length

    expect(await publish('add', domain)).toMatchObject({
      kind: 'found',
      text: expect.stringContaining(`Published as version ${epoch + 1}`),
    })
    for (const panel of both) expect(await panel.newsOf(epoch + 1)).toContain(`${domain} was added`)
    const again = (await page.waitForSelector('#phishing .again button'))!
    expect(demo.proxies.A.seen).toHaveLength(seen) // nobody looked again by itself
    expect(await other.$('#phishing .again button')).toBeNull() // nothing was looked up there
    await again.click()
    await page.waitForSelector('#phishing:not([aria-busy=true]) .verdict[data-kind=alarm]')

    const listed = phishingDomains()[0]!
    const refused = (reason: string) => ({ kind: 'error', text: expect.stringContaining(reason) })
    expect(await publish('add', domain)).toMatchObject(refused(`version ${epoch + 1} has done already`))
    expect(await publish('add', listed)).toMatchObject(refused('Server A and server B: the key exists already.'))
    expect(await publish('delete', 'nobody.example')).toMatchObject(refused('there is no such record'))
    expect(await publish('delete', 'two words')).toMatchObject(refused('There is no domain in this.'))
    expect(await epochNow()).toBe(epoch + 1)

    expect(await publish('delete', domain)).toMatchObject({ kind: 'found' })
    for (const panel of both) expect(await panel.newsOf(epoch + 2)).toContain(`${domain} was removed`)
    expect(await phishing().ask(domain)).toMatchObject({ kind: 'absent' })
    expect(await complaintsOfOther.all()).toEqual([])
    await other.close()
  })

  test('the calculator shows the costs that the core computes for what is typed', async () => {
    const type = async (name: string, text: string) => {
      const input = (await page.$(`#plan [name=${name}]`))!
      await input.evaluate(element => (element as HTMLInputElement).select())
      await input.type(text)
    }
    const shown = () =>
      page.$eval('#plan-costs', table => ({
        recommended: table.querySelector('th.recommended')?.textContent,
        rows: [...table.querySelectorAll('tbody tr')].map(row => [...row.children].map(cell => cell.textContent)),
      }))
    const says = (text: string) =>
      page.waitForFunction(text => document.querySelector('#plan-verdict')?.textContent?.includes(text), {}, text)

    await page.click('#plan [name=keyed]')
    await type('valueBytes', '32')
    await type('lookupsPerDay', '100')
    await type('records', '1048576')
    await says('1,048,576 records of 32 bytes, in 16 partitions of 65,536.')
    const { modes } = (await loadCore()).plan({ records: 1_048_576, valueBytes: 32, lookupsPerDay: 100 })
    const costsOf = (wanted: string, kind?: string) =>
      modes.find(({ mode, proofs }) => mode === wanted && (kind === undefined || proofs === kind))!
    const [local, instant, single] = [costsOf('local'), costsOf('instant'), costsOf('single')]
    const full = costsOf('full', 'tags')
    const { recommended, rows } = await shown()
    expect(recommended).toBe('Full hint')
    const kB = (bytes: number) => `${(bytes / 1000).toFixed(1)} kB`
    const lookup = (costs: ModeCosts) => kB(costs.lookupBytesUp + costs.lookupBytesDown)
    expect(local.lookupBytesUp + local.lookupBytesDown).toBe(0)
    expect(rows).toContainEqual(['A lookup', lookup(instant), lookup(full), lookup(single), '–'])
    const times = Math.ceil((local.firstBytes - instant.firstBytes) / (instant.lookupBytesUp + instant.lookupBytesDown))
    await says(`as much as ${times.toLocaleString('en')} instant lookups.`)

    await type('lookupsPerDay', '1')
    await says('look up instantly')
    expect((await shown()).recommended).toBe('Instant')
    await type('records', '1000')
    await says('keep it all')
    expect((await shown()).recommended).toBe('Keep it all')
    await type('records', '0')
    await says('There can be no such database')
    expect(await page.$('#plan-costs[hidden]')).not.toBeNull()
  })

  test('the browser’s console has no errors', async () => {
    expect(await complaints.all()).toEqual([])
  })
})
