// Watched keys (docs/threat-model.md, Watched keys): what is told.

import { describe, expect, test } from 'vitest'
import type { Change } from '../src/index.js'
import { pause } from '../src/platform/environment.js'
import { rest, until } from './support/clock.js'
import { failureOf, keyless, openedOn } from './support/harness.js'
import { A, B, showing } from './support/network.js'
import { DAY, NOW, publisherKey } from './support/signed.js'
import { Directory, KEYS, MODES, pass, textOf, told, watching } from './support/watched.js'

const [KEY, OTHER] = KEYS as [string, string]
const ABSENT = KEYS.at(-1)!
const V = 'v0..........'

describe.each(MODES)('mode %s', (_, options) => {
  test('what changes, goes and comes is told, and nothing else', async () => {
    const { directory, map, heard, watch, sync, drive } = await watching(new Directory(), options)
    const own = await watch(KEY)
    const absent = await watch(ABSENT)
    expect([own.epoch, textOf(own.value), absent.value]).toEqual([1, V, undefined])
    for (const changes of [{ [KEY]: 'new' }, { [OTHER]: 'x' }, { [KEY]: undefined }, { [ABSENT]: 'come' }]) {
      directory.publish(changes)
      await sync()
    }
    expect(heard).toEqual([`${V} → new at 2, list`, 'new → undefined at 4, list', 'undefined → come at 5, list'])
    expect([own.value, textOf(absent.value), own.epoch]).toEqual([undefined, 'come', 5])
    expect(textOf(await drive(map.get(ABSENT)))).toBe('come')
  })

  test('what was undone between two visits is told at the next', async () => {
    const directory = new Directory()
    const before = await watching(directory, options)
    await before.watch(KEY)
    await before.watch(OTHER)
    await before.drive(before.map.close())
    directory.publish({ [KEY]: 'false' })
    directory.publish({ [ABSENT]: 'x' })
    directory.publish({ [KEY]: V })
    const { watch, heard } = await watching(directory, options)
    const own = await watch(KEY, { since: before.marks[KEY] })
    await watch(OTHER, { since: before.marks[OTHER] })
    await rest()
    expect(heard).toEqual([`${V} → false at 2, list`, `false → ${V} at 4, list`])
    expect([textOf(own.value), own.epoch]).toEqual([V, 4])
  })

  test.each(['the servers have forgotten the lists', 'there is a new generation'])('a gap is told: %s', async what => {
    const directory = new Directory()
    const { harness, watch, heard, sync, marks } = await watching(directory, options)
    const changed = await watch(KEY)
    const same = await watch(OTHER)
    const saved = { ...marks }
    directory.publish({ [KEY]: 'one' })
    directory.publish({ [KEY]: 'two' })
    if (what.startsWith('there')) directory.layOutAnew()
    else directory.forget()
    const { epoch } = directory.newest.manifest
    await sync()
    expect(marks).toEqual(what.startsWith('there') ? expect.anything() : saved) // nothing is known yet
    await pass(harness, 70_000)
    const expected = what.startsWith('there')
      ? [`${V} → one at 2, list`, 'one → two at 3, list', 'two → two at 4, gap']
      : [`${V} → two at 3, gap`]
    const ofOther = `${textOf(same.value)} → ${textOf(same.value)} at ${epoch}, gap`
    expect(heard).toEqual(expect.arrayContaining([...expected, ofOther]))
    expect(heard).toHaveLength(expected.length + 1)
    expect([textOf(changed.value), changed.epoch, same.epoch]).toEqual(['two', epoch, epoch])
    directory.publish({ [KEY]: 'three' })
    await sync()
    expect(heard.at(-1)).toBe(`two → three at ${epoch + 1}, list`)
  })
})

test('a change is told while the page is open, as soon as one server tells of it', async () => {
  const directory = new Directory()
  directory.network.push = true
  const { heard, watch, clock } = await watching(directory, { mode: 'instant', push: true })
  await watch(KEY)
  directory.publish({ [KEY]: 'new' }, [B])
  await until(clock, () => heard.length > 0)
  expect(heard).toEqual([`${V} → new at 2, list`])
  expect(clock.now()).toBeLessThan(1_000)
})

