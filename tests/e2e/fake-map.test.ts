// `fakeMap` is held to what a map does: the same suite passes on it and on maps of real servers.

import {
  type Change,
  ClosedError,
  CondemnedError,
  type KeyhushError,
  type KeyhushMap,
  type MapEvent,
  NetworkError,
  type OpenOptions,
  open,
  TamperedError,
  UsageError,
  type Watch,
} from '@keyhush/client'
import { type FakeChange, type FakeMap, type FakeOptions, fakeMap } from '@keyhush/client/testing'
import { startServers, type TestServers } from '@keyhush/server/testing'
import { afterAll, afterEach, beforeAll, describe, expect, expectTypeOf, onTestFinished, test, vi } from 'vitest'

const ENTRIES = { otter: 'river', heron: 'shore', json: '{"a":1}' }
const EDIT: readonly FakeChange[] = [{ op: 'edit', key: 'otter', value: 'lakes' }]

interface Subject {
  readonly map: KeyhushMap
  publish(changes: readonly FakeChange[]): Promise<void>
  /** makes lookups fail with TamperedError, or go on as before */
  lie(lies: boolean): void
  close(): Promise<void>
}
interface Options extends Pick<FakeOptions, 'mode' | 'normalize' | 'onEvent'> {}

async function fake(options: Options): Promise<Subject> {
  const map = fakeMap(ENTRIES, options)
  return {
    map,
    publish: async changes => map.publish(changes),
    lie: lies => map.failWith(lies ? new TamperedError('https://b.example', 'it lies') : undefined),
    close: () => map.close(),
  }
}

async function real(options: Options & Pick<OpenOptions, 'download'>): Promise<Subject> {
  const both: TestServers = await startServers(ENTRIES)
  const { servers, publisherKey } = both
  const map = await open({ servers, publisherKey, ...options })
  return {
    map,
    async publish(changes) {
      await both.publish(changes)
      await map.sync()
    },
    lie: lies => both.misbehave(1, lies ? 'lie' : undefined),
    async close() {
      await map.close()
      await both.close()
    },
  }
}

test.each<[string, (onEvent: (event: MapEvent) => void) => Promise<Subject>]>([
  ['fakeMap', onEvent => fake({ onEvent })],
  ['a map of real servers', onEvent => real({ onEvent, download: 'never' })],
])('%s: prepare() has the state answer, and says so', async (_name, begin) => {
  const types: string[] = []
  const subject = await begin(({ type }) => void types.push(type))
  expect(subject.map.mode).toBe('instant')
  const phases: string[] = []
  await subject.map.prepare({ onProgress: ({ phase }) => void phases.push(phase) })
  expect([subject.map.mode, phases.at(-1), await subject.map.getText('otter')]).toEqual(['local', 'ready', 'river'])
  await subject.map.prepare()
  expect(types.filter(type => type !== 'storage')).toEqual(['preparing', 'prepared', 'mode'])
  await subject.close()
})

