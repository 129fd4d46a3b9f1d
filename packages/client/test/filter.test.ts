// Mode `filter`: what it excludes, what it follows, what it asks servers, and what it keeps.

import { confidentialId, decodeManifest, type Manifest, toHex } from '@keyhush/protocol'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { THOROUGH } from '../../../tests/support/thorough.js'
import { estimate, type KeyhushMap } from '../src/index.js'
import { discardStateWith, type MemoryStore } from '../src/testing.js'
import { rest, until } from './support/clock.js'
import { buildDatabase } from './support/database.js'
import { disk, marked, opened } from './support/filtered.js'
import { core, keyless, NAMES, refusedBy, sameOnBoth } from './support/harness.js'
import { A, B, type Seen } from './support/network.js'
import { DAY, NOW, publisherKey, publishSigned, signatureOf } from './support/signed.js'
import { Directory, KEYS, pass, sight } from './support/watched.js'

const OTHERS = Array.from({ length: 200 }, (_, i) => `other-${i}.example`)
const filtered: typeof opened = (directory, options, environment) =>
  opened(directory, { mode: 'filter', ...options }, environment)

/** What it says of all keys is so: no listed key is excluded, and almost all others are. */
function expectRight(map: KeyhushMap, { held }: Directory): void {
  expect([...held.keys()].filter(key => map.excludes(key))).toEqual([])
  const absent = [...KEYS, ...OTHERS].filter(key => !held.has(key))
  expect(absent.filter(key => !map.excludes(key)).length).toBeLessThan(10) // 0.8 is the mean
}

const blobsOf = (seen: readonly Seen[]) => seen.filter(({ path }) => path.includes('/v1/blobs/'))

describe.each([
  ['two servers, signed', true, {}],
  ['two servers', false, {}],
  ['one server, signed', true, { servers: [A] }],
] as const)('%s', (_, signs, options) => {
  test('absent keys are absent without a request; others are not answered', async () => {
    const directory = marked(signs)
    const { map, harness } = await filtered(directory, options)
    expect([map.mode, map.size, map.filter]).toEqual([
      'filter',
      20,
      { epoch: 1, bytes: expect.any(Number), state: 'ready' },
    ])
    const { directoryBytes, records } = directory.newest.manifest
    expect(map.filter!.bytes).toBe(directoryBytes + records)
    const asked = directory.network.seen.length
    expectRight(map, directory)
    const absent = OTHERS.find(key => map.excludes(key))!
    expect(await map.get(absent)).toBeUndefined()
    expect(await map.hasMany([absent, absent], { padTo: 8 })).toEqual([false, false])
    for (const keys of [[KEYS[0]!], [absent, KEYS[0]!]]) {
      const failure = await harness.failure(map.getMany(keys))
      expect(failure).toMatchObject({ code: 'unsupported', reason: 'filter' })
    }
    expect(await harness.failure(map.at(0))).toMatchObject({ code: 'usage' })
    expect(await harness.failure(map.watch(absent, () => {}))).toMatchObject({ code: 'usage' })
    expect(await harness.failure(map.prepare())).toMatchObject({ code: 'usage' })
    expect(directory.network.seen.length).toBe(asked)
    expect(directory.network.seen.every(({ method }) => method === 'GET')).toBe(true)
  })

  test('no listed key is excluded, over adds, deletes, re-adds, generations and servers that forget', async () => {
    type Step = readonly string[] | 'generation' | 'forget'
    const steps: fc.Arbitrary<Step[]> = fc.array(
      fc.oneof(
        { weight: 6, arbitrary: fc.uniqueArray(fc.constantFrom(...KEYS), { minLength: 1, maxLength: 6 }) },
        { weight: 1, arbitrary: fc.constantFrom('generation' as const, 'forget' as const) },
      ),
      { minLength: 1, maxLength: 8 },
    )
    const life = async (steps: Step[], together: number) => {
      const directory = marked(signs)
      const { map, sync } = await filtered(directory, options)
      for (const [i, step] of steps.entries()) {
        if (step === 'generation') directory.layOutAnew()
        else if (step === 'forget') directory.forget()
        else {
          const changes = step.map(key => [key, directory.held.has(key) ? undefined : 'back'] as const)
          if (directory.held.size > step.length) directory.publish(Object.fromEntries(changes))
        }
        if (i % together > 0) continue
        await sync()
        expect(map.epoch).toBe(directory.newest.manifest.epoch)
        expectRight(map, directory)
      }
      await map.close()
    }
    await fc.assert(fc.asyncProperty(steps, fc.integer({ min: 1, max: 3 }), life), { numRuns: THOROUGH ? 60 : 5 })
  })
})

