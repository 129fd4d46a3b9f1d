// The SDK in WebKit, where code of a page runs on after a reload: its promises settle, and its `window` has the functions of
// the new page.

import type { KeyhushMap } from '@keyhush/client'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { startDemo } from '../../demo/build/node/start.js'
import { launchWebKit, type WebKit } from '../../tools/webkit.mjs'
import { inBrowsers } from '../support/browsers.js'
import { type ServerPair, startPair } from '../support/servers.js'
import { thoroughly } from '../support/thoroughly.js'
import { type Site, startPage } from '../support/web.js'
import { expectToldOfPolicy } from './policy.js'

declare global {
  /** on the test's page */
  var kept: { readonly map: KeyhushMap; readonly seen: string[] } | undefined
}

const names = Array.from({ length: 300 }, (_, i) => `name ${i} é`)

let servers: ServerPair
let urls: [string, string]
let site: Site
let webkit: WebKit

await inBrowsers(['webkit'], 'in %s', () => {
  beforeAll(async () => {
    const lines = names.map(name => `${name},"hello, ${name}"\n`)
    servers = await startPair({ format: 'csv', content: `key,value\n${lines.join('')}` }, { living: true })
    urls = [...servers.urls]
    site = await startPage(urls)
    webkit = await launchWebKit()
    await webkit.goto(site.url)
  })
  afterAll(async () => {
    await webkit?.close()
    await site?.close()
    await servers?.close()
  })

  test.each(['full', 'local', 'instant'] as const)(
    'mode %s: present keys are found, absent keys are not',
    async mode => {
      const asked = [...names.slice(0, 10), 'nobody', 'NAME 1 é']
      const found = await webkit.evaluate(
        async (servers, mode, asked) => {
          await keyhush.discardState({ servers })
          const map = await keyhush.open({ servers, mode })
          const found: (string | null)[] = []
          for (const key of asked) found.push((await map.getText(key)) ?? null)
          found.push(
            ...(await map.getMany(asked, { padTo: 20 }))
              .map(value => value && new TextDecoder().decode(value))
              .map(value => value ?? null),
          )
          found.push(map.storage, map.mode ?? null)
          await map.close()
          return found
        },
        urls,
        mode,
        asked,
      )
      const expected = asked.map(key => (names.includes(key) ? `hello, ${key}` : null))
      expect(found).toEqual([...expected, ...expected, mode === 'instant' ? 'memory' : 'best-effort', mode])
    },
  )

  test('a page that is reloaded during lookups does not block the next page', async () => {
    for (let round = 0; round < 8; round++) {
      const found = await webkit.evaluate(
        async (servers, names) => {
          const map = await keyhush.open({ servers, mode: 'full', push: true })
          await map.reset() // which is told to all tabs
          const found = await map.getText(names[0]!)
          void Promise.allSettled(names.map(name => map.get(name))) // under way when the page goes
          return found
        },
        urls,
        names.slice(round, round + 20),
      )
      expect(found).toBe(`hello, ${names[round]}`)
      await webkit.reload()
    }
  })

  // Several rounds: where in its work a page is left differs.
  test('a page that is left does not follow epochs, and follows again when it is back', async () => {
    for (let epoch = 1; epoch <= 10; epoch++) {
      const open = async () =>
        await webkit.evaluate(async servers => {
          const seen: string[] = []
          const map = await keyhush.open({ servers, mode: 'full', onEvent: ({ type }) => void seen.push(type) })
          globalThis.kept = { map, seen }
          return map.epoch
        }, urls)
      expect(await open()).toBe(epoch)
      await webkit.goto(`${site.url}elsewhere`)
      await servers.publish([{ op: 'edit', key: 'name 1 é', value: `changed ${epoch}` }])
      await webkit.back()
      const isKept = await webkit.evaluate(() => globalThis.kept !== undefined)
      if (!isKept) await open()
      const now = await webkit.evaluate(async epoch => {
        const { map, seen } = globalThis.kept!
        while (map.epoch! <= epoch) await new Promise(resolve => setTimeout(resolve, 20))
        const value = await map.getText('name 1 é')
        await map.close()
        return [value, map.epoch, seen.includes('condemned')]
      }, epoch)
      expect(now).toEqual([`changed ${epoch}`, epoch + 1, false])
      await webkit.reload()
    }
  })

  thoroughly('the demo’s page looks up, and refuses a lie', async () => {
    const demo = await startDemo({ port: 0 })
    await webkit.goto(demo.url)
    const said = await webkit.evaluate(async () => {
      const until = async <T>(there: () => T | null | undefined | false): Promise<T> => {
        for (;;) {
          const found = there()
          if (found) return found
          await new Promise(resolve => setTimeout(resolve, 20))
        }
      }
      const answer = (kind: string) => until(() => document.querySelector(`.answer[data-kind=${kind}]`)?.textContent)
      const press = (selector: string) => document.querySelector<HTMLElement>(selector)!.click()
      await until(() => document.querySelector('.examples button'))
      press('.examples button')
      const found = await answer('alarm')
      press('.answer button')
      const refused = await answer('caught')
      press('.answer button')
      return [found, refused, await answer('alarm')]
    })
    expect(said[0]).toContain('On the phishing list')
    expect(said[1]).toContain('TamperedError')
    expect(said[2]).toContain('On the phishing list')
    await demo.close()
  })

  test('under a policy that forbids WebAssembly lookups are instant; one that forbids it or the servers is named in the error, once', async () => {
    await expectToldOfPolicy(urls, async (url, work, servers) => {
      await webkit.goto(url)
      return await webkit.evaluate(work, servers)
    })
  })
})
