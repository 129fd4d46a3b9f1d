// Giving up. In the offline phase: at any time. In a lookup: before its turn, or only for show (P5). Aborts are tried
// after every single turn of the microtask queue; in `npm test`, where a server hangs, after every third.

import { describe, expect, test } from 'vitest'
import { THOROUGH } from '../../../tests/support/thorough.js'
import type { Progress } from '../src/index.js'
import { MemoryStore, openWith } from '../src/testing.js'
import { settle, turns, until, watch } from './support/clock.js'
import { laidOutAnew } from './support/epochs.js'
import { Harness, hex, keyed, keyless, openedOn } from './support/harness.js'
import { A, B, hang } from './support/network.js'
import { records, World } from './support/world.js'

/** Index 6 is asked for and given up after `count` steps (undefined: never), then index 9 is asked for. */
async function lookupGivenUp(count: number | undefined, silent: string | undefined) {
  const { network, database, harness, map } = await openedOn(keyless(), {}, 3)
  if (silent) network.misbehave[silent] = hang('/v1/answer')
  const controller = new AbortController()
  const call = watch(map.at(6, { signal: controller.signal }))
  let finished = false
  if (count !== undefined) {
    if (count > 0) await turns(count)
    finished = call.value !== undefined
    const reason = new DOMException('enough', 'AbortError')
    controller.abort(reason)
    await turns(20)
    // Rejected at once, unless the value was on its way already.
    if (call.error !== undefined) expect(call.error).toBe(reason)
    else expect(call.value).toEqual(database.byIndex[6])
  }
  // The next call waits for whatever still goes on.
  const next = harness.drive(map.at(9))
  if (silent) await expect(next).rejects.toMatchObject({ code: 'network' })
  else expect(await next).toEqual(database.byIndex[9])
  return { finished, view: network.seen.map(({ server, path, body }) => `${server}${path} ${[...body]}`) }
}

describe.each([undefined, A, B])('a lookup given up (hanging: %s)', silent => {
  test('at any await after its intent: the servers see exactly what they would have seen', async () => {
    const { view } = await lookupGivenUp(undefined, silent)
    for (let count = 1; ; count += silent === undefined || THOROUGH ? 1 : 5) {
      const given = await lookupGivenUp(count, silent)
      expect(given.view).toEqual(view)
      if (given.finished || count > 300) {
        expect(count).toBeGreaterThan(20)
        break
      }
    }
  })

  test('at once: the servers see nothing of it', async () => {
    const { view } = await lookupGivenUp(undefined, silent)
    const given = await lookupGivenUp(0, silent)
    const answers = (requests: string[]) => requests.filter(request => request.includes('/v1/answer')).length
    expect(answers(given.view)).toBe(answers(view) / 2)
  })
})

describe('a lookup that the servers answer only under a new hint, or at a new epoch, given up', () => {
  /** Index 6 is asked for; after `count` steps `giveUp` happens (undefined: never). Everything then comes to its end. */
  async function outdated(mode: 'full' | 'instant', giveUp: 'abort' | 'close', count?: number) {
    const { network, database, harness, map } = await openedOn(keyless(), { mode }, 3)
    let newest = database
    for (const partitions of [3, 5]) {
      newest = laidOutAnew(newest, partitions)
      network.publishOnBoth(newest)
    }
    const controller = new AbortController()
    const call = watch(map.at(6, { signal: controller.signal }))
    if (count !== undefined) {
      await turns(count)
      if (giveUp === 'abort') controller.abort()
      else map.close().catch(() => {})
    }
    // Longer than any deadline.
    for (let i = 0; i < 40 && call.value === undefined; i++) {
      await settle()
      if (harness.clock.waiting > 0) harness.clock.advance()
    }
    await settle()
    const finished = call.value !== undefined
    if (count === undefined) expect(call.value).toEqual(database.byIndex[6])
    return { finished, view: network.seen.map(({ server, path, body }) => `${server}${path} ${[...body]}`) }
  }

  test.each([
    ['full', 'abort'],
    ['full', 'close'],
    ['instant', 'abort'],
    ['instant', 'close'],
  ] as const)('in mode %s by %s, at any await after its intent: servers see the same', async (mode, giveUp) => {
    const { view } = await outdated(mode, giveUp)
    expect(view.filter(request => /answer|instant/.test(request))).toHaveLength(4)
    for (let count = 2; count < 200; count += 6) {
      const given = await outdated(mode, giveUp, count)
      expect(given.view).toEqual(view)
    }
  })
})

