// The rollback fence (S8): no state that was put back, copied or rewound shows a column twice, whatever servers and the
// network do; and nobody whose state is the newest loses it.

import { FENCE_REPLY_BYTES, HEADER_BYTES, toHex } from '@keyhush/protocol'
import { describe, expect, test } from 'vitest'
import { FENCE_REST_MS } from '../src/base/constants.js'
import type { KeyhushMap, MapEvent } from '../src/index.js'
import { deferred, settle } from './support/clock.js'
import { hex, keyed, keyless, NAMES, openedOn, sameOnBoth } from './support/harness.js'
import { edit, Living, livingWorld } from './support/living.js'
import {
  A,
  B,
  bytesOf,
  claimIn,
  epochUnknown,
  flip,
  hang,
  type Misbehave,
  type Network,
  ok,
  on,
  problem,
  type Seen,
} from './support/network.js'
import { agreeing, type Life, noLocks, openedWorld, records, type Setting, twoTabs, World } from './support/world.js'

const FENCE = '/v1/fence'
/** A value of the records. */
const padded = (text: string) => text.slice(0, 8).padEnd(8, '\0')

/** The hint's servers, as the disk has it. */
async function rolesOf(world: World): Promise<{ retrieve: string; refresh: string }> {
  const [retrieve, refresh] = (await world.head())!.record.parties as [string, string]
  return { retrieve, refresh }
}

/** A world with one tab, its map, and the hint's servers. */
async function opened(options = {}, setting: Setting = {}) {
  const there = await openedWorld(options, setting)
  return { ...there, ...(await rolesOf(there.world)) }
}

/** Whether its refresh server knows the stored hint. */
async function isRegistered(world: World): Promise<boolean> {
  const { hintId, parties } = (await world.head())!.record
  return world.network.hints.has(`${parties[1]} ${toHex(hintId)}`)
}

/** How often one server has seen a column twice with different contents. */
function contradictions(network: Network, server: string): number {
  return contradictory(
    network
      .queries()
      .filter(seen => seen.server === server)
      .map(({ body }) => body.subarray(40)),
  )
}

/** Pairs of different vectors that agree almost everywhere. */
function contradictory(shown: readonly Uint8Array[]): number {
  const vectors = [...new Set(shown.map(hex))].map(vector => Buffer.from(vector, 'hex'))
  let pairs = 0
  vectors.forEach((one, i) => {
    // Half of 16 offsets below 63: by chance in one pair of 10^10; the seeds are fixed.
    for (const other of vectors.slice(i + 1)) if (agreeing(one, other) >= 8) pairs++
  })
  return pairs
}

/** A misbehaviour on whatever tells a fence something: requests of its own, and queries with a claim. */
function onClaims(change: Misbehave): Misbehave {
  return (seen, genuine) => (claimIn(seen) === undefined ? undefined : change(seen, genuine))
}

/** Another word than the fence's, in a reply of its own or behind an answer. */
function says(other: (word: Uint8Array) => Uint8Array): Misbehave {
  return onClaims(async (_seen, genuine) => {
    if (genuine.status !== 200) return genuine
    const bytes = await bytesOf(genuine)
    const at = bytes.length - FENCE_REPLY_BYTES
    return ok(Buffer.concat([bytes.subarray(0, at), other(bytes.subarray(at))]))
  })
}

/** A forged answer, and no word behind it. */
const forgedWithout = onClaims(async (_seen, genuine) => {
  const bytes = await bytesOf(genuine)
  return ok(bytes.map((byte, at) => (at === 50 ? byte ^ 1 : byte)).slice(0, -FENCE_REPLY_BYTES))
})

/** The fence hears and keeps what it is told, and its reply is lost, the first `times`. */
function lostReplies(times: number): Misbehave {
  let left = times
  return onClaims(() => (left-- > 0 ? Promise.reject(new TypeError('connection lost')) : undefined))
}

/** The fence hears nothing: what it keeps stays as it is now. */
function lostRequests({ hints }: Network): Misbehave {
  const before = [...hints]
  return onClaims(() => {
    hints.clear()
    for (const [key, kept] of before) hints.set(key, kept)
    return Promise.reject(new TypeError('connection lost'))
  })
}

const REFUSED = Uint8Array.of(0x50, 0x49, 0x52, 0x46, 1, 0, 2, 0)
const silent = onClaims(hang(''))

const condemned: MapEvent = { type: 'condemned', server: undefined }

/** The same, of a database that changes. */
async function openedChanging(options = {}, seed = 1) {
  const living = new Living(sameOnBoth(records), records)
  return { living, ...(await opened(options, { living, seed })) }
}

