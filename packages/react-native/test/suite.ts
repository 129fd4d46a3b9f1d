// What the package promises, for each place where an app runs.

import type { Options } from '@keyhush/react-native'
import { startServers, type TestServers } from '@keyhush/server/testing'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { about, changed, flippedAt, flippedEverywhere } from '../../../tests/support/lies.js'
import { type Lie, LyingProxy } from '../../../tests/support/proxy.js'
import { THOROUGH } from '../../../tests/support/thorough.js'
import type { Command, Failure, Outcome } from './app.js'

export interface Phone {
  run(command: Command): Promise<Outcome>
  /** brings the app to the front */
  activate(): void
  close(): Promise<void>
}

const LOOKUPS = THOROUGH ? 200 : 60

const RECORDS: Readonly<Record<string, string>> = Object.fromEntries(
  Array.from({ length: 300 }, (_, i) => [`key ${i} ü€😀`, `value ${i * i} ß水🦦`]),
)

/** What a server may answer instead of an instant answer, and which error the app then gets. */
const LIES: readonly [string, Lie, code: string][] = [
  ['a byte changed', changed(flippedAt(60)), 'tampered'],
  ['the last byte changed', changed(body => flippedAt(body.length - 1)(body)), 'tampered'],
  ['all bytes of the answer changed', changed(flippedEverywhere), 'tampered'],
  ['zeros', changed(body => new Uint8Array(body.length)), 'protocol'],
  ['a byte less', changed(body => body.slice(1)), 'protocol'],
  ['a byte more', changed(body => Uint8Array.of(...body, 0)), 'protocol'],
  ['a megabyte', changed(() => new Uint8Array(2 ** 20)), 'protocol'],
  ['nothing', changed(() => new Uint8Array()), 'protocol'],
]