test('it follows by lists, without a new download; of long lists and a download, it takes the fewer bytes', async () => {
  const directory = marked()
  const { sync } = await filtered(directory)
  const { seen } = directory.network
  const since = async () => {
    const before = seen.length
    await sync()
    return blobsOf(seen.slice(before)).map(({ path }) => path.slice(path.lastIndexOf('/') + 1))
  }
  const hashesOf = ({ updateListHash, directoryHash, slotMarksHash }: Manifest) => ({
    list: toHex(updateListHash),
    whole: [directoryHash, slotMarksHash!].map(toHex).sort(),
  })
  directory.publish({ [KEYS[0]!]: undefined, [KEYS[1]!]: 'edited', [KEYS.at(-1)!]: 'come' })
  expect(await since()).toEqual([hashesOf(directory.newest.manifest).list])
  for (let i = 0; i < 12; i++) {
    directory.publish(Object.fromEntries(KEYS.slice(1, 15).map(key => [key, `${i}`])))
  }
  expect((await since()).sort()).toEqual(hashesOf(directory.newest.manifest).whole)
})

test('what it asks, and when, is the same whatever is asked of it', async () => {
  const sights = await Promise.all(
    [KEYS[0]!, OTHERS[0]!].map(async key => {
      const directory = marked()
      const { map, sync, clock } = await filtered(directory)
      for (let i = 0; i < 3; i++) {
        map.excludes(key)
        await map.get(key).catch(() => {})
        directory.publish({ [KEYS[5]!]: `${i}` })
        await sync()
      }
      return directory.network.seen.map(seen => sight(clock.now(), seen))
    }),
  )
  expect(sights[0]).toEqual(sights[1])
})

test('servers tell of new epochs, and it follows as soon as one has them', async () => {
  const directory = marked()
  directory.network.push = true
  const { map, clock, harness, events } = await filtered(directory, { push: true })
  directory.publish({ [KEYS[0]!]: undefined }, [B])
  await until(clock, () => map.epoch === 2)
  expectRight(map, directory)
  expect(events).toContainEqual({ type: 'updated', generation: 1, epoch: 2 })
  await pass(harness, 100_000)
  expect(map.filter!.state).toBe('ready')
})

test('plain keys are not absent from a confidential list: they are refused, and sealed ones are not', async () => {
  const { map, harness } = await filtered(marked(true, { databaseId: confidentialId(new Uint8Array(16)) }))
  for (const key of [OTHERS[0]!, '00'.repeat(32)]) {
    expect(() => map.excludes(key)).toThrow(/expected a database with plain keys/)
    await expect(harness.drive(map.get(key))).rejects.toMatchObject({ code: 'usage' })
  }
  expect([0, 1, 2].some(i => map.excludes('~'.padEnd(65, `${i}`)))).toBe(true)
})