describe('a new hint', () => {
  test('is registered before it is first stored: killed at any moment, nothing is stored that the fence does not know', async () => {
    let stored = 0
    for (let turns = 0, over = false; !over; turns += 2) {
      const world = new World()
      const life = world.life()
      over = await life.killAfter(turns, life.openIdle())
      if ((await world.head()) === undefined) continue
      stored++
      expect(await isRegistered(world)).toBe(true)
    }
    expect(stored).toBeGreaterThan(10)
  })

  test('killed in between: the next life registers another, and is not refused', async () => {
    const world = new World()
    await world.killedAt('begin')
    expect(world.network.hints.size).toBe(1)
    expect(await world.head()).toBeUndefined()
    await world.checkValues(await world.life().open())
    expect(world.network.hints.size).toBe(2)
    expect(await isRegistered(world)).toBe(true)
  })

  test('is confirmed as soon as it is stored, half-made too, because a fence soon forgets unconfirmed hints', async () => {
    const confirmations = ({ network }: World) => network.seen.filter(({ path }) => path === FENCE).map(claimIn)
    const world = new World()
    await world.killedAt('putPartial')
    expect((await world.head())!.stage).toBe('partial')
    expect(confirmations(world).at(-1)).toMatchObject({ kind: 'confirm', requestHash: new Uint8Array(32) })

    const whole = await opened()
    await whole.world.drive(whole.map.reset())
    const { hintId } = (await whole.world.head())!.record
    expect(confirmations(whole.world).at(-1)).toMatchObject({ kind: 'confirm', hintId })
  })

  test('is registered once, and never again: not by a later life, and reset() registers another', async () => {
    const { world, life } = await opened()
    life.kill()
    const next = await world.life().open()
    await world.checkValues(next, [1, 2])
    await world.drive(next.reset())
    await world.checkValues(next, [1, 2])
    const registered = world.network.claims().filter(({ kind }) => kind === 'register')
    expect(new Set(registered.map(({ hintId }) => hex(hintId))).size).toBe(2)
    expect(registered).toHaveLength(2)
  })

  test('the reply to its registration is lost: it is registered all the same', async () => {
    const world = new World()
    world.network.both(lostReplies(1))
    await world.checkValues(await world.life().open())
    expect(await isRegistered(world)).toBe(true)
  })

  test.each<[string, Misbehave, string]>([
    ['is silent', hang(FENCE), 'network'],
    ['refuses', on(FENCE, () => ok(REFUSED)), 'protocol'],
    ['says nothing anybody understands', on(FENCE, () => ok(new Uint8Array(8))), 'protocol'],
    ['is out of order', on(FENCE, () => problem(500, 'internal')), 'network'],
    ['has too much to do', on(FENCE, () => problem(429, 'rate_limited')), 'rate_limited'],
  ])('its refresh server %s: open() fails, and nothing is stored', async (_what, misbehave, code) => {
    const world = new World()
    world.network.both(misbehave)
    const life = world.life()
    expect((await life.failure(life.openIdle())).code).toBe(code)
    expect(await world.head()).toBeUndefined()
  })

  test.each([A, B])(
    "of two fences that of %s is away: open() fails with 'strict', and succeeds without",
    async away => {
      const world = new World()
      world.network.misbehave[away] = hang(FENCE)
      const options = { mode: 'single', collusion: 'tolerated', lookups: 20 } as const
      const life = world.life()
      const error = await life.failure(life.openIdle({ ...options, rollback: 'strict' }))
      expect(error).toMatchObject({ code: 'network', retryable: true, server: away })
      expect((await world.life().open(options)).mode).toBe('single')
    },
  )

  describe.each([
    ['no fence', 'none'],
    ['a full one', 'full'],
  ])('of a server with %s', (_what, reason) => {
    const without = (network: Network) => {
      if (reason === 'none') network.fence = false
      else network.both(on(FENCE, () => problem(503, 'fence_full')))
    }
    const begun = async () => {
      const world = new World()
      without(world.network)
      const { life, map } = await world.opened()
      await world.checkValues(map)
      return { world, life, map }
    }
    const withFence = ({ network }: World) => {
      network.fence = true
      network.both(undefined)
    }

    test('is unfenced and stays so, also when there is one later; the next hint is fenced', async () => {
      const { world } = await begun()
      expect((await world.head())!.record.fenced).toEqual([])
      withFence(world)
      const before = world.network.claims().length
      const map = await world.life().open()
      await world.checkValues(map)
      expect(world.network.claims()).toHaveLength(before)
      await world.drive(map.reset())
      await world.checkValues(map)
      expect((await world.head())!.record.fenced).toHaveLength(1)
    })

    test('is so in stats, in every life, and in an event once for each hint', async () => {
      const { world, life, map } = await begun()
      const unfenced = ({ events }: Life) => events.filter(({ type }) => type === 'unfenced')
      const { refresh: refreshServer } = await rolesOf(world)
      expect(unfenced(life)).toEqual([{ type: 'unfenced', server: refreshServer, reason }])
      expect(map.stats.fenced).toBe(false)
      await world.drive(map.reset())
      const { refresh: server } = await rolesOf(world)
      expect(unfenced(life).slice(1)).toEqual([{ type: 'unfenced', server, reason }])
      withFence(world)
      const { life: next, map: again } = await world.opened()
      expect(again.stats.fenced).toBe(false)
      await world.drive(again.reset())
      expect(again.stats.fenced).toBe(true)
      expect(unfenced(next)).toEqual([])
    })

    test("rollback: 'strict' is refused, and nothing is stored", async () => {
      const world = new World()
      without(world.network)
      const life = world.life()
      expect((await life.failure(life.openIdle({ rollback: 'strict' }))).code).toBe('unsupported')
      expect(await world.head()).toBeUndefined()
    })

    test("rollback: 'strict' on a hint made so is refused, and the hint stays for whoever asks for less", async () => {
      const { world } = await begun()
      withFence(world)
      const sent = world.network.queries().length
      const life = world.life()
      expect((await life.failure(life.openIdle({ rollback: 'strict' }))).code).toBe('unsupported')
      expect(world.network.queries()).toHaveLength(sent)
      const map = await world.life().open()
      await world.checkValues(map)
      await world.drive(map.reset())
      await world.drive(map.close())
      await world.checkValues(await world.life().open({ rollback: 'strict' }))
    })
  })
})