/** `start`: an app with or without secure randomness. */
export function suite(place: string, start: (random: boolean) => Promise<Phone>): void {
  describe(place, () => {
    let phone: Phone
    const started: TestServers[] = []
    const proxies: LyingProxy[] = []
    beforeAll(async () => {
      phone = await start(true)
      for (const count of [2, 3]) started.push(await startServers(RECORDS, { count }))
    })
    afterAll(async () => {
      await phone?.close()
      for (const proxy of proxies) await proxy.close()
      for (const servers of started) await servers.close()
    })

    const done = async (command: Command): Promise<unknown> => {
      const outcome = await phone.run(command)
      if ('error' in outcome) throw Object.assign(new Error(), outcome.error)
      return outcome.value
    }
    const opened = async (options: Options) => (await done(['open', options])) as number
    const failure = async (command: Command, on = phone): Promise<Failure> => {
      const outcome = await on.run(command)
      if ('error' in outcome) return outcome.error
      throw new Error(`expected an error, got ${JSON.stringify(outcome.value)}`)
    }

    test.each([
      ['two servers', 0, {}],
      ['three servers', 1, {}],
      ['any two of three servers', 1, { atLeast: 2 }],
    ])('lookups by %s give what a plain map has', async (_, which, more) => {
      const { servers, publisherKey } = started[which]!
      const map = await opened({ servers, publisherKey, ...more })
      expect(await done(['read', map, 'mode'])).toBe('instant')
      expect(await done(['read', map, 'stats'])).toMatchObject({ core: 'script' })
      const names = Object.keys(RECORDS)
      for (let i = 0; i < (which === 0 || THOROUGH ? LOOKUPS : 30); i++) {
        const key = i % 4 === 0 ? `absent ${i}` : names[(i * 7) % 97]!
        expect(await done(['call', map, 'getText', key])).toBe(RECORDS[key] ?? null)
      }
      const many = [names[0]!, 'absent', names[299]!, names[0]!]
      const bytes = (key: string) => (RECORDS[key] === undefined ? null : [...Buffer.from(RECORDS[key])])
      expect(await done(['call', map, 'getMany', many])).toEqual(many.map(bytes))
      expect([await done(['call', map, 'has', names[5]!]), await done(['call', map, 'has', 'absent'])]).toEqual([
        true,
        false,
      ])
      await done(['call', map, 'close'])
      expect(await failure(['call', map, 'get', names[0]!])).toMatchObject({ code: 'closed' })
    })

    test('each lie is refused, and the map answers again when the server does', async () => {
      const { servers, publisherKey } = started[0]!
      for (const url of servers) proxies.push(await LyingProxy.start(url))
      /** To a genuine reply: the native side follows it. */
      const redirected: Lie = (_, { path }) => ({
        ...{ status: 307, headers: { location: servers[0] + path } },
        body: new Uint8Array(),
      })
      const map = await opened({ servers: proxies.map(({ url }) => url), publisherKey })
      const [key, value] = Object.entries(RECORDS)[17]!
      const lies = [...LIES, ['a redirect', redirected, 'network'] as const]
      for (const [i, [what, lie, code]] of lies.entries()) {
        if (!THOROUGH && i % 4 > 0) continue
        for (const proxy of THOROUGH ? proxies : [proxies[i % 2]!]) {
          proxy.lie = about('/v1/instant', lie)
          const failed = await failure(['call', map, 'getText', key])
          expect(failed, what).toMatchObject({ code, ...(code !== 'tampered' && { server: proxy.url }) })
          proxy.lie = undefined
        }
        expect(await done(['call', map, 'getText', key])).toBe(value)
      }
      await done(['call', map, 'close'])
    })

    test('requests are alike whatever is asked, without cookies, validators or the time', async () => {
      const { servers, publisherKey } = started[0]!
      const [proxy] = [await LyingProxy.start(servers[0])]
      proxies.push(proxy!)
      const map = await opened({ servers: [proxy!.url, servers[1]], publisherKey })
      const shapes = new Set<string>()
      for (const key of [...Object.keys(RECORDS).slice(0, 3), 'absent']) {
        proxy!.seen.length = 0
        await done(['call', map, 'get', key])
        const shapeOf = ({ method, path, headers, body }: LyingProxy['seen'][number]) => [
          method,
          path,
          body.length,
          headers.filter(([name]) => name.toLowerCase() !== 'connection'),
        ]
        shapes.add(JSON.stringify(proxy!.seen.map(shapeOf)))
      }
      expect(shapes.size).toBe(1)
      expect([...shapes][0]).not.toMatch(/cookie|if-none-match|if-modified|_=\d/i)
      await done(['call', map, 'close'])
    })

    test('when the app comes to the front, the map follows the database', async () => {
      const { servers, publisherKey, publish } = started[1]!
      const map = await opened({ servers, publisherKey })
      const [key] = Object.keys(RECORDS)
      await publish([{ op: 'edit', key: key!, value: 'another' }])
      expect(await done(['read', map, 'epoch'])).toBe(1)
      phone.activate()
      await expect.poll(() => done(['read', map, 'epoch'])).toBe(2)
      expect(await done(['call', map, 'getText', key])).toBe('another')
      await done(['call', map, 'close'])
      phone.activate()
    })

    test('a wrong publisher key is refused', async () => {
      const [{ servers }, { publisherKey }] = [started[0]!, started[1]!]
      expect(await failure(['open', { servers, publisherKey }])).toMatchObject({ code: 'signature' })
    })

    test('wrong options are refused before any traffic', async () => {
      const { servers } = started[0]!
      const [a] = servers
      const port = a.split(':').at(-1)
      for (const options of [
        { servers, mode: 'full' },
        { servers, push: true },
        { servers: [a] },
        { servers: [a, a] },
        { servers: [a, `http://localhost:${port}`] },
        { servers: [a, a.replace('127.0.0.1', '0x7f.1')] },
        { servers: [a, a.replace('127.0.0.1', '127.0.1')] },
        { servers: [a, a.replace('127.0.0.1', '127.0.0.01')] },
        { servers: ['https://a.example', 'https://A.example'] },
        { servers: ['https://a.example', 'https://a.example:443'] },
        { servers: ['https://a.example', 'https://a.example.'] },
        { servers: ['https://a.example', 'https://x@b.example'] },
        { servers: ['https://a.example', 'https://b.example/?x'] },
        { servers: ['https://a.example', 'https://b.example/../x'] },
        { servers: ['https://a.example', 'b.example'] },
        { servers: ['http://a.example', 'https://b.example'] },
        { servers: 'https://a.example' },
        undefined,
      ]) {
        expect(await failure(['open', options as never]), JSON.stringify(options)).toMatchObject({ code: 'usage' })
      }
    })

    test('without secure randomness nothing is opened, and the error says what to install', async () => {
      const bare = await start(false)
      try {
        const { servers } = started[0]!
        const { code, message } = await failure(['open', { servers }], bare)
        expect(code).toBe('unsupported')
        expect(message).toMatch(/expo install expo-crypto.*react-native-get-random-values/)
      } finally {
        await bare.close()
      }
    })
  })
}
