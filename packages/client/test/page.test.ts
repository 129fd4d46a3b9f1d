// A page that is left takes no lock and follows nothing, until it is back: some engines let its code go on. One that is hidden
// does not listen for others.

import { expect, onTestFinished, test, vi } from 'vitest'

/** The platform's part of a page, in one of its own. */
async function pageOf() {
  const page = new EventTarget()
  const document = Object.assign(new EventTarget(), { visibilityState: 'visible' })
  vi.resetModules()
  onTestFinished(() => void vi.unstubAllGlobals())
  vi.stubGlobal('document', document)
  vi.stubGlobal('addEventListener', page.addEventListener.bind(page))
  const granted: string[] = []
  const request = async (name: string, _options: object, task: () => Promise<unknown>) => {
    granted.push(name)
    return await task()
  }
  vi.stubGlobal('navigator', { locks: { request } })
  vi.stubGlobal('indexedDB', {})
  const [{ whileShown }, { platformLocks }, { platformTabs }, { preparersOf }, { pause }] = [
    await import('../src/platform/page.js'),
    await import('../src/platform/locks.js'),
    await import('../src/platform/tabs.js'),
    await import('../src/platform/preparers.js'),
    await import('../src/platform/environment.js'),
  ]
  const turn = (visibilityState: string) => {
    Object.assign(document, { visibilityState })
    document.dispatchEvent(new Event('visibilitychange'))
  }
  return {
    ...{ whileShown, locks: platformLocks, tabs: platformTabs(), granted, preparersOf, pause },
    leave: () => page.dispatchEvent(new Event('pagehide')),
    comeBack: () => page.dispatchEvent(new Event('pageshow')),
    freeze: () => document.dispatchEvent(new Event('freeze')),
    resume: () => document.dispatchEvent(new Event('resume')),
    hide: () => turn('hidden'),
    show: () => turn('visible'),
  }
}

const turns = () => new Promise(resolve => setImmediate(resolve))
const forever = (signal: AbortSignal) =>
  new Promise<void>(resolve => signal.addEventListener('abort', () => resolve(), { once: true }))

test('a lock is not asked for while the page is away', async () => {
  const page = await pageOf()
  expect(await page.locks.hold('one', 1000, async () => 1)).toBe(1)
  page.leave()
  const two = page.locks.hold('two', 1000, async () => 2)
  await turns()
  expect(page.granted).toEqual(['one bell', 'one'])
  page.comeBack()
  expect(await two).toBe(2)
  expect(page.granted).toEqual(['one bell', 'one', 'two bell', 'two'])
})

test('a pause whose message is lost while the page is away is over when it is back', async () => {
  const page = await pageOf()
  vi.stubGlobal('setImmediate', undefined)
  vi.stubGlobal('scheduler', undefined)
  vi.stubGlobal(
    'MessageChannel',
    class {
      port1 = { close() {} }
      port2 = { postMessage() {} }
    },
  )
  const paused = page.pause()
  page.leave()
  page.comeBack()
  await paused
})

test('what follows is called off when the page is left, and begins again each time it is back', async () => {
  const page = await pageOf()
  const ended = new AbortController()
  const seen: string[] = []
  const work = async (signal: AbortSignal) => {
    seen.push('begun')
    await forever(signal)
    seen.push('over')
  }
  const following = page.whileShown(work, ended.signal)
  const leading = page.tabs.elect('leader', forever, ended.signal)
  for (let round = 0; round < 2; round++) {
    await turns()
    expect(seen.splice(0)).toEqual(['begun'])
    page.leave()
    await turns()
    expect(seen.splice(0)).toEqual(['over'])
    page.comeBack()
  }
  await turns()
  expect(page.granted).toEqual(['leader', 'leader', 'leader'])
  ended.abort()
  await Promise.all([following, leading])
  expect(seen).toEqual(['begun', 'over'])
})

