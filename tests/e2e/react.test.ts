// @vitest-environment jsdom
// The hooks, as a component has them: what they show, and above all how many lookups are made.

import { type KeyhushError, type KeyhushMap, NetworkError, type OnEvent, open } from '@keyhush/client'
import {
  type Lookup,
  type PrivateMap,
  type PrivateMapOptions,
  type ReadAs,
  useLookup,
  usePrivateMap,
} from '@keyhush/client/react'
import { type FakeMap, fakeMap } from '@keyhush/client/testing'
import { startServers } from '@keyhush/server/testing'
import { act, createElement, StrictMode } from 'react'
import { createRoot, type Root } from 'react-dom/client'
import { renderToString } from 'react-dom/server'
import { afterEach, beforeEach, expect, expectTypeOf, test } from 'vitest'

declare global {
  var IS_REACT_ACT_ENVIRONMENT: boolean
}

let root: Root
beforeEach(() => {
  globalThis.IS_REACT_ACT_ENVIRONMENT = true
  root = createRoot(document.createElement('div'))
})
afterEach(async () => {
  await act(() => root.unmount())
  globalThis.IS_REACT_ACT_ENVIRONMENT = false
})

interface Asked {
  readonly map: KeyhushMap | undefined
  readonly wanted: string | Uint8Array | undefined
  readonly as?: keyof ReadAs
}

const shown: Lookup<unknown>[] = []
const last = () => shown.at(-1)!
function Answer({ map, wanted, as = 'text' }: Asked) {
  shown.push(useLookup(map, wanted, as))
  return null
}

/** Under StrictMode, as in development. */
const render = (asked: Asked) =>
  act(async () => root.render(createElement(StrictMode, null, createElement(Answer, asked))))
/** Lets what was given up, and what it takes, end. */
const passed = (ms = 0) => act(() => new Promise(resolve => setTimeout(resolve, ms)))
/** Waits until this is shown, in `act` all the while. */
async function shows(answer: object): Promise<void> {
  for (let i = 0; i < 1000 && last().status === 'loading'; i++) await passed(10)
  expect(last()).toMatchObject(answer)
}

/** Counts what is asked of it, begun or not. */
function counted(map: FakeMap): FakeMap & { readonly asked: string[]; readonly signals: AbortSignal[] } {
  const asked: string[] = []
  const signals: AbortSignal[] = []
  const getText: KeyhushMap['getText'] = (key, options) => {
    asked.push(String(key))
    if (options?.signal !== undefined) signals.push(options.signal)
    return map.getText(key, options)
  }
  return new Proxy(Object.assign(map, { asked, signals }), {
    get(target, name) {
      if (name === 'getText') return getText
      const member: unknown = Reflect.get(target, name, target)
      return typeof member === 'function' ? member.bind(target) : member
    },
  })
}

test('a lookup goes from loading to what is found, or to proved absence, and is made once', async () => {
  const map = counted(fakeMap({ otter: 'river' }, { delayMs: 10 }))
  await render({ map, wanted: 'otter' })
  expect(last()).toMatchObject({ status: 'loading', value: undefined, error: undefined })
  await shows({ status: 'found', value: 'river' })
  await passed()
  await render({ map, wanted: 'otter' }) // again, with nothing new
  await passed(20)
  expect([last().status, map.asked]).toEqual(['found', ['otter']])
  await render({ map, wanted: 'auk' })
  expect(last().status).toBe('loading')
  await passed(20)
  expect([last().status, map.asked]).toEqual(['absent', ['otter', 'auk']])
  // No other key is remembered.
  await render({ map, wanted: 'otter' })
  expect(last().status).toBe('loading')
  await passed(20)
  expect([last().status, map.asked]).toEqual(['found', ['otter', 'auk', 'otter']])
})

test('without a key there is no lookup, and without a map it waits', async () => {
  const map = counted(fakeMap({ otter: 'river' }))
  for (const wanted of ['', undefined]) {
    await render({ map, wanted })
    await act(() => last().refetch())
    expect(last().status).toBe('idle')
  }
  await render({ map: undefined, wanted: 'otter' })
  await act(() => last().refetch())
  expect(last().status).toBe('loading')
  await render({ map, wanted: 'otter' })
  expect([last().status, map.asked]).toEqual(['found', ['otter']])
})