describe('it is behind', () => {
  test.each([true, false])(
    'a minute after a server has shown what it cannot reach, and then excludes nothing (signed: %s)',
    async signs => {
      const directory = marked(signs)
      const { map, sync, events, harness } = await filtered(directory)
      const absent = OTHERS.find(key => map.excludes(key))!
      // One shows the next epoch, and neither gives the list, nor the rest.
      directory.publish({ [absent]: 'come' }, [B])
      const withheld = (seen: Seen) =>
        seen.path.includes('/v1/blobs/') ? new Response('', { status: 404 }) : undefined
      Object.assign(directory.network.misbehave, { [A]: withheld, [B]: withheld })
      await sync().catch(() => {})
      expect([map.filter!.state, map.excludes(absent)]).toEqual(['ready', true])
      await pass(harness, 61_000)
      expect([map.filter!.state, map.excludes(absent)]).toEqual(['behind', false])
      expect(await harness.failure(map.get(absent))).toMatchObject({ code: 'unsupported', reason: 'filter' })
      await rest()
      expect(events.filter(({ type }) => type === 'filter')).toEqual([
        { type: 'filter', state: 'ready' },
        { type: 'filter', state: 'behind' },
      ])
      Object.assign(directory.network.misbehave, { [A]: undefined, [B]: undefined })
      directory.network.publish(A, directory.newest)
      await sync()
      expect([map.filter!.state, map.epoch, map.excludes(absent)]).toEqual(['ready', 2, false])
    },
  )

  test('once its epoch has expired', async () => {
    const directory = marked(true, { expires: NOW + DAY })
    const { map, clock } = await filtered(directory)
    const absent = OTHERS.find(key => map.excludes(key))!
    clock.pass(DAY * 1000)
    expect([map.filter!.state, map.excludes(absent)]).toEqual(['behind', false])
  })
})

test('lists that do not lead to what a manifest says are not followed; the next epoch that is right is', async () => {
  const directory = marked()
  const { map, sync } = await filtered(directory)
  directory.publish({ [KEYS[0]!]: undefined }, [A, B], { slotMarksHash: new Uint8Array(32).fill(1) })
  await expect(sync()).rejects.toThrow()
  expect([map.epoch, map.filter!.state]).toEqual([1, 'ready'])
  directory.publish({ [KEYS[1]!]: undefined })
  await sync()
  expect(map.epoch).toBe(3)
  expectRight(map, directory)
})

test('of two signed manifests of an epoch it believes neither, until there is a later one', async () => {
  const [directory, other] = [marked(), marked()]
  const { map, sync } = await filtered(directory)
  directory.publish({ [KEYS[0]!]: undefined }, [A])
  other.publish({ [KEYS[1]!]: undefined }, [])
  directory.network.publish(B, other.newest)
  directory.network.signatures.push(signatureOf(other.newest))
  await sync()
  expect([map.epoch, map.filter!.state, OTHERS.some(key => map.excludes(key))]).toEqual([2, 'behind', false])
  directory.publish({ [KEYS[2]!]: undefined })
  await sync()
  expect([map.epoch, map.filter!.state]).toEqual([3, 'ready'])
  expectRight(map, directory)
})

test.each(['wasm', 'script'] as const)(
  'what comes is hashed by the core where that is WebAssembly, else in slices: %s',
  async kind => {
    const hashed: number[] = []
    const blake3: typeof core.blake3 = bytes => {
      hashed.push(bytes.length)
      return core.blake3(bytes)
    }
    const directory = marked()
    const { map } = await filtered(directory, {}, { loadCore: async () => ({ ...core, kind, blake3 }) as never })
    expectRight(map, directory)
    const { directoryBytes } = directory.newest.manifest
    expect(hashed.includes(directoryBytes)).toBe(kind === 'wasm')
  },
)

test('estimate() says what a filter costs, and whether there is one', async () => {
  const { network, newest } = marked(false)
  const { directoryBytes, records } = newest.manifest
  const told = await estimate([A, B], { fetch: network.fetch })
  expect([told.filterBytes, told.filterPasses]).toEqual([directoryBytes + records, 1 / 254])
  const without = await estimate([A, B], { fetch: new Directory(false).network.fetch })
  expect([without.filterBytes, without.filterPasses]).toEqual([undefined, undefined])
})

test('reset() downloads anew, and a closed map says so', async () => {
  const directory = marked()
  const { map, harness } = await filtered(directory)
  const before = directory.network.seen.length
  await harness.drive(map.reset())
  expect(blobsOf(directory.network.seen.slice(before))).toHaveLength(2)
  await harness.drive(map.close())
  expect(() => map.excludes('x')).toThrow(/closed/)
})

