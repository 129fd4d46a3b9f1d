// Watched keys where servers lie, are silent or were put back, and where the publisher does (docs/threat-model.md, Watched keys).

import { encodeEvent, encodeManifest, toHex } from '@keyhush/protocol'
import { describe, expect, test } from 'vitest'
import { placesAfter } from '../src/lookup/moved.js'
import { leadsOn } from '../src/watching/following.js'
import { rest, until } from './support/clock.js'
import { core } from './support/harness.js'
import { FakeLine } from './support/line.js'
import {
  A,
  B,
  drip,
  hang,
  having,
  late,
  type Misbehave,
  Network,
  ok,
  on,
  problem,
  SERVERS,
  showing,
} from './support/network.js'
import { signatureOf } from './support/signed.js'
import { Directory, KEYS, pass, textOf, watching } from './support/watched.js'

const [KEY, OTHER] = KEYS as [string, string]
const V = 'v0..........'
const NEW = `${V} → new at 2, list`

/** A map whose first epoch is watched, and what comes of the second, which changes the key. */
async function after(lie: (directory: Directory, first: Directory['newest']) => void, options = {}, push = false) {
  const directory = new Directory()
  directory.network.push = push
  const map = await watching(directory, { mode: 'instant', push, ...options })
  const own = await map.watch(KEY)
  const first = directory.newest
  directory.publish({ [KEY]: 'new' })
  lie(directory, first)
  return { ...map, own, first }
}

const settled = async (map: Awaited<ReturnType<typeof watching>>) => {
  await map.drive(map.map.sync().catch(() => {}))
  await pass(map.harness, 1_000)
}

