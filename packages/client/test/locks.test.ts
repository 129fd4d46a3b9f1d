// The platform's locks: one holder at a time, nobody waits for ever, and a page about to be frozen holds none.

import { afterEach, describe, expect, test, vi } from 'vitest'
import { platformLocks } from '../src/platform/locks.js'
import { settle } from './support/clock.js'

type Callback = () => Promise<unknown>

/** `navigator.locks`, as far as it is used. */
class Manager {
  readonly log: string[] = []
  #holder: { lost: (error: Error) => void } | undefined
  readonly #queue: (() => void)[] = []

  request = async (_name: string, options: { signal?: AbortSignal; steal?: boolean }, callback: Callback) => {
    if (options.steal) {
      this.log.push('stolen')
      this.#holder?.lost(new DOMException('stolen', 'AbortError'))
    } else if (this.#holder) {
      await new Promise<void>((resolve, reject) => {
        this.#queue.push(resolve)
        options.signal?.addEventListener('abort', () => {
          this.#queue.splice(this.#queue.indexOf(resolve), 1)
          reject(options.signal?.reason)
        })
      })
    }
    const me = { lost: (_error: Error) => {} }
    this.#holder = me
    const lost = new Promise((_, reject) => {
      me.lost = reject
    })
    try {
      return await Promise.race([callback(), lost])
    } finally {
      if (this.#holder === me) {
        this.#holder = undefined
        this.#queue.shift()?.()
      }
    }
  }
}

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
  const begun = vi.fn(() => work)
  return { begun, finish }
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
  withLocks(new Manager())
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
  const manager = new Manager()
  withLocks(manager)
  const one = task<number>()
  const first = platformLocks.hold('name', 1000, one.begun)
  await settle()
  const second = platformLocks.hold('name', 1000, async () => 2)
  await settle()
  vi.advanceTimersByTime(999)
  await settle()
  expect(manager.log).toEqual([])
  vi.advanceTimersByTime(1)
  expect(await second).toBe(2)
  expect(manager.log).toEqual(['stolen'])
  one.finish(1)
  expect(await first).toBe(1)
  expect(vi.getTimerCount()).toBe(0)
})

describe.each(['pagehide', 'freeze'])('at %s', event => {
  test('the lock is let go, and the task goes on', async () => {
    const manager = new Manager()
    const page = withLocks(manager)
    const one = task<number>()
    const first = platformLocks.hold('name', 1000, one.begun)
    const second = platformLocks.hold('name', 1000, async () => 2)
    await settle()
    page.dispatchEvent(new Event(event))
    expect(await second).toBe(2)
    one.finish(1)
    expect(await first).toBe(1)
    expect(manager.log).toEqual([])
  })
})