describe('state put back', () => {
  interface Scene {
    readonly world: World
    readonly map: KeyhushMap
    /** its disk as it was once */
    readonly copy: World
  }

  const scenes: Record<string, () => Promise<Scene>> = {
    'from before the last lookup': async () => {
      const { world, map } = await opened()
      await world.checkValues(map, [1, 2])
      const copy = world.copy()
      await world.checkValues(map, [3])
      return { world, map, copy }
    },
    'from many lookups ago': async () => {
      const { world, map } = await opened()
      const copy = world.copy()
      await world.checkValues(map, [1, 2, 3, 4, 5, 6, 7])
      return { world, map, copy }
    },
    'with a lookup pending that was finished since, and another made': async () => {
      const { world, life, map } = await opened()
      await world.interrupt(life, map)
      const copy = world.copy()
      await world.checkValues(map, [1])
      return { world, map, copy }
    },
    'from the middle of its download': async () => {
      const world = new World()
      const life = world.life()
      const copies: World[] = []
      life.at('putPartial', 'after', () => void copies.push(world.copy()), 1)
      const map = await life.open()
      await world.checkValues(map, [1])
      return { world, map, copy: copies[0]! }
    },
  }

  describe.each(['confirm', 'strict'] as const)('%s', rollback => {
    test.each(Object.entries(scenes))('%s: caught before a vector leaves, for good', async (_what, scene) => {
      const { world, map, copy } = await scene()
      const sent = copy.network.queries().length
      const { life: thief, map: copied } = await copy.opened({ rollback })
      expect(thief.events.filter(({ type }) => type === 'condemned')).toEqual([condemned])
      for (let i = 0; i < 2; i++) expect((await thief.failure(copied.at(6))).code).toBe('condemned')
      thief.kill()
      const { life: next, map: again } = await copy.opened({ rollback })
      expect((await next.failure(again.at(6))).code).toBe('condemned')
      expect(copy.network.queries()).toHaveLength(sent)
      expect((await copy.head())!.condemned).toEqual({ culprit: undefined })

      await copy.drive(again.reset())
      await copy.checkValues(again)
      await world.checkValues(map) // the original goes on
      expect(contradictions(world.network, (await rolesOf(world)).retrieve)).toBe(0)
    })

    test('what was put back follows the database for as long as it likes: it is caught', async () => {
      const { living, world, map } = await openedChanging({ rollback })
      const copy = world.copy()
      await world.checkValues(map, [1, 2])
      for (let epoch = 0; epoch < 8; epoch++) living.publish([edit(epoch, padded(`epoch ${epoch}`))])
      const sent = world.network.queries().length
      const { life: thief, map: copied } = await copy.opened({ rollback })
      expect((await thief.failure(copied.at(6))).code).toBe('condemned')
      expect(world.network.queries()).toHaveLength(sent)
    })

    test('the fence has lost what it knew: condemned, and never waved through', async () => {
      const { world, life, map } = await opened({ rollback })
      await world.checkValues(map, [1])
      await world.drive(map.close())
      life.kill()
      world.network.hints.clear()
      const sent = world.network.queries().length
      const { life: next, map: lostMap } = await world.opened({ rollback })
      expect((await next.failure(lostMap.at(6))).code).toBe('condemned')
      expect(world.network.queries()).toHaveLength(sent)
      await world.drive(lostMap.reset())
      await world.checkValues(lostMap)
    })

    test('the fence could not be reached when it was opened: caught at the first lookup, before a vector leaves', async () => {
      const { world, map } = await opened()
      const copy = world.copy()
      await world.checkValues(map, [1, 2])
      const { refresh } = await rolesOf(world)
      const thief = copy.life()
      copy.network.misbehave[refresh] = hang(FENCE)
      const copied = await thief.open({ rollback })
      copy.network.misbehave[refresh] = undefined
      const sent = copy.network.queries().length
      expect((await thief.failure(copied.at(6))).code).toBe('condemned')
      expect(copy.network.queries()).toHaveLength(sent)
      expect((await copy.head())!.condemned).toBeDefined()
    })
  })

  test('without a fence none of this is noticed: the same scenes contradict themselves', async () => {
    const network = new World().network
    network.fence = false
    const { world, map, retrieve } = await opened({}, { network })
    const copy = world.copy()
    await world.checkValues(map, [6])
    await copy.checkValues(await copy.life().open(), [6])
    expect(contradictions(network, retrieve)).toBe(1)
  })

  test('the newest state put in place of itself is nobody’s loss: moved to another device, it goes on', async () => {
    const { world, life, map } = await opened()
    await world.checkValues(map, [1, 2, 3])
    await world.drive(map.close())
    life.kill()
    const moved = world.copy()
    const next = moved.life()
    await moved.checkValues(await next.open())
    expect(next.events).not.toContainEqual(condemned)
  })

  test('with the pending lookup that was the last: the same bytes go out, and nothing is condemned', async () => {
    const { world, life, map } = await opened()
    await world.interrupt(life, map, B)
    const copy = world.copy()
    const before = world.network.queries().map(({ body }) => hex(body))
    const sent = world.network.queries().length
    await world.drive(map.close())
    const next = copy.life()
    await copy.checkValues(await next.open(), [1])
    const [first] = world.network.queries(sent)
    expect(before).toContain(hex(first!.body))
    expect(next.events).not.toContainEqual(condemned)
  })

  test('a power failure takes the last effect with it, also after another life was opened: nothing is condemned', async () => {
    const { world, life, map } = await opened()
    await world.checkValues(map, [1])
    const copies: World[] = []
    life.at('commit', 'before', () => void copies.push(world.copy()))
    await world.checkValues(map, [2])
    await world.drive(map.close())
    life.kill()
    const second = world.life()
    await second.open() // the fence has confirmed the version after
    second.kill()
    const before = copies[0]!
    const next = before.life()
    await before.checkValues(await next.open())
    expect(next.events).not.toContainEqual(condemned)
    expect(contradictions(world.network, (await rolesOf(world)).retrieve)).toBe(0)
  })
})

