// The page *Check a password*: what it says, what servers and evaluators are sent, what is on a server's disk, and that the password stays
// in its field.

import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { loadCore } from '@keyhush/wasm'
import axe from 'axe-core'
import type { Page } from 'puppeteer-core'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { breachedPasswords, type Demo, startDemo } from '../../demo/build/node/start.js'
import { needs } from '../support/needs.js'
import { counting, fill, go, PHONE, visiting } from './demo-visits.js'

/** In the list, and not among the page's examples. */
const LISTED = 'trustno1'
const UNLISTED = 'a-sentence-that-nobody-has-breached'
const FIELD = '#breached [name=password]'
/** Of an evaluation, of the list's directory and of the record. */
const REQUESTS = 3

let demo: Demo
beforeAll(async () => {
  demo = await startDemo({ port: 0 })
})
afterAll(() => demo.close())

/** Types a password, and submits the form. */
async function signUp(page: Page, password: string) {
  const input = await fill(page, FIELD, password)
  await page.$eval('#breached .result', result => result.replaceChildren())
  await input.press('Enter')
  const answer = await page.waitForSelector('#breached .result[aria-busy=false] .answer')
  return await answer!.evaluate(shown => ({ kind: shown.getAttribute('data-kind'), text: shown.textContent }))
}

/** Bodies that an operator's server and evaluator were sent last. */
const sentTo = (operator: 'A' | 'B') => demo.proxies[operator].seen.slice(-REQUESTS).map(({ body }) => body)