describe.each([
  ['fakeMap', fake],
  ['a map of real servers', real],
])('%s', (_name, begin) => {
  let subject: Subject
  let map: KeyhushMap
  const events: MapEvent[] = []
  beforeAll(async () => {
    const normalize = (key: string) => key.toLowerCase()
    subject = await begin({ mode: 'full', normalize, onEvent: event => void events.push(event) })
    map = subject.map
  })
  afterAll(() => subject.close())

  const usage = (work: () => Promise<unknown>, message: RegExp) =>
    expect(work()).rejects.toThrow(expect.objectContaining({ code: 'usage', message: expect.stringMatching(message) }))

  test('says what is there and what is not', async () => {
    expect(new TextDecoder().decode(await map.get('otter'))).toBe('river')
    expect(await map.get(new TextEncoder().encode('heron'))).toEqual(new TextEncoder().encode('shore'))
    expect([await map.getText('OTTER'), await map.getText('auk')]).toEqual(['river', undefined])
    expect([await map.has('otter'), await map.has('auk')]).toEqual([true, false])
    expect(await map.getJson('json')).toEqual({ a: 1 })
    expect((await map.getMany(['otter', 'auk', 'heron'], { padTo: 8 })).map(value => value?.length)).toEqual([
      5,
      undefined,
      5,
    ])
    expect(await map.getMany([])).toEqual([])
    expect([map.size, map.epoch, map.mode, map.condemned]).toEqual([3, 1, 'full', undefined])
    expect(map.databaseId).toMatch(/^[0-9a-f]{32}$/)
    expect([await map.at(0), await map.at(1), await map.at(2)].every(value => value !== undefined)).toBe(true)
    expect(map.stats.lookups).toBe(11)
  })

  test('refuses what cannot be asked', async () => {
    await usage(() => map.get(''), /1 to 4096 bytes, got 0/)
    await usage(() => map.get('\ud800'), /lone surrogate/)
    await usage(() => map.get(7 as never), /a string or a Uint8Array/)
    await usage(() => map.get('otter', { padTo: 8 } as never), /no option "padTo"/)
    await usage(() => map.getMany('otter'), /a list of keys/)
    await usage(() => map.getMany(['otter', 'heron'], { padTo: 1 }), /an integer from the number of keys/)
    await usage(() => map.getMany(['otter'], { padTo: 1000 }), /at most \d+ keys at once, got 1000/)
    await usage(() => map.at(3), /an index from 0 to 2/)
    await usage(() => map.getJson('otter'), /not JSON/)
    expect(() => map.on('moved' as never, () => {})).toThrow(UsageError)
  })

  test('gives up with the reason it is given, and does not count what it never began', async () => {
    const before = map.stats.lookups
    const reason = new Error('enough')
    await expect(map.get('otter', { signal: AbortSignal.abort(reason) })).rejects.toBe(reason)
    expect(map.stats.lookups).toBe(before)
    const controller = new AbortController()
    const lookup = map.get('otter', { signal: controller.signal })
    controller.abort(reason)
    await expect(lookup).rejects.toBe(reason)
  })

  test('moves on with the database, and says so once for each listener', async () => {
    const epochs: number[] = []
    const off = map.on('updated', ({ epoch }) => void epochs.push(epoch))
    await subject.publish(EDIT)
    await expect.poll(() => epochs).toEqual([2])
    off()
    expect([map.epoch, await map.getText('otter')]).toEqual([2, 'lakes'])
    expect(events.filter(({ type }) => type === 'updated')).toEqual([{ type: 'updated', generation: 1, epoch: 2 }])
  })

  test('has as many servers in its counters as it asks', () => {
    const traffic = { bytesUp: expect.any(Number), bytesDown: expect.any(Number) }
    const each = { server: expect.stringMatching(/^https?:/), offline: traffic, lookups: traffic, fence: traffic }
    expect(map.stats.servers).toEqual([each, each])
  })

  test('a key that is added takes the place of one that was deleted', async () => {
    await subject.publish([{ op: 'delete', key: 'json' }])
    expect([map.size, await map.has('json')]).toEqual([3, false])
    await subject.publish([{ op: 'add', key: 'newt', value: 'pond' }])
    expect([map.size, await map.getText('newt')]).toEqual([3, 'pond'])
  })

  test('is condemned by a lie until reset()', async () => {
    subject.lie(true)
    await expect(map.get('otter')).rejects.toBeInstanceOf(TamperedError)
    subject.lie(false)
    await expect(map.get('otter')).rejects.toBeInstanceOf(CondemnedError)
    expect(map.condemned?.server).toMatch(/^https?:/)
    expect(map.mode).toBeUndefined()
    await expect.poll(() => events.some(({ type }) => type === 'condemned')).toBe(true)
    const phases: string[] = []
    await map.reset({ onProgress: ({ phase }) => void phases.push(phase) })
    expect(phases).toContain('ready')
    expect([map.condemned, await map.getText('otter')]).toEqual([undefined, 'lakes'])
  })

  test('waits in close() for what is under way, and answers nothing after it', async () => {
    const before = map.stats.lookups
    const lookup = map.getText('otter')
    await Promise.resolve()
    await map.close()
    expect([await lookup, map.stats.lookups]).toEqual(['lakes', before + 1])
    for (const call of [
      () => map.get('otter'),
      () => map.getMany([]),
      () => map.at(0),
      () => map.sync(),
      () => map.reset(),
    ]) {
      await expect(call()).rejects.toBeInstanceOf(ClosedError)
    }
    expect(() => map.on('updated', () => {})).toThrow(ClosedError)
    await map.close()
  })
})