describe('two live copies', () => {
  async function twoAwake(rollback: 'confirm' | 'strict') {
    const { world, life, map } = await opened({ rollback })
    const copy = world.copy()
    const { life: twin, map: copied } = await copy.opened({ rollback })
    const { retrieve, refresh } = await rolesOf(world)
    return { world, life, map, copy, twin, copied, retrieve, refresh }
  }

  /** Distinct vectors the retrieve server has been shown through one device. */
  const shown = (world: World, retrieve: string) => world.auditor.distinct(retrieve)

  test.each([
    ['confirm', 1],
    ['strict', 0],
  ] as const)('%s: of lookups the one that comes second makes %i, and no more', async (rollback, most) => {
    const { world, map, copy, twin, copied, retrieve } = await twoAwake(rollback)
    await world.checkValues(map, [1])
    for (const index of [1, 0, 1, 2]) expect((await twin.failure(copied.at(index))).code).toBe('condemned')
    expect(shown(copy, retrieve)).toBe(most)
    await world.checkValues(map)
    expect(contradictions(world.network, retrieve)).toBe(most)
  })

  test('strict: it makes none, though another tab takes the copy to the next epoch meanwhile', async () => {
    const { living, world, map } = await openedChanging({ rollback: 'strict' })
    const copy = world.copy()
    const twin = copy.life(noLocks)
    const copied = await twin.open({ rollback: 'strict' })
    const beside = await copy.life(noLocks).open({ rollback: 'strict' })
    const { retrieve, refresh } = await rolesOf(world)
    await world.checkValues(map, [1])
    living.publish([edit(3, padded('three'))])
    let asked = 0
    world.network.misbehave[refresh] = async (seen, genuine) => {
      // The update raises the version of the stored state while the claim is on its way. It lets nobody off.
      if (seen.path === FENCE && asked++ === 0) await copy.drive(beside.sync())
      return genuine
    }
    expect((await twin.failure(copied.at(1))).code).toBe('condemned')
    expect(asked).toBe(1)
    expect(copy.auditor.distinct(retrieve)).toBe(0)
    expect(contradictions(world.network, retrieve)).toBe(0)
  })

  test.each(['confirm', 'strict'] as const)('%s: of a half-made hint, whole at different epochs', async rollback => {
    const { living, world } = livingWorld()
    const life = world.life()
    const copies: World[] = []
    life.at('putPartial', 'after', () => void copies.push(world.copy()), 1)
    const map = await life.open({ rollback })
    const { retrieve } = await rolesOf(world)
    for (let epoch = 0; epoch < 3; epoch++) living.publish([edit(epoch, padded(`epoch ${epoch}`))])
    const copy = copies[0]!
    const copied = await copy.life().open({ rollback })
    expect([map.epoch, copied.epoch]).toEqual([1, 4])
    for (const index of [1, 1]) expect(await copy.drive(copied.at(index))).toEqual(living.newest.byIndex[index])
    for (let i = 0; i < 2; i++) expect((await life.failure(map.at(1))).code).toBe('condemned')
    // Shown again at the epoch that servers answer: the same vectors under another head.
    const vectors = new Set(world.auditor.bodies.get(retrieve)!.map(body => body.slice(2 * HEADER_BYTES)))
    expect(vectors.size).toBe(rollback === 'strict' ? 0 : 1)
    expect(contradictions(world.network, retrieve)).toBe(vectors.size)
  })

  test.each(['confirm', 'strict'] as const)('%s: however both go on, with updates in between', async rollback => {
    let caught = 0
    for (let schedule = 0; schedule < 16; schedule++) {
      const { living, world, map } = await openedChanging({ rollback }, schedule + 1)
      const copy = world.copy()
      const { map: copied } = await copy.opened({ rollback })
      const { retrieve } = await rolesOf(world)
      const both = [
        { on: world, map },
        { on: copy, map: copied },
      ]
      const granted: Uint8Array[] = []
      const looked = [0, 0]
      for (let step = 0; step < 8; step++) {
        const which = (schedule >> (step % 4)) & 1
        const { on, map } = both[which]!
        if (step % 3 === 2) living.publish([edit(step, padded(`step ${step}`))])
        if (step % 2 === 0) await on.drive(map.sync().catch(() => {}))
        const found = await on.drive(map.at(step % 3).catch(() => undefined))
        if (found === undefined) continue
        looked[which]!++
        granted.push(Buffer.from(on.auditor.bodies.get(retrieve)!.at(-1)!, 'hex').subarray(40))
      }
      // What was granted contradicts nothing that was; and no more than one vector was shown besides, by either.
      expect(contradictory(granted)).toBe(0)
      both.forEach(({ on }, which) => {
        const besides = shown(on, retrieve) - looked[which]!
        expect(besides).toBeLessThanOrEqual(rollback === 'strict' ? 0 : 1)
        caught += besides
      })
      if (rollback === 'strict') expect(contradictions(world.network, retrieve)).toBe(0)
    }
    expect(caught > 0).toBe(rollback === 'confirm')
  })

  test('a confirmation that never arrived leaves its lookup open: whoever claims the place in between has it', async () => {
    const { world, life, map, copy, copied, retrieve, refresh } = await twoAwake('confirm')
    world.network.misbehave[refresh] = lostRequests(world.network)
    expect((await life.failure(map.at(1))).code).toBe('network')
    world.network.misbehave[refresh] = undefined
    await copy.checkValues(copied, [1])
    expect((await life.failure(map.at(2))).code).toBe('condemned')
    expect((await life.failure(map.at(2))).code).toBe('condemned')
    expect(shown(world, retrieve)).toBe(1)
    await copy.checkValues(copied)
  })

  // A clock that stands still while the machine sleeps, but for the date; and a calendar that is set back.
  test.each([FENCE_REST_MS, -1000])('the calendar %i ms on: the confirmation comes first, none is shown', async by => {
    const { world, map } = await opened()
    const copy = world.copy()
    let moved = 0
    const { now, setTimeout, clearTimeout, date } = copy.clock
    const twin = copy.life({ clock: { now, setTimeout, clearTimeout, date: () => date() + moved } })
    const copied = await twin.open()
    await world.checkValues(map, [1])
    moved = by
    const sent = copy.network.queries().length
    expect((await twin.failure(copied.at(1))).code).toBe('condemned')
    expect(copy.network.queries()).toHaveLength(sent)
  })
})

