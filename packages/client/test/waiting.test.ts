// Waiting: `timeoutMs` and the event `slow`. Both are local: whatever is asked and however long a call waits, servers see the same.

import { INSTANT_PATH } from '@keyhush/protocol'
import { describe, expect, test } from 'vitest'
import type { CallOptions, KeyhushMap, MapEvent, OpenOptions } from '../src/index.js'
import { MemoryStore, openWith } from '../src/testing.js'
import { until } from './support/clock.js'
import { Harness, keyed, NAMES } from './support/harness.js'
import { A, B, drip, hang, on, problem } from './support/network.js'

const ONE = { mode: 'single', servers: [A], integrity: 'server' } as const
const MODES: readonly [string, Partial<OpenOptions>, string][] = [
  ['full', { mode: 'full' }, '/v1/answer'],
  ['instant', { mode: 'instant' }, INSTANT_PATH],
  ['single', ONE, '/v1/answer'],
]

/** A value, or an error. */
type Outcome = { readonly code?: string; readonly message?: string; readonly servers?: readonly string[] } | undefined

/** A map whose calls wait this long. */
async function opened(options: Partial<OpenOptions>) {
  const { network } = keyed()
  const harness = new Harness(network, 3)
  const told: [number, MapEvent][] = []
  let start = 0
  const onEvent = (event: MapEvent) => void told.push([harness.clock.now() - start, event])
  const map = await harness.open({ timeoutMs: undefined, ...options, onEvent })
  start = harness.clock.now()
  const waited = async (call: Promise<unknown>) => {
    const outcome = (await harness.drive(call.catch(error => error))) as Outcome
    return { outcome, ms: harness.clock.now() - start }
  }
  return { network, harness, map, told, waited }
}

/** What servers see of a lookup, to its end, and when the app hears what. */
async function lookedUp(
  options: Partial<OpenOptions>,
  silent: [string, string] | undefined,
  call: CallOptions,
  key: string,
) {
  const { network, harness, map, told, waited } = await opened(options)
  if (silent !== undefined) network.misbehave[silent[0]] = hang(silent[1])
  const { outcome, ms } = await waited(map.get(key, call))
  await harness.drive(map.close())
  await until(harness.clock, () => harness.clock.waiting === 0) // what is under way goes on to its end
  const view = network.seen.map(({ server, path, body }) => `${server}${path} ${Buffer.from(body).toString('hex')}`)
  return { view, told, ms, code: outcome?.code }
}

describe.each(MODES)('a lookup in mode %s', (mode, options, path) => {
  const servers = mode === 'single' ? [undefined, A] : [undefined, A, B]

  test.each(servers)('is sent as ever, however long the app waits (silent: %s)', async server => {
    const silent: [string, string] | undefined = server === undefined ? undefined : [server, path]
    const { view } = await lookedUp(options, silent, { timeoutMs: Number.POSITIVE_INFINITY }, NAMES[3]!)
    for (const timeoutMs of [1, 1_500, 2_000, 5_000, 12_000, undefined]) {
      const given = await lookedUp(options, silent, { timeoutMs }, NAMES[3]!)
      expect(given.view).toEqual(view)
      expect(given.code).toBe(silent && 'timeout')
    }
  })

  test('takes 15 s if its server keeps silent, and says after 2 s which it is, once', async () => {
    const server = servers.at(-1)!
    const { ms, told, code } = await lookedUp(options, [server, path], {}, NAMES[3]!)
    expect([ms, code]).toEqual([15_000, 'timeout'])
    expect(told.filter(([, { type }]) => type === 'slow')).toEqual([[2_000, { type: 'slow', servers: [server] }]])
  })

  test('is as slow for a key that is there as for one that is not', async () => {
    const server = servers.at(-1)!
    const [present, absent] = [NAMES[3]!, 'absent.example']
    const all = [present, absent, present].map(key => lookedUp(options, [server, path], {}, key))
    const [first, ...others] = (await Promise.all(all)).map(({ told, ms }) => ({ told, ms }))
    for (const other of others) expect(other).toEqual(first)
  })
})

test('a lookup that waits for its turn is still made after its caller gave up', async () => {
  const { network, harness, map, waited } = await opened({ mode: 'full' })
  network.misbehave[B] = hang('/v1/answer')
  const first = map.get(NAMES[1]!).catch(error => error)
  const { outcome } = await waited(map.get(NAMES[2]!, { timeoutMs: 3_000 }))
  expect(outcome).toMatchObject({ name: 'TimeoutError', code: 'timeout', servers: [B] })
  expect(outcome?.message).toBe(`expected an answer within 3000 ms, got none from ${B}; call again later`)
  network.misbehave[B] = undefined
  expect(await harness.drive(first)).toEqual(new TextEncoder().encode('v'))
  await harness.drive(map.get(NAMES[3]!))
  expect(map.stats.lookups).toBe(3)
})

