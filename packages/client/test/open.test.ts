// What open() refuses, and what two maps of one identity share.

import { PROOFS } from '@keyhush/protocol'
import { loadCore } from '@keyhush/wasm'
import { describe, expect, test, vi } from 'vitest'
import * as client from '../src/index.js'
import { open as openInstant } from '../src/instant.js'
import { checkInstantOptions } from '../src/instant-with.js'
import { fileStore } from '../src/node.js'
import { openWith } from '../src/testing.js'
import { drive } from './support/clock.js'
import { core, Harness, keyed, keyless, NAMES, openedOn, refusedBy, withHandles } from './support/harness.js'
import { A, B, flip } from './support/network.js'

describe('servers', () => {
  const refused: [string, unknown][] = [
    ['one', [A]],
    ['three', [A, B, 'https://c.example']],
    ['none', undefined],
    ['the same', [A, A]],
    ['one origin, two paths', ['https://a.example/x', 'https://a.example/y']],
    ['one origin in other letters', ['https://a.example', 'https://A.EXAMPLE:443/']],
    ['one host with and without a final dot', ['https://a.example', 'https://a.example./']],
    ['one port, two schemes', ['https://a.example:8443', 'http://a.example:8443']],
    ['one port under two names of this machine', ['http://localhost:8001', 'http://127.0.0.1:8001']],
    ['two ports of one host', ['https://a.example', 'https://a.example:8443']],
    ['two ports of one host, with and without a final dot', ['https://a.example', 'https://a.example.:8443']],
    ['http and https of one host', ['https://a.example', 'http://a.example']],
    ['one address, also mapped into IPv6', ['https://192.0.2.7', 'https://[::ffff:192.0.2.7]']],
    ['two ports of one address, also mapped into IPv6', ['https://192.0.2.7:1', 'https://[::ffff:c000:207]:2']],
    ['plain http', ['https://a.example', 'http://b.example']],
    ['plain http, to both', ['http://a.example', 'http://b.example']],
    ['plain http to an address that is not loopback', ['http://192.168.0.1:8001', 'http://[fe80::1]:8002']],
    ['plain http to names that only begin like loopback', ['http://127.example:8001', 'http://localhost.example:8002']],
    ['relative', ['/a', '/b']],
    ['another scheme', ['ftp://a.example', B]],
    ['credentials', ['https://user:secret@a.example', B]],
    ['a query', ['https://a.example/?token=secret', B]],
    ['a fragment', [A, 'https://b.example/#x']],
    ['no strings', [1, 2]],
  ]
  test.each(refused)('%s: refused before any traffic, quoting no secret', async (_what, servers) => {
    const { network } = keyless()
    const error = await refusedBy({ network }, { servers: servers as [string, string] })
    expect(error).toMatchObject({ name: 'UsageError', code: 'usage' })
    expect(error.message).not.toContain('secret')
    expect(network.seen).toEqual([])
  })

  test.each<[string, string, RegExp]>([
    ['https://a.example', 'https://a.example:8443', /two are on a\.example; its operator .* development: true/],
    ['https://a.example', 'http://b.example', /http:\/\/b\.example is plain http; anybody .* development: true/],
    [
      'http://localhost:80',
      'http://[::1]',
      /expected an operator for each, got \[::1\] twice, which would see both queries/,
    ],
  ])('%s, %s: the message says why, and what to do', async (a, b, message) => {
    expect((await refusedBy(keyless(), { servers: [a, b] })).message).toMatch(message)
  })

  type Options = { development?: boolean }
  test.each<[string, string, string, Options]>([
    ['two ports of one host, in development', 'https://a.example', 'https://a.example:8443', { development: true }],
    ['plain http, in development', 'http://a.example', 'http://b.example', { development: true }],
    ['plain http on one host, in development', 'http://a.example:1', 'http://a.example:2', { development: true }],
    ['two ports of this machine', 'http://localhost:8001', 'http://127.0.0.1:8002', {}],
    ['two ports of this machine, under other names', 'http://a.localhost:8001', 'http://[::1]:8002', {}],
    ['this machine and another', 'http://127.0.0.1:8001', 'https://b.example', {}],
  ])('%s', async (_what, a, b, options) => {
    const asked: string[] = []
    const unreachable = async (url: string) => {
      asked.push(url)
      throw new TypeError('unreachable')
    }
    const harness = new Harness(keyless().network, 1, { fetch: unreachable })
    expect(await harness.failure(harness.open({ servers: [a, b], ...options }))).toMatchObject({ code: 'network' })
    expect(new Set(asked)).toEqual(new Set([a, b].flatMap(server => [`${server}/v1/manifest`, `${server}/v1/info`])))
  })

  test('two paths of one port are refused in development too: they are one process', async () => {
    const servers = ['http://a.example:8001', 'http://a.example:8001/path'] as const
    expect(await refusedBy(keyless(), { servers, development: true })).toMatchObject({ code: 'usage' })
  })

  test('on one host: stats say which', async () => {
    const { network } = keyless()
    const harness = new Harness(network)
    expect((await harness.open()).stats.commonHost).toBeUndefined()
    const onOneHost = {
      fetch: (url: string, init: RequestInit) => network.fetch(url.replace('a.example:8443', 'b.example'), init),
    }
    const other = new Harness(network, 1, onOneHost)
    const map = await other.open({ servers: [A, 'https://a.example:8443'], development: true })
    expect(map.stats.commonHost).toBe('a.example')
  })

  test('may be URL objects, have ports, paths and final slashes', async () => {
    const { network } = keyless()
    const harness = new Harness(network)
    await harness.open({ servers: [new URL(`${A}/`), `${B}:443/`] })
    expect(network.seen.slice(0, 2).map(seen => seen.url)).toEqual([`${A}/v1/manifest`, `${B}/v1/manifest`])
  })
})

