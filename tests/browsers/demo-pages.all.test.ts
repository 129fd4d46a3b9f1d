// The demo's other pages in a real browser, and the page as files. `npm run test:all` has them in Firefox too.

import { join } from 'node:path'
import { estimate } from '@keyhush/client'
import { loadCore, oneServerPlan } from '@keyhush/wasm'
import axe from 'axe-core'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type Demo, exportPage, phishingDomains, startDemo } from '../../demo/build/node/start.js'
import { temporaryFolder } from '../support/servers.js'
import { sampled, THOROUGH } from '../support/thorough.js'
import { thoroughly } from '../support/thoroughly.js'
import { complaintsOf, serveFiles } from '../support/web.js'
import { ask, counting, DESKTOP, fill, go, PAGES, PHONE, press, seenBy, visiting } from './demo-visits.js'

/** Instead of 4.5 million names. */
const PACKAGES = Array.from({ length: 500 }, (_, i) => `package-${i}`)

let demo: Demo
let large: Demo
beforeAll(async () => {
  demo = await startDemo({ port: 0 })
  large = await startDemo({ port: 0, large: ['left-pad', 'react', ...PACKAGES] })
})
afterAll(async () => {
  await demo.close()
  await large.close()
})

await visiting({ browsers: ['chromium', 'firefox'], demo: () => demo }, ({ name, page, complaints, asStranger }) => {
  test('links show one page at a time, with its title in focus; going back shows the one before', async () => {
    await go(page(), demo.url, '')
    const shown = () =>
      page().evaluate(() => ({
        titles: [...document.querySelectorAll('h1')].filter(title => title.checkVisibility()).map(h => h.textContent),
        focused: document.activeElement?.textContent,
        current: [...document.querySelectorAll('[aria-current]')].map(({ textContent }) => textContent),
      }))
    for (const title of ['See what is sent', 'What it costs', 'Key directory', 'A first visit', 'Add a domain']) {
      await page().$$eval('nav a', (links, title) => links.find(a => a.textContent === title)!.click(), title)
      await page().waitForFunction(title => document.title === `${title} – Keyhush`, {}, title)
      expect(await shown()).toEqual({ titles: [title], focused: title, current: [title] })
    }
    await page().goBack()
    await page().waitForFunction(() => document.title === 'A first visit – Keyhush')
  })

  test('what only other pages need is not loaded on the first', () =>
    asStranger(async visitor => {
      const loaded = () =>
        visitor.evaluate(() => performance.getEntriesByType('resource').map(({ name }) => name.split('/').at(-1)!))
      await go(visitor, demo.url, '')
      await ask(visitor, 'wikipedia.org')
      expect(
        (await loaded()).filter(file => /calculator|explorer|publishing|first-visit|sign-up|confidential/.test(file)),
      ).toEqual([])
      await go(visitor, demo.url, 'cost')
      expect((await loaded()).filter(file => /calculator/.test(file))).toHaveLength(1)
    }))

  test('a taken name and a free name look the same to both servers, and the page shows it', () =>
    asStranger(async visitor => {
      await go(visitor, large.url, '')
      expect(await ask(visitor, 'left-pad')).toMatchObject({ kind: 'found', text: expect.stringContaining('Taken') })
      expect(await ask(visitor, 'my-idea')).toMatchObject({
        kind: 'absent',
        text: expect.stringContaining('Still free'),
      })
      for (const server of ['A', 'B'] as const) {
        const shapes = large.proxies[server].seen.slice(-4).map(({ database, body }) => `${database} ${body.length}`)
        expect(shapes.slice(2)).toEqual(shapes.slice(0, 2))
        expect(shapes[0]).toMatch(/^names /)
      }
      const asked = counting(large, 'A')
      await visitor.$$eval('nav a', links => links.find(a => a.hash === '#/wire')!.click())
      await visitor.waitForSelector('#wire-shown:not([hidden])')
      expect(asked()).toBe(0) // the visitor's own lookups are shown
      const heads = await visitor.$$eval('#side-by-side thead th', cells => cells.map(cell => cell.textContent))
      expect(heads).toEqual(['Found: left-pad', 'Not there: my-idea'])
      const held = await visitor.$$eval('#checks li', lines => lines.map(line => line.dataset['holds']))
      expect(held).toEqual(Array(6).fill('true'))
      const compared = await visitor.$$eval('#side-by-side td[data-equal]', cells =>
        cells.map(cell => cell.textContent),
      )
      const [found, absent] = [0, 1].map(column => compared.filter((_, i) => i % 2 === column))
      expect(found).toEqual(absent)
      expect(found).toHaveLength(8)
      expect(await visitor.$$('#requests table')).toHaveLength(8)
    }))

  test('the wire has an example that has run, where nothing was looked up yet', () =>
    asStranger(async visitor => {
      await go(visitor, demo.url, 'wire')
      const held = await visitor.$$eval('#checks li', lines => lines.map(line => line.dataset['holds']))
      expect(held).toEqual(Array(6).fill('true'))
      const sent = seenBy(demo, 'A', 2)
      const shown = await visitor.$$eval('#requests .a summary', all => all.map(({ textContent }) => textContent!))
      const bytes = shown.filter(text => text.endsWith('sent')).map(text => Number.parseInt(text.replace(',', ''), 10))
      expect(bytes.reduce((sum, n) => sum + n, 0)).toBe(sent.length)
    }))

  thoroughly('one server alone: a lookup has the same lengths whatever is asked, and a lie is caught', () =>
    asStranger(async visitor => {
      const asked = (['A', 'B', 'C'] as const).map(server => counting(demo, server))
      await go(visitor, demo.url, 'one')
      expect(asked.map(count => count())).toEqual([4, 0, 0]) // two lookups: of the directory, then of the record
      const sent = demo.proxies.A.seen.slice(-4)
      expect(sent.map(({ database }) => database)).toEqual(Array(4).fill('alone'))
      expect(Buffer.concat(sent.map(({ body }) => body)).includes('metemask')).toBe(false)

      const { modes } = await estimate([`${demo.proxies.A.url}/alone`], { experimental: true })
      const { lookupBytesUp, lookupBytesDown } = modes.instant!
      const panels = await visitor.$$eval('#one figcaption', all => all.map(({ textContent }) => textContent))
      expect(panels).toEqual([
        `Server A saw this ${lookupBytesUp.toLocaleString('en')} bytes`,
        `Server A replied this ${lookupBytesDown.toLocaleString('en')} bytes`,
      ])
      const kB = (bytes: number) => `${(bytes / 1000).toFixed(bytes < 100_000 ? 1 : 0)} kB`
      const costs = await visitor.$$eval('.costs td', cells => cells.map(({ textContent }) => textContent))
      expect(costs.slice(3)).toEqual([kB(lookupBytesUp + lookupBytesDown), kB(modes.local!.firstBytes), 'nothing'])

      const lengths = () =>
        visitor.$$eval('#one-side :is(thead th, tbody td)', cells => cells.map(({ textContent }) => textContent!))
      const before = await lengths()
      expect(before.slice(0, 2)).toEqual(['Found: metemask.today', 'Not there: wikipedia.org'])
      const answer = async (selector: string) => {
        const card = await visitor.waitForSelector(`#one .result[aria-busy=false] .answer${selector}`)
        return await card!.evaluate(({ textContent }) => textContent)
      }
      await (await fill(visitor, '#one input', 'no-such-domain.example')).press('Enter')
      expect(await answer('[data-kind=absent]')).toContain('no-such-domain.example itself is not listed.')
      const after = await lengths()
      expect([after[1], ...after.slice(2)]).toEqual(['Not there: no-such-domain.example', ...before.slice(2)])

      for (let i = 0; i < 5; i += 1) {
        await visitor.$eval('#one .answer button', lie => (lie as HTMLButtonElement).click())
        const caught = await answer('[data-kind=caught]')
        expect(caught).toContain('Server A lied. The answer was refused.The demo changed one bit of server A’s reply.')
        expect(caught).toContain('TamperedError')
        expect(demo.proxies.A.lies).toBe(false)
        await visitor.$eval('#one .answer button', again => (again as HTMLButtonElement).click())
        await answer('[data-kind=absent]')
      }
      const review = await visitor.$eval('#one a[href*=review]', link => (link as HTMLAnchorElement).href)
      expect(await (await fetch(review)).text()).toContain('Nobody outside has reviewed this scheme.')
    }),
  )

  test('without WebAssembly, one server does not answer, and the page says what does', () =>
    asStranger(async visitor => {
      await visitor.evaluateOnNewDocument('delete globalThis.WebAssembly')
      await visitor.goto(`${demo.url}/#/one`)
      const card = await visitor.waitForSelector('#one .answer')
      expect(await card!.evaluate(({ textContent }) => textContent)).toBe(
        "No answerexpected WebAssembly with SIMD, got none; update the platform, or use 'instant' with two servers.",
      )
      await go(visitor, demo.url, '')
      expect(await ask(visitor, 'wikipedia.org')).toMatchObject({ kind: 'absent' })
    }))

  test('of three servers, any two learn nothing from what both were sent; all three learn the place', async () => {
    const asked = (['A', 'B', 'C'] as const).map(server => counting(demo, server))
    await page().goto(demo.url) // a hash alone would not begin anew
    await go(page(), demo.url, 'three')
    expect(asked.map(count => count())).toEqual([2, 2, 2]) // the directory, then the record
    expect(await page().$eval('#three-said', said => said.textContent)).toBe('On the phishing list: metemask.today')
    const pooled = async (who: number) => {
      await page().$eval('#pooled', pooled => pooled.replaceChildren())
      await page().$$eval('#pools button', (buttons, who) => buttons[who]!.click(), who)
      await page().waitForSelector('#pooled ul')
      const marks = await page().$$eval('#pooled li', lines => lines.map(line => line.textContent!.match(/[\d,]+/g)!))
      return marks.map(([marked, positions]) => [marked!, positions!].map(text => Number(text.replace(/,/g, ''))))
    }
    for (const pair of [0, 1, 2]) {
      for (const [marked, positions] of await pooled(pair)) {
        expect(Math.abs(marked! / positions! - 0.5)).toBeLessThan(0.25)
      }
    }
    expect((await pooled(3)).map(([marked]) => marked)).toEqual([1, 1])
  })

  test('an open page hears of a published change, and looks up only on request', () =>
    asStranger(async other => {
      const complaintsOfOther = await complaintsOf(other)
      await page().bringToFront()
      await go(page(), demo.url, 'add')
      await other.bringToFront()
      await go(other, demo.url, 'add')
      expect(await other.$eval('#looked', ({ textContent }) => textContent)).toMatch(/: (not )?on the phishing list\.$/)
      const domain = `${name}.publishing.example`
      const publish = async (op: 'add' | 'delete', domain: string) => {
        await fill(other, '#add [name=domain]', domain)
        await other.click(`#add [value=${op}]`)
        await other.waitForSelector('#add [value=add]:not([disabled])')
        return (await other.$eval('#published', ({ textContent }) => textContent))!
      }
      // In Firefox a page has the news only once it is in front.
      const hear = async (news: string) => {
        for (const where of [page(), other]) {
          await where.bringToFront()
          await where.waitForFunction(
            news => document.querySelector('#news li')?.textContent?.endsWith(news),
            { polling: 'mutation' },
            news,
          )
        }
      }
      const look = async () => {
        await other.$eval('#looked', shown => shown.replaceChildren())
        await other.click('#look')
        const said = await other.waitForSelector('#looked:not(:empty)')
        return await said!.evaluate(({ textContent }) => textContent)
      }
      expect(await publish('add', domain)).toMatch(
        /^Published as version \d+: .* was added\. Both servers have it, signed\.$/,
      )
      const asked = counting(demo, 'A')
      await hear(`${domain} was added.`)
      expect(asked()).toBe(0)
      expect(await look()).toBe(`${domain}: on the phishing list.`)
      expect(await publish('add', phishingDomains()[0]!)).toContain('the key exists already')
      expect(await publish('delete', 'nobody.example')).toContain('there is no such record')
      expect(await publish('delete', 'two words')).toContain('there is no domain in this')
      expect(await publish('delete', domain)).toMatch(/was removed/)
      await hear(`${domain} was removed.`)
      await other.$eval('#add [name=domain]', (input, domain) => Object.assign(input, { value: domain }), domain)
      expect(await look()).toBe(`${domain}: not on the phishing list.`)
      expect(await complaintsOfOther.all()).toEqual([])
    }))

  test('the owner of a key hears that it was replaced, and put back, also between visits; no server is asked', () =>
    asStranger(async visitor => {
      await visitor.setViewport(PHONE)
      await go(visitor, demo.url, 'keys')
      const asked = counting(demo, 'A')
      const heard = () => visitor.$$eval('#owner-news li', all => all.map(({ textContent }) => textContent!))
      const publish = async (button: '#replace' | '#restore') => {
        await visitor.click(button)
        await visitor.waitForSelector('#replace:not([disabled])')
        expect(await visitor.$eval('#replaced', ({ textContent }) => textContent)).toMatch(/^Published as version/)
      }
      const hears = (count: number) =>
        visitor.waitForFunction(count => document.querySelectorAll('#owner-news li').length === count, {}, count)
      const replaced = /^Version \d+: your key was replaced by [\da-f ]{14}\.$/
      const back = /^Version \d+: your own key is there again\.$/
      await publish('#replace')
      await hears(1)
      expect(await visitor.$eval('#owner-key', now => now.getAttribute('data-own'))).toBe('false')
      await publish('#restore')
      await hears(2)
      expect(await heard()).toEqual([expect.stringMatching(back), expect.stringMatching(replaced)])
      expect(await visitor.$eval('#owner-key', now => now.getAttribute('data-own'))).toBe('true')
      await visitor.waitForFunction(() => document.querySelector('#owner-checked')?.textContent?.startsWith('Checked'))
      await visitor.click('#leave')
      await visitor.waitForFunction(() => document.querySelector('#owner-key')?.textContent === 'The page is closed.')
      for (const button of ['#replace', '#restore'] as const) await publish(button)
      expect(await heard()).toEqual([])
      expect(asked()).toBe(0)
      await visitor.click('#leave')
      await hears(2)
      expect(await heard()).toEqual([expect.stringMatching(back), expect.stringMatching(replaced)])
      for (const button of ['#replace', '#restore'] as const) await publish(button)
      await hears(4)
      await visitor.goto('about:blank')
      await go(visitor, demo.url, 'keys')
      expect(await heard()).toEqual([])
      expect(asked()).toBe(4) // one lookup a visit, of the directory and of the record
    }))

  test('the calculator shows what the core computes, for three lists and for what is typed', async () => {
    await go(page(), demo.url, 'cost')
    const shown = () =>
      page().$eval('#cost table', table => ({
        recommended: table.querySelector('.recommended th')?.textContent,
        rows: [...table.querySelectorAll('tbody tr')].map(row => [...row.children].map(cell => cell.textContent)),
      }))
    const says = (text: string) =>
      page().waitForFunction(text => document.querySelector('#plan-verdict')?.textContent?.includes(text), {}, text)
    const type = (name: string, text: string) => fill(page(), `#cost [name=${name}]`, text)
    await says('4,500,000 records')
    expect((await shown()).recommended).toBe('Instant')
    const lists = await page().$$('#cost .examples button')
    expect(lists).toHaveLength(3)
    await lists[1]!.click()
    await says('7,000,000 records')
    await lists[2]!.click()
    await says('download the list') // small
    expect((await shown()).recommended).toBe('Keep it all')

    await page().click('#cost [name=keyed]')
    await type('valueBytes', '32')
    await type('lookupsPerDay', '100')
    await type('records', '1048576')
    await says('1,048,576 records of 32 bytes.')
    const core = await loadCore()
    const plan = core.plan({ records: 1_048_576, valueBytes: 32, lookupsPerDay: 100 })
    const { modes } = plan
    const instant = modes.find(({ mode }) => mode === 'instant')!
    const { recommended, rows } = await shown()
    expect(recommended).toBe('Full hint')
    const lookup = instant.lookupBytesUp + instant.lookupBytesDown
    expect(rows.find(([mode]) => mode === 'Instant')?.[3]).toBe(`${(lookup / 1000).toFixed(1)} kB`)
    expect(rows.find(([mode]) => mode === 'Keep it all')?.[3]).toBe('nothing')
    const [alone] = oneServerPlan(core, plan)
    const aloneBytes = alone!.lookupBytesUp + alone!.lookupBytesDown
    const ofOne = rows.find(([mode]) => mode === 'One server, instant: experimental')
    expect(ofOne?.[3]).toBe(`${(aloneBytes / 1000).toFixed(1)} kB`)
    await says(plan.reason)

    await type('records', '0')
    await says('There can be no such list')
    expect(await page().$('#cost table[hidden]')).not.toBeNull()
  })

  test('a first visit runs when its page is shown: four phases, and the bytes of each mode', () =>
    asStranger(async visitor => {
      const asked = counting(demo, 'A')
      await go(visitor, demo.url, 'visit')
      const phases = await visitor.$$eval('#phases li', all => all.map(({ textContent }) => textContent!))
      expect(phases).toHaveLength(4)
      for (const phase of phases) expect(phase).toMatch(/ [\d.]+ m?s, [\d.]+ k?B$/)
      expect(asked()).toBe(2)
      expect(demo.proxies.A.seen.slice(-2).map(({ database }) => database)).toEqual(['keys', 'keys'])
      const kB = (text: string) => Number(/([\d.]+) kB\.?$/.exec(text)![1])
      const total = await visitor.$eval('#visited', ({ textContent }) => textContent!)
      const added = phases.reduce((sum, phase) => sum + kB(phase), 0)
      expect(Math.abs(kB(total) - added)).toBeLessThan(0.3)
      const rows = await visitor.$$eval('#visit tbody tr', all =>
        all.map(row => [...row.children].map(c => c.textContent)),
      )
      expect(rows).toHaveLength(4)
      const { modes } = await estimate([`${demo.servers.A}/keys`, `${demo.servers.B}/keys`])
      const { firstBytes, lookupBytesUp, lookupBytesDown } = modes['local']!
      expect(rows.at(-1)![1]).toBe(`${((firstBytes + lookupBytesUp + lookupBytesDown) / 1e6).toFixed(1)} MB`)
    }))

  test('the page as static files, with servers on another origin, looks up, and offers only what works there', async () => {
    const folder = await temporaryFolder()
    const { publisherKey } = (await (await fetch(`${large.url}/config.json`)).json()) as { publisherKey: string }
    const out = join(folder.path, 'page')
    const servers = [large.servers.A, large.servers.B] as const
    expect(await exportPage({ servers, publisherKey, out })).toEqual(['phishing', 'keys', 'names'])
    await expect(exportPage({ servers, out })).rejects.toThrow('is not empty')
    await expect(exportPage({ servers: [large.url, large.url], out: `${out}2` })).rejects.toThrow('in common')
    await expect(exportPage({ servers: ['nowhere', large.url], out: `${out}2` })).rejects.toThrow('URL of a server')
    const site = await serveFiles(out)
    await asStranger(async elsewhere => {
      const complaintsOfElsewhere = await complaintsOf(elsewhere)
      await go(elsewhere, site.url, '')
      expect(await ask(elsewhere, 'left-pad')).toMatchObject({ kind: 'found' })
      const { kind, text } = await ask(elsewhere, 'my-idea')
      expect(kind).toBe('absent')
      expect(text).not.toContain('lie')
      const links = await elsewhere.$$eval('nav a', all => all.filter(a => a.checkVisibility()).map(({ hash }) => hash))
      expect(links).toEqual(['#/', '#/wire', '#/cost', '#/visit'])
      expect(await elsewhere.$eval('#local', shown => shown.checkVisibility())).toBe(false)
      for (const name of ['wire', 'visit'] as const) await go(elsewhere, site.url, name)
      expect(await complaintsOfElsewhere.all()).toEqual([])
    })
    await site.close()
    await folder.remove()
  })

  test('axe finds nothing, nothing is wider than the screen, and grey text has two sizes at most', () =>
    asStranger(async visitor => {
      for (const viewport of THOROUGH ? [PHONE, DESKTOP] : [PHONE]) {
        await visitor.setViewport(viewport)
        const phone = viewport === PHONE
        // Each page is seen in both colours: dark on phones, light on desktops. Firefox' driver cannot ask for dark.
        const value = phone && name === 'chromium' ? 'dark' : 'light'
        const features = [
          { name: 'prefers-color-scheme', value },
          { name: 'prefers-reduced-motion', value: 'reduce' },
        ]
        if (name === 'chromium') await visitor.emulateMediaFeatures(features)
        for (const shown of sampled([...PAGES, 'answered', 'refused'] as const)) {
          const where = `${viewport.width} px, ${value}, ${shown}`
          await visitor.goto('about:blank')
          await go(visitor, demo.url, shown === 'answered' || shown === 'refused' ? '' : shown)
          if (shown === 'answered' || shown === 'refused') await ask(visitor, 'wikipedia.org')
          if (shown === 'refused') await press(visitor, 'Make server B lie')
          await visitor.evaluate(axe.source)
          const { violations } = await visitor.evaluate(() => (window as unknown as { axe: typeof axe }).axe.run())
          const found = violations.map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html).join(' ')}`)
          expect(found, where).toEqual([])
          const wide = await visitor.evaluate(() => document.documentElement.scrollWidth)
          expect(wide, where).toBeLessThanOrEqual(viewport.width)
          const greys = await visitor.evaluate(() => {
            const probe = document.createElement('span')
            probe.style.color = 'var(--quiet)'
            document.body.append(probe)
            const grey = getComputedStyle(probe).color
            probe.remove()
            const all = [...document.querySelectorAll('body *')].filter(
              element => element.checkVisibility() && element.textContent && getComputedStyle(element).color === grey,
            )
            return [...new Set(all.map(element => getComputedStyle(element).fontSize))]
          })
          expect(greys.length, `${where}: ${greys}`).toBeLessThanOrEqual(2)
        }
      }
    }))

  test('the browser’s console has no errors', async () => {
    expect(await complaints()).toEqual([])
  })
})