test('bytes that are equal are the same key', async () => {
  const map = counted(fakeMap({ otter: 'river' }))
  for (let i = 0; i < 3; i++) await render({ map, wanted: new TextEncoder().encode('otter') })
  expect([last().value, map.asked.length]).toEqual(['river', 1])
  await render({ map, wanted: new TextEncoder().encode('auk') })
  expect([last().status, map.asked.length]).toEqual(['absent', 2])
})

test('values are read as bytes and as JSON, too', async () => {
  const map = fakeMap({ json: '{"a":1}' })
  await render({ map, wanted: 'json', as: 'json' })
  expect(last().value).toEqual({ a: 1 })
  await render({ map, wanted: 'json', as: 'bytes' })
  expect(last().value).toEqual(new TextEncoder().encode('{"a":1}'))
})

test('a failure is shown, and looked up again when it is asked to, once', async () => {
  const map = counted(fakeMap({ otter: 'river' }, { delayMs: 200 }))
  const error = new NetworkError('https://a.example', 'away')
  map.failWith(error)
  await render({ map, wanted: 'otter' })
  await shows({ status: 'error', value: undefined, error })
  map.failWith(undefined)
  const { refetch } = last()
  await act(() => {
    refetch()
    refetch()
  })
  await act(() => last().refetch()) // while it is loading
  expect(last().refetch).toBe(refetch)
  await shows({ status: 'found' })
  expect(map.asked.length).toBe(2)
})

test('a lookup that takes too long is shown as an error, whose code narrows it', async () => {
  await render({ map: fakeMap({ otter: 'river' }, { delayMs: 60, timeoutMs: 20 }), wanted: 'otter' })
  await shows({ status: 'error', error: { code: 'timeout', retryable: true } })
  expectTypeOf<Extract<Lookup, { status: 'error' }>['error']>().toEqualTypeOf<KeyhushError>()
  expectTypeOf<Extract<PrivateMap, { status: 'error' }>['error']>().toEqualTypeOf<KeyhushError>()
  expectTypeOf<PrivateMapOptions['timeoutMs']>().toEqualTypeOf<number | undefined>()
})

test('a slow lookup says which servers it waits for, until it is over', async () => {
  const map = fakeMap({ otter: 'river' }, { delayMs: 1000 })
  await render({ map, wanted: 'otter' })
  await act(async () => map.announce({ type: 'slow', servers: ['https://a.example'] }))
  expect(last()).toMatchObject({ status: 'loading', slow: ['https://a.example'] })
  await shows({ status: 'found', value: 'river' })
  expect(last().slow).toBeUndefined()
})

test('what a function of the app throws is the cause of an error of the SDK', async () => {
  const cause = new RangeError('no such name')
  const normalize = () => {
    throw cause
  }
  await render({ map: fakeMap({}, { normalize }), wanted: 'otter' })
  await shows({ status: 'error', error: { code: 'usage', cause } })
})

test('another key, and unmounting, give the lookup before up: here alone, what has begun is finished', async () => {
  const map = counted(fakeMap({ otter: 'river', heron: 'shore' }, { delayMs: 1000 }))
  await render({ map, wanted: 'otter' })
  await render({ map, wanted: 'heron' })
  expect(map.signals.map(({ aborted }) => aborted)).toEqual([true, false])
  await act(() => root.render(null))
  expect(map.signals.map(({ aborted }) => aborted)).toEqual([true, true])
  await passed(1500)
  expect([map.asked, map.stats.lookups]).toEqual([['otter', 'heron'], 2])
  expect(shown.slice(-3).some(({ status }) => status === 'error')).toBe(false)
})

const opened: PrivateMap[] = []
interface Opened {
  readonly options: PrivateMapOptions
  readonly open?: (options: PrivateMapOptions & { readonly signal: AbortSignal }) => Promise<KeyhushMap>
  readonly wanted?: string
}
function Page({ options, open: instead = open, wanted }: Opened) {
  const state = usePrivateMap(options, instead)
  opened.push(state)
  return createElement(Answer, { map: state.map, wanted })
}
const mount = (page: Opened) => act(async () => root.render(createElement(StrictMode, null, createElement(Page, page))))
const servers = ['https://a.example', 'https://b.example'] as const

