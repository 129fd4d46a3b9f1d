// The rollback fence (S8): what a refusal does, whenever it comes, and what it must not do to a tab that is merely late.

import { decodeFenceRequest, encodeFenceReply } from '@pirouette/protocol'
import { describe, expect, test } from 'vitest'
import type { Environment } from '../src/injection.js'
import { buildDatabase, later, someValues } from './support/database.js'
import { core, Harness, keyless } from './support/harness.js'
import { A, B, type Misbehave, ok, on, type Seen } from './support/network.js'
import { World } from './support/world.js'

const noLocks: Partial<Environment> = { locks: { hold: (_name, _patienceMs, task) => task() } }
const refused = () => ok(encodeFenceReply('refused'))
const isConfirmation = ({ path, body }: Seen) => path === '/v1/fence' && decodeFenceRequest(body).kind === 'confirm'

/** The first confirmation meets with `instead`; what follows is answered as ever. */
function firstConfirmation(instead: () => Response | Promise<Response>): Misbehave {
  let over = false
  return seen => {
    if (over || !isConfirmation(seen)) return undefined
    over = true
    return instead()
  }
}

/** Something to wait for, and how to say that it has come. */
function event(): { readonly come: () => void; readonly hasCome: Promise<void> } {
  let come = () => {}
  const hasCome = new Promise<void>(resolve => {
    come = resolve
  })
  return { come, hasCome }
}

async function refreshServer(world: World): Promise<string> {
  return (await world.head())!.record.refreshServer
}

describe('a refusal that comes later than the answers', () => {
  test('condemns what is on the disk: it was this batch that was refused', async () => {
    const world = new World()
    const life = world.life()
    const map = await life.open()
    const { come, hasCome } = event()
    world.network.misbehave[await refreshServer(world)] = firstConfirmation(async () => {
      await hasCome
      return refused()
    })
    // In step with the fence, a copy makes one lookup at most, and this is it.
    expect(await world.drive(map.at(6))).toEqual(world.database.byIndex[6])
    const next = life.failure(map.at(7))
    come()
    expect((await next).code).toBe('condemned')
    expect(await world.head()).toMatchObject({ condemned: { culprit: undefined } })
    expect(world.auditor.distinct(A)).toBe(1)
    await world.drive(map.reset())
    await world.checkValues(map)
  })

  test('condemns what is in memory', async () => {
    const { network, database } = keyless()
    const harness = new Harness(network)
    const map = await harness.open()
    const { come, hasCome } = event()
    const { refreshServer } = (await harness.store.read())!.record
    network.misbehave[refreshServer] = firstConfirmation(async () => {
      await hasCome
      return refused()
    })
    expect(await harness.drive(map.at(3))).toEqual(database.byIndex[3])
    const next = harness.failure(map.at(4))
    come()
    expect((await next).code).toBe('condemned')
    expect(network.queries()).toHaveLength(2)
  })
})

describe('a tab that the fence refuses because another has gone further on the same disk', () => {
  test('while it opens: follows', async () => {
    const world = new World()
    const first = world.life(noLocks)
    const map = await first.open()
    const late = world.life(noLocks)
    world.network.misbehave[await refreshServer(world)] = firstConfirmation(async () => {
      for (const index of [1, 2]) expect(await map.at(index)).toEqual(world.database.byIndex[index])
      return refused()
    })
    const lateMap = await late.open()
    await world.checkValues(lateMap)
    await world.checkValues(map)
    expect(late.events).toEqual([{ type: 'resumed', what: 'hint', pending: false }])
    await world.auditor.assertSound()
  })

  test('during a lookup that the other has finished: has its value all the same, from the same bytes', async () => {
    const world = new World()
    const [one, two] = [world.life(noLocks), world.life(noLocks)]
    const [map, other] = [await one.open({ rollback: 'strict' }), await two.open()]
    world.network.misbehave[await refreshServer(world)] = firstConfirmation(async () => {
      expect(await other.at(9)).toEqual(world.database.byIndex[9])
      return refused()
    })
    expect(await world.drive(map.at(6))).toEqual(world.database.byIndex[6])
    expect(world.auditor.distinct(A)).toBe(2) // each call one query of its own
    expect(world.network.queries()).toHaveLength(6)
    await world.checkValues(map, [6, 2])
    expect(one.events.map(({ type }) => type)).not.toContain('condemned')
    await world.auditor.assertSound()
  })

  test('because the other has condemned it: says who has lied', async () => {
    const world = new World()
    const first = world.life(noLocks)
    await first.open()
    const { record } = (await world.head())!
    world.network.misbehave[record.refreshServer] = firstConfirmation(async () => {
      await world.disk.condemn(record.hintId, B)
      return refused()
    })
    const late = world.life(noLocks)
    const map = await late.open()
    expect(await late.failure(map.at(1))).toMatchObject({ code: 'condemned', server: B })
    expect((await world.head())?.condemned).toEqual({ culprit: B })
  })
})

test('a version is confirmed only once it cannot be undone by a power failure', async () => {
  const world = new World()
  const first = world.life()
  const map = await first.open()
  await world.checkValues(map, [1, 2])
  first.kill()
  const before = world.network.seen.length
  const next = world.life()
  const reopened = await next.open()
  const stored: boolean[] = []
  world.network.misbehave[await refreshServer(world)] = async (seen, genuine) => {
    if (isConfirmation(seen)) stored.push((await world.head())?.pending !== undefined)
    return genuine
  }
  await world.checkValues(reopened, [3, 4])
  expect(stored).toEqual([true, true])
  // The first waits for the fence, the second goes along with it.
  const paths = world.network.seen.slice(before).map(({ path }) => path)
  const chains = Array(2).fill('/v1/manifests?since=0')
  const lookup = ['/v1/fence', '/v1/answer', '/v1/answer']
  expect(paths).toEqual([...chains, ...lookup, ...lookup])
})

test('a hint that another tab condemns while this one finds it outdated stays condemned', async () => {
  const world = new World()
  const first = world.life()
  await first.open()
  first.kill()
  const { hintId } = (await world.head())!.record
  const other = buildDatabase(core, { values: someValues(1000, 8), partitions: 16, manifest: later(2) })
  for (const server of [A, B]) {
    world.network.publish(server, other)
    world.network.misbehave[server] = on('/v1/manifests', async genuine => {
      await world.disk.condemn(hintId, B)
      return genuine
    })
  }
  const late = world.life(noLocks)
  const map = await late.open()
  expect(await late.failure(map.at(1))).toMatchObject({ code: 'condemned', server: B })
  expect(await world.head()).toMatchObject({ record: { hintId }, condemned: { culprit: B } })
})