describe('a call that ends in a pause before a server is asked again says why it paused', () => {
  const busy = problem(429, 'rate_limited', { 'retry-after': '7' })
  const RATE = { code: 'rate_limited', retryAfterMs: 7_000 }
  const REPLIES: [string, () => Response | Promise<Response>, object, string][] = [
    ['busy', () => busy.clone(), RATE, 'too many requests; call again in 7 s'],
    [
      'unready',
      () => problem(503, 'not_ready', { 'retry-after': '7' }),
      { code: 'network', retryAfterMs: 7_000 },
      '503',
    ],
    ['away', () => Promise.reject(new TypeError('fetch failed')), { code: 'network' }, 'the server is unreachable'],
  ]

  test.each(REPLIES)('%s: a lookup', async (_what, reply, cause, said) => {
    for (const [, options, path] of MODES) {
      const { network, map, waited, harness } = await opened(options)
      network.misbehave[A] = on(path, reply)
      const { outcome, ms } = await waited(map.get(NAMES[3]!, { timeoutMs: 500 }))
      expect([outcome, ms]).toMatchObject([{ code: 'timeout', retryable: true, servers: [A], cause }, 500])
      expect(outcome?.message).toMatch(
        `expected an answer within 500 ms, got none from ${A}; the last failure was ${A}: `,
      )
      expect(outcome?.message).toContain(said)
      network.misbehave[A] = undefined
      expect(await harness.drive(map.get(NAMES[3]!))).toEqual(new TextEncoder().encode('vvv'))
    }
  })

  test.each(REPLIES)('%s: open()', async (_what, reply, cause, said) => {
    const { network } = keyed()
    const harness = new Harness(network)
    network.both(reply)
    const error = await harness.failure(harness.open({ timeoutMs: 500 }))
    expect(error).toMatchObject({ code: 'timeout', servers: [A, B], cause })
    expect(error.message).toContain(`the last failure was ${A} and ${B}: `)
    expect(error.message).toContain(said)
    expect(error.retryAfterMs).toBe((cause as typeof RATE).retryAfterMs)
  })

  test('one that ends while a server keeps silent does not', async () => {
    const { network, map, waited } = await opened({ mode: 'full' })
    let replies = 0
    network.misbehave[A] = (seen, genuine) =>
      seen.path === '/v1/answer' ? (replies++ === 0 ? busy.clone() : new Promise<never>(() => {})) : genuine
    const { outcome } = await waited(map.get(NAMES[3]!, { timeoutMs: 9_000 }))
    expect(outcome).toMatchObject({ code: 'timeout', cause: undefined })
    expect(outcome?.message).toContain('call again later')
  })
})

describe('open()', () => {
  test('waits as long as it is told to, and can be called again', async () => {
    const { network } = keyed()
    const harness = new Harness(network)
    network.misbehave[A] = hang('/v1/')
    const told: MapEvent[] = []
    const onEvent = (event: MapEvent) => void (event.type === 'slow' && told.push(event))
    const options = { timeoutMs: 3_000, onEvent }
    const error = await harness.failure(harness.open(options))
    expect(error).toMatchObject({ code: 'timeout', servers: [A] })
    expect(told).toEqual([{ type: 'slow', servers: [A] }])
    expect([harness.clock.now(), harness.clock.waiting]).toEqual([3_000, 0])
    network.misbehave[A] = undefined
    expect((await harness.open(options)).size).toBe(NAMES.length)
  })

  test('takes what a slow line takes: a download that goes on is waited for', async () => {
    const { network } = keyed()
    const harness = new Harness(network)
    const later = on(
      '/v1/blobs',
      genuine => new Promise(resolve => void harness.clock.setTimeout(() => resolve(genuine), 9_000)),
    )
    network.both(later)
    const map = await harness.open({ mode: 'local', timeoutMs: 15_000 })
    expect(harness.clock.now()).toBeGreaterThan(2 * 15_000)
    const late = await harness.failure(map.reset({ timeoutMs: 8_000 }))
    expect(late).toMatchObject({ code: 'timeout' })
    await harness.drive(map.reset())
  })

  test('counts the time in which it waits for another tab', async () => {
    const { network } = keyed()
    const locks = {
      hold: async <T>(_name: string, _patience: number, task: () => Promise<T>) => {
        await harness.clock.wait(30_000)
        return await task()
      },
    }
    const openStore = async () => ({ store: new MemoryStore({ durable: true }), storage: 'best-effort' }) as const
    const harness: Harness = new Harness(network, 1, { locks, openStore })
    const opening = openWith(harness.environment, { servers: [A, B], mode: 'full', timeoutMs: 15_000 })
    const error = await harness.failure(opening)
    expect(error).toMatchObject({ code: 'timeout', servers: [] })
    expect(harness.clock.now()).toBe(15_000)
    expect(error.message).toBe(
      'expected an answer within 15000 ms, got none from another tab, which holds the state; call again later',
    )
  })

  test('counts the time in which it waits for a tab that removes rows', async () => {
    const { network } = keyed()
    const join = async () => {
      await harness.clock.wait(30_000)
      return () => {}
    }
    const store = new MemoryStore({ durable: true })
    const opened = { store, storage: 'best-effort', preparers: { join, whileNone: async () => {} } } as const
    const harness: Harness = new Harness(network, 1, { openStore: async () => opened })
    const map = await harness.open({ mode: 'full' })
    const begun = harness.clock.now()
    const error = await harness.failure(map.reset({ timeoutMs: 8_000 }))
    expect([error.message, harness.clock.now() - begun]).toEqual([
      expect.stringContaining('got none from another tab'),
      8_000,
    ])
  })

  test('does not count the time in which neither a server nor another tab is waited for', async () => {
    const { network } = keyed()
    const openStore = async () => {
      await harness.clock.wait(30_000)
      return { store: new MemoryStore({ durable: true }), storage: 'best-effort' } as const
    }
    const harness: Harness = new Harness(network, 1, { openStore })
    expect((await harness.open({ timeoutMs: 15_000 })).size).toBe(NAMES.length)
    expect(harness.clock.now()).toBeGreaterThanOrEqual(30_000)
  })
})

