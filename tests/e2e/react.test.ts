// @vitest-environment jsdom
// The hooks, as a component has them: what they show, and above all how many lookups are made.

import { type Change, type KeyhushError, type KeyhushMap, NetworkError, type OnEvent } from '@keyhush/client'
import type { open as openInstant } from '@keyhush/client/instant'
import {
  type Lookup,
  type LookupOptions,
  type Lookups,
  type LookupsOptions,
  type PrivateMap,
  type PrivateMapOptions,
  type ReadAs,
  type UseWatchOptions,
  useLookup,
  useLookups,
  usePrivateMap,
  useWatch,
  type WatchedKey,
} from '@keyhush/client/react'
import {
  type InstantMapOptions,
  usePrivateMap as useInstantMap,
  useWatch as useInstantWatch,
} from '@keyhush/client/react/instant'
import { type FakeMap, fakeMap } from '@keyhush/client/testing'
import { startServers, type TestServers } from '@keyhush/server/testing'
import { Activity, act, createElement, type FunctionComponent, StrictMode } from 'react'
import { createRoot, type Root } from 'react-dom/client'
import { renderToString } from 'react-dom/server'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, expectTypeOf, test, vi } from 'vitest'

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

interface Asked<Options = LookupOptions, Wanted = string | Uint8Array> {
  readonly map: KeyhushMap | undefined
  readonly wanted: Wanted | undefined
  readonly as?: keyof ReadAs
  readonly options?: Options
}

/** Under StrictMode, as in development. */
const strictly = <P extends object>(component: FunctionComponent<P>, props: P) =>
  act(async () => root.render(createElement(StrictMode, null, createElement(component, props))))

const shown: Lookup<unknown>[] = []
const last = () => shown.at(-1)!
function Answer({ map, wanted, as = 'text', options }: Asked) {
  shown.push(useLookup(map, wanted, as, options))
  return null
}

const render = (asked: Asked) => strictly(Answer, asked)
/** Lets what was given up, and what it takes, end. */
const passed = (ms = 0) => act(() => new Promise(resolve => setTimeout(resolve, ms)))
/** Waits until this is so, in `act` all the while. */
async function until(is: () => boolean): Promise<void> {
  for (let i = 0; i < 1000 && !is(); i++) await passed(10)
}
async function shows(answer: object): Promise<void> {
  await until(() => last().status !== 'loading')
  expect(last()).toMatchObject(answer)
}

interface Counted {
  readonly asked: string[]
  readonly signals: AbortSignal[]
  /** Lookups wait from now on, until what this returns is called. */
  hold(): () => Promise<void>
}

/** Counts what is asked of it, begun or not. */
function counted(map: FakeMap): FakeMap & Counted {
  const asked: string[] = []
  const signals: AbortSignal[] = []
  let free: Promise<void> | undefined
  const getText: KeyhushMap['getText'] = async (key, options) => {
    asked.push(String(key))
    if (options?.signal !== undefined) signals.push(options.signal)
    if (free !== undefined) await free
    return await map.getText(key, options)
  }
  const hold = () => {
    let release = () => {}
    free = new Promise(resolve => {
      release = resolve
    })
    return () => act(async () => release())
  }
  return new Proxy(Object.assign(map, { asked, signals, hold }), {
    get(target, name) {
      if (name === 'getText') return getText
      const member: unknown = Reflect.get(target, name, target)
      return typeof member === 'function' ? member.bind(target) : member
    },
  })
}