describe('marks', () => {
  test('are saved for all keys after each epoch, changed or not, also after stop()', async () => {
    const { directory, marks, watch, sync } = await watching(new Directory())
    for (const key of [KEY, OTHER, ABSENT]) (await watch(key)).stop()
    for (const changes of [{ [KEY]: 'new' }, { [KEYS[5]!]: 'other' }]) {
      const before = { ...marks }
      directory.publish(changes)
      await sync()
      for (const key of [KEY, OTHER, ABSENT]) expect(marks[key], key).not.toBe(before[key])
    }
  })

  test.each([
    ['garbage', () => 'garbage'],
    ['nothing', () => ''],
    ["another key's", (marks: Record<string, string>) => marks[OTHER]!],
    ['a cut one', (marks: Record<string, string>) => marks[KEY]!.slice(0, -2)],
    ['of another version', (marks: Record<string, string>) => marks[KEY]!.replace(/^01/, '02')],
  ])('%s is a gap', async (_, forge) => {
    const directory = new Directory()
    const before = await watching(directory)
    for (const key of [KEY, OTHER]) await before.watch(key)
    const { watch, heard } = await watching(directory)
    const own = await watch(KEY, { since: forge(before.marks) })
    await rest()
    expect([heard, textOf(own.value)]).toEqual([[`undefined → ${V} at 1, gap`], V])
  })

  test('of another database are a gap; of another manifest of an epoch, signed too, a contradiction', async () => {
    const [directory, other] = [new Directory(), new Directory()]
    const before = await watching(directory)
    await before.watch(KEY)
    directory.publish({ [OTHER]: 'x' })
    await before.sync()
    other.publish({ [OTHER]: 'y' })
    for (const later of [0, 1, 3]) {
      for (let i = 0; i < later; i++) other.publish({ [ABSENT]: `${i}` })
      const { watch, heard, harness } = await watching(other)
      const own = await watch(KEY, { since: before.marks[KEY] })
      await pass(harness, 70_000)
      expect(heard.length, `${later} later`).toBeGreaterThan(0)
      expect(heard.every(line => line.endsWith('contradiction'))).toBe(true)
      expect([textOf(own.value), own.epoch]).toEqual([V, other.newest.manifest.epoch])
    }
    const stranger = new Directory(true, { databaseId: new Uint8Array(16).fill(9) })
    const { watch, heard } = await watching(stranger)
    await watch(KEY, { since: before.marks[KEY] })
    await rest()
    expect(heard).toEqual([`undefined → ${V} at 1, gap`])
  })

  test('of an epoch that servers do not have yet: nothing behind it is told', async () => {
    const directory = new Directory()
    const before = await watching(directory)
    await before.watch(KEY)
    directory.publish({ [KEY]: 'new' })
    await before.sync()
    const frozen = new Directory()
    const { watch, heard, sync } = await watching(frozen)
    const own = await watch(KEY, { since: before.marks[KEY] })
    await rest()
    expect([heard, textOf(own.value), own.epoch]).toEqual([[], 'new', 2])
    frozen.publish({ [KEY]: 'new' })
    frozen.publish({ [KEY]: 'newer' })
    await sync()
    expect(heard).toEqual(['new → newer at 3, list'])
  })
})

describe('listeners', () => {
  test('cannot ask anything of their map', async () => {
    const directory = new Directory()
    const { map, drive, sync } = await watching(directory)
    const errors: unknown[] = []
    const ask = () => void errors.push(...[map.get(KEY), map.sync(), map.watch(KEY, () => {})].map(failureOf))
    await drive(map.watch(KEY, ask, { save: ask }))
    directory.publish({ [KEY]: 'new' })
    await sync()
    const came = (await Promise.all(errors)) as Error[]
    expect(came.length).toBeGreaterThan(6)
    for (const { message } of came) expect(message).toContain('while a listener of watch() runs')
    expect(textOf(await drive(map.get(KEY)))).toBe('new')
  })

  test('that change the bytes which they get change nothing else', async () => {
    const { directory, map, drive, sync } = await watching(new Directory(), { mode: 'local' })
    const heard: string[] = []
    const tell = (change: Change) => {
      heard.push(told(change))
      for (const bytes of [change.value, change.before]) bytes?.fill(0)
    }
    const own = await drive(map.watch(KEY, tell))
    for (const value of ['one', 'two']) {
      directory.publish({ [KEY]: value })
      await sync()
    }
    expect([heard, textOf(own.value)]).toEqual([[`${V} → one at 2, list`, 'one → two at 3, list'], 'two'])
  })

  test('that throw harm no other', async () => {
    const directory = new Directory()
    const { map, drive, sync, watch, heard } = await watching(directory)
    const thrown: unknown[] = []
    const take = (error: unknown) => void thrown.push(error)
    process.on('uncaughtException', take)
    try {
      const fail = () => {
        throw new Error('of the app')
      }
      await drive(map.watch(KEY, fail, { save: fail }))
      await watch(KEY)
      directory.publish({ [KEY]: 'new' })
      await sync()
      expect(heard).toEqual([`${V} → new at 2, list`])
      expect(thrown.map(error => (error as Error).message)).toEqual(Array(3).fill('of the app'))
    } finally {
      process.off('uncaughtException', take)
    }
  })

  test('hear nothing before the app has its watch, nor after stop(), an abort or close()', async () => {
    const directory = new Directory()
    const before = await watching(directory)
    await before.watch(KEY)
    directory.publish({ [KEY]: 'new' })
    const { map, harness, sync } = await watching(directory, {}, { pause }) // in tasks
    const order: string[] = []
    const begun = map.watch(KEY, () => void order.push('told'), { since: before.marks[KEY] })
    begun.then(() => order.push('begun'))
    await harness.drive(begun)
    await rest()
    expect(order).toEqual(['begun', 'told'])
    const aborting = new AbortController()
    const saved: string[] = []
    const save = (mark: string) => void saved.push(mark)
    await harness.drive(map.watch(OTHER, () => void order.push('aborted'), { signal: aborting.signal, save }))
    await rest()
    ;(await begun).stop()
    aborting.abort()
    directory.publish({ [KEY]: 'x', [OTHER]: 'y' })
    await sync()
    expect([order, saved.length]).toEqual([['begun', 'told'], 2])
    await harness.drive(map.close())
    await rest()
    expect(saved).toHaveLength(2)
  })
})