test.each<[string, (map: KeyhushMap, options: CallOptions) => Promise<unknown>]>([
  ['sync', (map, options) => map.sync(options)],
  ['reset', (map, options) => map.reset(options)],
])('%s() waits as long as it is told to, and the map stays as it was', async (_name, call) => {
  const { network, harness, map, waited } = await opened({ mode: 'full' })
  network.misbehave[A] = hang('/v1/info')
  const { outcome, ms } = await waited(call(map, { timeoutMs: 4_000 }))
  expect([outcome?.code, outcome?.servers, ms]).toEqual(['timeout', [A], 4_000])
  network.misbehave[A] = undefined
  expect(await harness.drive(map.has(NAMES[3]!))).toBe(true)
})

test('open({ timeoutMs }) holds for each call of the map, and a call may say otherwise', async () => {
  const { network, map, waited } = await opened({ mode: 'instant', timeoutMs: 4_000 })
  network.misbehave[A] = hang(INSTANT_PATH)
  expect(await waited(map.at(1))).toMatchObject({ outcome: { code: 'timeout' }, ms: 4_000 })
  expect(await waited(map.at(1, { timeoutMs: 1_000 }))).toMatchObject({ outcome: { code: 'timeout' }, ms: 5_000 })
})

test.each(MODES)(
  'close() resolves after timeoutMs at the latest, and what is sent goes on to its end (mode %s)',
  async (_mode, options, path) => {
    const { network, harness, map, waited } = await opened({ ...options, timeoutMs: 4_000 })
    network.both(hang(path))
    const failed = map.at(1, { timeoutMs: 1_000 })
    expect((await waited(failed)).ms).toBe(1_000)
    const start = harness.clock.now()
    await harness.drive(map.close())
    expect(harness.clock.now() - start).toBe(4_000)
    const asked = () => network.seen.filter(seen => seen.server === A && seen.path === path).length
    expect(asked()).toBe(1)
    await until(harness.clock, () => harness.clock.waiting === 0)
    expect(asked()).toBe(2)
  },
)

test.each(['/v1/info', '/v1/manifest'])('bytes of a reply that is no blob give no time back (%s)', async path => {
  const { network } = keyed()
  for (const mode of ['instant', 'full', 'local'] as const) {
    const harness = new Harness(network)
    network.both(drip(harness.clock, path, 500))
    expect(await harness.failure(harness.open({ mode, timeoutMs: 5_000 }))).toMatchObject({ code: 'timeout' })
    expect(harness.clock.now()).toBe(5_000)
  }
})

test('only the map that was called hears that it is slow', async () => {
  const { network, harness, map, waited } = await opened({ mode: 'full' })
  const other = await harness.open({ mode: 'full' })
  const heard: string[] = []
  map.on('slow', () => void heard.push('the map'))
  other.on('slow', () => void heard.push('another'))
  network.misbehave[A] = hang('/v1/answer')
  await waited(map.at(1, { timeoutMs: 5_000 }))
  expect(heard).toEqual(['the map'])
})

test.each([0, -1, Number.NaN, '5', null])('timeoutMs: %s is refused', async timeoutMs => {
  const { map } = await opened({})
  const wrong = { timeoutMs } as CallOptions
  const calls = [map.get('a', wrong), map.at(0, wrong), map.getMany(['a'], wrong), map.sync(wrong), map.reset(wrong)]
  for (const call of [...calls, opened(wrong)]) {
    await expect(call).rejects.toMatchObject({ code: 'usage', message: expect.stringMatching(/timeoutMs .* above 0/) })
  }
})
