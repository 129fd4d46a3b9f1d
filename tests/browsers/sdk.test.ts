// The SDK in real browsers, against two `keyhush` processes: right for every index and key, notices lies, and sends nothing
// that it need not send.

import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { bytesToHex } from '@noble/hashes/utils.js'
import type { Page } from 'puppeteer-core'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { runKeyhush } from '../../server/test/command.js'
import { withBrowsers } from '../support/browsers.js'
import * as lies from '../support/lies.js'
import { needs } from '../support/needs.js'
import { type ServerProcess, startServerProcess } from '../support/processes.js'
import { LyingProxy } from '../support/proxy.js'
import { distinctRecords, temporaryFolder } from '../support/servers.js'
import { answers, claims } from '../support/shapes.js'
import { THOROUGH } from '../support/thorough.js'
import { complaintsOf, type Site, startPage } from '../support/web.js'
import { expectToldOfPolicy } from './policy.js'

const values = distinctRecords(1000, 12)
const names = Array.from({ length: 300 }, (_, i) => `name ${i} é`)

let folder: Awaited<ReturnType<typeof temporaryFolder>>
let servers: ServerProcess[]
let proxies: LyingProxy[]
let site: Site

beforeAll(async () => {
  folder = await temporaryFolder()
  const inFolder = (name: string) => join(folder.path, name)
  await writeFile(inFolder('records.bin'), Buffer.concat(values))
  await writeFile(inFolder('names.csv'), `key,value\n${names.map(name => `${name},"hello, ${name}"\n`).join('')}`)
  await runKeyhush('build', inFolder('records.bin'), '--record-bytes', '12', '--out', inFolder('records'))
  await runKeyhush('build', inFolder('names.csv'), '--out', inFolder('names'))
  const start = (server: string) =>
    startServerProcess(
      ...['records', 'names'].flatMap(name => [
        ...['--dataset', `${name}=${inFolder(name)}`],
        ...['--store', `${name}=${inFolder(`${name} of ${server}`)}`],
      ]),
    )
  servers = [await start('A'), await start('B')]
  proxies = [await LyingProxy.start(servers[0]!.url), await LyingProxy.start(servers[1]!.url)]
  site = await startPage(proxies.map(({ url }) => url))
})

afterAll(async () => {
  await site.close()
  for (const proxy of proxies) await proxy.close()
  for (const server of servers) await server.stop()
  await folder.remove()
})

/** The addresses of one database, on both servers. */
const at = (database: 'records' | 'names') =>
  [`${proxies[0]!.url}/${database}`, `${proxies[1]!.url}/${database}`] as [string, string]