test('a lookup goes from loading to what is found, or to proved absence, and is made once', async () => {
  const map = counted(fakeMap({ otter: 'river' }))
  const first = map.hold()
  await render({ map, wanted: 'otter' })
  expect(last()).toMatchObject({ status: 'loading', value: undefined, error: undefined })
  await first()
  await shows({ status: 'found', value: 'river' })
  await passed()
  await render({ map, wanted: 'otter' }) // again, with nothing new
  await passed(20)
  expect([last().status, map.asked]).toEqual(['found', ['otter']])
  const second = map.hold()
  await render({ map, wanted: 'auk' })
  expect(last().status).toBe('loading')
  await second()
  await shows({ status: 'absent' })
  // No other key is remembered.
  const third = map.hold()
  await render({ map, wanted: 'otter' })
  expect(last().status).toBe('loading')
  await third()
  await shows({ status: 'found' })
  expect(map.asked).toEqual(['otter', 'auk', 'otter'])
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
  const map = counted(fakeMap({ otter: 'river' }))
  const error = new NetworkError('https://a.example', 'away')
  map.failWith(error)
  await render({ map, wanted: 'otter' })
  await shows({ status: 'error', value: undefined, error })
  map.failWith(undefined)
  const release = map.hold()
  const { refetch } = last()
  await act(() => {
    refetch()
    refetch()
  })
  await act(() => last().refetch()) // while it is loading
  expect(last().refetch).toBe(refetch)
  await release()
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
  const map = counted(fakeMap({ otter: 'river' }))
  const release = map.hold()
  await render({ map, wanted: 'otter' })
  await act(async () => map.announce({ type: 'slow', servers: ['https://a.example'] }))
  expect(last()).toMatchObject({ status: 'loading', slow: ['https://a.example'] })
  await release()
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

const shownOfSeveral: Lookups<unknown>[] = []
const lastOfSeveral = () => shownOfSeveral.at(-1)!
type SeveralAsked = Asked<LookupsOptions, readonly (string | Uint8Array)[]>
function Answers({ map, wanted, as = 'text', options }: SeveralAsked) {
  shownOfSeveral.push(useLookups(map, wanted, as, options))
  return null
}
const renderSeveral = (asked: SeveralAsked) => strictly(Answers, asked)

test('several keys are one lookup, and a new list of the same keys is none', async () => {
  const map = fakeMap({ otter: 'river', heron: 'shore' })
  const bytes = new TextEncoder().encode('heron')
  for (let i = 0; i < 3; i++) await renderSeveral({ map, wanted: ['otter', 'auk', bytes.slice()] })
  expect(lastOfSeveral()).toMatchObject({ status: 'answered', values: ['river', undefined, 'shore'], error: undefined })
  expect(map.stats.lookups).toBe(1)
  await renderSeveral({ map, wanted: ['auk', 'otter', bytes] })
  expect([lastOfSeveral().values, map.stats.lookups]).toEqual([[undefined, 'river', 'shore'], 2])
  await renderSeveral({ map, wanted: ['auk', 'otter'] })
  expect([lastOfSeveral().values, map.stats.lookups]).toEqual([[undefined, 'river'], 3])
  expectTypeOf(useLookups<'text'>).returns.toEqualTypeOf<Lookups<string>>()
})

test('the list is copied: other keys in the same array are looked up', async () => {
  const map = fakeMap({ otter: 'river', heron: 'shore' })
  const wanted = ['otter']
  await renderSeveral({ map, wanted })
  wanted[0] = 'heron'
  await renderSeveral({ map, wanted })
  expect([lastOfSeveral().values, map.stats.lookups]).toEqual([['shore'], 2])
})

test('no list is no lookup, an empty one is answered without one, and padTo hides how many keys there are', async () => {
  const map = fakeMap({ json: '{"a":1}' })
  const padded: unknown[] = []
  const { getManyJson } = map
  map.getManyJson = (keys, options) => {
    padded.push(options?.padTo)
    return getManyJson(keys, options)
  }
  await renderSeveral({ map, wanted: undefined })
  expect([lastOfSeveral().status, map.stats.lookups]).toEqual(['idle', 0])
  await renderSeveral({ map, wanted: [] })
  expect([lastOfSeveral().values, map.stats.lookups]).toEqual([[], 0])
  for (let i = 0; i < 3; i++) await renderSeveral({ map, wanted: ['json'], as: 'json', options: { padTo: 8 } })
  expect([lastOfSeveral().values, map.stats.lookups, padded]).toEqual([[{ a: 1 }], 1, [8]])
  await renderSeveral({ map, wanted: ['json'], as: 'json', options: { padTo: 16 } })
  expect([lastOfSeveral().values, padded]).toEqual([[{ a: 1 }], [8, 16]])
})

test('an option that there is not is refused, and asks nothing: a misspelt padTo would hide nothing', async () => {
  const map = fakeMap({ otter: 'river' })
  for (const [as, options, message] of [
    ['text', { padto: 8 }, /useLookups: there is no option "padto"; expected padTo/],
    ['text', { follow: 'yes' }, /expected follow to be true or false, got "yes"/],
    ['text', null, /expected an object of options, got null/],
    ['txt', {}, /as: expected 'bytes', 'text', 'json', got "txt"/],
    [{ padTo: 8 }, undefined, /as: expected 'bytes', 'text', 'json', got an object/],
  ] as const) {
    await renderSeveral({ map, wanted: ['otter'], as: as as never, options: options as never })
    const { error } = lastOfSeveral()
    expect(error).toMatchObject({ code: 'usage', message: expect.stringMatching(message) })
  }
  await render({ map, wanted: 'otter', options: { padTo: 8 } as never })
  expect(last().error?.message).toMatch(/useLookup: there is no option "padTo"/)
  expect(map.stats.lookups).toBe(0)
})

test('what is no list of keys is an error that says so', async () => {
  const map = fakeMap({ otter: 'river' })
  for (const [wanted, message] of [
    ['otter', /expected a list of keys, got another value/],
    [['otter', 7], /expected a string or a Uint8Array/],
    [[''], /expected 1 to 4096 bytes/],
  ] as const) {
    await renderSeveral({ map, wanted: wanted as never })
    const { error } = lastOfSeveral()
    expect(error).toMatchObject({ code: 'usage', message: expect.stringMatching(message) })
  }
  expect(map.stats.lookups).toBe(0)
})

const LAKES = [{ op: 'edit', key: 'otter', value: 'lakes' }] as const

test('after a change of the list an answer is outdated, and no lookup is made unless the app asks', async () => {
  const map = counted(fakeMap({ otter: 'river' }))
  await render({ map, wanted: 'otter' })
  expect(last()).toMatchObject({ status: 'found', value: 'river', outdated: false })
  await act(async () => map.publish(LAKES))
  expect(last()).toMatchObject({ status: 'found', value: 'river', outdated: true })
  await act(async () => map.publish([{ op: 'add', key: 'auk', value: 'cliff' }]))
  expect(map.asked.length).toBe(1)
  await act(async () => last().refetch())
  expect(last()).toMatchObject({ status: 'found', value: 'lakes', outdated: false })
  expect(map.asked.length).toBe(2)
})

test('with `follow` the answer stays until the next one is there', async () => {
  const map = counted(fakeMap({ otter: 'river' }))
  const options = { follow: true }
  await render({ map, wanted: 'otter', options })
  await shows({ status: 'found', value: 'river', outdated: false })
  const release = map.hold()
  await act(async () => map.publish(LAKES))
  expect(last()).toMatchObject({ status: 'found', value: 'river', outdated: true })
  await release()
  await until(() => !last().outdated)
  expect(last()).toMatchObject({ status: 'found', value: 'lakes' })
  await act(async () => map.publish([{ op: 'delete', key: 'otter' }]))
  await until(() => !last().outdated)
  expect([last().status, map.asked.length]).toEqual(['absent', 3])
})

test('a change during a lookup counts, as well', async () => {
  for (const [follow, lookups] of [
    [false, 1],
    [true, 2],
  ] as const) {
    const map = counted(fakeMap({ otter: 'river' }))
    const release = map.hold()
    await render({ map, wanted: 'otter', options: { follow } })
    await act(async () => map.publish(LAKES))
    await release()
    await until(() => last().status === 'found' && last().outdated === !follow)
    expect(last()).toMatchObject({ value: 'lakes', outdated: !follow })
    expect(map.asked.length).toBe(lookups)
  }
})

test('an error is not looked up again after a change, and one after a change is shown', async () => {
  const map = counted(fakeMap({ otter: 'river' }))
  const error = new NetworkError('https://a.example', 'away')
  await render({ map, wanted: 'otter', options: { follow: true } })
  map.failWith(error)
  await act(async () => map.publish(LAKES))
  expect(last()).toMatchObject({ status: 'error', error, value: undefined, outdated: false })
  await act(async () => map.publish([{ op: 'add', key: 'auk', value: 'cliff' }]))
  expect(map.asked.length).toBe(2)
})

test('refetch() while a change is followed makes a lookup of its own', async () => {
  const map = counted(fakeMap({ otter: 'river' }))
  await render({ map, wanted: 'otter', options: { follow: true } })
  await shows({ status: 'found' })
  const release = map.hold()
  await act(async () => map.publish(LAKES))
  await act(async () => last().refetch())
  expect(last().status).toBe('loading')
  await release()
  await shows({ status: 'found', value: 'lakes', outdated: false })
  expect(map.asked.length).toBe(3)
})

test('a component that was hidden during a change learns of it when it is shown again', async () => {
  const map = counted(fakeMap({ otter: 'river' }))
  const show = (mode: 'visible' | 'hidden') =>
    act(async () =>
      root.render(createElement(Activity, { mode, children: createElement(Answer, { map, wanted: 'otter' }) })),
    )
  await show('visible')
  await show('hidden')
  await act(async () => map.publish(LAKES))
  await show('visible')
  expect(last()).toMatchObject({ value: 'river', outdated: true })
  expect(map.asked.length).toBe(1)
})

const shownOfWatch: WatchedKey<unknown>[] = []
const watched = () => shownOfWatch.at(-1)!
type WatchAsked = Asked<UseWatchOptions>
function Owner({ map, wanted, as = 'text', options }: WatchAsked) {
  shownOfWatch.push(useWatch(map, wanted, as, options))
  return null
}
const renderWatch = (asked: WatchAsked) => strictly(Owner, asked)
const textOf = (value: Uint8Array | undefined) => value && new TextDecoder().decode(value)
/** What a page shows of changes. */
const told = (changes: readonly Change[]) =>
  changes.map(({ value, before, epoch, how }) => `${textOf(before)} → ${textOf(value)} at ${epoch}, ${how}`)

test('a watched key shows its value and each change, and is looked up once', async () => {
  const map = fakeMap({ otter: 'river' }, { delayMs: 10 })
  const before = shownOfWatch.length
  await renderWatch({ map, wanted: 'otter' })
  expect(shownOfWatch[before]).toMatchObject({ status: 'loading', value: undefined, changes: [], checked: undefined })
  await until(() => watched().status !== 'loading')
  expect(watched()).toMatchObject({ status: 'found', value: 'river', changes: [], checked: expect.any(Date) })
  await act(async () => map.publish(LAKES))
  await act(async () => map.publish([{ op: 'add', key: 'auk', value: 'cliff' }]))
  for (let i = 0; i < 3; i++) await renderWatch({ map, wanted: 'otter', options: { since: `${i}` } })
  expect(watched()).toMatchObject({ status: 'found', value: 'lakes' })
  await act(async () => map.publish([{ op: 'delete', key: 'otter' }]))
  expect(watched()).toMatchObject({ status: 'absent', value: undefined, error: undefined })
  expect(told(watched().changes)).toEqual(['river → lakes at 2, list', 'lakes → undefined at 4, list'])
  expect(map.stats.lookups).toBe(1)
  expectTypeOf(useWatch<'text'>).returns.toEqualTypeOf<WatchedKey<string>>()
})

test('at the next visit it shows what has changed since; what is saved last counts', async () => {
  let mark: string | undefined
  const visit = async (map: FakeMap) => {
    const options: UseWatchOptions = {
      since: mark,
      save(saved) {
        mark = saved
      },
    }
    await renderWatch({ map, wanted: 'otter', options })
    await passed()
    return told(watched().changes)
  }
  const first = fakeMap({ otter: 'river' })
  expect(await visit(first)).toEqual([])
  await act(async () => first.publish(LAKES))
  await act(() => root.render(null))
  expect(await visit(fakeMap({ otter: 'lakes' }))).toEqual([])
  expect(await visit(fakeMap({ otter: 'ponds' }))).toEqual(['lakes → ponds at 1, list'])
  mark = 'garbage'
  expect(await visit(fakeMap({ otter: 'ponds' }))).toEqual(['undefined → ponds at 1, gap'])
})

test('another key is watched anew; after unmounting nothing is told, and marks are saved', async () => {
  const map = fakeMap({ otter: 'river', heron: 'shore' })
  const signals: (AbortSignal | undefined)[] = []
  const { watch } = map
  map.watch = async (...of) => {
    signals.push(of[2]?.signal)
    return await watch(...of)
  }
  const marks: string[] = []
  const options: UseWatchOptions = { save: mark => void marks.push(mark) }
  await renderWatch({ map, wanted: undefined, options })
  expect([watched().status, map.stats.lookups]).toEqual(['idle', 0])
  await renderWatch({ map, wanted: 'otter', options })
  await act(async () => map.publish(LAKES))
  await renderWatch({ map, wanted: 'heron', options })
  expect(watched()).toMatchObject({ status: 'found', value: 'shore', changes: [] })
  await act(async () => map.publish([{ op: 'edit', key: 'otter', value: 'ponds' }]))
  expect(watched()).toMatchObject({ value: 'shore', changes: [] })
  await act(() => root.render(null))
  await passed()
  expect(signals.map(signal => signal?.aborted)).toEqual([true, true])
  const [renders, saved] = [shownOfWatch.length, marks.length]
  await act(async () => map.publish([{ op: 'edit', key: 'heron', value: 'bank' }]))
  await passed()
  expect([shownOfWatch.length, marks.length]).toEqual([renders, saved + 2])
})

test('a watch that failed says why, and begins again on retry()', async () => {
  const map = fakeMap({ otter: 'river' })
  const error = new NetworkError('https://a.example', 'away')
  map.failWith(error)
  await renderWatch({ map, wanted: 'otter' })
  expect(watched()).toMatchObject({ status: 'error', value: undefined, error })
  map.failWith(undefined)
  await act(async () => watched().retry())
  expect(watched()).toMatchObject({ status: 'found', value: 'river' })
  await act(async () => watched().retry())
  expect(map.stats.lookups).toBe(1)
  for (const [as, options, message] of [
    ['txt', {}, /useWatch: as: expected 'bytes', 'text', 'json', got "txt"/],
    ['text', { Since: '' }, /useWatch: there is no option "Since"; expected since/],
    ['json', { save: 7 }, /expected save to be a function, got 7/],
    ['bytes', null, /expected an object of options, got null/],
  ] as const) {
    await renderWatch({ map, wanted: 'otter', as: as as never, options: options as never })
    expect(watched().error).toMatchObject({ code: 'usage', message: expect.stringMatching(message) })
  }
})

test('a value that cannot be read is an error, the change is shown, and the next change too', async () => {
  const map = fakeMap({ otter: '{"a":1}' })
  await renderWatch({ map, wanted: 'otter', as: 'json' })
  expect(watched().value).toEqual({ a: 1 })
  await act(async () => map.publish(LAKES))
  expect(watched()).toMatchObject({ status: 'error', error: { code: 'usage' } })
  expect(told(watched().changes)).toEqual(['{"a":1} → lakes at 2, list'])
  await act(async () => map.publish([{ op: 'edit', key: 'otter', value: '2' }]))
  expect([watched().value, watched().changes.length, map.stats.lookups]).toEqual([2, 2, 1])
})

test('a component that was hidden is told what changed meanwhile', async () => {
  const map = fakeMap({ otter: 'river' })
  let since: string | undefined
  const save = (mark: string) => {
    since ??= mark
  }
  const owner = () => createElement(Owner, { map, wanted: 'otter', options: { since, save } })
  const show = (mode: 'visible' | 'hidden') =>
    act(async () => root.render(createElement(Activity, { mode, children: owner() })))
  await show('visible')
  await passed()
  await act(async () => root.render(null))
  await show('visible')
  await show('hidden')
  await act(async () => map.publish(LAKES))
  await show('visible')
  await passed()
  expect(watched()).toMatchObject({ status: 'found', value: 'lakes' })
  expect(told(watched().changes)).toEqual(['river → lakes at 2, list'])
})

test('the date until which silence means something is shown as it moves', async () => {
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] })
  try {
    const map = fakeMap({ otter: 'river' })
    let checked = new Date(1)
    const { watch } = map
    map.watch = async (...of) => {
      const begun = await watch(...of)
      return Object.defineProperty({ ...begun, value: begun.value, stop: begun.stop }, 'checked', {
        get: () => checked,
      })
    }
    await renderWatch({ map, wanted: 'otter' })
    await passed()
    checked = new Date(2)
    await act(() => vi.advanceTimersByTime(15_000))
    expect([watched().checked, watched().value]).toEqual([checked, 'river'])
    await act(() => root.render(null))
    await passed()
    expect(vi.getTimerCount()).toBe(0)
  } finally {
    vi.useRealTimers()
  }
})

