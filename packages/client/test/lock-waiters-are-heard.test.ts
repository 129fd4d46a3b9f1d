// Two tabs ask for the lock at the same time. Requests of one tab reach the browser in order, those of two tabs in any: the tab that
// gets the lock may have taken the bell after the one that waits, and would not hear of it.

import { afterEach, expect, test, vi } from 'vitest'
import { LOCK_PATIENCE_MS } from '../src/base/constants.js'
import { platformLocks } from '../src/platform/locks.js'
import { deferred, settle } from './support/clock.js'
import { LockManager } from './support/lock-manager.js'

afterEach(() => {
  vi.unstubAllGlobals()
  vi.useRealTimers()
})

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
