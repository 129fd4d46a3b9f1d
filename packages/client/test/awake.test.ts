// Deadlines count the time awake, and a download outlasts a time offline: it goes on from what it has.

import { describe, expect, test } from 'vitest'
import { awakeClock, type Connection, type Environment, openWith } from '../src/testing.js'
import { drive, ManualClock, settle, until } from './support/clock.js'
import { Harness, keyless } from './support/harness.js'
import { A, B } from './support/network.js'

describe('a clock that stands still while the page does', () => {
  const asleep = 3_600_000

  test('counts little of a time asleep, and never goes back', () => {
    const clock = new ManualClock()
    const awake = awakeClock(clock)
    const fired: number[] = []
    awake.setTimeout(() => fired.push(awake.now()), 10_000)
    clock.advance()
    expect(awake.now()).toBe(2_000)
    clock.pass(asleep)
    expect(awake.now()).toBe(4_000) // whoever asks first on waking
    while (fired.length === 0) clock.advance()
    expect(fired).toEqual([10_000])
    expect(clock.now()).toBe(2_000 + asleep + 6_000)
    expect(awake.date() - clock.date()).toBe(0)
  })

  test('counts what passes while no timer is set, and what a busy page is late by', () => {
    const clock = new ManualClock()
    const awake = awakeClock(clock)
    clock.pass(asleep)
    expect(awake.now()).toBe(asleep)
    const timer = awake.setTimeout(() => {}, 2_000)
    clock.pass(3_900)
    expect(awake.now()).toBe(asleep + 3_900)
    awake.clearTimeout(timer)
    awake.clearTimeout(timer)
    expect(clock.waiting).toBe(0)
  })

  test('several timers: each at its time, in their order', () => {
    const clock = new ManualClock()
    const awake = awakeClock(clock)
    const fired: string[] = []
    const set = (ms: number) => awake.setTimeout(() => fired.push(`${ms} at ${awake.now()}`), ms)
    const [, withdrawn] = [set(5_000), set(1_500), set(7_000)]
    awake.clearTimeout(withdrawn)
    clock.advance()
    clock.pass(asleep)
    while (clock.waiting > 0) clock.advance()
    expect(fired).toEqual(['5000 at 5000', '7000 at 7000'])
  })
})

/** A map that is opened while a fake device sleeps, or is offline. */
function device(change: Partial<Environment> = {}) {
  const clock = new ManualClock()
  const { network, database } = keyless()
  const online = new Set<() => void>()
  const state = { isOffline: false, losses: 0, cut: false }
  const connection: Connection = {
    get isOffline() {
      return state.isOffline
    },
    get losses() {
      return state.losses
    },
    whenOnline(listener) {
      online.add(listener)
      return () => online.delete(listener)
    },
    isMetered: false,
    whenChanged: () => () => {},
  }
  let blobs = 0
  let atBlob = async (_blob: number) => {}
  const fetch: Environment['fetch'] = async (url, init) => {
    if (url.includes('/v1/blobs/')) await atBlob(++blobs)
    if (state.cut) throw new TypeError('Failed to fetch')
    return await network.fetch(url, init)
  }
  const harness = new Harness(network, 1, { clock: awakeClock(clock), fetch, connection, ...change })
  const controller = new AbortController()
  return {
    clock,
    network,
    database,
    online,
    state,
    controller,
    open: (mode = 'local') =>
      openWith(harness.environment, { servers: [A, B], mode: mode as 'local', signal: controller.signal }),
    /** runs when the device asks for that blob */
    at(blob: number, act: () => void | Promise<void>) {
      atBlob = async asked => {
        if (asked === blob) await act()
      }
    },
    goOffline() {
      Object.assign(state, { isOffline: true, losses: state.losses + 1, cut: true })
    },
    goOnline() {
      Object.assign(state, { isOffline: false, cut: false })
      for (const listener of online) listener()
    },
    asked: () => blobs,
    /** each blob that came, once or more often */
    came: () => network.seen.filter(({ path }) => path.includes('/v1/blobs/')).map(({ path }) => path),
  }
}

/** Resolves when it waits until it is online. */
async function waiting({ clock, online }: ReturnType<typeof device>): Promise<void> {
  await until(clock, () => online.size > 0)
}

test('a page that is frozen while it downloads goes on when it wakes, and asks for nothing again', async () => {
  const page = device()
  page.at(3, async () => {
    page.clock.pass(20_000)
    await settle()
  })
  const map = await drive(page.clock, page.open())
  expect(await drive(page.clock, map.at(6))).toEqual(page.database.byIndex[6])
  expect(new Set(page.came()).size).toBe(page.came().length)
})

describe('a device that is offline while it downloads', () => {
  test('goes on from what it has when it is online again', async () => {
    const page = device()
    page.at(3, page.goOffline)
    const opening = page.open()
    opening.catch(() => {})
    await settle()
    const had = page.came().length
    await until(page.clock, () => page.clock.now() >= 8_000)
    page.goOnline()
    const map = await drive(page.clock, opening)
    expect(await drive(page.clock, map.at(6))).toEqual(page.database.byIndex[6])
    expect(had).toBeGreaterThan(0)
    expect(new Set(page.came()).size).toBe(page.came().length)
    expect(page.online.size).toBe(0)
  })

  test('and does not know that it is not: it tries all the same', async () => {
    const page = device()
    page.at(3, page.goOffline)
    const opening = page.open()
    await waiting(page)
    page.state.cut = false
    await drive(page.clock, opening)
    expect(page.state.isOffline).toBe(true)
  })

  test('gives up in the end, with the error of the servers', async () => {
    const page = device()
    page.at(3, page.goOffline)
    await expect(drive(page.clock, page.open())).rejects.toMatchObject({ code: 'network' })
    expect(page.clock.now()).toBeGreaterThan(5 * 60_000)
    expect(page.clock.now()).toBeLessThan(15 * 60_000)
  })

  test('is called off at once', async () => {
    const page = device()
    page.at(3, page.goOffline)
    const opening = page.open()
    const failing = expect(opening).rejects.toBe('enough')
    await waiting(page)
    const before = page.clock.now()
    page.controller.abort('enough')
    await failing
    await settle()
    expect(page.clock.now()).toBe(before)
    expect([page.online.size, page.clock.waiting]).toEqual([0, 0])
  })

  test('a map that is answered meanwhile by servers in another way is closed at once', async () => {
    const page = device()
    page.at(1, page.goOffline)
    const map = await drive(page.clock, page.open('auto'))
    await drive(page.clock, map.at(6)) // the download begins after a lookup
    await waiting(page)
    const before = page.clock.now()
    const closing = map.close()
    await settle()
    await closing
    expect(page.clock.now()).toBe(before)
  })
})

test('a lookup does not wait until the device is online', async () => {
  const page = device()
  const map = await drive(page.clock, page.open('instant'))
  page.goOffline()
  const before = page.clock.now()
  await expect(drive(page.clock, map.at(6))).rejects.toMatchObject({ code: 'network' })
  expect(page.clock.now() - before).toBe(2_000)
})