test.each(['instant', 'local'])('proofs in mode %s, which has no choice of them: refused, not ignored', async mode => {
  const { network } = keyless()
  for (const proofs of PROOFS) {
    const error = await new Harness(network).failure(new Harness(network).open({ mode: mode as 'local', proofs }))
    expect(error).toMatchObject({
      name: 'UsageError',
      message: expect.stringContaining(`expected mode 'full' or 'auto' with two servers, got mode '${mode}'`),
    })
  }
  const alone = { servers: [A], integrity: 'server', proofs: 'merkle' } as const
  expect(await new Harness(network).failure(new Harness(network).open(alone))).toMatchObject({ code: 'usage' })
  expect(network.seen).toEqual([])
})

describe('keys', () => {
  const refused: [string, unknown][] = [
    ['empty text', ''],
    ['no bytes', new Uint8Array(0)],
    ['4097 bytes', new Uint8Array(4097)],
    ['text of 4098 bytes', '€'.repeat(1366)],
    ['a lone high surrogate', 'a\ud800'],
    ['a lone low surrogate', '\udc00a'],
    ['a number', 5],
    ['nothing', undefined],
    ['null', null],
    ['an object', {}],
    ['a symbol', Symbol('x')],
    ['an array', [1, 2]],
    ['an ArrayBuffer', new ArrayBuffer(4)],
    ['an array of 16 bits each', new Uint16Array(2)],
  ]
  test.each(refused)('%s: refused before any traffic', async (_what, key) => {
    const { network, harness, map } = await openedOn(keyed())
    const given = key as string
    for (const call of [() => map.get(given), () => map.has(given), () => map.getMany([given])]) {
      expect(await harness.failure(call())).toMatchObject({ name: 'UsageError', code: 'usage' })
    }
    expect(network.queries()).toEqual([])
  })

  test('are exact: no case folding, trimming or Unicode normalisation', async () => {
    const keys = ['a', 'A', ' a', 'é', 'e\u0301', '😀', 'x'.repeat(4096)]
    const values = keys.map((_, i) => Uint8Array.of(i))
    const { harness, map } = await openedOn(keyed({ keys, values, partitions: 3, variable: false }))
    for (const [i, key] of keys.entries()) {
      expect(await harness.drive(map.get(key))).toEqual(values[i])
      expect(await harness.drive(map.get(Buffer.from(key)))).toEqual(values[i])
    }
    expect(await harness.drive(map.get('a '))).toBeUndefined()
  })

  test('are normalised only by the app: text, not bytes, and for this map alone', async () => {
    const { network } = keyed()
    const harness = new Harness(network)
    const lower = await harness.open({ normalize: key => key.toLowerCase() })
    const plain = await harness.open()
    expect(await harness.drive(lower.has('NAME-3.example'))).toBe(true)
    expect(await harness.drive(lower.has(new TextEncoder().encode('NAME-3.example')))).toBe(false)
    expect(await harness.drive(plain.has('NAME-3.example'))).toBe(false)
  })

  test('may be changed by the caller once the call is made', async () => {
    const { database, harness, map } = await openedOn(keyed())
    const key = new TextEncoder().encode(NAMES[4])
    const found = map.get(key)
    key.fill(0)
    expect(await harness.drive(found)).toEqual(database.contents.values[4])
  })

  test('are refused by a keyless database, without traffic', async () => {
    const { network, harness, map } = await openedOn(keyless())
    expect((await harness.failure(map.get('a'))).code).toBe('usage')
    expect(network.queries()).toEqual([])
  })
})