const opened: PrivateMap[] = []
interface Opened {
  readonly options: PrivateMapOptions
  readonly open?: (options: PrivateMapOptions & { readonly signal: AbortSignal }) => Promise<KeyhushMap>
  readonly wanted?: string
}
function Page({ options, open: instead, wanted }: Opened) {
  const state = usePrivateMap(options, instead)
  opened.push(state)
  return createElement(Answer, { map: state.map, wanted })
}
const mount = (page: Opened) => strictly(Page, page)
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

test('a filter with other wishes is another map', async () => {
  let calls = 0
  const openFake = async () => {
    calls += 1
    return fakeMap({})
  }
  for (const [cover, expected] of [
    [0, 1],
    [0, 1],
    [0.5, 2],
    [{ everyMs: 60_000, queries: 4 }, 3],
    [{ everyMs: 60_000, queries: 4 }, 3],
    [{ everyMs: 60_000, queries: 8 }, 4],
  ] as const) {
    await mount({ options: { servers, mode: 'instant', filter: { cover, meanwhile: 'ask' } }, open: openFake })
    expect(calls).toBe(expected)
  }
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

test('what are no options is an error that says how to write them', async () => {
  for (const options of [['https://a.example', 'https://b.example'], 'https://a.example', undefined]) {
    await mount({ options: options as never })
    const message = expect.stringMatching(/^usePrivateMap: expected an object of options, got .*; pass \{ servers: /)
    expect(opened.at(-1)).toMatchObject({ status: 'error', error: { code: 'usage', message } })
  }
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

describe('on real servers', () => {
  let both: TestServers
  beforeAll(async () => {
    both = await startServers({ otter: 'river', heron: 'shore', newt: 'ponds' })
  })
  afterAll(() => both.close())

  test.each(['instant', 'full', 'local'] as const)(
    'in mode %s: one lookup, whatever React renders twice',
    async mode => {
      const { servers, publisherKey } = both
      const options = { servers, publisherKey, mode }
      await mount({ options, wanted: 'heron' })
      await shows({ status: 'found', value: 'shore' })
      const { map } = opened.at(-1)!
      await mount({ options: { ...options }, wanted: 'heron' })
      expect(map?.stats.lookups).toBe(1)
      await mount({ options, wanted: 'auk' })
      await shows({ status: 'absent' })
      expect(map?.stats.lookups).toBe(2)
      await act(() => root.render(null))
      await passed()
      await expect(map!.get('heron')).rejects.toMatchObject({ code: 'closed' })
    },
  )

  test('the entry for mode instant opens such a map, and looks up several keys', async () => {
    expectTypeOf<InstantMapOptions>().toEqualTypeOf<Omit<Parameters<typeof openInstant>[0], 'signal'>>()
    // @ts-expect-error: no option of mode instant
    expectTypeOf<InstantMapOptions>().toHaveProperty('mode')
    const { servers, publisherKey } = both
    function Instant() {
      const state = useInstantMap({ servers, publisherKey })
      opened.push(state)
      shownOfSeveral.push(useLookups(state.map, ['heron', 'auk'], 'text', { padTo: 4 }))
      return null
    }
    await strictly(Instant, {})
    await until(() => lastOfSeveral().status !== 'loading')
    expect(lastOfSeveral()).toMatchObject({ status: 'answered', values: ['shore', undefined] })
    const { map } = opened.at(-1)!
    expect([map?.mode, map?.stats.lookups]).toEqual(['instant', 1])
  })

  test.each([
    ['instant', 'banks'],
    ['full', 'reeds'],
    ['local', 'delta'],
  ] as const)('in mode %s: a watched key changes on the page, without another lookup', async (mode, value) => {
    const { servers, publisherKey } = both
    let map: KeyhushMap | undefined
    function Own() {
      const instant = useInstantMap({ servers, publisherKey })
      const other = usePrivateMap({ servers, publisherKey, mode })
      map = mode === 'instant' ? instant.map : other.map
      shownOfWatch.push((mode === 'instant' ? useInstantWatch : useWatch)(map, 'newt', 'text'))
      return null
    }
    await strictly(Own, {})
    await until(() => watched().status === 'found')
    const lookups = map!.stats.lookups
    await both.publish([{ op: 'edit', key: 'newt', value }])
    await act(() => map!.sync())
    await until(() => watched().changes.length > 0)
    expect(watched()).toMatchObject({ value, checked: expect.any(Date) })
    expect([lookups, map!.stats.lookups]).toEqual([1, 1])
    expect(watched().changes).toMatchObject([{ how: 'list' }])
  })

  test.each([
    ['instant', 'lakes'],
    ['full', 'ponds'],
    ['local', 'coast'],
  ] as const)(
    'in mode %s: a change outdates answers; with `follow` each hook makes one lookup',
    async (mode, value) => {
      const { servers, publisherKey } = both
      const options = { servers, publisherKey, mode }
      let map: KeyhushMap | undefined
      const answers: Lookup<string>[] = []
      function Two() {
        map = usePrivateMap(options).map
        answers[0] = useLookup(map, 'otter', 'text', { follow: true })
        answers[1] = useLookup(map, 'heron', 'text')
        return null
      }
      await strictly(Two, {})
      await until(() => answers.every(({ status }) => status === 'found'))
      expect(map!.stats.lookups).toBe(2)
      const sent = () => map!.stats.servers.map(({ lookups }) => lookups.bytesUp)
      const before = sent()
      await both.publish([{ op: 'edit', key: 'otter', value }])
      await act(() => map!.sync())
      await until(() => answers[0]!.value === value && !answers[0]!.outdated)
      expect(answers.map(({ value, outdated }) => [value, outdated])).toEqual([
        [value, false],
        ['shore', true],
      ])
      expect(map!.stats.lookups).toBe(3)
      if (mode === 'local') expect(sent()).toEqual(before)
    },
  )
})

test('a component test passes a fake map, and needs no servers', async () => {
  function Page() {
    opened.push(usePrivateMap({}, async () => fakeMap({ otter: 'river' })))
    return null
  }
  await act(async () => root.render(createElement(Page)))
  expect(opened.at(-1)!.status).toBe('open')
})
