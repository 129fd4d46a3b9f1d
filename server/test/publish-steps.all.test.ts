// The publisher's machine, disturbed at every effect: each request and each write of the record. It is killed before or after the effect,
// or the request or its reply is lost, or the request arrives while the next run is under way. Another run heals what was left.

import { readFile } from 'node:fs/promises'
import { setImmediate as nextTask } from 'node:timers/promises'
import { ed25519 } from '@noble/curves/ed25519.js'
import { describe, expect, test } from 'vitest'
import { PUBLISHER } from '../../tests/support/publishing.js'
import { THOROUGH } from '../../tests/support/thorough.js'
import { PublisherRecord, publish, STEPS } from '../dist/index.js'
import { builtDirectory } from './helpers.js'
import { chance, type Disturbance, FATES, operationsOf, outcomeOf, type Server, World } from './publish-world.js'
import { KEYED } from './updatable-helpers.js'

const SECOND = ed25519.keygen(new Uint8Array(32).fill(8))

const line = (operation: object) => `${JSON.stringify(operation)}\n`
const RUNS = {
  nothing: undefined,
  edit: line({ op: 'edit', key: 'one', value: 'edited' }),
  other: line({ op: 'edit', key: 'two', value: 'another' }),
  // Three keys make 16 partitions of one record: with 18 more a new generation pays.
  grow: Array.from({ length: 18 }, (_, i) => line({ op: 'add', key: `new ${i}`, value: 'x' })).join(''),
  generation: line({ op: 'generation', headroom: 40 }),
  renew: line({ op: 'renew' }),
} as const
type Run = keyof typeof RUNS

/** `npm test` takes one of so many cases. */
const SAMPLE = 40

/** Publishes from the first step, with what disturbs it. */
const run = (world: World, name: Run, disturbance?: Disturbance, record?: PublisherRecord, isReversed = false) =>
  world.perform(
    options => {
      const servers = isReversed ? [...options.servers].reverse() : options.servers
      const text = RUNS[name]
      const operations = text === undefined ? undefined : Buffer.from(text)
      return publish({ ...options, servers, operations, ...(name === 'renew' && { expires: 4_000_000_000 }) })
    },
    disturbance,
    record,
  )

describe.each([
  [1, 'one key', [PUBLISHER]],
  [2, 'one key', [PUBLISHER]],
  [2, 'two keys', [PUBLISHER, SECOND]],
  [3, 'one key', [PUBLISHER]],
] as const)('%i servers, %s', (count, _, keys) => {
  test.each(['edit', 'grow', 'generation', 'renew'] as const)(
    'a run that does "%s" is healed by any other, whatever disturbed it',
    async first => {
      const dataset = await builtDirectory('a.csv', KEYED, { maxValueBytes: 20 })
      const calm = await World.begin(dataset, count, keys)
      await run(calm, first)
      await calm.expectWhole()
      await calm.end()
      const nexts = [first, 'other', 'nothing'] as const
      const draw = chance(count * 100 + first.length)
      for (let effect = 1; effect <= calm.effects; effect++) {
        for (const fate of FATES) {
          if (draw(THOROUGH ? 6 : SAMPLE) !== 0) continue
          const next = nexts[draw(3)]!
          const world = await World.begin(dataset, count, keys)
          const disturbance = { effect, fate, arrives: 1 + draw(8) }
          const seen = `${fate} at effect ${effect}, then ${next}`
          await outcomeOf(run(world, first, disturbance))
          let left = await outcomeOf(run(world, next, { ...disturbance, effect: 0 }))
          if (fate === 'late') {
            // It may have stopped that run, or have come behind it.
            await world.arrive()
            left = await outcomeOf(run(world, next))
          }
          expect([seen, left]).toEqual([seen, undefined])
          await world.expectWhole(seen)
          for (const each of [first, next]) {
            const most = each === 'renew' ? 3 : 1
            expect([seen, each, each === 'nothing' || (await world.made(RUNS[each])) <= most]).toEqual([
              seen,
              each,
              true,
            ])
          }
          if (next !== 'nothing') expect([seen, (await world.made(RUNS[next])) > 0]).toEqual([seen, true])
          await world.end()
        }
      }
    },
  )
})

