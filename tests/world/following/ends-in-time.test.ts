// Calls end within their timeoutMs and a second, whatever a server does, and frozen time does not count.

import { afterAll, expect, test } from 'vitest'
import { sampled } from '../../support/thorough.js'
import { get } from '../questions.js'
import { everyMode, leaveGrounds, named, Stage } from './stage.js'
import { type Plan, Profile } from './tab.js'

afterAll(leaveGrounds)

/** Whether calls succeed is said elsewhere. */
const OFF = ['answered', 'answered-soon']

const MOODS = [
  { is: 'silent' },
  { is: 'drips', everyMs: 1_500, endless: true },
  { is: 'drips', everyMs: 300, endless: false },
  { is: 'breaks', after: 10 },
  { is: 'busy', seconds: 100 },
  { is: 'frozen', changes: 0 },
] as const
const CASES = everyMode(2).flatMap(plan =>
  [{}, { publisherKey: undefined }].flatMap(key =>
    MOODS.map(mood => [`${named({ ...plan, ...key })}, ${JSON.stringify(mood)}`, { ...plan, ...key }, mood] as const),
  ),
)

test.each(sampled(CASES))('%s: every call ends', async (_name, plan, mood) => {
  await Stage.play({}, playAll, OFF)
  async function playAll(stage: Stage) {
    const profile = new Profile()
    const timed = { ...plan, storage: 'preferred', timeoutMs: 5_000 } as const
    const tab = await stage.open(timed, profile)
    await stage.publish()
    await stage.server(1).become(mood)
    await stage.end(tab.ask(get('key 1')))
    await stage.end(tab.sync())
    await stage.end(tab.ask(get('key 2')))
    await stage.end(stage.tab(timed).open())
    await stage.end(tab.reset())
    await stage.end(tab.close())
    const again = stage.tab(timed, profile)
    await stage.end(again.open())
    if (again.map !== undefined) await stage.end(again.close())
  }
})

test.each(everyMode(2).map(plan => [named(plan), plan] as const))(
  '%s: sync() ends while all servers refuse lists of changes, and a watch follows a line',
  async (_name, plan) => {
    await Stage.play(
      {},
      async stage => {
        const timed = { ...plan, timeoutMs: 4_000 }
        const [tab, other] = [await stage.open(timed), await stage.open({ ...timed, push: false })]
        for (const each of [tab, other]) await stage.done(each.watch('key 1'))
        for (let i = 0; i < 5; i++) await stage.publish()
        for (const number of stage.all) await stage.server(number).become({ is: 'withholds' })
        await stage.publish()
        await stage.pass(500) // the line has come
        for (const call of [tab.sync(), other.sync()]) await stage.end(call)
      },
      OFF,
    )
  },
)

test('mode instant, at least two of three: a lookup ends while servers refuse connections', async () => {
  await Stage.play(
    { servers: 3 },
    async stage => {
      const tab = await stage.open({ mode: 'instant', atLeast: 2 })
      for (const number of stage.all) await stage.server(number).become({ is: 'down' })
      const error = await stage.fails(tab.ask(get('key 1'), 1_000))
      expect([error.code, error.message]).toEqual(['timeout', expect.stringContaining('the last failure')])
    },
    OFF,
  )
})

test.each(['instant', 'full', 'local'] as const)(
  'mode %s, no timeoutMs: calls end beside a server that drips',
  async mode => {
    await Stage.play(
      {},
      async stage => {
        const plan = { mode, timeoutMs: Number.POSITIVE_INFINITY }
        const tab = await stage.open(plan)
        await stage.publish()
        await stage.server(1).become({ is: 'drips', everyMs: 1_500, endless: true })
        for (const call of [() => tab.ask(get('key 1')), () => tab.sync(), () => stage.tab(plan).open()]) {
          await stage.end(call(), 60_000)
        }
      },
      OFF,
    )
  },
)

test.each(['instant', 'full'] as const)('mode %s: close() does not wait for the wire', async mode => {
  await Stage.play(
    {},
    async stage => {
      const tab = await stage.open({ mode, timeoutMs: 1_000 })
      await stage.server(1).become({ is: 'silent' })
      await stage.end(tab.ask(get('key 1')))
      await stage.end(tab.close(), 2_000)
    },
    OFF,
  )
})

/** Lookups on the wire, a line each, beside a silent server, of a caller that waits so long. */
async function wireOf(plan: Partial<Plan>, timeoutMs: number): Promise<readonly string[]> {
  return await Stage.play(
    {},
    async stage => {
      const tab = await stage.open(plan)
      await stage.get(tab)
      const before = stage.world.seen.length
      await stage.server(1).become({ is: 'silent' })
      await stage.end(tab.ask(get('key 1'), timeoutMs))
      stage.world.time.after(16_000, () => void stage.server(1).calm())
      await stage.pass(60_000)
      const lookups = stage.world.seen.slice(before).filter(({ path }) => /answer|instant/.test(path))
      return lookups.map(({ at, server, path, bytes }) => `${at} ${server.letter} ${path} ${bytes}`)
    },
    OFF,
  )
}

test.each(['instant', 'full'] as const)('mode %s: how long a caller waits is not seen on the wire', async mode => {
  const wire = await wireOf({ mode }, 1_000)
  expect(wire).toEqual(await wireOf({ mode }, 100_000))
  const times = wire.map(line => Number(line.split(' ')[0]))
  expect(Math.max(...times) - Math.min(...times)).toBeLessThan(15_000)
})

test.each(everyMode(2).map(plan => [named(plan), plan] as const))(
  '%s: a frozen page waits no time',
  async (_name, plan) => {
    await Stage.play({}, async stage => {
      const tab = await stage.open({ ...plan, timeoutMs: 5_000 })
      const lookups = () => stage.world.seen.filter(({ path }) => /answer|instant/.test(path)).length
      const before = lookups()
      const call = tab.ask(get('key 1'))
      await stage.pass(1) // its requests have left
      tab.freeze()
      await stage.pass(3_600_000)
      tab.thaw()
      await stage.done(call)
      const sent = lookups() - before
      expect(await stage.get(tab)).toBeLessThan(1_000)
      expect(lookups() - before).toBe(2 * sent) // nothing was sent again
    })
  },
)