test('before its turn, a lookup is withdrawn: nothing is sent for it', async () => {
  const { network, database, harness, map } = await openedOn(keyless())
  const controller = new AbortController()
  const first = map.at(1)
  const second = map.at(2, { signal: controller.signal })
  const third = map.at(3)
  const given = watch(second)
  await turns(3)
  controller.abort()
  await turns(20)
  expect(given.error).toMatchObject({ name: 'AbortError' })
  expect(await harness.drive(Promise.all([first, third]))).toEqual([database.byIndex[1], database.byIndex[3]])
  expect(network.queries()).toHaveLength(4)
})

test('a signal that has aborted already sends nothing', async () => {
  const { network } = keyless()
  const harness = new Harness(network)
  await expect(harness.open({ signal: AbortSignal.abort() })).rejects.toMatchObject({ name: 'AbortError' })
  expect(network.seen).toEqual([])
  const map = await harness.open()
  const before = network.seen.length
  await expect(harness.drive(map.at(1, { signal: AbortSignal.abort() }))).rejects.toMatchObject({ name: 'AbortError' })
  await settle()
  expect(network.seen).toHaveLength(before)
})

test('after intent, a hanging server is asked as often as ever, and the lookup stays pending', async () => {
  const { network, database, harness, map } = await openedOn(keyless())
  network.misbehave[A] = hang('/v1/answer')
  const controller = new AbortController()
  const call = watch(map.at(6, { signal: controller.signal }))
  await settle()
  controller.abort()
  await settle()
  expect(call.error).toMatchObject({ name: 'AbortError' })
  await until(harness.clock, () => network.queries().length === 3)
  expect((await harness.store.read())?.pending).toBeDefined()
  network.misbehave[A] = undefined
  expect(await harness.drive(map.at(6))).toEqual(database.byIndex[6])
})

test('the offline phase can be given up at any await; nothing is asked afterwards, and open() works again', async () => {
  for (let count = 1; ; count += THOROUGH ? 1 : 5) {
    const { network, database } = keyed()
    const harness = new Harness(network, 9)
    const controller = new AbortController()
    const opening = watch(openWith(harness.environment, { servers: [A, B], mode: 'full', signal: controller.signal }))
    await turns(count)
    controller.abort()
    await turns(20)
    if (opening.value !== undefined) {
      expect(count).toBeGreaterThan(60)
      break
    }
    expect(opening.error).toMatchObject({ name: 'AbortError' }) // without waiting for anything
    const asked = network.seen.length
    await settle()
    expect(network.seen).toHaveLength(asked)
    expect(harness.clock.waiting).toBe(0)
    const map = await harness.open()
    expect(await harness.drive(map.at(1))).toEqual(database.byIndex[1])
    await harness.drive(map.close())
  }
})

test('a reset() given up leaves the map as it was', async () => {
  const { network, database, harness, map } = await openedOn(keyless())
  const before = (await harness.store.read())?.record
  network.misbehave[A] = hang('/v1/blobs')
  const controller = new AbortController()
  const resetting = watch(map.reset({ signal: controller.signal }))
  await settle()
  controller.abort()
  await settle()
  expect(resetting.error).toMatchObject({ name: 'AbortError' })
  expect((await harness.store.read())?.record).toEqual(before)
  expect(await harness.drive(map.at(1))).toEqual(database.byIndex[1])
})

test.each(['partitions', 'ready'])('a reset() whose listener throws at %s leaves the map as it was', async phase => {
  const { database, harness, map } = await openedOn(keyless())
  const before = (await harness.store.read())?.record
  const onProgress = (progress: Progress) => {
    if (progress.phase === phase) throw new Error('my own bug')
  }
  await expect(harness.drive(map.reset({ onProgress }))).rejects.toThrow('my own bug')
  expect((await harness.store.read())?.record).toEqual(before)
  expect(await harness.drive(map.at(1))).toEqual(database.byIndex[1])
})