await withBrowsers(['chromium', 'firefox'], 'in %s', (name, browser) => {
  let page: Page
  let complaints: Awaited<ReturnType<typeof complaintsOf>>

  beforeAll(async () => {
    page = await browser().newPage()
    complaints = await complaintsOf(page)
    await page.goto(site.url)
    for (const proxy of proxies) {
      proxy.lie = undefined
      proxy.seen.length = 0
    }
  })

  test('at(i) is right for each i of 1 000 records that is tried', async () => {
    const step = THOROUGH ? 1 : 27 // 999 = 37 · 27
    const found = await page.evaluate(
      async (servers, step) => {
        const map = await keyhush.open({ servers, mode: 'full' })
        const found: (number[] | undefined)[] = []
        for (let i = 0; i < map.size; i += step) found.push(Array.from((await map.at(i)) ?? []))
        await map.close()
        return found
      },
      at('records'),
      step,
    )
    expect(found).toEqual(values.filter((_, i) => i % step === 0).map(value => [...value]))
  })

  test('get, has and getMany are right for present and for absent keys', async () => {
    const asked = [...names.slice(0, THOROUGH ? 50 : 17), 'nobody', 'name 1', 'NAME 1 é']
    const found = await page.evaluate(
      async (servers, asked) => {
        const map = await keyhush.open({ servers, mode: 'full' })
        const text = (value: Uint8Array | undefined) => (value === undefined ? null : new TextDecoder().decode(value))
        const found = { get: [] as (string | null)[], has: [] as boolean[], getMany: [] as (string | null)[] }
        for (const key of asked) {
          found.get.push(text(await map.get(key)))
          found.has.push(await map.has(new TextEncoder().encode(key)))
        }
        for (let i = 0; i < asked.length; i += 5) {
          found.getMany.push(...(await map.getMany(asked.slice(i, i + 5), { padTo: 6 })).map(text))
        }
        await map.close()
        return found
      },
      at('names'),
      asked,
    )
    const expected = asked.map(key => (names.includes(key) ? `hello, ${key}` : null))
    expect(found).toEqual({ get: expected, has: expected.map(value => value !== null), getMany: expected })
  })

  test('one server: hints are stored, the next page goes on with them, and both pages use them up', async () => {
    const [one] = at('names')
    // The state that other tests have stored with these servers would be discarded, with an event.
    await page.evaluate(servers => keyhush.discardState({ servers }), at('names'))
    const look = (asked: readonly string[]) =>
      page.evaluate(
        async (server, asked) => {
          const events: string[] = []
          const map = await keyhush.open({
            servers: [server],
            integrity: 'server',
            mode: 'single',
            lookups: 1000,
            storage: 'required',
            onEvent: event => void events.push(event.type),
          })
          const found = (await map.getMany(asked)).map(value => value && new TextDecoder().decode(value))
          const { mode, lookupsLeft } = map
          await map.close()
          return { found: found.map(value => value ?? null), mode, lookupsLeft, events }
        },
        one,
        asked,
      )
    const expected = (asked: readonly string[]) => asked.map(key => (names.includes(key) ? `hello, ${key}` : null))
    const [first, then] = [
      [...names.slice(0, 10), 'nobody'],
      [...names.slice(5, 15), 'NAME 1 é'],
    ] as const
    expect(await look(first)).toEqual({ found: expected(first), mode: 'single', lookupsLeft: 989, events: [] })
    await page.reload()
    expect(await look(then)).toEqual({ found: expected(then), mode: 'single', lookupsLeft: 978, events: ['resumed'] })
  })

  test.each([0, 1] as const)(
    'a byte flipped by server %d is caught, and the map stays condemned until reset()',
    async liar => {
      const handle = await page.evaluateHandle(servers => keyhush.open({ servers, mode: 'full' }), at('records'))
      const ask = (index: number) =>
        handle.evaluate(
          (map, index) =>
            map.at(index).then(
              value => Array.from(value ?? []),
              ({ code, server }) => ({ code, server }),
            ),
          index,
        )
      proxies[liar]!.lie = lies.about('/records/v1/answer', lies.changed(lies.flippedAt(40)))
      const server = at('records')[liar]
      expect(await ask(3)).toEqual({ code: 'tampered', server })
      proxies[liar]!.lie = undefined
      expect(await ask(3)).toEqual({ code: 'condemned', server })
      await handle.evaluate(map => map.reset())
      expect(await ask(3)).toEqual([...values[3]!])
      await handle.evaluate(map => map.close())
      expect(await ask(3)).toEqual({ code: 'closed', server: undefined })
    },
  )

  test('a compressed answer is refused', async () => {
    proxies[0]!.lie = lies.about('/records/v1/answer', lies.compressed)
    const failure = await page.evaluate(async servers => {
      const map = await keyhush.open({ servers, mode: 'full' })
      const failure = await map.at(0).catch(({ code, server }) => ({ code, server }))
      await map.close()
      return failure
    }, at('records'))
    expect(failure).toEqual({ code: 'protocol', server: at('records')[0] })
    proxies[0]!.lie = undefined
  })

  test('a browser adds nothing to a request that tells two lookups or two people apart', () => {
    const seen = proxies.map(proxy => proxy.seen)
    expect(answers(seen[0]!).length).toBeGreaterThan(80)
    for (const method of ['GET', 'POST']) {
      const headers = seen
        .flat()
        .filter(exchange => exchange.method === method)
        .map(exchange => exchange.headers)
      // The length of a POST depends on the number of queries only.
      const constant = headers.map(all => all.filter(([header]) => header.toLowerCase() !== 'content-length'))
      for (const each of constant) expect(each).toEqual(constant[0])
      const names = constant[0]!.map(([header]) => header.toLowerCase())
      for (const forbidden of ['cookie', 'referer', 'content-type', 'if-none-match']) {
        expect(names).not.toContain(forbidden)
      }
    }
    expect(new Set(seen.flat().map(({ method }) => method))).toEqual(new Set(['GET', 'POST'])) // no preflight
    // Each hint is known to one server, whichever was drawn.
    const hints = seen.map(all => new Set(claims(all).map(claim => bytesToHex(claim.subarray(24, 40)))))
    const [atA, atB] = hints as [Set<string>, Set<string>]
    expect(atA.size + atB.size).toBeGreaterThanOrEqual(4) // two maps, two resets
    expect([...atA].filter(id => atB.has(id))).toEqual([])
  })

  test('the browser’s console has no errors', async () => {
    expect(await complaints.all()).toEqual([])
  })

  const quota = needs(name === 'chromium', 'a browser whose quota can be set')
  test('a state that does not fit: the error says how many bytes it needs, and how many are there', quota, async () => {
    // An origin of its own: Chromium remembers for a while how much room another one had.
    const tab = await browser().newPage()
    await tab.goto(site.url.replace('127.0.0.1', 'quota.localhost'))
    const session = await tab.createCDPSession()
    const origin = new URL(tab.url()).origin
    await session.send('Storage.overrideQuotaForOrigin', { origin, quotaSize: 8000 })
    const said = await tab.evaluate(async servers => {
      const opening = keyhush.open({ servers, mode: 'full', storage: 'required' })
      return await opening.then(
        () => 'opened',
        (error: Error & { code?: string }) => `${error.code}: ${error.message}`,
      )
    }, at('records'))
    // What is left by its own estimate is as Chromium would have it without this quota.
    expect(said).toMatch(
      /^storage: expected room for \d{4,} bytes of state, got none: the browser refuses it; this site stores \d{4,} bytes, and the browser's estimate of what is left is \d+\. Make room/,
    )
    await tab.close()
  })

  test('under a policy that forbids WebAssembly lookups are instant; one that forbids it or the servers is named in the error, once', async () => {
    await expectToldOfPolicy(at('names'), async (url, work, servers) => {
      await page.goto(url)
      return await page.evaluate(work, servers)
    })
  })
})