test.each([-1, 15, 2 ** 32, 2 ** 53, 1.5, Number.NaN, Number.POSITIVE_INFINITY, '3', 1n, {}, null, undefined])(
  'index %s: refused without traffic, and not repeated',
  async index => {
    const { network, harness, map } = await openedOn(keyless())
    const error = await harness.failure(map.at(index as number))
    expect(error).toMatchObject({
      name: 'UsageError',
      code: 'usage',
      message: expect.stringMatching(/^at: expected an index from 0 to 14, got another; /),
    })
    expect(network.queries()).toEqual([])
  },
)

describe('maps of one identity', () => {
  test('share one download, one hint and one queue, whatever the order of their servers', async () => {
    const { network, database } = keyless()
    const harness = new Harness(network)
    const one = await harness.open()
    const downloads = network.seen.length
    const two = await harness.open({ servers: [`${B}/`, A] })
    expect(network.seen).toHaveLength(downloads)
    expect(await harness.drive(Promise.all([one.at(1), two.at(2)]))).toEqual([database.byIndex[1], database.byIndex[2]])
    expect(two.stats).toEqual(one.stats)
    const each = ['stored', 'sent', 'sent', 'committed']
    expect(harness.log.map(line => line.split(' ')[0])).toEqual([...each, ...each])
  })

  test('share a download under way', async () => {
    const { network } = keyless()
    const harness = new Harness(network)
    await Promise.all([harness.open(), harness.open(), harness.open()])
    expect(network.seen.filter(seen => seen.path === '/v1/info')).toHaveLength(2)
    expect(network.seen.filter(seen => seen.path.startsWith('/v1/manifest'))).toHaveLength(2)
  })

  test('are counted: closing one, even twice, leaves the others', async () => {
    const { network, database } = keyless()
    const harness = new Harness(network)
    const [one, two] = [await harness.open(), await harness.open()]
    await harness.drive(one.close())
    await harness.drive(one.close())
    expect((await harness.failure(one.at(1))).name).toBe('ClosedError')
    expect(await harness.drive(two.at(1))).toEqual(database.byIndex[1])
    await harness.drive(two.close())
    expect((await harness.failure(two.at(1))).name).toBe('ClosedError')
    const downloads = network.seen.length
    await harness.open()
    expect(network.seen.length).toBeGreaterThan(downloads)
  })

  test('one giving up its open() leaves the others theirs; the last calls the download off', async () => {
    const { network, database } = keyless()
    const harness = new Harness(network)
    const [first, second] = [new AbortController(), new AbortController()]
    const one = openWith(harness.environment, { servers: [A, B], mode: 'full', signal: first.signal })
    const two = openWith(harness.environment, { servers: [A, B], mode: 'full', signal: second.signal })
    first.abort()
    await expect(one).rejects.toMatchObject({ name: 'AbortError' })
    const map = await drive(harness.clock, two)
    expect(await harness.drive(map.at(1))).toEqual(database.byIndex[1])
    second.abort() // too late to matter
    expect(await harness.drive(map.at(2))).toEqual(database.byIndex[2])
  })

  test('of another environment share nothing', async () => {
    const { network } = keyless()
    const [one, two] = [new Harness(network, 1), new Harness(network, 2)]
    const [a, b] = [await one.open(), await two.open()]
    await one.drive(a.at(3))
    await two.drive(b.at(3))
    const [first, , third] = network.queries()
    expect(first!.body).not.toEqual(third!.body)
  })

  test('a condemned one is condemned for all', async () => {
    const { network } = keyless()
    const harness = new Harness(network)
    const [one, two] = [await harness.open(), await harness.open()]
    network.misbehave[A] = flip(40)
    expect((await harness.failure(one.at(1))).name).toBe('TamperedError')
    expect((await harness.failure(two.at(1))).name).toBe('CondemnedError')
    const three = await harness.open()
    expect((await harness.failure(three.at(1))).name).toBe('CondemnedError')
    expect([one, two, three].map(({ stats }) => stats.fenced)).toEqual([undefined, undefined, undefined])
  })
})