test('a map is opened once, and closed when the page is left', async () => {
  const map = fakeMap({ otter: 'river' })
  let calls = 0
  const openFake = async () => {
    calls += 1
    return map
  }
  await mount({ options: { servers: [...servers] }, open: openFake, wanted: 'otter' })
  await mount({
    options: { servers: [...servers], onEvent: () => {} },
    open: async () => await openFake(),
    wanted: 'otter',
  })
  expect([opened.at(-1)!.status, last().value, calls]).toEqual(['open', 'river', 1])
  await mount({ options: { servers: ['https://c.example', servers[1]] }, open: openFake, wanted: 'otter' })
  expect(calls).toBe(2)
  await act(() => root.render(null))
  await passed()
  await expect(map.get('otter')).rejects.toMatchObject({ code: 'closed' })
})

test('a map that cannot be opened says why, and tries again', async () => {
  const error = new NetworkError('https://a.example', 'away')
  let away = true
  const openFake = async () => {
    if (away) throw error
    return fakeMap({ otter: 'river' })
  }
  await mount({ options: { servers }, open: openFake })
  const state = opened.at(-1)!
  expect(state).toMatchObject({ status: 'error', map: undefined, error })
  away = false
  if (state.status === 'error') await act(async () => state.retry())
  expect(opened.at(-1)!.status).toBe('open')
})

/** Opens a map when `come` is called. */
function late() {
  let come: (map: KeyhushMap) => void = () => {}
  const promise = new Promise<KeyhushMap>(resolve => {
    come = resolve
  })
  const asked: { signal?: AbortSignal; onEvent?: OnEvent | undefined } = {}
  const openLate: Opened['open'] = ({ signal, onEvent }) => {
    Object.assign(asked, { signal, onEvent })
    return promise
  }
  return { openLate, come, asked }
}

test('a map that opens slowly says which servers it waits for, and the app hears it, too', async () => {
  const { openLate, come, asked } = late()
  const heard: string[] = []
  await mount({ options: { servers, onEvent: ({ type }) => void heard.push(type) }, open: openLate })
  expect(opened.at(-1)).toEqual({ status: 'opening' })
  const slow = { type: 'slow', servers: [servers[1]] } as const
  await act(() => asked.onEvent!(slow))
  expect(opened.at(-1)).toMatchObject({ status: 'opening', slow: [servers[1]] })
  await act(async () => come(fakeMap({ otter: 'river' })))
  await act(() => asked.onEvent!(slow)) // of a call: not the opening
  expect([opened.at(-1)!.status, opened.at(-1)!.slow, heard]).toEqual(['open', undefined, ['slow', 'slow']])
})

test('opening is called off when the page is left; a map that comes after all is closed', async () => {
  const map = fakeMap({ otter: 'river' })
  const { openLate, come, asked } = late()
  await mount({ options: { servers }, open: openLate })
  await act(() => root.render(null))
  await passed()
  expect(asked.signal?.aborted).toBe(true)
  come(map)
  await passed()
  await expect(map.get('otter')).rejects.toMatchObject({ code: 'closed' })
})

test('a server that renders pages opens nothing', () => {
  const page: Opened = { options: { servers }, open: () => Promise.reject(new Error('opened')), wanted: 'otter' }
  expect(renderToString(createElement(Page, page))).toBe('')
  expect([opened.at(-1)!.status, last().status]).toEqual(['opening', 'loading'])
})

test.each(['instant', 'full', 'local'] as const)(
  'on real servers, in mode %s: one lookup, whatever React renders twice',
  async mode => {
    const both = await startServers({ otter: 'river' })
    try {
      const { servers, publisherKey } = both
      const options = { servers, publisherKey, mode }
      await mount({ options, wanted: 'otter' })
      await shows({ status: 'found', value: 'river' })
      const { map } = opened.at(-1)!
      await mount({ options: { ...options }, wanted: 'otter' })
      expect(map?.stats.lookups).toBe(1)
      await mount({ options, wanted: 'auk' })
      await shows({ status: 'absent' })
      expect(map?.stats.lookups).toBe(2)
      await act(() => root.render(null))
      await passed()
      await expect(map!.get('otter')).rejects.toMatchObject({ code: 'closed' })
    } finally {
      await both.close()
    }
  },
)

test('a component test passes a fake map, and needs no servers', async () => {
  function Page() {
    opened.push(usePrivateMap({}, async () => fakeMap({ otter: 'river' })))
    return null
  }
  await act(async () => root.render(createElement(Page)))
  expect(opened.at(-1)!.status).toBe('open')
})