describe('the fence on the way', () => {
  test('a reply is lost after the claim was kept: the same claim again is granted, and the same bytes go out', async () => {
    const { world, life, map, refresh } = await opened()
    for (const pause of [0, FENCE_REST_MS]) {
      world.clock.sleep(pause)
      const before = world.network.claims().length
      world.network.misbehave[refresh] = lostReplies(1)
      await world.checkValues(map, [6])
      const claims = world.network.claims(before)
      // Behind the query, twice; or twice ahead of it, and behind it.
      expect(claims).toEqual(Array.from({ length: pause === 0 ? 2 : 3 }, () => claims[0]))
    }
    expect(life.events).not.toContainEqual(condemned)
  })

  test('silent once, beside a lookup: it is asked again, and the lookup goes on', async () => {
    const { world, map, refresh } = await opened()
    let once = true
    world.network.misbehave[refresh] = onClaims((seen, genuine) => {
      if (!once) return undefined
      once = false
      return silent(seen, genuine)
    })
    await world.checkValues(map)
    expect(once).toBe(false)
  })

  test('out of reach for long, after a pause: lookups fail, nothing is sent, and the pending one waits', async () => {
    const { world, life, map } = await opened()
    await world.checkValues(map, [1])
    await world.drive(map.close())
    life.kill()
    const { refresh } = await rolesOf(world)
    world.network.misbehave[refresh] = hang(FENCE)
    const { life: next, map: again } = await world.opened()
    const sent = world.network.queries().length
    for (let i = 0; i < 3; i++) {
      expect(await next.failure(again.at(6))).toMatchObject({ code: 'network', server: refresh })
    }
    expect(world.network.queries()).toHaveLength(sent)
    const { pending } = (await world.head())!
    expect(pending).toBeDefined()
    world.network.misbehave[refresh] = undefined
    await world.checkValues(again)
    // The lookup that waited, and then one for each value.
    expect(world.auditor.distinct(A)).toBe(1 + 1 + 6)
  })

  test('out of reach in step with a lookup: it fails although the other has answered, and the same bytes go out again', async () => {
    const { world, life, map, refresh } = await opened()
    world.network.misbehave[refresh] = silent
    const { version } = (await world.head())!
    for (let i = 0; i < 2; i++) {
      expect(await life.failure(map.at(6))).toMatchObject({ code: 'network', server: refresh })
      expect(await world.head()).toMatchObject({ version, pending: expect.anything() })
      expect(world.auditor.distinct(A)).toBe(1)
    }
    world.network.misbehave[refresh] = undefined
    await world.checkValues(map, [6])
    expect(world.auditor.distinct(A)).toBe(2)
  })

  const garbage: Record<string, [Misbehave, code: string]> = {
    'an empty reply': [onClaims(() => ok(new Uint8Array())), 'protocol'],
    nothing: [says(() => new Uint8Array()), 'protocol'],
    'a byte too few': [says(word => word.slice(1)), 'protocol'],
    'a byte too many': [says(word => Uint8Array.of(...word, 0)), 'protocol'],
    'a megabyte': [says(() => new Uint8Array(1 << 20)), 'protocol'],
    'nothing, behind a forged answer': [forgedWithout, 'protocol'],
    'another magic': [says(() => Uint8Array.of(0x50, 0x49, 0x52, 0x45, 1, 0, 1, 0)), 'protocol'],
    'another format': [says(() => Uint8Array.of(0x50, 0x49, 0x52, 0x46, 2, 0, 1, 0)), 'version'],
    'a verdict of 0': [says(() => Uint8Array.of(0x50, 0x49, 0x52, 0x46, 1, 0, 0, 0)), 'protocol'],
    'a verdict of 3': [says(() => Uint8Array.of(0x50, 0x49, 0x52, 0x46, 1, 0, 3, 0)), 'protocol'],
    'a Content-Encoding': [
      onClaims(async (_seen, genuine) => ok(await bytesOf(genuine), { 'content-encoding': 'gzip' })),
      'protocol',
    ],
    'no fence any more': [onClaims(() => problem(404, 'not_found')), 'protocol'],
    'a full fence': [onClaims(() => problem(503, 'fence_full')), 'network'],
    'an error': [onClaims(() => problem(500, 'internal')), 'network'],
  }

  test.each(Object.entries(garbage))(
    '%s instead of a word: nothing is condemned or moves on',
    async (_, [lie, code]) => {
      const { world, life, map, refresh } = await opened()
      const { version } = (await world.head())!
      for (const pause of [FENCE_REST_MS, 0]) {
        world.clock.sleep(pause)
        const sent = world.network.queries().length
        world.network.misbehave[refresh] = lie
        expect((await life.failure(map.at(6))).code).toBe(code)
        if (pause > 0) expect(world.network.queries()).toHaveLength(sent)
        expect((await world.head())!.version).toBe(version + (pause > 0 ? 0 : 7))
        world.network.misbehave[refresh] = undefined
        await world.checkValues(map)
      }
      expect(life.events).not.toContainEqual(condemned)
    },
  )

  test.each([0, FENCE_REST_MS])('a refusal condemns durably, also a false one; pause %i', async pause => {
    const { world, life, map, refresh } = await opened()
    world.clock.sleep(pause)
    world.network.misbehave[refresh] = says(() => REFUSED)
    expect((await life.failure(map.at(6))).code).toBe('condemned')
    expect(world.auditor.distinct(A)).toBe(pause === 0 ? 1 : 0)
    world.network.misbehave[refresh] = undefined
    expect((await life.failure(map.at(6))).code).toBe('condemned')
    expect((await world.head())!.condemned).toEqual({ culprit: undefined })
    expect(life.events.filter(({ type }) => type === 'condemned')).toEqual([condemned])
  })

  test('a refusal while the other server hangs is raised when its time is over (P6)', async () => {
    const { world, life, map, refresh, retrieve } = await opened()
    world.network.misbehave[refresh] = says(() => REFUSED)
    world.network.misbehave[retrieve] = hang('/v1/answer')
    const start = world.clock.now()
    const failed = life.failure(map.at(6))
    await settle()
    expect((await world.head())!.condemned).toEqual({ culprit: undefined }) // on the disk at once
    expect((await failed).code).toBe('condemned')
    expect(world.clock.now() - start).toBeGreaterThan(15_000)
  })

  test('a refusal beside a server that has turned: condemned, and nothing goes out again', async () => {
    const { world, life, map, refresh, retrieve } = await opened()
    world.network.misbehave[retrieve] = on('/v1/answer', () => epochUnknown({ generation: 1, epoch: 2 }))
    world.network.misbehave[refresh] = says(() => REFUSED)
    const sent = world.network.queries().length
    expect((await life.failure(map.at(6))).code).toBe('condemned')
    expect((await world.head())!.condemned).toEqual({ culprit: undefined })
    world.network.misbehave[retrieve] = undefined
    world.network.misbehave[refresh] = undefined
    expect((await life.failure(map.at(6))).code).toBe('condemned')
    expect(world.network.queries(sent)).toHaveLength(2)
  })

  const refusedBehind: Misbehave = async (seen, genuine) => {
    const forged = (await flip(50)(seen, genuine)) ?? genuine
    return (await says(() => REFUSED)(seen, forged)) ?? forged
  }
  test.each<[string, 'refresh' | 'retrieve', Misbehave, Misbehave | undefined]>([
    ['beside a silent fence', 'retrieve', silent, flip(50)],
    ['with a refusal behind it', 'refresh', refusedBehind, undefined],
  ])('a forged answer %s: the liar is named', async (_what, liar, byRefresh, byRetrieve) => {
    const { world, life, map, ...servers } = await opened()
    world.network.misbehave[servers.refresh] = byRefresh
    world.network.misbehave[servers.retrieve] = byRetrieve
    const server = servers[liar]
    expect(await life.failure(map.at(6))).toMatchObject({ name: 'TamperedError', server })
    expect(await life.failure(map.at(6))).toMatchObject({ name: 'CondemnedError', server })
  })
})