describe('what is stored', () => {
  test('is used at the next visit, offline too, and moves on', async () => {
    const { openStore } = disk()
    const directory = marked()
    const first = await filtered(directory, { storage: 'required' }, { openStore })
    directory.publish({ [KEYS[0]!]: undefined })
    await first.sync()
    await first.harness.drive(first.map.close())
    const before = directory.network.seen.length
    directory.network.misbehave[A] = directory.network.misbehave[B] = () => new Response('', { status: 503 })
    const { map } = await filtered(directory, { storage: 'required' }, { openStore })
    expect([map.epoch, map.filter!.state, map.storage]).toEqual([2, 'ready', 'persistent'])
    expectRight(map, directory)
    expect(blobsOf(directory.network.seen.slice(before))).toEqual([])
  })

  test('never goes back, whatever an older tab sees', async () => {
    const { openStore, stores } = disk()
    const directory = marked()
    const older = sameOnBoth(directory.newest)
    older.signatures.push(signatureOf(directory.newest))
    const slow = await filtered(directory, {}, { openStore, fetch: (url, init) => older.fetch(url, init) })
    const second = directory.publish({ [KEYS[0]!]: undefined })
    directory.publish({ [KEYS[1]!]: undefined })
    const quick = await filtered(directory, {}, { openStore })
    await quick.sync()
    publishSigned(older, second)
    await slow.sync()
    expect([slow.map.epoch, quick.map.epoch]).toEqual([2, 3])
    const [[, store]] = [...stores] as [[string, MemoryStore]]
    expect(toHex((await store.read())!.record.manifest)).toBe(toHex(directory.newest.manifestBytes))
  })

  test('is shared by tabs', async () => {
    const { openStore, stores } = disk()
    const directory = marked()
    const tabs = await Promise.all([1, 2].map(() => filtered(directory, {}, { openStore })))
    directory.publish({ [KEYS[0]!]: undefined })
    await tabs[0]!.sync()
    directory.publish({ [KEYS[1]!]: undefined })
    await tabs[1]!.sync()
    await tabs[0]!.sync()
    const [[, store]] = [...stores] as [[string, MemoryStore]]
    const { record, version } = (await store.read())!
    expect([toHex(record.manifest), version]).toEqual([toHex(directory.newest.manifestBytes), 2])
    expect(stores.size).toBe(1)
  })

  test.each([
    ['marks', (partial: Uint8Array) => partial.map(mark => mark ^ 1), (directory: Uint8Array) => directory],
    [
      'directory',
      (partial: Uint8Array) => partial,
      (directory: Uint8Array) => directory.map((byte, i) => (i === 40 ? byte ^ 1 : byte)),
    ],
    ['length', (partial: Uint8Array) => partial.slice(1), (directory: Uint8Array) => directory],
  ])('is hashed again: with other %s it is downloaded anew', async (_, ofMarks, ofDirectory) => {
    const { openStore, stores } = disk()
    const directory = marked()
    await filtered(directory, {}, { openStore })
    const [[, store]] = [...stores] as [[string, MemoryStore]]
    const { record, version } = (await store.read())!
    const { partial, directory: bytes } = await store.readPartial(record.hintId)
    const damaged = {
      partial: ofMarks(partial),
      directory: ofDirectory(bytes),
      manifest: record.manifest,
      signature: record.signature,
    }
    await store.updatePartial(record.hintId, version, damaged)
    const { map, events } = await filtered(directory, {}, { openStore })
    expectRight(map, directory)
    expect(events).toContainEqual({ type: 'discarded', reason: 'unreadable' })
  })

  test('without the signature of this publisher it is not used', async () => {
    const { openStore } = disk()
    const directory = marked()
    const other = { ...signatureOf(directory.newest, new Uint8Array(32).fill(9)) }
    directory.network.signatures.push(other)
    await filtered(directory, { publisherKey: other.publicKey }, { openStore })
    const { events } = await filtered(directory, {}, { openStore })
    expect(events).toContainEqual({ type: 'discarded', reason: 'unreadable' })
  })

  test('is no epoch that nobody has signed, though its list was read on the way to a later one', async () => {
    const { openStore, stores } = disk()
    const directory = marked()
    const { map, sync } = await filtered(directory, {}, { openStore })
    directory.publish({ [KEYS[0]!]: undefined })
    directory.network.signatures.pop()
    // The list of the third epoch leads nowhere, and the rest of it is withheld.
    const list = new Uint8Array(directory.newest.manifest.updateListBytes).fill(1)
    const updateListHash = core.blake3(list)
    directory.publish({ [KEYS[1]!]: undefined }, [A, B], { updateListHash })
    const { directoryHash, slotMarksHash } = directory.newest.manifest
    const spoil = ({ path }: Seen) => {
      if (path.endsWith(toHex(updateListHash))) return new Response(list)
      const isRest = [directoryHash, slotMarksHash!].some(hash => path.endsWith(toHex(hash)))
      return isRest ? new Response('', { status: 404 }) : undefined
    }
    Object.assign(directory.network.misbehave, { [A]: spoil, [B]: spoil })
    await sync().catch(() => {})
    expect(map.epoch).toBe(2)
    const [[, store]] = [...stores] as [[string, MemoryStore]]
    expect(decodeManifest((await store.read())!.record.manifest).epoch).toBe(1)
  })

  test('is removed by discardState, with the names of the servers alone', async () => {
    const { openStore, stores } = disk()
    await filtered(marked(), {}, { openStore })
    const [[name, store]] = [...stores] as [[string, MemoryStore]]
    expect(name.startsWith('filter+')).toBe(true)
    await discardStateWith({ openStore }, { servers: [B, A] })
    expect(await store.read()).toBeUndefined()
  })
})

