// Mode `instant` behind a filter: which calls ask, and what servers see of those that do.

import { confidentialId, decodeInstantQuery, HEADER_BYTES, INSTANT_PATH } from '@keyhush/protocol'
import { describe, expect, test } from 'vitest'
import type { Environment, OpenWithOptions } from '../src/testing.js'
import { type ManualClock, rest, until } from './support/clock.js'
import { buildDatabase } from './support/database.js'
import { ABSENT, disk, lookups, marked, opened, withheld } from './support/filtered.js'
import { core, NAMES, refusedBy, sameOnBoth } from './support/harness.js'
import { A, B, hang, having, type Misbehave, Network, on, type Seen } from './support/network.js'
import { DAY, NOW, publisherKey } from './support/signed.js'
import { Directory, KEYS, pass, textOf } from './support/watched.js'

const C = 'https://c.example'
const [LISTED, OTHER] = KEYS as [string, string]
const stepsOf = (seen: readonly Seen[]) => seen.map(({ body }) => decodeInstantQuery(body).of)
const abortedIn = (clock: ManualClock, ms: number) => {
  const ending = new AbortController()
  clock.setTimeout(() => ending.abort(), ms)
  return ending.signal
}
const shapes = (seen: readonly Seen[]) =>
  seen.map(
    ({ server, method, url, body, tick }) =>
      `${tick - seen[0]!.tick} ${server} ${method} ${url} ${body.length} ${Buffer.from(body.subarray(0, HEADER_BYTES)).toString('hex')}`,
  )

const filtered = (
  directory: Parameters<typeof opened>[0],
  filter: OpenWithOptions['filter'],
  options: Partial<OpenWithOptions> = {},
  environment: Partial<Environment> = {},
  seed?: number,
) => opened(directory, { filter, ...options }, environment, seed === undefined ? {} : { seed })

describe.each(['two servers', 'two of three', 'three'] as const)('%s', which => {
  const directory = () => {
    const { newest, network } = marked(false)
    if (which === 'two servers') return { network, signs: false }
    return { network: new Network({ [A]: [newest], [B]: [newest], [C]: [newest] }), signs: false }
  }
  const options = which === 'two servers' ? {} : { servers: [A, B, C], ...(which === 'two of three' && { atLeast: 2 }) }

  test('an excluded call sends nothing; another asks for records alone', async () => {
    const { map, network, drive } = await filtered(directory(), { cover: 0, meanwhile: 'wait' }, options)
    expect([map.mode, map.filter?.state]).toEqual(['instant', 'ready'])
    expect(await drive(map.getMany([ABSENT, ABSENT], { padTo: 4 }))).toEqual([undefined, undefined])
    expect(lookups(network)).toEqual([])
    expect(textOf(await drive(map.get(LISTED)))).toBe('v0..........')
    const count = which === 'three' ? 3 : 2
    expect(stepsOf(lookups(network))).toEqual(Array(count).fill('records'))
    const mixed = await drive(map.getManyText([ABSENT, OTHER, 'absent-2.example', LISTED], { padTo: 8 }))
    expect(mixed).toEqual([undefined, 'v1..........', undefined, 'v0..........'])
    expect(
      lookups(network)
        .slice(count)
        .map(({ body }) => decodeInstantQuery(body).count),
    ).toEqual(Array(count).fill(8))
  })

  test('a call of too many keys is refused, whatever the keys are', async () => {
    const { map, network, harness } = await filtered(directory(), { cover: 0, meanwhile: 'wait' }, options)
    for (const key of [ABSENT, LISTED]) {
      expect(await harness.failure(map.getMany([key], { padTo: 65 }))).toMatchObject({ code: 'usage' })
    }
    expect(lookups(network)).toEqual([])
  })

  test('a call without keys that is padded asks for random records; all that are answered are counted', async () => {
    const { map, network, drive } = await filtered(directory(), { cover: 0, meanwhile: 'wait' }, options)
    expect(await drive(map.getMany([], { padTo: 3 }))).toEqual([])
    expect(new Set(lookups(network).map(({ body }) => decodeInstantQuery(body).count))).toEqual(new Set([3]))
    await drive(map.get(ABSENT))
    expect(map.stats).toMatchObject({ lookups: 2, unsent: 1, lastLookup: { bytesUp: 0, bytesDown: 0 } })
  })

  test('indices and watches are never filtered', async () => {
    const { map, network, drive } = await filtered(directory(), { cover: 0, meanwhile: 'wait' }, options)
    await drive(map.at(0))
    const before = lookups(network).length
    expect(before).toBeGreaterThan(0)
    await drive(map.watch(ABSENT, () => {}))
    expect(lookups(network).length).toBeGreaterThan(before)
  })
})