describe.each([
  ['fakeMap', fake],
  ['a map of real servers', real],
])('watched keys: %s', (_name, begin) => {
  const open = async () => {
    const subject = await begin({ mode: 'instant' })
    const heard: string[] = []
    const marks: string[] = []
    const text = (value: Uint8Array | undefined) => value && new TextDecoder().decode(value)
    const listen = ({ value, before, epoch, how }: Change) =>
      void heard.push(`${text(before)} → ${text(value)} at ${epoch}, ${how}`)
    const watch = (key = 'otter', since?: string) =>
      subject.map.watch(key, listen, { since, save: mark => void marks.push(mark) })
    return { ...subject, heard, marks, watch, text }
  }

  test('a change, a deletion and a key that comes are told in order, and what rests is not', async () => {
    const { map, publish, heard, watch, text, close } = await open()
    const [otter, auk] = [await watch(), await watch('auk')]
    await watch('heron')
    expect([text(otter.value), auk.value, otter.epoch]).toEqual(['river', undefined, 1])
    await publish([...EDIT, { op: 'add', key: 'auk', value: 'cliff' }])
    await publish([{ op: 'delete', key: 'otter' }])
    await expect
      .poll(() => heard)
      .toEqual(['river → lakes at 2, list', 'undefined → cliff at 2, list', 'lakes → undefined at 3, list'])
    expect([otter.value, text(auk.value), otter.epoch]).toEqual([undefined, 'cliff', 3])
    expect(otter.checked).toBeInstanceOf(Date)
    await close()
    await expect(map.watch('otter', () => {})).rejects.toBeInstanceOf(ClosedError)
  })

  test('a mark is saved after each epoch, whether the key has changed or not; from one on changes are told', async () => {
    const { publish, heard, marks, watch, close } = await open()
    await watch()
    await expect.poll(() => marks.length).toBe(1)
    const [first] = marks
    await publish([{ op: 'add', key: 'auk', value: 'cliff' }])
    await expect.poll(() => marks.length).toBe(2)
    await publish(EDIT)
    await expect.poll(() => marks.length).toBe(3)
    expect(heard.splice(0)).toEqual(['river → lakes at 3, list'])
    await watch('otter', marks.at(-1))
    await watch('otter', first)
    await expect.poll(() => heard).toEqual(['river → lakes at 3, list'])
    await close()
  })

  test('what is no mark of this key is a gap', async () => {
    const { heard, marks, watch, close } = await open()
    await watch('heron')
    await expect.poll(() => marks.length).toBe(1)
    for (const since of ['', 'garbage', marks[0]]) await watch('otter', since)
    await expect.poll(() => heard).toEqual(Array(3).fill('undefined → river at 1, gap'))
    await close()
  })

  test('after stop(), and after its signal, nothing is told; marks are saved until the map closes', async () => {
    const { map, publish, heard, marks, watch, close } = await open()
    const stopped = await watch()
    const aborted = new AbortController()
    const listener = () => void heard.push('of an aborted one')
    await map.watch('otter', listener, { signal: aborted.signal })
    await watch('heron')
    stopped.stop()
    aborted.abort()
    await expect.poll(() => marks.length).toBe(2)
    await publish([...EDIT, { op: 'edit', key: 'heron', value: 'bank' }])
    await expect.poll(() => marks.length).toBe(4)
    expect(heard).toEqual(['shore → bank at 2, list'])
    await close()
  })

  test('no call is taken while a listener runs; after it they are', async () => {
    const { map, publish, watch, close } = await open()
    await watch()
    const calls = [() => map.get('otter'), () => map.sync(), () => map.watch('auk', () => {})]
    let asked: Promise<unknown[]> | undefined
    await map.watch('otter', () => {
      asked = Promise.allSettled(calls.map(call => call()))
    })
    await publish(EDIT)
    await expect.poll(() => asked).toBeDefined()
    for (const outcome of await asked!) {
      expect(outcome).toMatchObject({ reason: { code: 'usage', message: expect.stringMatching(/listener of watch/) } })
    }
    expect(await map.getText('otter')).toBe('lakes')
    await close()
  })

  test('refuses what cannot be watched', async () => {
    const { map, close } = await open()
    const usage = (call: () => Promise<unknown>, message: RegExp) =>
      expect(call()).rejects.toMatchObject({ code: 'usage', message: expect.stringMatching(message) })
    await usage(() => map.watch('otter', undefined as never), /watch: expected a function, got nothing/)
    await usage(() => map.watch('', () => {}), /1 to 4096 bytes/)
    await usage(() => map.watch('otter', () => {}, { padTo: 8 } as never), /no option "padTo"/)
    await usage(() => map.watch('otter', () => {}, { save: 'here' as never }), /expected save to be a function/)
    await close()
  })
})