test('each app hears after it has its watch, also where another was begun at the same moment', async () => {
  const directory = new Directory()
  const before = await watching(directory)
  for (const key of [KEY, OTHER]) await before.watch(key)
  directory.publish({ [KEY]: 'new', [OTHER]: 'new' })
  const { map, drive } = await watching(directory, {}, { pause })
  directory.network.both(async (_, genuine) => {
    for (let i = 0; i < 5; i++) await pause()
    return genuine
  })
  const order: string[] = []
  const begun = [KEY, OTHER].map(async key => {
    await map.watch(key, () => void order.push(`told ${key}`), { since: before.marks[key] })
    order.push(`begun ${key}`)
  })
  await drive(Promise.all(begun))
  await rest()
  for (const key of [KEY, OTHER]) {
    expect(order).toContain(`told ${key}`)
    expect(order.indexOf(`begun ${key}`)).toBeLessThan(order.indexOf(`told ${key}`))
  }
})

test('a key that was looked up at an epoch which lists have passed already is followed from there', async () => {
  const directory = new Directory()
  const map = await watching(directory, { mode: 'instant' })
  const own = await map.watch(KEY)
  directory.layOutAnew()
  await map.sync()
  directory.publish({ [KEY]: 'one' }, [A])
  await map.drive(map.map.sync().catch(() => {}))
  await pass(map.harness, 70_000)
  expect([own.epoch, map.heard]).toEqual([2, [`${V} → ${V} at 2, gap`]])
  directory.network.publish(B, directory.newest)
  directory.publish({ [KEY]: 'two' })
  await map.sync()
  expect(map.heard.slice(1)).toEqual([`${V} → one at 3, list`, 'one → two at 4, list'])
})

test.each(['timeoutMs', 'signal'] as const)(
  'a watch that ends before it has begun takes no change away: %s',
  async how => {
    const directory = new Directory()
    const before = await watching(directory)
    await before.watch(KEY)
    directory.publish({ [KEY]: 'false' })
    directory.publish({ [KEY]: V })
    const map = await watching(directory, { mode: 'instant' })
    const aborting = new AbortController()
    directory.network.both(async ({ path }, genuine) => {
      if (!path.startsWith('/v1/manifests')) return genuine
      await map.clock.wait(1_000)
      if (how === 'signal') aborting.abort()
      await map.clock.wait(1_000)
      return genuine
    })
    const ends = how === 'signal' ? { signal: aborting.signal } : { timeoutMs: 500 }
    const error = await map.harness.failure(map.watch(KEY, { since: before.marks[KEY], ...ends }))
    expect(error.name).toBe(how === 'signal' ? 'AbortError' : 'TimeoutError')
    await pass(map.harness, 10_000)
    expect([map.heard, map.marks]).toEqual([[], {}])
    directory.network.both(undefined)
    await map.watch(KEY, { since: before.marks[KEY] })
    await rest()
    expect(map.heard).toEqual([`${V} → false at 2, list`, `false → ${V} at 3, list`])
  },
)

test('after close() nothing of the app is called, although another map shares the session', async () => {
  const directory = new Directory()
  const { map, harness, drive } = await watching(directory)
  const saved: string[] = []
  const heard: unknown[] = []
  await drive(map.watch(KEY, change => void heard.push(change), { save: mark => void saved.push(mark) }))
  await rest()
  const other = await harness.open({ storage: 'memory', push: false, publisherKey })
  const also: unknown[] = []
  await drive(other.watch(KEY, change => void also.push(change)))
  await drive(map.close())
  directory.publish({ [KEY]: 'new' })
  await drive(other.sync())
  await rest()
  expect([heard, saved.length, also.length]).toEqual([[], 1, 1])
})