test('at another epoch than the filter’s a call asks in two steps; then the filter follows', async () => {
  const directory = marked()
  const { map, network, drive } = await filtered(directory, { cover: 0, meanwhile: 'ask' })
  directory.publish({ [OTHER]: 'new' })
  directory.publish({ [OTHER]: 'newer' })
  directory.forget() // the first epoch is answered no more
  expect(textOf(await drive(map.get(OTHER)))).toBe('newer')
  expect(stepsOf(lookups(network)).slice(-4)).toEqual(['directory', 'directory', 'records', 'records'])
  await rest()
  expect(map.filter).toMatchObject({ epoch: 3, state: 'ready' })
  await drive(map.get(OTHER))
  expect(stepsOf(lookups(network)).slice(-2)).toEqual(['records', 'records'])
})

describe('`updated` comes once no call is answered at an older epoch', () => {
  const following = async (meanwhile: 'ask' | 'wait') => {
    const directory = marked()
    directory.network.push = true
    const life = await filtered(directory, { cover: 0, meanwhile }, { push: true })
    const moves: unknown[] = []
    life.map.on('updated', ({ epoch }) => {
      const answer = life.map.getText(ABSENT, { timeoutMs: 15_000 }).catch(({ code }) => code)
      moves.push([epoch, life.map.epoch, life.map.filter?.epoch, answer])
    })
    const told = async () => await life.drive(Promise.all(moves.map(move => Promise.all(move as unknown[]))))
    return { ...life, directory, told }
  }

  test('lookups move first', async () => {
    const { map, directory, network, drive, told, clock } = await following('ask')
    Object.assign(network.misbehave, { [A]: withheld, [B]: withheld })
    directory.publish({ [ABSENT]: 'come' })
    await drive(map.sync().catch(() => {}))
    expect([map.epoch, await told()]).toEqual([1, []])
    Object.assign(network.misbehave, { [A]: undefined, [B]: undefined })
    await until(clock, () => map.epoch === 2)
    expect(await told()).toEqual([[2, 2, 2, 'come']])
  })

  test('the filter moves first', async () => {
    const { map, directory, told, clock, network } = await following('ask')
    const next = directory.publish({ [ABSENT]: 'come' }, [B])
    await until(clock, () => map.filter?.epoch === 2)
    expect([map.epoch, await told()]).toEqual([1, []])
    network.publish(A, next)
    await until(clock, () => map.epoch === 2)
    expect(await told()).toEqual([[2, 2, 2, 'come']])
  })

  test('an older one does not answer any more: a server that is frozen takes no map back', async () => {
    const directory = marked(true, { expires: NOW + DAY })
    const { map, network, drive, clock } = await filtered(directory, { cover: 0, meanwhile: 'ask' })
    clock.pass(DAY * 1000 + 1) // the filter's epoch has expired
    const second = directory.publish({ [OTHER]: 'new' }, [A, B], { expires: 0 })
    const signatures = [...network.signatures]
    directory.publish({ [ABSENT]: 'come' })
    Object.assign(network.misbehave, { [A]: withheld, [B]: withheld })
    await drive(map.sync().catch(() => {}))
    expect([map.epoch, map.filter?.state]).toEqual([3, 'behind'])
    Object.assign(network.misbehave, {
      [A]: having(A, signatures, second),
      [B]: () => new Response('', { status: 503 }),
    })
    await drive(map.sync().catch(() => {}))
    expect(map.filter).toMatchObject({ epoch: 2, state: 'behind' })
    expect(map.epoch).toBe(3)
  })

  test.each([
    ['ask', 'come'],
    ['wait', 'timeout'],
  ] as const)("the filter does not answer any more, meanwhile: '%s'", async (meanwhile, answer) => {
    const { map, directory, network, drive, told, harness } = await following(meanwhile)
    Object.assign(network.misbehave, { [A]: withheld, [B]: withheld })
    directory.publish({ [ABSENT]: 'come' })
    await drive(map.sync().catch(() => {}))
    expect(await told()).toEqual([])
    await pass(harness, 61_000)
    expect(await told()).toEqual([[2, 2, 1, answer]])
    Object.assign(network.misbehave, { [A]: undefined, [B]: undefined })
    await drive(map.sync())
    expect([map.filter, (await told()).length]).toMatchObject([{ epoch: 2, state: 'ready' }, 1])
  })
})