describe('a platform that cannot', () => {
  test('hold the database: UnsupportedError', async () => {
    const { network } = keyless()
    const refusing = () => {
      throw Object.assign(new Error('layout: too large'), { code: 'layout' })
    }
    const harness = new Harness(network, 1, { loadCore: async () => ({ ...core, newHintBuilder: refusing }) })
    expect((await harness.failure(harness.open())).code).toBe('unsupported')
  })

  test('open a store: StorageError', async () => {
    const { network } = keyless()
    const harness = new Harness(network, 1, { openStore: () => Promise.reject(new Error('blocked')) })
    expect((await harness.failure(harness.open())).code).toBe('storage')
    expect(network.seen).toEqual([])
  })
})

/** A core whose client traps in `method` once `armed`. */
function trapping(method: 'query' | 'verify' | 'recon') {
  const broken = { armed: false }
  const trap = () => {
    throw new WebAssembly.RuntimeError('unreachable')
  }
  const trapped = (name: string | symbol) => (broken.armed && name === method ? trap : undefined)
  return Object.assign(broken, { core: withHandles('newHintBuilder', (_, name) => trapped(name)) })
}

test.each(['query', 'verify', 'recon'] as const)(
  'a trap in %s ends every map of that instance, and the next open() gets another',
  async method => {
    const { network, database } = keyless()
    const broken = trapping(method)
    const instances = [broken.core, core]
    const loadCore = async () => instances[0]!
    const harness = new Harness(network, 1, { loadCore })
    const map = await harness.open()
    const bystander = await harness.open()
    broken.armed = true
    expect(await harness.failure(map.at(1))).toMatchObject({ name: 'UnsupportedError', code: 'unsupported' })
    const sent = network.queries().length
    expect((await harness.failure(map.at(1))).code).toBe('unsupported')
    expect((await harness.failure(bystander.at(1))).code).toBe('unsupported')
    expect(network.queries()).toHaveLength(sent)
    instances.shift()
    const fresh = await harness.open()
    expect(await harness.drive(fresh.at(1))).toEqual(database.byIndex[1])
  },
)

test('a recovered record that is not the one asked for: StorageError, and the map is condemned', async () => {
  // Verified answers never lead there, so the corruption is planted in what the core gives back.
  const { network } = keyed()
  const rotten = withHandles('newHintBuilder', (handle, name) =>
    name === 'recon' ? () => handle.recon().map((byte, i) => (i === 3 ? byte ^ 1 : byte)) : undefined,
  )
  for (const [i, key] of [NAMES[3]!, 'absent'].entries()) {
    const ask = (map: client.KeyhushMap) => map.get(key)
    const harness = new Harness(network, 1 + i, { loadCore: async () => rotten })
    const map = await harness.open()
    expect(await harness.failure(ask(map))).toMatchObject({ name: 'StorageError', code: 'storage' })
    expect((await harness.store.read())?.condemned).toEqual({ culprit: undefined })
    expect(await harness.failure(ask(map))).toMatchObject({ name: 'CondemnedError', server: undefined })
    await harness.drive(map.close())
  }
})