describe('with a publisher’s key one honest server suffices: the other', () => {
  test.each([A, B])('%s is frozen', async frozen => {
    const map = await after(({ network }, first) => {
      network.misbehave[frozen] = having(frozen, network.signatures, first)
    })
    await settled(map)
    expect(map.heard).toEqual([NEW])
    expect(map.own.checked!.getTime()).toBeLessThan(map.clock.date()) // not both have this epoch
  })

  test.each([A, B])('%s withholds the list', async server => {
    const map = await after(({ network }) => {
      network.misbehave[server] = ({ path }, genuine) =>
        path.startsWith('/v1/blobs/') ? problem(404, 'not_found') : genuine
    })
    await settled(map)
    expect(map.heard).toEqual([NEW])
  })

  test.each([A, B])('%s gives another list, or a longer one', async server => {
    for (const wrong of [new Uint8Array(200), new Uint8Array(1_000_000)]) {
      const map = await after(({ network }) => {
        network.misbehave[server] = ({ path }, genuine) => (path.startsWith('/v1/blobs/') ? ok(wrong) : genuine)
      })
      await settled(map)
      expect(map.heard).toEqual([NEW])
    }
  })

  test.each([A, B])('%s makes newer epochs up', async server => {
    const map = await after(({ network }) => {
      network.misbehave[server] = showing(network, server, info => ({
        ...info,
        epochs: [...info.epochs, { generation: 1, epoch: 9, manifest: '77'.repeat(32) }],
      }))
    })
    await settled(map)
    expect(map.heard).toEqual([NEW])
  })

  test.each([
    [A, 'to everything', ''],
    [B, 'to everything', ''],
    [A, 'once it has said what it shows', '/v1/info'],
    [B, 'once it has said what it shows', '/v1/info'],
  ])('%s is silent %s', async (server, _, said) => {
    const map = await after(({ network }) => {
      network.misbehave[server] = (seen, genuine) =>
        seen.path === said ? genuine : hang('/v1')({ ...seen, path: '/v1' }, genuine)
    })
    const [syncing, begun] = [map.map.sync().catch(() => {}), map.clock.now()]
    await until(map.clock, () => map.heard.length > 0)
    expect([map.heard, map.clock.now() - begun < 2_100]).toEqual([[NEW], true])
    await map.drive(syncing)
  })

  test.each([A, B])('%s makes up an epoch, and no request to the other server names it', async liar => {
    const other = liar === A ? B : A
    const map = await after(({ network }) => {
      const [newest] = network.signatures
      network.misbehave[liar] = showing(network, liar, info => ({
        ...info,
        epochs: [...info.epochs, { generation: 1, epoch: 987_654, manifest: '77'.repeat(32) }],
        signatures: [...info.signatures, { ...newest!, epoch: 987_654 }],
      }))
    })
    await settled(map)
    expect(map.heard).toEqual([NEW])
    const asked = (name: string) =>
      map.harness.network.seen.filter(({ server, path }) => server === name && path.includes('987654'))
    expect([asked(liar).length > 0, asked(other)]).toEqual([true, []])
  })

  test.each([A, B])('%s is silent about an epoch that it makes up', async liar => {
    const map = await after(({ network }) => {
      const [newest] = network.signatures
      const shows = showing(network, liar, info => ({
        ...info,
        epochs: [...info.epochs, { generation: 1, epoch: 9, manifest: '77'.repeat(32) }],
        signatures: [...info.signatures, { ...newest!, epoch: 9 }],
      }))
      network.misbehave[liar] = (seen, genuine) =>
        seen.path.includes('epoch=9') ? hang('/v1')(seen, genuine) : shows(seen, genuine)
    })
    const [syncing, begun] = [map.map.sync().catch(() => {}), map.clock.now()]
    await until(map.clock, () => map.heard.length > 0)
    expect([map.heard, map.clock.now() - begun < 2_100]).toEqual([[NEW], true])
    await map.drive(syncing)
  })

  test.each([A, B].flatMap(liar => ['is silent', 'drips'].map(how => [liar, how] as const)))(
    '%s sends a line of an epoch that it makes up, and %s',
    async (liar, how) => {
      const directory = new Directory()
      const { network } = directory
      network.push = true
      const map = await watching(directory, { mode: 'instant', push: true })
      await map.watch(KEY)
      const [newest] = network.signatures
      const shows = showing(network, liar, info => ({
        ...info,
        epochs: [...info.epochs, { generation: 1, epoch: 9, manifest: '77'.repeat(32) }],
        signatures: [...info.signatures, { ...newest!, epoch: 9 }],
      }))
      const withholds = how === 'drips' ? drip(map.clock, '/v1', 2_000) : hang('/v1')
      network.misbehave[liar] = (seen, genuine) =>
        seen.path.includes('epoch=9') ? withholds({ ...seen, path: '/v1' }, genuine) : shows(seen, genuine)
      const line = encodeEvent({ ...directory.newest.manifest, epoch: 9 })
      for (const { server, tell } of network.streams) if (server === liar) tell(line)
      await pass(map.harness, 100)
      directory.publish({ [KEY]: 'new' })
      const begun = map.clock.now()
      await until(map.clock, () => map.heard.length > 0)
      expect([map.heard, map.clock.now() - begun < 2_100]).toEqual([[NEW], true])
      const asked = network.seen.filter(({ server, path }) => path.includes('epoch=9') && server !== liar)
      expect(asked).toEqual([])
    },
  )

  test('is silent, and one whose line has come takes three seconds: it is waited for', async () => {
    const directory = new Directory()
    directory.network.push = true
    const map = await watching(directory, { mode: 'instant', push: true })
    await map.watch(KEY)
    directory.network.misbehave[A] = late(map.clock, '/v1/manifest?generation=1&epoch=2', 3_000)
    directory.network.misbehave[B] = hang('/v1/info')
    directory.publish({ [KEY]: 'new' })
    const begun = map.clock.now()
    await until(map.clock, () => map.heard.length > 0)
    expect([map.heard, map.clock.now() - begun < 4_100]).toEqual([[NEW], true])
  })

  test.each([A, B].flatMap(frozen => [true, false].map(push => [frozen, push] as const)))(
    '%s is frozen, and the other takes three seconds, on an open page: %s: it is followed once it has replied',
    async (frozen, push) => {
      const directory = new Directory()
      const { network, newest: first } = directory
      network.push = push
      const map = await watching(directory, { mode: 'instant', push })
      await map.watch(KEY)
      network.misbehave[frozen] = having(frozen, network.signatures.slice(), first)
      network.misbehave[frozen === A ? B : A] = late(map.clock, '/v1/manifest?generation=1&epoch=2', 3_000)
      directory.publish({ [KEY]: 'new' })
      if (!push) await map.drive(map.map.sync().catch(() => {}))
      await pass(map.harness, 5_000)
      expect(map.heard).toEqual([NEW])
      await map.drive(map.map.close())
    },
  )

  test('what one server alone tells of is told on an open page', async () => {
    for (const frozen of [A, B]) {
      const map = await after(
        ({ network }, first) => {
          network.misbehave[frozen] = having(frozen, network.signatures, first)
        },
        {},
        true,
      )
      await until(map.clock, () => map.heard.length > 0)
      expect([map.heard, map.clock.now() < 1_000]).toEqual([[NEW], true])
    }
  })
})