await visiting({ browsers: ['chromium', 'firefox'], demo: () => demo }, ({ name, complaints, asStranger }) => {
  test('a listed password is refused with its place, another is not; what is sent has the same lengths and no password', () =>
    asStranger(async visitor => {
      await visitor.setViewport(PHONE)
      await go(visitor, demo.url, 'breached')
      const asked = (['A', 'B', 'C'] as const).map(server => counting(demo, server))
      await fill(visitor, FIELD, LISTED)
      expect(asked.map(count => count())).toEqual([0, 0, 0]) // not on a key press

      const place = breachedPasswords().indexOf(LISTED) + 1
      expect(await signUp(visitor, LISTED)).toEqual({
        kind: 'alarm',
        text: expect.stringContaining(`It is number ${place} of the 10,000 most common passwords`),
      })
      await visitor.waitForSelector('#breached-shown:not([hidden])') // it has asked for another by then
      expect(asked.map(count => count())).toEqual([2 * REQUESTS, 2 * REQUESTS, 0])

      const transcripts: Buffer[][][] = []
      for (const [password, kind] of [
        [LISTED, 'alarm'],
        [UNLISTED, 'absent'],
      ] as const) {
        expect(await signUp(visitor, password)).toMatchObject({ kind })
        transcripts.push([sentTo('A'), sentTo('B')])
      }
      const lengths = transcripts.map(both => both.map(bodies => bodies.map(({ length }) => length)))
      expect(lengths[1]).toEqual(lengths[0])
      expect(lengths[0]![0]).toEqual(lengths[0]![1])
      const { fingerprint } = await loadCore()
      for (const password of [LISTED, UNLISTED]) {
        const [text, hash] = [Buffer.from(password), Buffer.from(fingerprint(Buffer.from(password)))]
        for (const body of transcripts.flat(2))
          expect([body.includes(text), body.includes(hash)]).toEqual([false, false])
      }
      const held = await visitor.$$eval('#breached-checks li', lines => lines.map(line => line.dataset['holds']))
      expect(held).toEqual(Array(6).fill('true'))
      expect(await visitor.$eval('#breached-side .same', ({ textContent }) => textContent)).toContain('the same')

      await visitor.evaluate(axe.source)
      const { violations } = await visitor.evaluate(() => (window as unknown as { axe: typeof axe }).axe.run())
      expect(violations.map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html).join(' ')}`)).toEqual([])
      const wide = await visitor.evaluate(() => document.documentElement.scrollWidth)
      expect(wide).toBeLessThanOrEqual(PHONE.width)
    }))

  test('the password is in no text, address, store or message of the page', () =>
    asStranger(async visitor => {
      const said: string[] = []
      visitor.on('console', message => said.push(message.text()))
      visitor.on('request', request => said.push(request.url()))
      await go(visitor, demo.url, 'breached')
      for (const password of [LISTED, UNLISTED]) await signUp(visitor, password)
      await visitor.waitForSelector('#breached-shown:not([hidden])')
      const kept = await visitor.evaluate(async () => {
        const texts = [document.documentElement.outerHTML, location.href, document.cookie, document.title]
        for (const store of [localStorage, sessionStorage]) texts.push(JSON.stringify({ ...store }))
        for (const { name } of await indexedDB.databases()) {
          const ended = <T>(request: IDBRequest<T>) =>
            new Promise<T>((resolve, reject) => {
              request.onsuccess = () => resolve(request.result)
              request.onerror = () => reject(request.error)
            })
          const database = await ended(indexedDB.open(name!))
          for (const store of database.objectStoreNames) {
            const records = database.transaction(store).objectStore(store)
            const all = [...(await ended(records.getAllKeys())), ...(await ended(records.getAll()))]
            texts.push(all.map(each => (ArrayBuffer.isView(each) ? String(each) : JSON.stringify(each))).join())
          }
          database.close()
        }
        return texts
      })
      expect(said.length).toBeGreaterThan(10)
      for (const text of [...said, ...kept]) {
        for (const password of [LISTED, UNLISTED]) {
          expect(text).not.toContain(password)
          expect(text).not.toContain(Buffer.from(password).join()) // as a store has bytes
        }
      }
      const [autocomplete, type] = await visitor.$eval(FIELD, input =>
        ['autocomplete', 'type'].map(of => input.getAttribute(of)),
      )
      expect([autocomplete, type]).toEqual(['new-password', 'password'])
    }))

  test('the rows that are shown stand in the files; the disk of a server has no password and no hash of one', () =>
    asStranger(async visitor => {
      await go(visitor, demo.url, 'breached')
      const holds = (at: string) => visitor.$eval(`${at} [data-holds]`, line => (line as HTMLElement).dataset['holds'])
      expect([await holds('#breached-plain'), await holds('#breached-sealed')]).toEqual(['false', 'true'])
      const store = demo.breachedStore()!
      const files = (await readdir(store, { recursive: true, withFileTypes: true })).filter(entry => entry.isFile())
      const disk = Buffer.concat(
        await Promise.all(files.map(({ parentPath, name }) => readFile(join(parentPath, name)))),
      )
      const shown = await visitor.$$eval('#breached-sealed code', cells => cells.map(({ textContent }) => textContent!))
      expect(shown.length).toBe(3)
      for (const hex of shown) expect(disk.includes(Buffer.from(hex.replaceAll(' ', ''), 'hex'))).toBe(true)
      const { fingerprint } = await loadCore()
      for (const password of breachedPasswords()) {
        const text = Buffer.from(password)
        expect(disk.includes(Buffer.from(fingerprint(text))), password).toBe(false)
        // Words, and digits of a hash, stand in files of their own accord.
        if (/^(?=.*\d)(?=.*[g-z]).{8}/.test(password)) expect(disk.includes(text), password).toBe(false)
      }
    }))

  const offline = needs(name === 'chromium', 'a driver that takes a page offline')
  test('offline it says so, shows nothing as sent, and tries again', offline, () =>
    asStranger(async visitor => {
      await go(visitor, demo.url, 'breached')
      await visitor.setOfflineMode(true)
      expect(await signUp(visitor, LISTED)).toMatchObject({
        kind: 'error',
        text: expect.stringContaining('You are offline'),
      })
      expect(await visitor.$$('#breached .noise')).toHaveLength(0)
      await visitor.setOfflineMode(false)
      await visitor.$$eval('#breached .answer button', ([again]) => again!.click())
      await visitor.waitForSelector('#breached .answer[data-kind=alarm]')
    }),
  )

  test('the browser’s console has no errors', async () => {
    expect(await complaints()).toEqual([])
  })
})