describe.each([
  ['fakeMap', async () => fakeMap(ENTRIES, { mode: 'filter' })],
  [
    'a map of servers',
    async () => {
      const { servers, publisherKey, close } = await startServers(ENTRIES)
      onTestFinished(close)
      return await open({ servers, publisherKey, mode: 'filter', push: false })
    },
  ],
] as const)('in mode filter %s', (_, opened) => {
  test('excludes what is not there, looks nothing up, and says so', async () => {
    const map = await opened()
    expect([map.mode, map.filter]).toEqual(['filter', { epoch: 1, bytes: expect.any(Number), state: 'ready' }])
    const absent = ['wolf', 'lynx', 'hare'].filter(key => map.excludes(key))
    expect([absent.length > 0, map.excludes('otter')]).toEqual([true, false])
    expect(await map.getMany(absent)).toEqual(absent.map(() => undefined))
    await expect(map.getText('otter')).rejects.toMatchObject({ code: 'unsupported', reason: 'filter' })
    for (const refused of [map.at(0), map.prepare(), map.watch('wolf', () => {})]) {
      await expect(refused).rejects.toMatchObject({ code: 'usage' })
    }
    await map.close()
  })
})

test('a fake filter is as it is announced, and as many as were asked for', async () => {
  const map = fakeMap(ENTRIES, { mode: 'filter' })
  map.announce({ type: 'filter', state: 'behind' })
  expect([map.filter?.state, map.excludes('wolf')]).toEqual(['behind', false])
  const behind = fakeMap(ENTRIES, { filter: { cover: 0, meanwhile: 'ask' } })
  expect([behind.mode, behind.filter?.state, await behind.getText('otter')]).toEqual(['instant', 'ready', 'river'])
  expect(fakeMap(ENTRIES).filter).toBeUndefined()
})

test('behind a fake filter that is ready, absent keys are absent whatever fails; others fail', async () => {
  const failWith = new NetworkError('https://a.example', 'away')
  const map = fakeMap(ENTRIES, { filter: { cover: 0, meanwhile: 'ask' }, failWith })
  expect(await map.getMany(['wolf', 'lynx'])).toEqual([undefined, undefined])
  await expect(map.getMany(['wolf', 'otter'])).rejects.toBe(failWith)
  expect(map.stats).toMatchObject({ lookups: 1, unsent: 1 })
  map.announce({ type: 'filter', state: 'behind' })
  await expect(map.get('wolf')).rejects.toBe(failWith)
  map.failWith(undefined)
  await map.prepare()
  expect([map.mode, map.filter]).toEqual(['local', undefined])
})

test('a fake filter is checked as a filter of open()', async () => {
  const cover = { everyMs: 60_000, queries: 8 }
  const filter = { cover: 0, meanwhile: 'ask' } as const
  for (const wrong of [
    true,
    {},
    { ...filter, cover: 5 },
    { ...filter, cover: '1/16' },
    { ...filter, meanwhile: 'x' },
  ]) {
    expect(() => fakeMap(ENTRIES, { filter: wrong as never })).toThrow(UsageError)
  }
  for (const mode of ['local', 'filter'] as const) {
    expect(() => fakeMap(ENTRIES, { mode, filter })).toThrow(/filter: expected mode 'instant'/)
  }
  const map = fakeMap(ENTRIES, { filter: { cover, meanwhile: 'ask' } })
  const nine = map.getMany(Array(9).fill('wolf'))
  await expect(nine).rejects.toThrow('expected at most 8 keys at once, by the schedule, got 9')
  expect(() => map.announce({ type: 'filter', state: 'odd' as never })).toThrow(/announce: state: expected 'loading'/)
})

test('what takes a map takes a fake one, and what a test has written by hand', () => {
  expectTypeOf<FakeMap>().toExtend<KeyhushMap>()
  expectTypeOf(fakeMap({})).toExtend<Awaited<ReturnType<typeof open>>>()
  const own: KeyhushMap = { ...({} as Pick<KeyhushMap, keyof KeyhushMap>), get: async () => undefined }
  expect(own).toBeDefined()
})