describe('what passes and what is covered', () => {
  const faults: readonly [string, Partial<Record<string, Misbehave>>][] = [
    ['no fault', {}],
    ['a server is away', { [B]: on(INSTANT_PATH, () => new Response('', { status: 503 })) }],
    ['a server is silent', { [A]: hang(INSTANT_PATH) }],
    ['an answer is short', { [A]: on(INSTANT_PATH, () => new Response(new Uint8Array(3))) }],
    [
      'a server lies',
      {
        [A]: on(INSTANT_PATH, async genuine => {
          const bytes = new Uint8Array(await genuine.arrayBuffer())
          bytes[HEADER_BYTES + 1]! ^= 1
          return new Response(bytes)
        }),
      },
    ],
  ]
  test.each(faults)('servers see the same: %s', async (_, misbehave) => {
    const runs = await Promise.all(
      [
        [LISTED, OTHER],
        [LISTED, ABSENT],
        [ABSENT, ABSENT],
      ].map(async keys => {
        const directory = marked()
        const { map, network, harness, clock } = await filtered(directory, { cover: 1, meanwhile: 'wait' }, {}, {}, 77)
        Object.assign(network.misbehave, misbehave)
        const outcomes: string[] = []
        for (const options of [{}, { timeoutMs: 1_000 }, { signal: abortedIn(clock, 500) }, {}]) {
          const error = await harness.drive(
            map.getMany(keys, { padTo: 3, ...options }).then(
              () => undefined,
              error => error,
            ),
          )
          outcomes.push(`${error?.name} ${error?.message} at ${clock.now()}`)
        }
        await rest()
        return { seen: shapes(lookups(network)), outcomes, incidents: map.stats.incidents }
      }),
    )
    expect(runs[0]!.seen.length).toBeGreaterThan(0)
    expect(runs[1]).toEqual(runs[0])
    expect(runs[2]).toEqual(runs[0])
  })

  test('a share of the excluded calls asks, by a coin for each, whatever the keys are', async () => {
    const directory = marked()
    const { map, network, drive } = await filtered(directory, { cover: 1 / 8, meanwhile: 'wait' })
    const runs: boolean[] = []
    for (let i = 0; i < 800; i++) {
      const before = lookups(network).length
      await drive(map.get(ABSENT))
      runs.push(lookups(network).length > before)
    }
    // Pairs of calls, by whether each asked: independent of the call before.
    const pairs = [0, 0, 0, 0]
    for (let i = 0; i < runs.length; i += 2) pairs[2 * Number(runs[i]) + Number(runs[i + 1])]!++
    const expected = [7 * 7, 7, 7, 1].map(share => (share * runs.length) / 2 / 64)
    const chiSquare = pairs.reduce((sum, count, i) => sum + (count - expected[i]!) ** 2 / expected[i]!, 0)
    expect(chiSquare).toBeLessThan(16.3) // three degrees: one in a thousand; the seed is fixed
  })

  test('the coin is tossed before the filter is read, also for calls that pass', async () => {
    const draws = await Promise.all(
      [LISTED, ABSENT].map(async key => {
        const drawn: number[] = []
        const environment: Partial<Environment> = {}
        const directory = marked()
        const life = await filtered(directory, { cover: 0, meanwhile: 'wait' }, {}, environment, 5)
        const { random } = life.harness.environment
        Object.assign(life.harness.environment, {
          random: (bytes: number) => {
            drawn.push(bytes)
            return random(bytes)
          },
        })
        await life.drive(life.map.get(key))
        return drawn[0]
      }),
    )
    expect(draws).toEqual([4, 4])
  })

  test('after a sent call has failed, all calls are sent until one succeeds', async () => {
    const directory = marked()
    const { map, network, drive, harness } = await filtered(directory, { cover: 0, meanwhile: 'wait' })
    const sends = async (key: string) => {
      const before = lookups(network).length
      await drive(map.get(key).catch(() => {}))
      return lookups(network).length > before
    }
    expect(await sends(ABSENT)).toBe(false)
    network.misbehave[A] = on(INSTANT_PATH, () => new Response('', { status: 503 }))
    expect(await harness.failure(map.get(LISTED))).toMatchObject({ server: A })
    expect([await sends(ABSENT), await sends(ABSENT)]).toEqual([true, true])
    network.misbehave[A] = undefined
    expect([await sends(ABSENT), await sends(ABSENT)]).toEqual([true, false])
  })
})