describe('what servers see', () => {
  test('the retrieve server sees no claim, and the hint id nowhere; claims have 80 bytes', async () => {
    const { world, map } = await opened()
    await world.checkValues(map)
    const { retrieve, refresh } = await rolesOf(world)
    const { hintId } = (await world.head())!.record
    const seen = world.network.seen.filter(({ server }) => server === retrieve)
    expect(seen.length).toBeGreaterThan(6)
    for (const { path, body, url } of seen) {
      expect(path).not.toBe(FENCE)
      expect(hex(body)).not.toContain(hex(hintId))
      expect(url).not.toContain(hex(hintId))
    }
    for (const { server, hintId: id } of world.network.claims()) {
      expect(server).toBe(refresh)
      expect(id).toEqual(hintId)
    }
    const [query] = world.network.queries()
    for (const { server, path, body, url, init } of world.network.seen) {
      if (path === '/v1/answer') expect(body).toHaveLength(query!.body.length + (server === refresh ? 80 : 0))
      if (path !== FENCE) continue
      expect(body).toHaveLength(80)
      expect(url).toBe(`${refresh}${FENCE}`)
      expect(init).toMatchObject({
        credentials: 'omit',
        cache: 'no-store',
        redirect: 'manual',
        referrerPolicy: 'no-referrer',
      })
      expect(init.headers).toBeUndefined()
    }
  })

  /** All that could be compared between two runs. */
  const shape = (seen: readonly Seen[]) =>
    seen.map(({ server, method, path, body }) => `${server} ${method} ${path} ${body.length}`)

  test.each(['confirm', 'strict'] as const)(
    '%s: what is asked changes no length and no order (P1, P4)',
    async rollback => {
      const look: ((map: KeyhushMap) => Promise<unknown>)[][] = [
        [map => map.get(NAMES[3]!), map => map.get(NAMES[3]!), map => map.getMany([NAMES[1]!, NAMES[2]!])],
        [map => map.get('absent.example'), map => map.has(NAMES[0]!), map => map.getMany(['x', 'x'])],
        [map => map.at(0), map => map.at(19), map => map.getMany([NAMES[5]!], { padTo: 2 })],
      ]
      const transcripts = []
      for (const calls of look) {
        const { network, harness, map } = await openedOn(keyed(), { rollback })
        const before = network.seen.length
        for (const call of calls) await harness.drive(call(map))
        transcripts.push(shape(network.seen.slice(before)))
      }
      expect(transcripts[0]!.filter(line => line.includes(FENCE))).toHaveLength(rollback === 'strict' ? 3 : 0)
      expect(transcripts[1]).toEqual(transcripts[0])
      expect(transcripts[2]).toEqual(transcripts[0])
    },
  )

  test('confirm: in step, awake: two requests in one tick, the claim in that to the refresh server', async () => {
    const { world, map } = await opened()
    const before = world.network.seen.length
    const { refresh } = await rolesOf(world)
    expect(await world.drive(map.at(6))).toEqual(world.database.byIndex[6])
    const seen = world.network.seen.slice(before)
    expect(seen.map(({ path }) => path)).toEqual(['/v1/answer', '/v1/answer'])
    expect(seen[0]!.tick).toBe(seen[1]!.tick)
    expect(seen.filter(seen => claimIn(seen) !== undefined).map(({ server }) => server)).toEqual([refresh])
  })

  test.each([
    ['strict', 0],
    ['confirm', FENCE_REST_MS],
  ] as const)(
    '%s, after %i ms: nothing leaves before the fence has spoken; then both at once',
    async (rollback, pause) => {
      const { world, map } = await opened({ rollback })
      world.clock.sleep(pause)
      const before = world.network.seen.length
      const { refresh } = await rolesOf(world)
      let speak = () => {}
      world.network.misbehave[refresh] = on(FENCE, genuine => new Promise(resolve => (speak = () => resolve(genuine))))
      const found = map.at(6)
      await settle()
      expect(world.network.seen.slice(before).map(({ path }) => path)).toEqual([FENCE])
      speak()
      expect(await world.drive(found)).toEqual(world.database.byIndex[6])
      const seen = world.network.seen.slice(before + 1)
      expect(seen.map(({ path }) => path)).toEqual(['/v1/answer', '/v1/answer'])
      expect(seen[0]!.tick).toBe(seen[1]!.tick)
    },
  )

  test('each lookup is claimed under a version of its own, one higher; no two claims have one hash', async () => {
    const { world, map } = await opened()
    await world.checkValues(map)
    const claims = world.network.claims().filter(({ requestHash }) => requestHash.some(byte => byte !== 0))
    expect(claims.map(({ version }) => version - claims[0]!.version)).toEqual([0, 1, 2, 3, 4, 5])
    expect(new Set(claims.map(({ requestHash }) => hex(requestHash))).size).toBe(6)
  })
})

