// A filter with a schedule: servers see lookups at times that depend on no call, and nothing of what was asked.

import { decodeInstantQuery, HEADER_BYTES, INSTANT_PATH } from '@keyhush/protocol'
import { describe, expect, test } from 'vitest'
import { Ticks } from '../src/filter/schedule.js'
import type { KeyhushMap } from '../src/index.js'
import type { Environment, OpenWithOptions } from '../src/testing.js'
import { ManualClock, until, watch } from './support/clock.js'
import { ABSENT, lookups, marked, opened, withheld } from './support/filtered.js'
import { refusedBy } from './support/harness.js'
import { A, B, hang, type Misbehave, on } from './support/network.js'
import { seededRandom } from './support/random.js'
import { KEYS, pass, textOf } from './support/watched.js'

const [LISTED, OTHER] = KEYS as [string, string]
const EVERY = 5_000
const scheduled = (meanwhile: 'ask' | 'wait' = 'ask', queries = 4): Partial<OpenWithOptions> => ({
  filter: { cover: { everyMs: EVERY, queries }, meanwhile },
})
const queriesIn = (seen: ReturnType<typeof lookups>) => seen.map(({ body }) => decodeInstantQuery(body).count)

/** What an app does in a quarter of a minute: nothing that servers see may depend on it. */
const APPS: readonly [string, (map: KeyhushMap, second: number) => unknown][] = [
  ['nothing', () => {}],
  ['absent keys', map => map.getMany([ABSENT, 'absent-2.example'])],
  ['listed keys', map => map.getMany([LISTED, OTHER], { padTo: 3 })],
  ['both', (map, second) => map.get(second % 2 ? LISTED : ABSENT)],
  ['more than a tick takes', map => map.getMany(KEYS.slice(0, 4))],
  ['indices', (map, second) => map.at(second % 3 ? 1 : 100_000)],
  ['calls that it gives up', (map, second) => map.get(LISTED, { signal: AbortSignal.abort(second) })],
  ['calls of too many keys', map => map.getMany(KEYS.slice(0, 5))],
  ['calls that are out of time', map => map.get(LISTED, { timeoutMs: 1 })],
]
const FAULTS: readonly [string, Partial<Record<string, Misbehave>>][] = [
  ['no fault', {}],
  ['a server is away', { [B]: on(INSTANT_PATH, () => new Response('', { status: 503 })) }],
  ['a server is silent', { [A]: hang(INSTANT_PATH) }],
  ['an answer is short', { [A]: on(INSTANT_PATH, () => new Response(new Uint8Array(3))) }],
  ['the filter is withheld', { [A]: withheld, [B]: withheld }],
]

/** All that servers see in half a minute of such an app, with the times. Bodies but for what is random. */
async function transcript(app: (typeof APPS)[number][1], misbehave: (typeof FAULTS)[number][1]): Promise<string[]> {
  const directory = marked()
  directory.network.push = true
  Object.assign(directory.network.misbehave, misbehave)
  let clock: ManualClock | undefined
  const seen: string[] = []
  const fetch: Environment['fetch'] = (url, init) => {
    const body = init.body as Uint8Array | undefined
    const head = Buffer.from(body?.subarray(0, HEADER_BYTES) ?? []).toString('hex')
    seen.push(`${clock?.now() ?? 0} ms: ${init.method} ${url} ${body?.length} ${head}`)
    return directory.network.fetch(url, init)
  }
  const life = await opened(directory, { ...scheduled(), push: true }, { fetch }, { seed: 5 })
  ;({ clock } = life)
  const calls: Promise<unknown>[] = []
  for (let second = 0; second < 30; second++) {
    if (second < 15) calls.push(Promise.resolve(app(life.map, second)).catch(() => {}))
    if (second === 8) directory.publish({ [OTHER]: 'new' })
    await pass(life.harness, 1_000)
  }
  await life.drive(life.map.close())
  await Promise.all(calls)
  return seen.sort()
}

describe('servers see the same, whatever the app does', () => {
  test.each(FAULTS)('%s', async (_, misbehave) => {
    const nothing = await transcript(APPS[0]![1], misbehave)
    expect(nothing.filter(line => line.includes(INSTANT_PATH)).length).toBeGreaterThan(10)
    for (const [, app] of APPS.slice(1)) expect(await transcript(app, misbehave)).toEqual(nothing)
  })
})

test('a tick takes the calls that wait first, in order, as many as it has queries; absent keys are answered at once', async () => {
  const { map, network, clock, drive } = await opened(marked(), scheduled())
  const first = watch(map.getManyText([LISTED, ABSENT, OTHER, KEYS[2]!]))
  const second = watch(map.getMany(KEYS.slice(0, 2)))
  const third = watch(map.get(OTHER))
  expect(await drive(map.get(ABSENT))).toBeUndefined()
  expect([first.value, lookups(network)]).toEqual([undefined, []])
  await until(clock, () => lookups(network).length > 0)
  expect(clock.now()).toBeLessThan(EVERY)
  await until(clock, () => first.value !== undefined)
  expect(first.value).toEqual(['v0..........', undefined, 'v1..........', 'v2..........'])
  expect([second.value, third.value]).toEqual([undefined, undefined])
  await until(clock, () => second.value !== undefined)
  await until(clock, () => third.value !== undefined)
  expect(clock.now()).toBeLessThan(2 * EVERY)
  expect(queriesIn(lookups(network))).toEqual([4, 4, 4, 4])
})