const says = (code: string, words: RegExp) => ({ code, message: expect.stringMatching(words) })

const ABSTRACT = new Set(['KeyhushError', 'ServerError'])

describe('the package', () => {
  test('does nothing when imported: no WebAssembly, no timers, no globals', async () => {
    const before = Object.getOwnPropertyNames(globalThis).length
    await import('../src/index.js')
    expect(Object.getOwnPropertyNames(globalThis)).toHaveLength(before)
  })

  test('every error has a class, a name and a code of its own', () => {
    const classes = Object.entries(client).filter(([name]) => name.endsWith('Error') && !ABSTRACT.has(name))
    const made = classes.map(([name, Class]) => {
      const error = new (Class as new (...parameters: unknown[]) => client.KeyhushError)(['https://a.example'], 'what')
      expect(error).toBeInstanceOf(client.KeyhushError)
      expect(error.name).toBe(name)
      return error.code
    })
    expect(made.sort()).toEqual([
      'closed',
      'condemned',
      'internal',
      'network',
      'protocol',
      'rate_limited',
      'servers_disagree',
      'signature',
      'storage',
      'tampered',
      'timeout',
      'unsupported',
      'usage',
      'version',
    ])
  })

  test("runs on the platform's own clock, randomness and core", async () => {
    const { network, database } = keyless()
    await loadCore()
    const map = await client.open({ servers: [A, B], mode: 'full', fetch: network.fetch })
    expect(await map.at(3)).toEqual(database.byIndex[3])
    expect(map.stats.lastLookup!.ms).toBeGreaterThan(0)
    const shared = await client.open({ servers: [A, B], mode: 'full', fetch: network.fetch })
    await map.close()
    expect(await shared.at(4)).toEqual(database.byIndex[4])
    await shared.close()
  })
})