test('a list that one server withholds from a watch is fetched for lookups as without watches', async () => {
  const arrivalOf = async (watches: boolean) => {
    const directory = new Directory()
    const { map, watch, clock } = await watching(directory, { mode: 'local' })
    if (watches) await watch(KEY)
    directory.publish({ [KEY]: 'new' })
    directory.network.misbehave[A] = hang('/v1/blobs/')
    const begun = clock.now()
    void map.sync().catch(() => {})
    await until(clock, () => map.epoch === 2)
    return clock.now() - begun
  }
  expect(await arrivalOf(true)).toBe(await arrivalOf(false))
})

describe('nobody invents a change:', () => {
  test('what is not signed is not told', async () => {
    const directory = new Directory()
    const map = await watching(directory, { mode: 'instant' })
    await map.watch(KEY)
    directory.publish({ [KEY]: 'false' })
    directory.network.signatures.length = 1
    await map.drive(map.map.sync().catch(() => {}))
    await rest()
    expect(map.heard).toEqual([])
  })

  test('without a key, what one server alone shows is not told', async () => {
    const directory = new Directory(false)
    const map = await watching(directory, { mode: 'instant' })
    await map.watch(KEY)
    directory.publish({ [KEY]: 'false' }, [A])
    await map.drive(map.map.sync().catch(() => {}))
    await rest()
    expect(map.heard).toEqual([])
  })
})