describe('without a usable filter', () => {
  test("meanwhile: 'ask' sends each call", async () => {
    const directory = marked()
    Object.assign(directory.network.misbehave, { [A]: withheld, [B]: withheld })
    const { map, network, drive } = await filtered(directory, { cover: 0, meanwhile: 'ask' })
    expect(map.filter?.state).toBe('loading')
    expect([await drive(map.get(ABSENT)), textOf(await drive(map.get(LISTED)))]).toEqual([undefined, 'v0..........'])
    expect(stepsOf(lookups(network))).toHaveLength(8)
  })

  test("meanwhile: 'wait' sends none, and ends in time; once servers give it, calls go on", async () => {
    const directory = marked()
    Object.assign(directory.network.misbehave, { [A]: withheld, [B]: withheld })
    const { map, network, harness, clock, drive, events } = await filtered(directory, { cover: 1, meanwhile: 'wait' })
    for (const key of [LISTED, ABSENT]) {
      const start = clock.now()
      expect(await harness.failure(map.get(key, { timeoutMs: 60_000 }))).toMatchObject({
        code: 'timeout',
        servers: [A, B],
        message: expect.stringMatching(/got none from .*a\.example.* and .*b\.example.*; the last failure was .*503/),
      })
      expect(clock.now() - start).toBe(60_000)
    }
    const slow = { type: 'slow', servers: [A, B] }
    expect(events.filter(({ type }) => type === 'slow')).toEqual([slow, slow])
    expect(lookups(network)).toEqual([])
    const waiting = map.getText(LISTED)
    Object.assign(directory.network.misbehave, { [A]: undefined, [B]: undefined })
    await until(clock, () => map.filter?.state === 'ready')
    expect(await drive(waiting)).toBe('v0..........')
  })

  test("meanwhile: 'wait' never sends calls that were out of time before the filter came", async () => {
    const directory = marked()
    Object.assign(directory.network.misbehave, { [A]: withheld, [B]: withheld })
    const { map, network, harness, clock } = await filtered(directory, { cover: 1, meanwhile: 'wait' })
    for (let i = 0; i < 3; i++) await harness.failure(map.get(LISTED, { timeoutMs: 15_000 }))
    Object.assign(directory.network.misbehave, { [A]: undefined, [B]: undefined })
    await until(clock, () => map.filter?.state === 'ready')
    await rest()
    expect(lookups(network)).toEqual([])
  })

  test("meanwhile: 'wait' sends nothing about excluded keys, whenever for a moment the filter does not answer", async () => {
    for (let moment = 0, isOver = false; !isOver; moment++) {
      const directory = marked(true, { expires: NOW + DAY })
      const { map, network, clock, drive } = await filtered(directory, { cover: 0, meanwhile: 'wait' })
      const { date } = clock
      let looks = 0 // at the date
      clock.date = () => date() + (looks++ === moment ? 2 * DAY * 1000 : 0)
      const call = map.getMany([ABSENT, 'absent-2.example'], { timeoutMs: 10_000 }).catch(error => error.code)
      expect([[undefined, undefined], 'timeout']).toContainEqual(await drive(call))
      expect(lookups(network)).toEqual([])
      isOver = looks <= moment
    }
  })

  test('one server that shows a newer epoch, and withholds it, ends what the filter says after a minute', async () => {
    const directory = marked()
    const { map, network, drive, harness } = await filtered(directory, { cover: 0, meanwhile: 'ask' })
    directory.publish({ [ABSENT]: 'come' }, [B])
    Object.assign(network.misbehave, { [A]: withheld, [B]: withheld })
    await drive(map.sync().catch(() => {}))
    await drive(map.get(ABSENT))
    expect(lookups(network)).toEqual([])
    await pass(harness, 61_000)
    await drive(map.get(ABSENT))
    expect([map.filter?.state, lookups(network).length > 0]).toEqual(['behind', true])
  })
})

