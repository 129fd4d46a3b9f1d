// The platform's locks: one holder at a time, nobody waits for ever, and a page about to be frozen holds none. And what tabs
// know by them of who prepares hints.

import { afterEach, describe, expect, test, vi } from 'vitest'
import { LOCK_PATIENCE_MS } from '../src/base/constants.js'
import { platformLocks } from '../src/platform/locks.js'
import { preparersOf } from '../src/platform/preparers.js'
import { deferred, settle } from './support/clock.js'
import { LockManager } from './support/lock-manager.js'

function withLocks(locks: unknown, page: EventTarget = new EventTarget()): EventTarget {
  vi.stubGlobal('navigator', { locks })
  vi.stubGlobal('addEventListener', page.addEventListener.bind(page))
  vi.stubGlobal('document', page)
  return page
}

afterEach(() => {
  vi.unstubAllGlobals()
  vi.useRealTimers()
})

/** A task that is over when it is told. */
function task<T>() {
  let finish = (_value: T) => {}
  const work = new Promise<T>(resolve => {
    finish = resolve
  })
  const begun = vi.fn((_wanted?: AbortSignal) => work)
  return {
    begun,
    finish,
    get wanted() {
      return begun.mock.calls[0]?.[0]
    },
  }
}

test('without any, tasks just run', async () => {
  expect(await platformLocks.hold('name', 10, async () => 5)).toBe(5)
  withLocks(undefined)
  expect(await platformLocks.hold('name', 10, async () => 6)).toBe(6)
  await expect(platformLocks.hold('name', 10, () => Promise.reject(new Error('mine')))).rejects.toThrow('mine')
})

test('where they are refused, tasks run without', async () => {
  withLocks({ request: () => Promise.reject(new DOMException('sandboxed', 'SecurityError')) })
  expect(await platformLocks.hold('name', 10, async () => 5)).toBe(5)
})

test('one at a time, results and errors passed on', async () => {
  withLocks(new LockManager())
  const [one, two] = [task<number>(), task<number>()]
  const first = platformLocks.hold('name', 1000, one.begun)
  const second = platformLocks.hold('name', 1000, two.begun)
  await settle()
  expect([one.begun.mock.calls.length, two.begun.mock.calls.length]).toEqual([1, 0])
  one.finish(1)
  expect(await first).toBe(1)
  await settle()
  expect(two.begun).toHaveBeenCalledTimes(1)
  two.finish(2)
  expect(await second).toBe(2)
  await expect(platformLocks.hold('name', 1000, () => Promise.reject(new Error('mine')))).rejects.toThrow('mine')
  expect(await platformLocks.hold('name', 1000, async () => 3)).toBe(3)
})

test('whoever has waited long enough takes it; the other goes on, and has its result', async () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
  const manager = new LockManager()
  withLocks(manager)
  const one = task<number>()
  const first = platformLocks.hold('name', 1000, one.begun)
  await settle()
  const second = platformLocks.hold('name', 1000, async () => 2)
  await settle()
  vi.advanceTimersByTime(999)
  await settle()
  expect(new Set(manager.stolen)).toEqual(new Set(['name bell']))
  vi.advanceTimersByTime(1)
  expect(await second).toBe(2)
  expect(manager.stolen).toEqual(['name bell', 'name bell', 'name'])
  one.finish(1)
  expect(await first).toBe(1)
  expect(vi.getTimerCount()).toBe(0)
})

describe('whether somebody else wants it', () => {
  test('is told at once, and whoever asked last is told of nobody', async () => {
    withLocks(new LockManager())
    const tasks = [task<number>(), task<number>(), task<number>()]
    const wanted = () => tasks.map(({ wanted }) => wanted?.aborted)
    const held = []
    for (const each of tasks) {
      held.push(platformLocks.hold('name', 1000, each.begun))
      await settle()
    }
    expect(wanted()).toEqual([true, undefined, undefined])
    tasks[0]!.finish(1)
    await settle()
    expect(wanted()).toEqual([true, true, undefined]) // it was asked for while this one waited
    tasks[1]!.finish(2)
    await settle()
    expect(wanted()).toEqual([true, true, false])
    tasks[2]!.finish(3)
    expect(await Promise.all(held)).toEqual([1, 2, 3])
  })

  test('is not known without locks, and where they are refused nothing may be kept', async () => {
    withLocks(undefined)
    await platformLocks.hold('name', 10, async wanted => expect(wanted).toBeUndefined())
    withLocks({ request: () => Promise.reject(new DOMException('sandboxed', 'SecurityError')) })
    await platformLocks.hold('name', 10, async wanted => expect(wanted?.aborted).toBe(true))
  })

  test('a page that is hidden, or will be, counts as wanted', async () => {
    const page = withLocks(new LockManager())
    const one = task<number>()
    const held = platformLocks.hold('name', 1000, one.begun)
    await settle()
    expect(one.wanted?.aborted).toBe(false)
    Object.assign(page, { visibilityState: 'hidden' })
    page.dispatchEvent(new Event('visibilitychange'))
    expect(one.wanted?.aborted).toBe(true)
    one.finish(1)
    await held
    await platformLocks.hold('name', 1000, async wanted => expect(wanted?.aborted).toBe(true))
  })
})