test('two publishers at once, with one record or two, that name the servers in opposite orders part none, and a run of each heals what is left', async () => {
  const dataset = await builtDirectory('a.csv', KEYED, { maxValueBytes: 20 })
  const draw = chance(5)
  for (let n = 0; n < (THOROUGH ? 25 : 4); n++) {
    const world = await World.begin(dataset, 3, [PUBLISHER])
    const other = n % 2 === 0 ? world.record : new PublisherRecord()
    world.pause = async () => {
      for (let turns = draw(6); turns > 0; turns--) await nextTask()
    }
    const outcomes = await Promise.all([
      outcomeOf(run(world, 'edit')),
      outcomeOf(run(world, 'other', undefined, other, true)),
    ])
    for (const outcome of outcomes)
      expect([n, outcome?.message ?? '']).toEqual([n, expect.not.stringContaining('DIVERGED')])
    // The first may find an epoch that only the other knows to be its own.
    await outcomeOf(run(world, 'edit'))
    for (const again of [await outcomeOf(run(world, 'other', undefined, other)), await outcomeOf(run(world, 'edit'))]) {
      if (again !== undefined) expect([n, again]).toEqual([n, expect.objectContaining({ exit: 5 })]) // published before
    }
    expect([n, await outcomeOf(run(world, 'nothing'))]).toEqual([n, undefined])
    await world.expectWhole(`${n}`)
    expect([n, await world.made(RUNS['edit']), await world.made(RUNS['other'])]).toEqual([n, 1, 1])
    await world.end()
  }
})

test('a server that comes back from a backup gets nothing before its own newest epoch is signed, however often the run is killed', async () => {
  const dataset = await builtDirectory('a.csv', KEYED, { maxValueBytes: 20 })
  const restored = 'http://c.example'
  /** Two epochs on all servers, and two more where the third was away. */
  const begun = async () => {
    const world = await World.begin(dataset, 3, [PUBLISHER])
    await run(world, 'edit')
    const away = world.servers.get(restored)!
    world.servers.delete(restored)
    for (const each of ['other', 'renew'] as const) await run(world, each)
    world.servers.set(restored, away)
    return world
  }
  const calm = await begun()
  await run(calm, 'nothing')
  await calm.expectWhole()
  await calm.end()
  for (let effect = 1; effect <= calm.effects; effect += THOROUGH ? 1 : 3) {
    const world = await begun()
    const disturbance = { effect, fate: 'killed before', arrives: 0 } as const
    for (let times = 0; times < 2; times++) await outcomeOf(run(world, 'nothing', disturbance))
    await run(world, 'nothing')
    await world.expectWhole(`${effect}`)
    await world.end()
  }
})

test('a server that says to any batch that the generation is full makes no run begin another for a batch that adds nothing', async () => {
  const world = await World.begin(await builtDirectory('a.csv', KEYED, { maxValueBytes: 20 }), 2, [PUBLISHER])
  const [[url, liar], [, other]] = [...world.servers] as [[string, Server], [string, Server]]
  const inject: Server['inject'] = async (method, path, headers, payload) => {
    const isBatch = path === '/v1/epochs' || path === '/v1/checks'
    const isRefused = isBatch && !operationsOf(payload!).includes('"generation"')
    if (!isRefused) return await liar.inject(method, path, headers, payload)
    return Response.json({ code: 'batch_refused', message: 'full: begin a new generation', line: 1 }, { status: 422 })
  }
  world.servers.set(url, { ...liar, inject })
  for (let runs = 0; runs < 3; runs++) {
    expect(await outcomeOf(run(world, 'edit'))).toMatchObject({ code: 'batch_refused' })
    expect(other.epoch).toBe(1)
  }
  await world.end()
})

test('a batch that one server alone refuses reaches no server, whichever it is, and is not kept', async () => {
  const dataset = await builtDirectory('a.csv', KEYED, { maxValueBytes: 20 })
  for (const count of [2, 3]) {
    for (let which = 0; which < count; which++) {
      const world = await World.begin(dataset, count, [PUBLISHER])
      const [url, server] = [...world.servers][which]!
      const refuse = () => Response.json({ code: 'batch_refused', message: 'line 1: no', line: 1 }, { status: 422 })
      const inject: Server['inject'] = async (method, path, ...others) =>
        method === 'POST' && path !== '/v1/signatures' ? refuse() : await server.inject(method, path, ...others)
      world.servers.set(url, { ...server, inject })
      expect(await outcomeOf(run(world, 'edit'))).toMatchObject({ code: 'batch_refused', exit: 1 })
      expect([...world.servers.values()].map(({ epoch }) => epoch)).toEqual(Array(count).fill(1))
      world.servers.set(url, server)
      expect(await outcomeOf(run(world, 'other'))).toBeUndefined()
      await world.expectWhole()
      expect([await world.made(RUNS.edit), await world.made(RUNS.other)]).toEqual([0, 1])
      await world.end()
    }
  }
})