describe('of an option that cannot be, the message says what was expected and what came', () => {
  const KEY = '00'.repeat(32)
  const THREE = [A, B, 'https://c.example']
  type Refused = [string, Record<string, unknown>, RegExp]
  const refused: Refused[] = [
    ['another type', { push: 'yes' }, /expected push to be true or false, got "yes"/],
    ['allowed by a word', { development: 'no' }, /development to be true or false, got "no"/],
    ['no mode', { mode: 'fast' }, /mode: expected 'auto', .*'instant' with two servers, got "fast"/],
    ['no such storage', { storage: 'disk' }, /storage: expected 'required', 'preferred', 'memory', got "disk"/],
    ['a number for a word', { rollback: 1 }, /rollback: expected 'confirm', 'strict', got 1/],
    ['a long text', { proofs: 'x'.repeat(41) }, /'tags',.*', got text of 41 characters/],
    ['an object for a word', { mode: {} }, /mode: expected .* got an object \(Object\)/],
    ['an object for a function or a word', { mode: 'auto', download: {} }, /'never' or a function, got an object/],
    ['no signal', { signal: {} }, /signal to be an AbortSignal, got an object \(Object\)/],
    ['no function', { onProgress: 5 }, /onProgress to be a function, got 5/],
    ['no listener', { onEvent: 5 }, /onEvent to be a function, got 5/],
    ['nothing that normalizes', { normalize: 5 }, /normalize to be a function, got 5/],
    ['servers: a text', { servers: A }, /servers: expected \[one URL\].*got no list \(string\)/],
    ['servers: what looks like a list', { servers: { length: 2, 0: A, 1: B } }, /got no list \(object\)/],
    ['servers: a symbol', { servers: [Symbol('a'), B] }, /absolute URLs .* got symbol/],
    ['servers: one of three twice', { servers: [A, B, A] }, /got a\.example twice/],
    ['servers: two of three on one host', { servers: [A, B, 'https://b.example:444'] }, /they count as one operator/],
    ...[0, 1, 4, 2.5].map((atLeast): Refused => [`atLeast ${atLeast}`, { servers: THREE, atLeast }, /from 2 to 3/]),
    ['atLeast of two servers', { atLeast: 2 }, /three servers or more/],
    ['three servers, and a mode that trusts two', { servers: THREE, mode: 'full' }, /three servers or more/],
    ['three servers, and proofs that two give', { servers: THREE, proofs: 'tags' }, /three servers or more/],
    ['a key with a word before it', { publisherKey: `key: ${KEY}` }, /64 hex digits.*got 69 characters/],
    ['a misspelt key, which would not hold', { publisherkey: KEY }, /no option "publisherkey".*publisherKey/],
    // A variable of the environment with another name, as types have it: it must not drop the check.
    ['a key that is there and is nothing', { publisherKey: undefined }, /publisherKey: expected a value, got nothing/],
    ['witnesses that are there and are nothing', { witnesses: undefined }, /witnesses: expected a value, got nothing/],
    ['servers misspelt', { sevrers: [] }, /no option "sevrers"/],
    ['a misspelt listener', { onevent: () => {} }, /no option "onevent"; expected onEvent/],
    ['a listener there is not', { onUpdate: () => {} }, /no option "onUpdate"/],
    ['a key that is too short', { publisherKey: new Uint8Array(31) }, /publisherKey: expected 32 bytes.*got 31 bytes/],
    [
      'a mode that needs servers that do not collude',
      { mode: 'instant', collusion: 'tolerated' },
      /mode: expected 'auto', .* with collusion: 'tolerated', got "instant"/,
    ],
    ['lookups with two servers', { lookups: 5 }, /lookups: expected one server, or collusion: 'tolerated'/],
    ['no number of lookups', { lookups: 0, servers: [A], publisherKey: KEY }, /from 1 to 1048576, got 0/],
  ]
  test.each(refused)('%s', async (_what, given, message) => {
    const fetch = vi.fn()
    const error = await client.open({ servers: [A, B], fetch, ...given } as client.OpenOptions).catch(error => error)
    expect(error).toMatchObject({ code: 'usage', message: expect.stringMatching(message) })
    expect(error.message).not.toContain(KEY)
    expect(fetch).not.toHaveBeenCalled()
  })

  test('nothing at all: open, discardState, estimate, fileStore', async () => {
    const nothing = undefined as never
    const calls = [
      client.open(nothing),
      client.open(null as never),
      client.discardState(nothing),
      client.estimate(nothing),
    ]
    for (const call of calls) await expect(call).rejects.toMatchObject({ code: 'usage' })
    await expect(client.estimate([A, B], { lookupsPerDy: 5 } as never)).rejects.toMatchObject({ code: 'usage' })
    expect(() => fileStore(nothing)).toThrow("fileStore: expected a folder's path, got nothing")
  })

  test('a file store made in the call is the same for the same folder, however it is written', () => {
    expect(fileStore('some/folder')).toBe(fileStore('some/other/../folder/'))
    expect(fileStore('some/folder')).not.toBe(fileStore('some/other'))
  })

  test('discardState() where nothing is kept: it wants the store that open() had', async () => {
    const failed = client.discardState({ servers: [A, B] })
    await expect(failed).rejects.toMatchObject(says('usage', /expected the store that open\(\) was given/))
    const store = () => Promise.reject(new Error('no such folder'))
    const broken = client.discardState({ servers: [A, B], store })
    await expect(broken).rejects.toMatchObject({ code: 'storage', message: expect.stringMatching(/no such folder/) })
  })

  test.each<[string, unknown, RegExp]>([
    ['a list of servers', [A, B], /got a list; pass \{ servers: \['https:/],
    ['a URL', 'https://name:secret@a.example', /got text; pass \{ servers: \['https:/],
    ['nothing', undefined, /got nothing; pass \{ servers: \['https:/],
  ])(
    'instead of options %s: the message says how to write them, and repeats no text',
    async (_what, given, message) => {
      const options = given as never
      for (const [call, made] of [
        ['open', client.open(options)],
        ['open', openInstant(options)],
        ['discardState', client.discardState(options)],
      ] as const) {
        const error = await made.then(
          () => undefined,
          (error: Error) => error,
        )
        expect(error).toMatchObject(says('usage', message))
        expect(error!.message).toMatch(new RegExp(`^${call}: expected an object of options`))
        expect(error!.message).not.toContain('secret')
      }
    },
  )

  test.each(['instant', 'native'] as const)('a filter where there is no store: %s says why', async entry => {
    const options = { servers: [A, B], filter: { cover: 0, meanwhile: 'ask' } } as never
    expect(() => checkInstantOptions(entry, options)).toThrow(/^filter: expected a store.*import open from '@keyhush/)
    await expect(openInstant(options)).rejects.toMatchObject({ code: 'usage' })
  })

  test('text where a call has options is not repeated: it may be a key', async () => {
    const { map } = await openedOn(keyed())
    const failed = map.get('a', 'otter' as never)
    await expect(failed).rejects.toThrow('get: expected an object of options, got text; pass an object, or none')
  })

  // One that is misspelt would leave the number of keys unhidden.
  test.each<[string, unknown, RegExp]>([
    ['misspelt', { padto: 8, Signal: 1 }, /there is no option/],
    ['null', null, /expected an object of options, got null/],
    ['a number', 5, /expected an object of options, got 5/],
    ['no signal', { signal: 5 }, /expected signal to be an AbortSignal, got 5/],
    ['a signal of null', { signal: null }, /expected signal to be an AbortSignal, got null/],
  ])('options of a call, %s', async (_what, given, message) => {
    const { network, map } = await openedOn(keyed())
    const options = given as never
    const calls: Promise<unknown>[] = [
      map.get('a', options),
      map.getText('a', options),
      map.has('a', options),
      map.at(0, options),
    ]
    calls.push(map.getMany(['a'], options), map.sync(options), map.reset(options), map.prepare(options))
    for (const call of calls) await expect(call).rejects.toMatchObject(says('usage', message))
    expect(network.queries()).toEqual([])
  })

  test('what is wrong with an option names the call that got it', async () => {
    const { map } = await openedOn(keyed())
    const many = ['getMany', 'getManyText', 'getManyJson', 'hasMany'] as const
    for (const call of ['get', 'getText', 'getJson', 'has', 'at', ...many, 'sync', 'prepare', 'reset'] as const) {
      const subject = call === 'at' ? 0 : many.some(each => each === call) ? ['a'] : 'a'
      const options = { sginal: 1 } as never
      const isLookup = !['sync', 'prepare', 'reset'].includes(call)
      const made = (map[call] as (...all: unknown[]) => Promise<unknown>)(
        ...(isLookup ? [subject, options] : [options]),
      )
      await expect(made).rejects.toThrow(new RegExp(`^${call}: there is no option`))
    }
  })

  test('options of one call at another', async () => {
    const { map } = await openedOn(keyed())
    const calls: Promise<unknown>[] = [map.get('a', { padTo: 8 } as never), map.sync({ padTo: 8 } as never)]
    calls.push(client.discardState({ servers: [A, B], stoer: 1 } as never))
    for (const call of calls) await expect(call).rejects.toMatchObject(says('usage', /there is no option/))
  })

  test('an event that there is not', async () => {
    const map = await new Harness(keyless().network).open()
    expect(() => map.on('upDated' as never, () => {})).toThrow(/on: expected 'discarded', .*, got "upDated"/)
    expect(() => map.on('updated', undefined as never)).toThrow('on: expected a function, got nothing')
  })

  test('durable storage required where there is none: what Node has instead', async () => {
    const failed = client.open({ servers: [A, B], fetch: vi.fn(), storage: 'required' })
    await expect(failed).rejects.toMatchObject(says('storage', /fileStore\(folder\)/))
  })
})