describe.each(['pagehide', 'freeze'])('at %s', event => {
  test('the lock is let go, and the task goes on', async () => {
    const manager = new LockManager()
    const page = withLocks(manager)
    const one = task<number>()
    const first = platformLocks.hold('name', 1000, one.begun)
    const second = platformLocks.hold('name', 1000, async () => 2)
    await settle()
    page.dispatchEvent(new Event(event))
    expect(await second).toBe(2)
    one.finish(1)
    expect(await first).toBe(1)
    expect(manager.stolen).toEqual(['name bell'])
    expect(one.wanted?.aborted).toBe(true)
  })
})

test('a tab that is frozen while it waits is not given the lock: it asks again when it is resumed', async () => {
  vi.resetModules() // whether the page is there is known to a module
  const { platformLocks } = await import('../src/platform/locks.js')
  const manager = new LockManager()
  const page = withLocks(manager)
  const [one, two] = [task<number>(), task<number>()]
  const request = (callback: () => Promise<unknown>) => manager.request('name', {}, callback)
  const other = request(one.begun)
  const second = platformLocks.hold('name', 1000, two.begun)
  await settle()
  page.dispatchEvent(new Event('freeze'))
  await settle()
  one.finish(1)
  await other
  const third = vi.fn(async () => 3)
  request(third).catch(() => {})
  await settle()
  expect([two.begun.mock.calls.length, third.mock.calls.length]).toEqual([0, 1])
  page.dispatchEvent(new Event('resume'))
  await settle()
  expect(two.begun).toHaveBeenCalledTimes(1)
  two.finish(2)
  expect(await second).toBe(2)
})

describe('tabs that prepare hints', () => {
  const preparers = () => preparersOf(['https://a.example'])!

  test('are known of until the last one is done, and who is about to waits', async () => {
    withLocks(new LockManager())
    const tabs = preparers()
    const ran: string[] = []
    const tryTo = (what: string) => tabs.whileNone(async () => void ran.push(what))
    await tryTo('before')
    const [one, two] = [await tabs.join(), await tabs.join()]
    await tryTo('both do')
    one()
    await settle()
    await tryTo('one does')
    await preparersOf(['https://b.example'])!.whileNone(async () => void ran.push('elsewhere'))
    two()
    await settle()
    const sweeping = task<void>()
    const swept = tabs.whileNone(sweeping.begun)
    await settle()
    let joined = false
    const three = tabs.join().then(leave => {
      joined = true
      return leave
    })
    await settle()
    expect(joined).toBe(false)
    sweeping.finish()
    await swept
    ;(await three)()
    await settle()
    await tryTo('after')
    expect(ran).toEqual(['before', 'elsewhere', 'after'])
  })

  test('do not wait for a page that is about to be frozen', async () => {
    const page = withLocks(new LockManager())
    const tabs = preparers()
    const sweeping = task<void>()
    const swept = tabs.whileNone(sweeping.begun)
    await settle()
    page.dispatchEvent(new Event('freeze'))
    await swept
    ;(await tabs.join())()
    sweeping.finish()
  })

  test('are not known of where locks are refused, or there are none: then nothing is done', async () => {
    withLocks({ request: () => Promise.reject(new DOMException('sandboxed', 'SecurityError')) })
    const act = vi.fn(async () => {})
    ;(await preparers().join())()
    await preparers()
      .whileNone(act)
      .catch(() => {})
    expect(act).not.toHaveBeenCalled()
    withLocks(undefined)
    expect(preparersOf(['https://a.example'])).toBeUndefined()
  })
})

// Two tabs ask for the lock at the same time. Requests of one tab reach the browser in order, those of two tabs in any: the tab that
// gets the lock may have taken the bell after the one that waits, and would not hear of it.
test('the tab that has the lock hears of the one that waits, whichever rang last', async () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
  const manager = new LockManager()
  const underWay = deferred()
  const slow = {
    async request(...wanted: Parameters<LockManager['request']>) {
      if (wanted[0] === 'name') await underWay.promise
      return await manager.request(...wanted)
    },
  }
  const [waiting, done] = [vi.fn(async () => 2), deferred()]
  vi.stubGlobal('navigator', { locks: slow })
  const second = platformLocks.hold('name', LOCK_PATIENCE_MS, waiting)
  vi.stubGlobal('navigator', { locks: manager })
  let wanted: AbortSignal | undefined
  const first = platformLocks.hold('name', LOCK_PATIENCE_MS, async signal => {
    wanted = signal
    await done.promise // as who keeps it until it is wanted, and is asked for more meanwhile
  })
  await settle()
  underWay.resolve()
  await settle()
  expect(wanted?.aborted).toBe(false)
  vi.advanceTimersByTime(1000)
  await settle()
  expect(wanted?.aborted).toBe(true)
  done.resolve()
  expect([await first, await second]).toEqual([undefined, 2])
  expect(manager.stolen).not.toContain('name')
  expect(vi.getTimerCount()).toBe(0)
})