test('a batch that the first server refused, and sends to the others itself, is published before any other', async () => {
  const dataset = await builtDirectory('a.csv', KEYED, { maxValueBytes: 20 })
  for (const count of [2, 3]) {
    const world = await World.begin(dataset, count, [PUBLISHER])
    const [[url, first], [, second]] = [...world.servers] as [[string, Server], [string, Server]]
    let kept: Parameters<Server['inject']> | undefined
    const inject: Server['inject'] = async (...request) => {
      if (request[1] !== '/v1/epochs' || kept !== undefined) return await first.inject(...request)
      kept = request
      return Response.json({ code: 'batch_refused', message: 'line 1: no', line: 1 }, { status: 422 })
    }
    world.servers.set(url, { ...first, inject })
    expect(await outcomeOf(run(world, 'edit'))).toMatchObject({ code: 'batch_refused' })
    world.onEpoch = async server => {
      if (server === world.servers.get(url)) await second.inject(...kept!)
    }
    expect(await outcomeOf(run(world, 'other'))).toBeUndefined()
    await world.expectWhole()
    expect([await world.made(RUNS.edit), await world.made(RUNS.other)]).toEqual([1, 1])
    await world.end()
  }
})

test('a machine without the record sends nothing while one server alone has a batch, and one with the record goes on', async () => {
  const dataset = await builtDirectory('a.csv', KEYED, { maxValueBytes: 20 })
  let parted = 0
  for (let effect = 1; effect <= 12; effect++) {
    const world = await World.begin(dataset, 2, [PUBLISHER])
    const [first, second] = [...world.servers.values()] as [Server, Server]
    await outcomeOf(run(world, 'edit', { effect, fate: 'killed after', arrives: 0 }))
    if (first.epoch > second.epoch) {
      parted += 1
      const refused = await outcomeOf(run(world, 'other', undefined, new PublisherRecord(), true))
      expect(refused).toMatchObject({ exit: 4, message: expect.stringContaining('wait until it ends') })
      expect([first.epoch, second.epoch, world.sent]).toEqual([2, 1, 0])
      expect(await outcomeOf(run(world, 'other'))).toBeUndefined()
      await world.expectWhole(`${effect}`)
      expect([await world.made(RUNS.edit), await world.made(RUNS.other)]).toEqual([1, 1])
    }
    await world.end()
  }
  expect(parted).toBeGreaterThan(0)
})

test('while the first server refuses what it has checked, nothing else is sent; a generation that it refuses is in the way of nothing', async () => {
  const dataset = await builtDirectory('a.csv', KEYED, { maxValueBytes: 20 })
  for (const [refused, epoch] of [
    ['edit', 1],
    ['generation', 2],
  ] as const) {
    const world = await World.begin(dataset, 2, [PUBLISHER])
    const [[url, first], [, second]] = [...world.servers] as [[string, Server], [string, Server]]
    const inject: Server['inject'] = async (...request) => {
      const isRefused =
        request[1].startsWith('/v1/epochs') && request[3] !== undefined && operationsOf(request[3]) === RUNS[refused]
      if (!isRefused) return await first.inject(...request)
      return Response.json({ code: 'batch_refused', message: 'line 1: no', line: 1 }, { status: 422 })
    }
    world.servers.set(url, { ...first, inject })
    expect(await outcomeOf(run(world, refused))).toMatchObject({ code: 'batch_refused', exit: 1 })
    const next = await outcomeOf(run(world, 'other'))
    expect([next?.message ?? '', second.epoch]).toEqual([
      epoch === 1 ? expect.stringContaining('have checked') : '',
      epoch,
    ])
    await world.end()
  }
})

test('the steps are those of the page, in order', async () => {
  const page = await readFile(new URL('../../docs/operations/publish.md', import.meta.url), 'utf8')
  const rows = [...page.matchAll(/^\| (\d+) \| (\w+) \|/gm)].map(([, number, step]) => [Number(number), step])
  expect(rows).toEqual(STEPS.map((step, i) => [i + 1, step]))
})