test('the first tick comes at a time that is uniform within a period, the others each period', () => {
  const bins = Array<number>(8).fill(0)
  for (let seed = 0; seed < 800; seed++) {
    const clock = new ManualClock()
    const times: number[] = []
    const ticks = new Ticks({ everyMs: 8_000, queries: 1 }, { clock, random: seededRandom(seed) }, async () => {
      times.push(clock.now())
      return await new Promise(() => {})
    })
    void ticks.run(new AbortController().signal)
    clock.advance()
    bins[Math.floor(clock.now() / 1_000)]!++
  }
  const chiSquare = bins.reduce((sum, count) => sum + (count - 100) ** 2 / 100, 0)
  expect(chiSquare).toBeLessThan(24.3) // one in a thousand; the seeds are fixed
})

test('no tick is made up: after the device has slept, the next one comes at its time', async () => {
  const { network, clock } = await opened(marked(), scheduled())
  await until(clock, () => lookups(network).length === 2)
  const phase = clock.now()
  clock.pass(3_601_234)
  await until(clock, () => lookups(network).length > 2)
  expect([lookups(network).length, (clock.now() - phase) % EVERY]).toEqual([4, 0])
})

test('a call of more keys than a lookup has queries is refused, whatever its keys are', async () => {
  const { map, harness, network } = await opened(marked(), scheduled('wait'))
  for (const key of [ABSENT, LISTED]) {
    for (const call of [() => map.getMany(Array(5).fill(key)), () => map.getMany([key], { padTo: 5 })]) {
      expect(await harness.failure(call())).toMatchObject({ code: 'usage', message: expect.stringMatching(/schedule/) })
    }
  }
  expect(lookups(network)).toEqual([])
})

describe('what fails', () => {
  test('in a tick reaches the calls that wait for it alone', async () => {
    const { map, harness, network, drive, events } = await opened(marked(), scheduled())
    network.misbehave[A] = on(INSTANT_PATH, () => new Response('', { status: 503 }))
    expect(await harness.failure(map.get(LISTED))).toMatchObject({ server: A })
    expect(await drive(map.get(ABSENT))).toBeUndefined()
    await pass(harness, 5 * EVERY) // ticks fail, and nobody hears of it
    network.misbehave[A] = undefined
    expect(textOf(await drive(map.get(LISTED)))).toBe('v0..........')
    expect(events.map(({ type }) => type).filter(type => type !== 'slow')).toEqual(['filter'])
  })

  test('of one call is its own', async () => {
    const { map, drive } = await opened(marked(), scheduled())
    const [wrong, right] = await drive(Promise.allSettled([map.at(1_000_000), map.getText(LISTED)]))
    expect([wrong, right]).toMatchObject([{ reason: { code: 'usage' } }, { value: 'v0..........' }])
  })

  test('a closed map ends what waits', async () => {
    const { map, harness } = await opened(marked(), scheduled())
    const failure = harness.failure(map.get(LISTED))
    await map.close()
    expect(await failure).toMatchObject({ code: 'closed' })
  })
})

test('watches take ticks', async () => {
  const directory = marked()
  const { map, network, drive, sync } = await opened(directory, scheduled())
  const heard: unknown[] = []
  const watched = await drive(map.watch(ABSENT, ({ value }) => void heard.push(textOf(value))))
  expect([watched.value, new Set(queriesIn(lookups(network)))]).toEqual([undefined, new Set([4])])
  directory.publish({ [ABSENT]: 'come' })
  await sync()
  expect(heard).toEqual(['come'])
})

test('without a usable filter a call waits for a tick, or for the filter and then for a tick', async () => {
  for (const meanwhile of ['ask', 'wait'] as const) {
    const directory = marked()
    Object.assign(directory.network.misbehave, { [A]: withheld, [B]: withheld })
    const { map, harness, clock, network, drive } = await opened(directory, scheduled(meanwhile))
    const call = map.get(ABSENT, { timeoutMs: 60_000 })
    if (meanwhile === 'wait') {
      expect(await harness.failure(call)).toMatchObject({ code: 'timeout' })
      Object.assign(directory.network.misbehave, { [A]: undefined, [B]: undefined })
      await until(clock, () => map.filter?.state === 'ready')
      expect(textOf(await drive(map.get(LISTED)))).toBe('v0..........')
    } else expect(await drive(call)).toBeUndefined()
    expect(new Set(queriesIn(lookups(network)))).toEqual(new Set([4]))
  }
})

test.each([
  ['mode auto', { mode: 'auto' }, /a share in mode 'auto'.*got a schedule/],
  ['a period that is too short', { everyMs: 10 }, /everyMs: expected a whole number from 1000/],
  ['no queries', { queries: 0 }, /queries: expected a whole number from 1/],
  ['more queries than the list answers at once', { queries: 65 }, /queries: expected at most 64/],
  ['another option', { phase: 3 }, /no option "phase"/],
])('it does not open with %s', async (_, { mode = 'instant', ...given }: Record<string, unknown>, message) => {
  const cover = { everyMs: EVERY, queries: 4, ...given }
  const options = { mode, filter: { cover, meanwhile: 'ask' } } as Partial<OpenWithOptions>
  expect(await refusedBy(marked(false), options)).toMatchObject({
    code: 'usage',
    message: expect.stringMatching(message),
  })
})