describe('close()', () => {
  test('lets the lookup under way finish, refuses those that wait, and frees the map', async () => {
    const { network, database, harness, map } = await openedOn(keyless())
    const first = map.at(1)
    const second = watch(map.at(2))
    await turns(3)
    const closing = map.close()
    expect(await harness.drive(first)).toEqual(database.byIndex[1])
    await harness.drive(closing)
    expect(second.error).toMatchObject({ name: 'ClosedError', code: 'closed' })
    expect(network.queries()).toHaveLength(2)
    const calls = [() => map.at(1), () => map.get('a'), () => map.has('a'), () => map.getMany([]), () => map.reset()]
    for (const call of calls) expect((await harness.failure(call())).name).toBe('ClosedError')
    await harness.drive(map.close())
    expect(map.size).toBe(15)
  })

  test('does not shorten what a hanging server sees', async () => {
    const { network, harness, map } = await openedOn(keyless())
    network.misbehave[B] = hang('/v1/answer')
    const call = watch(map.at(1))
    await settle()
    await harness.drive(map.close())
    expect(call.error).toMatchObject({ code: 'network' })
    expect(network.queries().map(seen => seen.server)).toEqual([A, B, B])
  })

  test('waits for the lookup under way, also where the lock is granted at once', async () => {
    const { network } = keyless()
    const openStore = async () => ({ store: new MemoryStore({ durable: true }), storage: 'best-effort' }) as const
    const harness = new Harness(network, 1, { openStore })
    const map = await harness.open()
    network.misbehave[B] = hang('/v1/answer')
    const call = watch(map.at(1))
    await settle()
    const closing = watch(map.close())
    await settle()
    expect([call, closing]).toEqual([{}, {}])
    await harness.drive(map.close())
    expect(call.error).toMatchObject({ code: 'network' })
  })

  test('calls a running reset() off', async () => {
    const { network, harness, map } = await openedOn(keyless())
    network.misbehave[B] = hang('/v1/blobs')
    const reset = watch(map.reset())
    await settle()
    await harness.drive(map.close())
    expect(reset.error).toMatchObject({ name: 'ClosedError' })
    expect(harness.clock.waiting).toBe(0)
  })

  test('refuses a reset() that waits for its turn, and whatever waits behind it', async () => {
    const { network, harness, map } = await openedOn(keyless())
    network.misbehave[B] = hang('/v1/answer')
    const waiting = [watch(map.at(1)), watch(map.reset()), watch(map.at(2))]
    await settle()
    await harness.drive(map.close())
    expect(waiting.map(({ error }) => error?.code)).toEqual(['network', 'closed', 'closed'])
  })

  test('is what `await using` calls', async () => {
    const { harness, map } = await openedOn(keyless())
    await harness.drive(map[Symbol.asyncDispose]())
    expect((await harness.failure(map.at(1))).name).toBe('ClosedError')
  })
})

// close() at the moment in which a lookup gets its turn: the lookup has begun, and close() waits for it (P5). It returns its value, or
// fails because the map is closed, but never because its memory was freed.
/** Turns of the microtask queue before close(): after the last the lookup has had its lock for long. */
const TURNS = 60

test.each(['full', 'instant'])(
  'mode %s: closed after any turn, a lookup has its value or has not begun',
  async mode => {
    const outcomes = []
    for (let count = 0; count < TURNS; count++) {
      const w = new World({ seed: 1 + count })
      const map = await w.life().open({ mode, proofs: 'auto', push: false } as never)
      await w.drive(map.at(1))
      const answer = map.at(3).then(
        value => hex(value!),
        (error: { code: string }) => error.code,
      )
      await turns(count)
      const closed = map.close()
      outcomes.push(await w.drive(answer))
      await w.drive(closed)
    }
    const expected = ['closed', hex(records.byIndex[3]!)]
    expect(outcomes.filter(outcome => !expected.includes(outcome))).toEqual([])
  },
)