describe('the publisher', () => {
  test.each([0, 1, 2])(
    'signs two histories: all watches hear of a contradiction, once (%i epochs later)',
    async later => {
      const [directory, other] = [new Directory(), new Directory()]
      const map = await watching(directory, { mode: 'instant' })
      const own = await map.watch(KEY)
      await map.watch(OTHER)
      directory.publish({ [KEYS[5]!]: 'x' })
      await map.sync()
      other.publish({ [KEY]: 'false' })
      for (let i = 0; i < later; i++) other.publish({ [KEYS[6]!]: `${i}` })
      directory.network.misbehave[B] = shownBy(other)
      await map.drive(map.map.sync().catch(() => {}))
      await rest()
      await map.drive(map.map.sync().catch(() => {}))
      await rest()
      const twice = [`${V} → ${V} at 2, contradiction`, 'v1.......... → v1.......... at 2, contradiction']
      expect(map.heard).toEqual(twice)
      expect([textOf(own.value), own.epoch]).toEqual([V, 2])
      directory.publish({ [KEY]: 'new' })
      await map.drive(map.map.sync().catch(() => {}))
      await rest()
      expect(map.heard).toEqual([...twice, `${V} → new at 3, list`]) // the history before is followed
    },
  )

  test.each(['at the mark', 'ahead of the mark'])('signs two histories: %s it is told once a visit', async where => {
    const isAhead = where === 'ahead of the mark'
    const [directory, other] = [new Directory(), new Directory()]
    for (const each of [directory, other]) each.publish({ [KEYS[5]!]: 'x' })
    const first = await watching(directory, { mode: 'instant' })
    await first.watch(KEY)
    directory.publish({ [KEYS[6]!]: 'a' })
    other.publish({ [KEYS[6]!]: 'b' })
    if (!isAhead) await first.sync()
    let mark = first.marks[KEY]
    for (let visit = 0; visit < 3; visit++) {
      const map = await watching(directory, { mode: 'local' })
      directory.network.misbehave[B] = shownBy(other)
      const own = await map.watch(KEY, { since: mark })
      for (let i = 0; i < 3; i++) {
        await settled(map)
        await pass(map.harness, 70_000)
      }
      expect([map.heard, own.epoch], `visit ${visit}`).toEqual([[`${V} → ${V} at 3, contradiction`], 3])
      mark = map.marks[KEY]
      directory.network.misbehave[B] = undefined
    }
  })

  test.each([0, 2])('has signed another history than that of a mark: it is told once, %i epochs later', async later => {
    const [directory, other] = [new Directory(), new Directory()]
    const first = await watching(directory, { mode: 'instant' })
    directory.publish({ [KEYS[5]!]: 'x' })
    await first.watch(KEY)
    other.publish({ [KEYS[5]!]: 'y' })
    for (let i = 0; i < later; i++) other.publish({ [KEYS[6]!]: `${i}` })
    const map = await watching(other, { mode: 'instant' })
    const own = await map.watch(KEY, { since: first.marks[KEY] })
    await pass(map.harness, 70_000)
    await settled(map)
    expect([map.heard, own.epoch]).toEqual([[`${V} → ${V} at 2, contradiction`], 2 + later])
    const next = await watching(other, { mode: 'instant' })
    await next.watch(KEY, { since: map.marks[KEY] })
    await settled(next)
    expect(next.heard).toEqual([])
  })

  test('signs a list without what its roots have: the next lookup contradicts it', async () => {
    const directory = new Directory()
    const map = await watching(directory, { mode: 'instant' })
    const own = await map.watch(KEY)
    signUnlisted(directory, [], { [KEY]: 'false' })
    await map.sync()
    expect([map.heard, textOf(own.value), own.epoch]).toEqual([[], V, 2]) // lists alone say nothing
    expect(textOf(await map.drive(map.map.get(KEY)))).toBe('false')
    map.clock.pass(50 * 3_600_000) // the day's comparison
    await map.sync()
    await pass(map.harness, 90_000)
    expect(map.heard).toEqual([`${V} → false at 2, contradiction`])
    const anew = await watching(directory, { mode: 'instant' })
    await anew.watch(KEY, { since: map.marks[KEY] })
    await rest()
    expect(anew.heard).toEqual([])
  })

  test('signs such a list after a change: the first lookup of a visit contradicts it all the same', async () => {
    const directory = new Directory()
    const before = await watching(directory, { mode: 'instant' })
    await before.watch(KEY)
    directory.publish({ [KEY]: 'own' })
    signUnlisted(directory, [{ [KEY]: 'own' }], { [KEY]: 'false' })
    const map = await watching(directory, { mode: 'instant' })
    await map.watch(KEY, { since: before.marks[KEY] })
    await rest()
    expect(map.heard).toEqual([`${V} → own at 2, list`, 'own → false at 3, contradiction'])
  })

  test('signs two histories: a key hears of it that is watched later, or was just lost', async () => {
    const [directory, other] = [new Directory(), new Directory()]
    const map = await watching(directory, { mode: 'instant' })
    await map.watch(KEY)
    directory.layOutAnew()
    other.layOutAnew(new Map([...other.held, [KEY, 'false']]))
    await map.sync()
    directory.network.misbehave[B] = shownBy(other)
    await map.drive(map.map.sync().catch(() => {}))
    await rest()
    expect(map.heard).toEqual([`${V} → ${V} at 1, contradiction`])
    directory.network.misbehave[B] = undefined
    await map.watch(OTHER)
    await pass(map.harness, 70_000)
    directory.network.misbehave[B] = shownBy(other)
    await map.drive(map.map.sync().catch(() => {}))
    await rest()
    const later = [`${V} → ${V} at 2, gap`, 'v1.......... → v1.......... at 2, contradiction']
    expect(map.heard.slice(1)).toEqual(later)
  })
})

/** Answers lookups, and shows another directory in everything else. */
function shownBy({ network }: Directory): Misbehave {
  return async (seen, genuine) =>
    seen.path.startsWith('/v1/instant') ? genuine : await network.fetch(seen.url, seen.init)
}