test('a tab that is frozen while it leads gives the lead up at once, whatever its task still does; it stands again when it is back', async () => {
  const page = await pageOf()
  const ended = new AbortController()
  let held = 0
  const request = async (_name: string, _options: object, task: () => Promise<unknown>) => {
    held++
    await task()
    held--
  }
  vi.stubGlobal('navigator', { locks: { request } })
  let finish = () => {}
  const task = () =>
    new Promise<void>(resolve => {
      finish = resolve
    })
  const leading = page.tabs.elect('leader', task, ended.signal)
  await turns()
  expect(held).toBe(1)
  page.freeze()
  await turns()
  expect(held).toBe(0)
  finish()
  page.resume()
  await turns()
  expect(held).toBe(1)
  ended.abort()
  finish()
  await leading
})

test('a hidden page gives up its lead over other tabs and competes again when visible; it still follows events', async () => {
  const page = await pageOf()
  const ended = new AbortController()
  const seen: string[] = []
  const noting = (what: string) => async (signal: AbortSignal) => {
    seen.push(`${what} begun`)
    await forever(signal)
    seen.push(`${what} over`)
  }
  page.hide()
  const leading = page.tabs.elect('leader', noting('lead'), ended.signal)
  const following = page.whileShown(noting('following'), ended.signal)
  await turns()
  expect(seen.splice(0)).toEqual(['following begun'])
  page.show()
  await turns()
  page.hide()
  await turns()
  expect(seen.splice(0)).toEqual(['lead begun', 'lead over'])
  page.freeze()
  page.show()
  await turns()
  expect(seen.splice(0)).toEqual(['following over'])
  page.resume()
  await turns()
  expect(seen.splice(0).sort()).toEqual(['following begun', 'lead begun'])
  expect(page.granted).toEqual(['leader', 'leader'])
  ended.abort()
  await Promise.all([leading, following])
})

test('a page that is hidden and frozen, and then resumed and shown, has been away once', async () => {
  const page = await pageOf()
  const ended = new AbortController()
  let begun = 0
  const following = page.whileShown(async signal => {
    begun++
    await forever(signal)
  }, ended.signal)
  for (const step of [page.leave, page.freeze, page.resume, page.comeBack]) {
    await turns()
    step()
  }
  await turns()
  expect(begun).toBe(2)
  page.freeze()
  page.resume()
  await turns()
  expect(begun).toBe(3)
  ended.abort()
  await following
})

test('what it prepares it does not while it is away', async () => {
  const page = await pageOf()
  const preparers = page.preparersOf(['rows'])!
  const leave = await preparers.join()
  page.leave()
  const act = vi.fn(async () => {})
  const none = page.preparersOf(['others'])!.whileNone(act)
  await turns()
  expect([act.mock.calls.length, page.granted]).toEqual([0, ['keyhush preparing rows']])
  page.comeBack()
  await none
  await turns()
  const granted = ['keyhush preparing rows', 'keyhush preparing others', 'keyhush preparing rows']
  expect(page.granted).toEqual(granted)
  leave()
  await turns()
  page.leave()
  page.comeBack()
  await turns()
  expect(page.granted).toEqual(granted)
})

test('one that is away for good lets go of what is closed', async () => {
  const page = await pageOf()
  const ended = new AbortController()
  page.leave() // before anything was asked: not known of
  const following = page.whileShown(forever, ended.signal)
  await turns()
  page.leave()
  await turns()
  ended.abort()
  await following
})

test('a page that returns gets one event that there may be news, and none of those from while it was away', async () => {
  const page = await pageOf()
  let told = 0
  const end = page.tabs.subscribe('news', () => told++)
  await turns()
  const other = new BroadcastChannel('news')
  const tell = async () => {
    const heard = new Promise(resolve => {
      const witness = new BroadcastChannel('news')
      witness.onmessage = () => {
        witness.close()
        resolve(undefined)
      }
    })
    other.postMessage(undefined)
    await heard
    await turns()
  }
  await tell()
  expect(told).toBe(1)
  page.leave()
  await turns()
  await tell()
  expect(told).toBe(1)
  page.comeBack()
  await turns()
  expect(told).toBe(2)
  await tell()
  expect(told).toBe(3)
  end()
  other.close()
})

test('a failure of what follows is its own; where there are no pages it just runs', async () => {
  const { whileShown } = await import('../src/platform/page.js')
  const failing = whileShown(() => Promise.reject(new Error('its own')), new AbortController().signal)
  await expect(failing).rejects.toThrow('its own')
  let ran = 0
  await whileShown(async () => void ran++, new AbortController().signal)
  expect(ran).toBe(1)
})