describe('several tabs on one store never condemn one another', () => {
  /** A tab whose requests to the fence wait until they are let through. */
  function held(world: World): { life: Life; release: () => void } {
    const { promise: gate, resolve: release } = deferred()
    const life: Life = world.life({
      ...noLocks,
      fetch: async (url, init) => {
        if (url.endsWith(FENCE)) await gate
        return await world.network.fetch(url, init)
      },
    })
    return { life, release: () => release() }
  }

  test('late in step with its lookup, which another has finished: it has its answer, and asks no more', async () => {
    const { world, one, two, first, second } = await twoTabs(noLocks)
    const { refresh } = await rolesOf(world)
    // The first of them is heard last.
    let hear = () => {}
    const { fetch } = world.network
    let waiting = true
    Object.assign(world.network, {
      fetch: async (url: string, init: RequestInit) => {
        if (url.startsWith(refresh) && waiting) {
          waiting = false
          await new Promise<void>(resolve => {
            hear = resolve
          })
        }
        return await fetch(url, init)
      },
    })
    const found = first.at(6)
    await settle()
    await world.checkValues(second, [7])
    hear()
    expect(await world.drive(found)).toEqual(world.database.byIndex[6])
    expect(world.auditor.distinct(refresh)).toBe(2)
    await world.checkValues(first)
    for (const life of [one, two]) expect(life.events).not.toContainEqual(condemned)
  })

  test('late when it opens, because another has a lookup under way: it finishes that, and opens', async () => {
    const world = new World()
    const two = world.life(noLocks)
    const second = await two.open()
    await world.checkValues(second, [1])
    const { life: one, release } = held(world)
    const opening = one.openIdle()
    await settle()
    await world.interrupt(two, second)
    release()
    const first = await world.drive(opening)
    expect((await world.head())!.pending).toBeUndefined()
    await world.checkValues(first)
    await world.checkValues(second)
    for (const life of [one, two]) expect(life.events).not.toContainEqual(condemned)
  })

  test('late and refused, because another has begun anew: it follows, and nothing is condemned', async () => {
    const { world, one, first, second } = await twoTabs(noLocks)
    world.clock.sleep(FENCE_REST_MS)
    const { refresh } = await rolesOf(world)
    let refuse = () => {}
    world.network.misbehave[refresh] = on(FENCE, () => new Promise(resolve => (refuse = () => resolve(ok(REFUSED)))))
    const found = first.at(6)
    await settle()
    world.network.misbehave[refresh] = undefined
    await world.drive(second.reset())
    refuse()
    expect(await world.drive(found)).toEqual(world.database.byIndex[6])
    expect(one.events).not.toContainEqual(condemned)
  })
})

describe('maps in memory', () => {
  test('are fenced as others are: refused, they are condemned, and reset() begins anew', async () => {
    const { network, database, harness, map } = await openedOn(keyless())
    for (let i = 0; i < 15; i++) expect(await harness.drive(map.at(i))).toEqual(database.byIndex[i])
    const claims = network.claims()
    expect(claims[0]!.kind).toBe('register')
    expect(claims.filter(({ requestHash }) => requestHash.some(byte => byte !== 0))).toHaveLength(15)
    network.hints.clear()
    expect((await harness.failure(map.at(1))).code).toBe('condemned')
    expect((await harness.failure(map.at(1))).code).toBe('condemned')
    await harness.drive(map.reset())
    expect(await harness.drive(map.at(1))).toEqual(database.byIndex[1])
  })
})