/** Both servers get a signed epoch that changes another key, as its list says, and `unlisted`, which only its roots say. */
function signUnlisted(
  directory: Directory,
  past: readonly Readonly<Record<string, string>>[],
  unlisted: Readonly<Record<string, string>>,
): void {
  const before = directory.newest
  const listed = { [KEYS[7]!]: 'else' }
  const { updateListHash, updateListBytes } = directory.publish(listed, []).manifest
  const list = directory.newest.blobs.get(toHex(updateListHash))!
  directory.network.signatures.pop()
  const whole = new Directory()
  for (const changes of [...past, { ...listed, ...unlisted }]) whole.publish(changes)
  const previousManifest = core.blake3(before.manifestBytes)
  const manifest = { ...whole.newest.manifest, updateListHash, updateListBytes, previousManifest }
  const blobs = new Map([...whole.newest.blobs, [toHex(updateListHash), list]])
  const database = { ...whole.newest, blobs, manifest, manifestBytes: encodeManifest(manifest) }
  directory.network.signatures.push(signatureOf(database))
  directory.network.publishOnBoth(database)
}

describe('a list', () => {
  const record = (value: number) => Uint8Array.from([...Array(16).fill(7), value, 0])
  const print = new Uint8Array(16).fill(7)
  const at = { index: 3, record: record(1) }
  const absent = { index: undefined, record: new Uint8Array(18) }
  const KINDS = { add: 1, edit: 2, delete: 3 }
  const listOf = (...entries: [number, keyof typeof KINDS, Uint8Array][]) =>
    Uint8Array.from([
      ...new Uint8Array(40),
      ...entries.flatMap(([index, kind, delta]) => [index, 0, 0, 0, KINDS[kind], ...delta]),
    ])
  const only = (value: number) => Uint8Array.from([...new Uint8Array(16), value, 0])

  test.each([
    ['edits it', at, listOf([3, 'edit', only(3)]), { index: 3, record: record(2), contradicts: false }],
    ['edits another', at, listOf([4, 'edit', only(3)]), { ...at, contradicts: false }],
    ['deletes it', at, listOf([3, 'delete', record(1)]), { ...absent, contradicts: false }],
    [
      'moves it',
      at,
      listOf([2, 'add', record(9)], [3, 'delete', record(1)]),
      { index: 2, record: record(9), contradicts: false },
    ],
    [
      'moves it down',
      at,
      listOf([3, 'delete', record(1)], [5, 'add', record(9)]),
      { index: 5, record: record(9), contradicts: false },
    ],
    ['adds it', absent, listOf([5, 'add', record(4)]), { index: 5, record: record(4), contradicts: false }],
    ['deletes another record of it', at, listOf([3, 'delete', record(2)]), { ...absent, contradicts: true }],
    ['deletes it elsewhere', at, listOf([4, 'delete', record(1)]), { ...absent, contradicts: true }],
    ['deletes what is not there', absent, listOf([4, 'delete', record(1)]), { ...absent, contradicts: true }],
    ['edits its fingerprint', at, listOf([3, 'edit', record(1)]), { ...absent, contradicts: true }],
    ['adds it twice', at, listOf([5, 'add', record(4)]), { index: 5, record: record(4), contradicts: true }],
  ] as const)('that %s', (_, before, list, expected) => {
    expect(placesAfter(list, 18, [print], [before])).toEqual([expected])
  })
})