describe('what silence means', () => {
  test('a date is named once as many servers as must agree have shown the very epoch', async () => {
    const directory = new Directory()
    directory.network.push = true
    const { harness, watch, clock } = await watching(directory, { mode: 'instant', push: true })
    const own = await watch(KEY)
    await rest()
    const first = own.checked!
    expect(first.getTime()).toBe(clock.date())
    await pass(harness, 5_000)
    for (const stream of directory.network.streams) stream.tell(lineOf(directory))
    await rest()
    expect(own.checked!.getTime()).toBe(clock.date())
    directory.publish({ [OTHER]: 'x' }, [B])
    await pass(harness, 5_000)
    expect([own.epoch, own.checked!.getTime()]).toEqual([2, clock.date() - 5_000]) // A has not shown it
    directory.network.publish(A, directory.newest)
    for (const stream of directory.network.streams) stream.tell(lineOf(directory))
    await rest()
    expect(own.checked!.getTime()).toBe(clock.date())
  })

  test('none is named after the expiry, nor of one server whose epochs never expire', async () => {
    const expires = NOW + DAY
    const directory = new Directory(true, { expires })
    const { harness, watch, sync, map, clock } = await watching(directory, { mode: 'instant' })
    const own = await watch(KEY)
    const first = own.checked!.getTime()
    clock.pass(2 * DAY * 1000)
    await harness.failure(map.sync())
    expect(own.checked!.getTime()).toBe(first)
    const alone = await watching(new Directory(), { mode: 'single', servers: [A], lookups: 60 })
    const ofOne = await alone.watch(KEY)
    await alone.sync()
    expect(ofOne.checked).toBe(undefined)
    await sync().catch(() => {})
  })

  test('a server that shows another manifest under the same number does not count', async () => {
    const directory = new Directory(false)
    const { watch, sync, clock } = await watching(directory, { mode: 'instant' })
    const own = await watch(KEY)
    const first = own.checked!.getTime()
    const wrong = '00'.repeat(32)
    directory.network.misbehave[B] = showing(directory.network, B, info => ({
      ...info,
      epochs: info.epochs.map(epoch => ({ ...epoch, manifest: wrong })),
    }))
    clock.pass(60_000)
    await sync().catch(() => {})
    expect(own.checked!.getTime()).toBe(first)
  })
})

describe('refused', () => {
  test('a database without keys', async () => {
    const { map, harness } = await openedOn(keyless())
    expect((await harness.failure(map.watch('key', () => {}))).code).toBe('usage')
  })

  test('servers without lists of changes', async () => {
    const directory = new Directory(false)
    for (const server of [A, B]) {
      directory.network.misbehave[server] = showing(directory.network, server, info => ({
        ...info,
        offers: { ...info.offers, updates: false },
      }))
    }
    const { map, harness } = await watching(directory)
    const error = await harness.failure(map.watch(KEY, () => {}))
    expect([error.code, (error as { reason?: unknown }).reason]).toEqual(['unsupported', 'offer'])
  })

  test('more than 64 keys, unless one has stopped', async () => {
    const { map, harness, watch } = await watching(new Directory(), { mode: 'local' })
    const first = await watch(KEY)
    for (let i = 1; i < 64; i++) await watch(KEYS[i % KEYS.length]!)
    expect((await harness.failure(map.watch(KEY, () => {}))).message).toContain('at most 64 keys')
    first.stop()
    await watch(KEY)
    expect((await harness.failure(map.watch(KEY, () => {}))).message).toContain('at most 64 keys')
  })

  test('more than 64 keys that are begun at once', async () => {
    const { map, drive } = await watching(new Directory(), { mode: 'local' })
    const begun = Array.from({ length: 66 }, () => map.watch(KEY, () => {}))
    const ends = await drive(Promise.allSettled(begun))
    const refused = ends.flatMap(end => (end.status === 'rejected' ? [String(end.reason)] : []))
    expect(refused).toEqual(Array(2).fill(expect.stringContaining('at most 64 keys')))
  })

  test.each([
    [{ onChange: 'x' }, /expected a function/],
    [{ options: { sinse: 'x' } }, /no option "sinse"/],
    [{ options: { save: 'x' } }, /save to be a function/],
    [{ options: { since: 7 } }, /since to be text/],
  ] as const)(
    '%j',
    async ({ onChange = () => {}, options = {} }: { onChange?: unknown; options?: object }, message) => {
      const { map, harness } = await watching(new Directory(), { mode: 'local' })
      const error = await harness.failure(map.watch(KEY, onChange as () => void, options))
      expect([error.code, message.test(error.message)]).toEqual(['usage', true])
    },
  )
})

function lineOf({ newest: { manifest } }: Directory): string {
  return `${JSON.stringify({ database: Buffer.from(manifest.databaseId).toString('hex'), generation: manifest.generation, epoch: manifest.epoch }).padEnd(95)}\n`
}