describe('it does not open', () => {
  const refused = (database: Parameters<typeof sameOnBoth>[0], options = {}) =>
    refusedBy({ network: sameOnBoth(database) }, { mode: 'filter', ...options })

  test('on a list without marks, or without keys', async () => {
    const keyed = buildDatabase(core, {
      keys: NAMES,
      values: NAMES.map(() => new Uint8Array(3).fill(1)),
      partitions: 4,
    })
    for (const database of [keyed, keyless().database]) {
      expect(await refused(database)).toMatchObject({ code: 'unsupported', reason: 'offer' })
    }
  })

  test('with bytes that are not those of the manifest, which one server gives; with another it does', async () => {
    const directory = marked()
    const lie = (seen: Seen, genuine: Response) =>
      seen.path.includes('/v1/blobs/')
        ? genuine.arrayBuffer().then(bytes => new Response(new Uint8Array(bytes).map(byte => byte ^ 1)))
        : undefined
    directory.network.misbehave[A] = lie
    expectRight((await filtered(directory)).map, directory)
    directory.network.misbehave[B] = lie
    expect(await refusedBy(directory, { mode: 'filter', publisherKey })).toMatchObject({ code: 'tampered' })
  })

  test('with a directory of another seed than the manifest names', async () => {
    const directory = marked(true, { directorySeed: new Uint8Array(16).fill(9) })
    const failure = await refusedBy(directory, { mode: 'filter', publisherKey })
    expect(failure).toMatchObject({ code: 'protocol', message: expect.stringContaining('of another shape') })
  })

  test('with options that say nothing in this mode; excludes() is of this mode alone', async () => {
    const directory = marked()
    for (const options of [{ proofs: 'tags' }, { download: 'never' }, { network: 'any' }] as const) {
      expect(await refusedBy(directory, { mode: 'filter', publisherKey, ...options })).toMatchObject({ code: 'usage' })
    }
    const { map } = await filtered(directory, { mode: 'instant' })
    expect(map.filter).toBeUndefined()
    expect(() => map.excludes('x')).toThrow(/mode 'filter'/)
  })
})