describe('a list that is malformed', () => {
  const directory = new Directory()
  const { manifest: before } = directory.newest
  const { databaseId, generation, epoch } = before
  const { manifest: after, blobs } = directory.publish({ [KEYS[20]!]: 'a', [KEY]: 'b', [OTHER]: undefined })
  const list = blobs.get(toHex(after.updateListHash))!
  const each = 5 + after.recordBytes
  const changed = (change: (bytes: Uint8Array) => void) => {
    const bytes = list.slice()
    change(bytes)
    return bytes
  }
  const swapped = changed(bytes => {
    bytes.copyWithin(40, 40 + each, 40 + 2 * each)
    bytes.set(list.subarray(40, 40 + each), 40 + each)
  })
  const CASES: readonly [string, Uint8Array][] = [
    ...Array.from({ length: 10 }, (_, i): [string, Uint8Array] => [
      `header, ${4 * i}`,
      changed(bytes => void bytes[4 * i]!++),
    ]),
    ['cut', list.subarray(0, -1)],
    ['an entry too few', list.subarray(0, -each)],
    ['longer', Uint8Array.from([...list, 0])],
    ['out of order', swapped],
    ['an index twice', changed(bytes => void bytes.copyWithin(40 + each, 40, 44))],
    ['an index beyond N', changed(bytes => bytes.set([1], 40 + 2 * each + 1))],
    ['kind 4', changed(bytes => bytes.set([4], 44))],
    ['kind 0', changed(bytes => bytes.set([0], 44))],
    ['changes nothing', changed(bytes => void bytes.fill(0, 45, 40 + each))],
    ['empty', new Uint8Array()],
  ]

  test('is refused, whatever is wrong', () => {
    expect(leadsOn(list, before, after)).toBe(true)
    expect(leadsOn(list, { databaseId, generation, epoch }, after)).toBe(true)
    expect(CASES.filter(([, bytes]) => leadsOn(bytes, before, after)).map(([what]) => what)).toEqual([])
  })

  test('and signed: keys are looked up, and a gap is told', async () => {
    for (const [what, bytes] of CASES) {
      const directory = new Directory()
      const map = await watching(directory, { mode: 'instant' })
      const own = await map.watch(KEY)
      const first = directory.newest
      directory.publish({ [KEYS[20]!]: 'a', [KEY]: 'b', [OTHER]: undefined })
      const manifest = { ...directory.newest.manifest, updateListHash: core.blake3(bytes) }
      if (bytes.length !== manifest.updateListBytes) continue // its manifest would be refused
      const blobs = new Map([...directory.newest.blobs, [toHex(manifest.updateListHash), bytes]])
      const database = { ...directory.newest, manifest, blobs, manifestBytes: encodeManifest(manifest) }
      directory.network.replaceOnBoth(first)
      directory.network.signatures.length = 1
      directory.network.signatures.push(signatureOf(database))
      directory.network.publishOnBoth(database)
      await map.sync()
      await pass(map.harness, 70_000)
      expect([map.heard, textOf(own.value)], what).toEqual([[`${V} → b at 2, gap`], 'b'])
    }
  })
})

test('a server that has forgotten, while the other is slow at first, shows no other history', async () => {
  const directory = new Directory(false)
  const map = await watching(directory, { mode: 'instant' })
  await map.watch(KEY)
  for (let i = 0; i < 3; i++) directory.publish({ [KEY]: `${i}` })
  directory.network.replace(A, directory.newest)
  let isFirst = true
  directory.network.misbehave[B] = async ({ path }, genuine) => {
    if (path.startsWith('/v1/manifests') && isFirst) {
      isFirst = false
      await map.clock.wait(8_000)
    }
    return genuine
  }
  await settled(map)
  await pass(map.harness, 70_000)
  expect(isFirst).toBe(false)
  expect(map.heard.map(line => line.replace(/.*, /, ''))).not.toContain('contradiction')
  expect(map.heard.at(-1)).toContain('→ 2 at 4')
})

test('a server that answers an epoch behind the watch is neither compared nor told', async () => {
  const directory = new Directory()
  const map = await watching(directory, { mode: 'instant' })
  const own = await map.watch(KEY)
  const first = directory.newest
  directory.publish({ [KEY]: 'new' })
  await map.sync()
  const both = [A, B]
  for (const server of both) directory.network.misbehave[server] = having(server, directory.network.signatures, first)
  map.clock.pass(50 * 3_600_000)
  await map.drive(map.map.sync().catch(() => {}))
  await pass(map.harness, 90_000)
  expect([map.heard, textOf(own.value), own.epoch]).toEqual([[NEW], 'new', 2])
})

test.each([true, false])('more than the bound of lists is not downloaded (metered line: %s)', async isMetered => {
  const directory = new Directory(true, {}, 60_000)
  const connection = new FakeLine()
  connection.isMetered = isMetered
  const map = await watching(directory, { mode: 'instant' }, { connection })
  const own = await map.watch(KEY)
  directory.publish(Object.fromEntries(KEYS.slice(0, 20).map(key => [key, 'new'.padEnd(60_000, '.')])))
  const seen = directory.network.seen.length
  await map.sync()
  await pass(map.harness, 70_000)
  const lists = directory.network.seen.slice(seen).filter(({ path }) => path.startsWith('/v1/blobs/'))
  expect([lists.length, map.heard.map(line => line.slice(-3))]).toEqual(isMetered ? [0, ['gap']] : [1, ['ist']])
  expect(textOf(own.value)).toContain('new')
})