test('it opens offline with a stored filter, and answers; a call that must ask begins when servers are back', async () => {
  const { openStore } = disk()
  const directory = marked()
  const wishes = { cover: 0, meanwhile: 'wait' } as const
  const before = await filtered(directory, wishes, { storage: 'required' }, { openStore })
  expect(before.map.storage).toBe('persistent')
  const away: Misbehave = () => new Response('', { status: 503 })
  Object.assign(directory.network.misbehave, { [A]: away, [B]: away })
  const { map, drive, harness, network } = await filtered(directory, wishes, { storage: 'required' }, { openStore })
  expect([map.filter?.state, map.epoch, await drive(map.get(ABSENT))]).toEqual(['ready', 1, undefined])
  expect(await harness.failure(map.get(LISTED))).toMatchObject({ code: 'network' })
  expect(map.stats.incidents).toContainEqual({ server: expect.stringMatching(/[ab]\.example/), code: 'network' })
  expect(await harness.failure(map.getMany([ABSENT], { padTo: 1_000 }))).toMatchObject({ code: 'network' })
  expect(lookups(network)).toEqual([])
  Object.assign(directory.network.misbehave, { [A]: undefined, [B]: undefined })
  expect(textOf(await drive(map.get(LISTED)))).toBe('v0..........')
})

test('a call of too many keys asks for none of them, also where servers have come to allow as many', async () => {
  const { openStore } = disk()
  const directory = marked(true, { maxQueries: 4 })
  const wishes = { cover: 0, meanwhile: 'wait' } as const
  const before = await filtered(directory, wishes, { storage: 'required' }, { openStore })
  await before.drive(before.map.close())
  const busy: Misbehave = () => new Response('', { status: 429 })
  Object.assign(directory.network.misbehave, { [A]: busy, [B]: busy })
  const { map, drive, network } = await filtered(directory, wishes, { storage: 'required' }, { openStore })
  directory.layOutAnew()
  directory.forget()
  Object.assign(directory.network.misbehave, { [A]: withheld, [B]: withheld })
  expect(await drive(map.getMany(Array(5).fill(ABSENT)))).toEqual(Array(5).fill(undefined))
  expect(lookups(network)).toEqual([])
})

test('plain keys are not absent from a confidential list: they are refused, and nothing is sent', async () => {
  const directory = new Directory(true, { databaseId: confidentialId(new Uint8Array(16)) }, 12, true)
  const { map, network, harness } = await filtered(directory, { cover: 1, meanwhile: 'wait' })
  expect(await harness.failure(map.get(ABSENT))).toMatchObject({ code: 'usage' })
  expect(lookups(network)).toEqual([])
})

describe('it does not open', () => {
  test.each([
    ['in another mode', { mode: 'full' }, /filter: expected mode 'instant', or .*, got mode 'full'/],
    ['in mode filter', { mode: 'filter' }, /filter: expected mode 'instant', or .*, got mode 'filter'/],
    ['without cover', { filter: { meanwhile: 'ask' } }, /cover.*it has no default/],
    ['with a cover of 2', { filter: { cover: 2, meanwhile: 'ask' } }, /a share from 0 to 1/],
    ['without meanwhile', { filter: { cover: 0 } }, /meanwhile: expected 'ask', 'wait'/],
    ['with more', { filter: { cover: 0, meanwhile: 'ask', share: 1 } }, /no option "share"/],
  ])('%s', async (_, options, message) => {
    const filter = { cover: 0, meanwhile: 'ask' } as const
    const given = { mode: 'instant', filter, publisherKey, ...options } as Partial<OpenWithOptions>
    expect(await refusedBy(marked(), given)).toMatchObject({ code: 'usage', message: expect.stringMatching(message) })
  })

  test('on a list without marks', async () => {
    const values = NAMES.map(() => new Uint8Array(3).fill(1))
    const network = sameOnBoth(buildDatabase(core, { keys: NAMES, values, partitions: 4 }))
    const options = { mode: 'instant', filter: { cover: 0, meanwhile: 'ask' } } as const
    expect(await refusedBy({ network }, options)).toMatchObject({ code: 'unsupported', reason: 'offer' })
  })
})