describe('fakeMap alone', () => {
  afterEach(() => {
    vi.useRealTimers()
  })

  test.each<[string, (map: FakeMap) => Promise<unknown>]>([
    ['a lookup', map => map.get('otter')],
    ['sync()', map => map.sync()],
    ['reset()', map => map.reset()],
  ])('%s is slow after two seconds, and takes no longer than `timeoutMs`, as with servers', async (_name, call) => {
    vi.useFakeTimers()
    const events: MapEvent[] = []
    const map = fakeMap(ENTRIES, { delayMs: 9_000, timeoutMs: 5_000, onEvent: event => void events.push(event) })
    const calling = call(map).catch(error => error)
    const servers = ['https://a.example', 'https://b.example']
    await vi.advanceTimersByTimeAsync(1_999)
    expect(events).toEqual([])
    await vi.advanceTimersByTimeAsync(1)
    expect(events).toEqual([{ type: 'slow', servers }])
    await vi.advanceTimersByTimeAsync(3_000)
    expect(await calling).toMatchObject({ code: 'timeout', servers, retryable: true })
    expect(events).toHaveLength(1)
    const lookup = map.getText('otter', { timeoutMs: 10_000 })
    await vi.advanceTimersByTimeAsync(9_000)
    expect(await lookup).toBe('river')
  })

  test('fails with each error of the union, and with nothing else', () => {
    expectTypeOf<FakeMap['failWith']>().parameter(0).toEqualTypeOf<KeyhushError | undefined>()
    // @ts-expect-error: no map fails with an error of the app's
    expect(() => fakeMap().failWith(new Error('of the app'))).toThrow(UsageError)
  })

  test('takes the time it is told to, and fails with what it is told to', async () => {
    const error = new NetworkError('https://a.example', 'away')
    const map = fakeMap(ENTRIES, { delayMs: 30, failWith: error })
    const start = performance.now()
    await expect(map.get('otter')).rejects.toBe(error)
    expect(performance.now() - start).toBeGreaterThan(25)
    await expect(map.sync()).rejects.toBe(error)
    map.failWith(undefined)
    expect(await map.getText('otter')).toBe('river')
  })

  test('is not condemned in mode instant, as no map is', async () => {
    const map = fakeMap(ENTRIES, { failWith: new TamperedError(undefined, 'one of them lies') })
    await expect(map.get('otter')).rejects.toBeInstanceOf(TamperedError)
    expect([map.mode, map.condemned]).toEqual(['instant', undefined])
  })

  test('shows keys that come and go, and any event', async () => {
    const map = fakeMap()
    expect([await map.get('otter'), map.size]).toEqual([undefined, 0])
    map.publish([{ op: 'add', key: 'otter', value: 'river' }])
    expect([await map.getText('otter'), map.size]).toEqual(['river', 1])
    map.publish([{ op: 'delete', key: 'otter' }])
    expect([await map.get('otter'), await map.at(0)]).toEqual([undefined, undefined])
    expect(() => map.publish([{ op: 'edit', key: 'otter', value: '' }])).toThrow(UsageError)
    const kinds: string[] = []
    map.on('storage', ({ reason }) => void kinds.push(reason))
    map.announce({ type: 'storage', storage: 'memory', reason: 'failed' })
    await expect.poll(() => kinds).toEqual(['failed'])
    map.announce({ type: 'mode', mode: 'full' })
    expect(map.mode).toBe('full')
    map.announce({ type: 'condemned', server: 'https://a.example' })
    expect(map.condemned).toEqual({ server: 'https://a.example' })
    await expect(map.get('otter')).rejects.toBeInstanceOf(CondemnedError)
    await map.reset()
    expect(await map.get('otter')).toBeUndefined()
  })

  // As a test in plain JavaScript may write them.
  const map = fakeMap(ENTRIES)
  test.each<[string, () => unknown, string]>([
    ['a Map', () => fakeMap(new Map([['otter', 'river']]) as never), 'fakeMap: expected keys and values as in'],
    ['a list', () => fakeMap([['otter', 'river']] as never), 'got an object (Array); pass Object.fromEntries(map)'],
    ['text', () => fakeMap('otter' as never), 'got "otter"'],
    ['null', () => fakeMap(null as never), 'got null'],
    ['an empty key', () => fakeMap({ '': 'river' }), 'key: expected 1 to 4096 bytes'],
    ['a number as a value', () => fakeMap({ otter: 3 as never }), 'fakeMap: expected values of text or bytes, got 3'],
    ['a list of options', () => fakeMap({}, [] as never), 'expected an object of options, got a list'],
    ['an unknown option', () => fakeMap({}, { delay: 3 } as never), 'there is no option "delay"'],
    [
      'a delay as text',
      () => fakeMap({}, { delayMs: '50' as never }),
      'expected delayMs to be a number from 0, got "50"',
    ],
    ['a delay before now', () => fakeMap({}, { delayMs: -1 }), 'got -1'],
    ['no query', () => fakeMap({}, { maxQueries: 0 }), 'expected maxQueries to be a whole number from 1, got 0'],
    ['an unknown mode', () => fakeMap({}, { mode: 'auto' as never }), "mode: expected 'local', 'full'"],
    ['a listener that is none', () => fakeMap({}, { onEvent: {} as never }), 'expected onEvent to be a function'],
    [
      'an error as text',
      () => fakeMap({}, { failWith: 'network' as never }),
      'failWith: expected an error of @keyhush',
    ],
    ['failWith() text', () => map.failWith('network' as never), 'got "network"; pass new NetworkError('],
    ['failWith() a class', () => map.failWith(NetworkError as never), 'got a function; pass new NetworkError('],
    ['publish() one change', () => map.publish(EDIT[0] as never), 'publish: expected a list of changes'],
    ['publish() a key', () => map.publish(['otter'] as never), 'expected each change to be an object, got "otter"'],
    ['an unknown change', () => map.publish([{ op: 'set' } as never]), "publish: op: expected 'add', 'edit', 'delete'"],
    ['a change without a key', () => map.publish([{ op: 'add' } as never]), 'key: expected a string or a Uint8Array'],
    [
      'a change without a value',
      () => map.publish([{ op: 'edit', key: 'otter' } as never]),
      'publish: expected values of text or bytes, got nothing',
    ],
    ['an unknown way', () => map.publish([], 'lie' as never), "publish: how: expected 'list', 'gap', 'contradiction'"],
    ['announce() a type', () => map.announce('updated' as never), 'announce: expected an event such as'],
    ['an unknown event', () => map.announce({ type: 'moved' } as never), "announce: type: expected 'discarded',"],
    [
      'half an event',
      () => map.announce({ type: 'updated' } as never),
      "'updated' with generation and epoch, got it without",
    ],
    ['an event of a mode', () => map.announce({ type: 'mode', mode: 'auto' as never }), 'announce: mode: expected'],
  ])('refuses %s, and says what it takes', (_what, call, message) => {
    expect(call).toThrow(expect.objectContaining({ code: 'usage', message: expect.stringContaining(message) }))
  })

  test('changes are applied together, or none of them', async () => {
    const map = fakeMap(ENTRIES)
    expect(() => map.publish([...EDIT, { op: 'delete', key: 'auk' }])).toThrow('delete: its key is not there')
    expect([map.epoch, await map.getText('otter')]).toEqual([1, 'river'])
  })

  test('tells watches of a gap, or of a contradiction, when the test says so, also without a difference', async () => {
    const map = fakeMap(ENTRIES)
    const heard: Change[] = []
    await map.watch('otter', change => void heard.push(change))
    map.publish([], 'gap')
    map.publish(EDIT, 'contradiction')
    await expect
      .poll(() => heard.map(({ how, epoch }) => [how, epoch]))
      .toEqual([
        ['gap', 2],
        ['contradiction', 3],
      ])
  })

  test('a listener has its watch when it is called first', async () => {
    const map = fakeMap(ENTRIES)
    const told = await new Promise<string | undefined>(resolve => {
      const watching = map.watch('otter', () => resolve(watch?.value && 'has it'), { since: 'none' })
      let watch: Watch | undefined
      void watching.then(begun => {
        watch = begun
      })
    })
    expect(told).toBe('has it')
  })

  test('is at the epoch that it announces', () => {
    const map = fakeMap(ENTRIES)
    map.announce({ type: 'updated', generation: 1, epoch: 7 })
    expect(map.epoch).toBe(7)
  })
})