test('garbage in place of a manifest, a chain or a list harms nothing', async () => {
  for (const path of ['/v1/info', '/v1/manifest?generation=1&epoch=3', '/v1/manifests?since=1']) {
    const directory = new Directory()
    const map = await watching(directory, { mode: 'instant' })
    await map.watch(KEY)
    directory.publish({ [KEY]: 'one' })
    directory.publish({ [KEY]: 'two' })
    directory.network.both(on(path, () => ok(new Uint8Array(500).fill(9))))
    await map.drive(map.map.sync().catch(() => {}))
    await rest()
    const all = [`${V} → one at 2, list`, 'one → two at 3, list']
    expect(all.slice(0, map.heard.length), path).toEqual(map.heard)
    directory.network.both(undefined)
    await map.sync()
    expect(map.heard, path).toEqual(all)
  }
})

describe('another database', () => {
  const stranger = (signs: boolean) => new Directory(signs, { databaseId: new Uint8Array(16).fill(9) })

  test('of the same publisher, which one server shows while the other is away, leads no watch astray', async () => {
    const directory = new Directory()
    const map = await watching(directory, { mode: 'instant' })
    await map.watch(KEY)
    const other = stranger(true)
    for (let i = 0; i < 3; i++) other.publish({ [KEY]: `${i}` })
    directory.network.misbehave[A] = () => problem(503, 'not_ready')
    directory.network.misbehave[B] = shownBy(other)
    await settled(map)
    directory.network.misbehave[A] = undefined
    directory.publish({ [KEY]: 'new' })
    await settled(map)
    expect(map.heard).toEqual([NEW])
  })

  test('of all servers, without a key, is a gap, also at an earlier epoch', async () => {
    const directory = new Directory(false)
    const map = await watching(directory, { mode: 'instant' })
    const own = await map.watch(KEY)
    directory.publish({ [KEY]: 'new' })
    await map.sync()
    directory.network.replaceOnBoth(stranger(false).newest)
    await map.sync()
    await pass(map.harness, 70_000)
    expect([map.heard, own.epoch]).toEqual([[NEW, `new → ${V} at 1, gap`], 1])
  })
})

test('a server whose lines come each millisecond, and name what it does not show, is not asked at each', async () => {
  const directory = new Directory()
  const { network } = directory
  network.push = true
  const map = await watching(directory, { mode: 'instant', push: true })
  await map.watch(KEY)
  network.misbehave[B] = showing(network, B, info => ({ ...info, epochs: info.epochs.slice(0, 1) }))
  directory.publish({ [KEY]: 'one' })
  directory.publish({ [KEY]: 'two' })
  await pass(map.harness, 1_000)
  const before = network.seen.length
  for (let i = 0; i < 500; i++) {
    for (const { server, tell } of network.streams) if (server === B) tell(encodeEvent(directory.newest.manifest))
    await pass(map.harness, 1)
  }
  expect(network.seen.length - before).toBeLessThan(10)
})

test('one server of three with a fork, which a watch has joined first, does not keep it there', async () => {
  const three = SERVERS.slice(0, 3)
  const spread = () => {
    const directory = new Directory()
    const network = new Network(Object.fromEntries(three.map(server => [server, [directory.newest]])))
    network.signatures.push(...directory.network.signatures)
    return Object.assign(directory, { network })
  }
  const [directory, other] = [spread(), spread()]
  const map = await watching(directory, { mode: 'local', servers: three })
  const own = await map.watch(KEY)
  other.publish({ [KEY]: 'false' }, three)
  directory.network.misbehave[three[1]!] = shownBy(other)
  await settled(map)
  expect(map.heard).toEqual([`${V} → false at 2, list`])
  for (const value of ['one', 'two', 'three']) {
    directory.publish({ [KEY]: value }, three)
    await settled(map)
    await pass(map.harness, 70_000)
  }
  expect(map.heard.slice(1).every(line => line.endsWith('contradiction'))).toBe(true)
  expect([textOf(own.value), own.epoch, textOf(await map.drive(map.map.get(KEY)))]).toEqual(['three', 4, 'three'])
  directory.publish({ [KEY]: 'four' }, three)
  await settled(map)
  expect(map.heard.at(-1)).toBe('three → four at 5, list')
})
