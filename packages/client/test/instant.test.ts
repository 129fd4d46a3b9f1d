// Mode `instant`: lookups that need nothing but manifests. What servers see is the same whatever is asked,
// every change of an answer is refused alike, and nobody can be named for it.

import { decodeInstantQuery, HEADER_BYTES, INSTANT_PATH, type InstantOf, SUITE_TAGS } from '@keyhush/protocol'
import type { DirectoryShapeHandle } from '@keyhush/wasm'
import { describe, expect, test } from 'vitest'
import { estimate, type MapEvent } from '../src/index.js'
import { withLayout } from '../src/platform/layout.js'
import { instant } from '../src/scheme/instant/instant.js'
import { openWith } from '../src/testing.js'
import { deferred, settle } from './support/clock.js'
import { answering, buildDatabase, type Database, later, someValues, withMalformedBlock } from './support/database.js'
import { core, Harness, hex, keyed, keyless, NAMES, sameOnBoth } from './support/harness.js'
import { add, append, change, edit, Living, livingKeyless, remove, utf8 } from './support/living.js'
import { A, after, B, bytesOf, hang, Network, offersNoInstant, ok, on, problem, type Seen } from './support/network.js'

const asked = (network: Network, skip = 0): Seen[] =>
  network.seen.filter(({ path }) => path === INSTANT_PATH).slice(skip)
const bodies = (seen: readonly Seen[]) => seen.map(({ body }) => Buffer.from(body).toString('hex'))
/** What a lookup of a key asks: of each server a block, then a record. */
const STEPS = ['directory', 'directory', 'records', 'records']
/** All that could differ between lookups, but for what is drawn anew each time. */
const shapes = (seen: readonly Seen[]) =>
  seen.map(
    ({ server, method, url, body }) =>
      `${server} ${method} ${url} ${body.length} ${Buffer.from(body.subarray(0, HEADER_BYTES)).toString('hex')}`,
  )

async function opened(network: Network, change: { readonly seed?: number; readonly push?: boolean } = {}) {
  const openStore = async () => {
    throw new Error('nothing is stored')
  }
  const harness = new Harness(network, change.seed ?? 1, { openStore })
  const events: MapEvent[] = []
  const timeoutMs = Number.POSITIVE_INFINITY // until requests give up
  const options = { servers: [A, B], mode: 'instant', push: change.push ?? false, timeoutMs } as const
  const map = await harness.drive(
    openWith(harness.environment, { ...options, onEvent: (event: MapEvent) => void events.push(event) }),
  )
  return { harness, map, network, events }
}

/** Changes answers of one server to lookups: to all, or to those of blocks or of records. */
function lying(network: Network, server: string, lie: (answer: Uint8Array) => void, of?: InstantOf): void {
  network.misbehave[server] = on(INSTANT_PATH, async (genuine, { body }) => {
    const answer = await bytesOf(genuine)
    if (of === undefined || decodeInstantQuery(body).of === of) lie(answer)
    return ok(answer)
  })
}

/** Few keys, and blocks of them. */
const tiny = () => keyed({ keys: NAMES.slice(0, 9), values: NAMES.slice(0, 9).map(() => utf8('value')), partitions: 3 })

function shapeOf<T>({ manifest }: Database, work: (shape: DirectoryShapeHandle) => T): T {
  const { directoryBlockLog: log, directoryBlockBytes: bytes, directorySeed: seed } = manifest
  const shape = core.directoryShape(log, bytes, seed)
  const found = work(shape)
  shape.free()
  return found
}

/** For each block a key that falls into it: one that is there, if there is one. */
function keysOfEachBlock(database: Database): string[] {
  return shapeOf(database, shape => {
    const found = new Map<number, string>()
    const candidates = [...database.contents.keys!, ...Array.from({ length: 4000 }, (_, i) => `absent ${i}`)]
    for (const key of candidates) {
      const number = shape.number(core.fingerprint(utf8(key)))
      if (!found.has(number)) found.set(number, key)
    }
    return [...found.values()]
  })
}

/** Answers for records from one database, and for blocks from another's, brought to the same length. */
function withBlocksOf(database: Database, other: Database) {
  const { directoryBlockLog: log, directoryBlockBytes: length } = database.manifest
  const blocks = core.newDatabase(core.layout(2 ** log, length, 1, 2 ** log))
  const from = other.manifest.directoryBlockBytes
  const source = new Uint8Array(core.memory.buffer, other.blocks!.recordsPointer(), from * 2 ** log)
  const into = new Uint8Array(core.memory.buffer, blocks.recordsPointer(), length * 2 ** log)
  for (let n = 0; n < 2 ** log; n++) into.set(source.subarray(n * from, n * from + Math.min(from, length)), n * length)
  blocks.commit(0)
  return answering(core, database.handle, blocks)
}

describe('a lookup', () => {
  // Otherwise keys for one index in two layouts would have equal seeds and other corrections, which show how the groups differ.
  test('of clones whose generators are in one state shares no seed, unless they ask for the same in the same layout', async () => {
    const values = someValues(3000, 256)
    const before = buildDatabase(core, { values, partitions: 16 })
    const after = buildDatabase(core, { values, partitions: 32, partitionRecords: 128, manifest: later(2, 2) })
    const seedsFor = async (database: Database, index: number) => {
      const { harness, map, network } = await opened(sameOnBoth(database), { seed: 7 })
      await harness.drive(map.at(index))
      return asked(network).map(({ body }) => hex(body.subarray(HEADER_BYTES, HEADER_BYTES + 16)))
    }
    const seeds = [await seedsFor(before, 3), await seedsFor(before, 2345), await seedsFor(after, 2345)]
    expect(new Set(seeds.flat()).size).toBe(6)
    expect(await seedsFor(before, 3)).toEqual(seeds[0])
  })

  test('costs what is said beforehand', async () => {
    const { network, database } = keyed()
    const { harness, map } = await opened(network)
    await harness.drive(map.get(NAMES[3]!))
    const { lookupBytesUp, lookupBytesDown, prepareBytes } = instant.costs(core, database.manifest, {
      proofs: 'auto',
    })
    expect(map.stats.lastLookup).toMatchObject({ bytesUp: lookupBytesUp, bytesDown: lookupBytesDown })
    expect(prepareBytes).toBe(0)
    const told = await estimate([A, B], { fetch: network.fetch })
    expect(told.modes['instant']).toMatchObject({ lookupBytesUp, lookupBytesDown, prepareBytes, held: {} })
    const advised = { download: 'local', paysAfter: 1 } // so small a list
    expect(told).toMatchObject({ ...advised, mode: 'local' })
    expect(await estimate([A, B], { fetch: network.fetch, lookupsPerDay: 0 })).toMatchObject({
      ...advised,
      mode: 'instant',
    })
    const never = await estimate([A, B], { fetch: network.fetch, download: 'never' })
    expect([never.mode, never.paysAfter]).toEqual(['instant', undefined])
  })

  test('shows the same for present, absent and repeated keys: a block, then a record, each asked of both servers in one tick', async () => {
    const { network } = keyed()
    const { harness, map } = await opened(network)
    const views: string[][] = []
    for (const key of [NAMES[0]!, 'absent.example', NAMES[0]!, NAMES[0]!, NAMES[19]!, 'another.example']) {
      const before = asked(network).length
      await harness.drive(map.get(key))
      const seen = asked(network, before)
      expect(seen.map(({ body }) => decodeInstantQuery(body).of)).toEqual(STEPS)
      expect(seen[0]!.tick).toBe(seen[1]!.tick)
      expect(seen[2]!.tick).toBe(seen[3]!.tick)
      expect(seen[1]!.tick).toBeLessThan(seen[2]!.tick)
      views.push(shapes(seen))
    }
    for (const view of views) expect(view).toEqual(views[0])
    expect(new Set(bodies(asked(network))).size).toBe(4 * views.length)
    expect(network.seen.filter(({ path }) => path !== INSTANT_PATH)).toHaveLength(4)
  })

  test('of many keys asks for as many blocks and records as there are to be, whatever the keys are', async () => {
    const { network } = keyed()
    const { harness, map } = await opened(network)
    const views: string[][] = []
    for (const keys of [[NAMES[0]!], NAMES.slice(0, 5), [NAMES[3]!, NAMES[3]!, NAMES[3]!], ['absent.example'], []]) {
      const before = asked(network).length
      await harness.drive(map.getMany(keys, { padTo: 5 }))
      const seen = asked(network, before)
      expect(seen.map(({ body }) => [decodeInstantQuery(body).of, decodeInstantQuery(body).count])).toEqual(
        STEPS.map(of => [of, 5]),
      )
      views.push(shapes(seen))
    }
    for (const view of views) expect(view).toEqual(views[0])
  })

  test('is drawn anew each time: no seed comes twice, and a coin says for each query which server is party 0', async () => {
    const { network } = keyless()
    const { harness, map } = await opened(network)
    for (let i = 0; i < 40; i++) await harness.drive(map.at(3))
    const seeds = new Set<string>()
    const coins: number[] = []
    const seen = asked(network)
    for (let i = 0; i < seen.length; i += 2) {
      const parties = [seen[i]!, seen[i + 1]!].map(({ body }) => {
        const { count, queries } = decodeInstantQuery(body)
        const each = queries.length / count
        return Array.from({ length: count }, (_, k) => {
          const query = queries.subarray(k * each, (k + 1) * each)
          seeds.add(Buffer.from(query.subarray(0, 16)).toString('hex'))
          return query.at(-1)!
        })
      })
      for (const [k, party] of parties[0]!.entries()) expect(party ^ parties[1]![k]!).toBe(1)
      coins.push(...parties[0]!)
    }
    expect(seeds.size).toBe(2 * coins.length)
    const heads = coins.filter(coin => coin === 1).length
    expect(heads).toBeGreaterThan(coins.length / 5)
    expect(heads).toBeLessThan((4 * coins.length) / 5)
  })

  test('waits for no other', async () => {
    const { network, database } = keyless()
    const { harness, map } = await opened(network)
    const found = Promise.all([map.at(1), map.at(1), map.at(3)])
    await settle()
    expect(asked(network)).toHaveLength(6)
    expect(await harness.drive(found)).toEqual([1, 1, 3].map(index => database.byIndex[index]))
  })
})

describe('a lie', () => {
  /** The last partition's last group has records that there are not. */
  const small = () => keyless(7, { partitions: 2, partitionRecords: 5 })
  /** Groups of 8 of 20 records, and siblings: two levels of them, of which some are beyond the tree's width. */
  const taller = () =>
    keyless(37, {
      values: Array.from({ length: 37 }, (_, i) => new Uint8Array(40).fill(i + 1)),
      partitions: 2,
      partitionRecords: 20,
    })

  test.each([
    ['every bit', small, 8, [0, 6]],
    ['a bit of every byte', taller, 1, [0, 36]],
  ] as const)(
    'of %s, of either server, whatever is asked, has one error and one view',
    async (_, database, bits, some) => {
      const { network } = database()
      const { harness, map, events } = await opened(network)
      await harness.drive(map.at(0))
      const length = map.stats.lastLookup!.bytesDown / 2
      const views = new Set<string>()
      const errors = new Set<string>()
      let lies = 0
      for (const index of some) {
        for (const server of [A, B]) {
          for (let at = HEADER_BYTES; at < length; at++) {
            for (let bit = 0; bit < bits; bit++) {
              lying(network, server, answer => {
                answer[at]! ^= 1 << ((bit + at) & 7)
              })
              const before = asked(network).length
              const { name, code, message, server: named } = await harness.failure(map.at(index))
              errors.add(JSON.stringify([name, code, message, named ?? 'nobody']))
              views.add(shapes(asked(network, before)).join('\n'))
              lies += 1
            }
          }
          network.misbehave[server] = undefined
        }
      }
      expect(lies).toBe(some.length * 2 * (length - HEADER_BYTES) * bits)
      expect(errors.size).toBe(1)
      expect([...errors][0]).toMatch(/^\["TamperedError","tampered",".*a\.example.*b\.example.*","nobody"\]$/)
      expect(views.size).toBe(1)
      expect(events).toEqual([])
      expect(await harness.drive(map.at(0))).toBeDefined()
    },
  )

  test('in an answer to several queries refuses all of it, and what is asked then is all new', async () => {
    const { network, database } = keyed()
    const { harness, map } = await opened(network)
    lying(network, B, answer => {
      answer[answer.length - 1]! ^= 1
    })
    expect(await harness.failure(map.getMany(NAMES.slice(0, 3)))).toMatchObject({ code: 'tampered', server: undefined })
    network.misbehave[B] = undefined
    expect(await harness.drive(map.getMany(NAMES.slice(0, 3)))).toEqual(database.contents.values.slice(0, 3))
    // Blocks and a lie, then blocks and records.
    expect(new Set(bodies(asked(network))).size).toBe(2 + 4)
    await harness.drive(map.reset())
    expect(await harness.drive(map.get(NAMES[0]!))).toEqual(database.contents.values[0])
  })

  test.each(['directory', 'records'] as const)(
    'in a reply of a key’s %s, of either server, for every block there is, is refused with one error and one view',
    async of => {
      const { network, database } = tiny()
      const { harness, map } = await opened(network)
      const keys = keysOfEachBlock(database)
      expect(keys).toHaveLength(2 ** database.manifest.directoryBlockLog)
      await harness.drive(map.get(keys[0]!))
      const answers = withLayout(core, database.manifest, layout => layout.instantAnswerBytes, of)
      const [views, errors] = [new Set<string>(), new Set<string>()]
      // Each bit of every byte for every block is what the core's tests go through; here every byte comes up once.
      let lies = 0
      for (const key of keys) {
        for (const server of [A, B]) {
          for (const end = lies + Math.ceil(answers / keys.length / 2); lies < end; lies++) {
            const change = (answer: Uint8Array) => {
              answer[HEADER_BYTES + (lies % answers)]! ^= 1 << (lies & 7)
            }
            lying(network, server, change, of)
            const before = asked(network).length
            const { name, code, message, server: named } = await harness.failure(map.get(key))
            errors.add(JSON.stringify([name, code, message, named ?? 'nobody']))
            views.add(shapes(asked(network, before)).join('\n'))
          }
          network.misbehave[server] = undefined
        }
      }
      expect(lies).toBeGreaterThanOrEqual(answers)
      expect([...errors]).toEqual([
        expect.stringMatching(/^\["TamperedError","tampered",".*a\.example.*b\.example.*","nobody"\]$/),
      ])
      expect(views.size).toBe(1)
      expect([...views][0]!.split('\n')).toHaveLength(of === 'directory' ? 2 : 4)
    },
  )

  test('that is another directory on one server is refused, whatever is looked up: in its manifest, or in blocks', async () => {
    const { database } = keyed()
    const other = buildDatabase(core, { ...database.contents, keys: NAMES.map(name => `x${name}`) })
    const openedOn = (shown: Database) => opened(new Network({ [A]: [database], [B]: [shown] }))
    const failing = openedOn({ ...database, ...{ manifest: other.manifest, manifestBytes: other.manifestBytes } })
    await expect(failing).rejects.toMatchObject({ code: 'servers_disagree' })
    // The same manifest, and other blocks behind it.
    const aligned = { ...database, answerInstantly: withBlocksOf(database, other) }
    const { harness, map, network } = await openedOn(aligned)
    const views = new Set<string>()
    for (const key of [NAMES[0]!, `x${NAMES[0]}`, 'absent.example', NAMES[0]!]) {
      const before = asked(network).length
      expect(await harness.failure(map.get(key))).toMatchObject({ code: 'tampered', server: undefined })
      views.add(shapes(asked(network, before)).join('\n'))
    }
    expect(views.size).toBe(1)
    expect(await harness.drive(map.at(3))).toEqual(database.byIndex[3])
  })

  test('of both servers in a block, committed to as it is, fails after the record was asked for like any', async () => {
    const { database } = keyed()
    const { malformed, isInIt } = withMalformedBlock(core, database, NAMES[0]!)
    const { harness, map, network } = await opened(sameOnBoth(malformed))
    const well = NAMES.findIndex(name => !isInIt(name))
    expect(await harness.drive(map.get(NAMES[well]!))).toEqual(database.contents.values[well])
    expect(await harness.failure(map.get(NAMES[0]!))).toMatchObject({
      code: 'protocol',
      message: expect.stringContaining('malformed'),
    })
    expect(shapes(asked(network, 4))).toEqual(shapes(asked(network).slice(0, 4)))
  })

  test('in an answer’s header, or its length, is its sender’s, and the same bytes are asked for again', async () => {
    const { network, database } = keyless()
    const { harness, map } = await opened(network)
    for (const at of [0, 4, 6, 8, 24, 28, 32, 36, 38]) {
      lying(network, A, answer => {
        answer[at]! ^= 1
      })
      const before = asked(network).length
      expect(await harness.failure(map.at(3)), `byte ${at}`).toMatchObject({ server: A })
      const seen = asked(network, before)
      expect(new Set(bodies(seen.filter(({ server }) => server === A))).size).toBe(1)
      expect(seen.map(({ server }) => server)).toEqual([A, B, A])
    }
    network.misbehave[A] = on(INSTANT_PATH, async genuine => ok((await bytesOf(genuine)).subarray(0, -1)))
    expect(await harness.failure(map.at(3))).toMatchObject({ code: 'protocol', server: A })
    network.misbehave[A] = undefined
    expect(await harness.drive(map.at(3))).toEqual(database.byIndex[3])
  })
})

describe('a database that changes', () => {
  test.each([1, 2, 3, 9])(
    '%i epochs further between block and record: both are of one epoch, and traffic is the same for all keys',
    async epochs => {
      const views = new Set<string>()
      for (const key of [NAMES[0]!, NAMES[0]!, 'absent.example', NAMES[4]!, 'new.example']) {
        const { network, database } = keyed()
        const living = new Living(network, database)
        const { harness, map } = await opened(network)
        let turned = 0
        // Published once both servers have the first block lookup's answers.
        network.misbehave[B] = on(INSTANT_PATH, (genuine, { body }) => {
          if (decodeInstantQuery(body).of === 'directory' && turned === 0) {
            for (; turned < epochs; turned++) {
              const batch = [remove(NAMES[4]!), add('new.example', 'added')]
              living.publish(turned === 0 ? batch : [change(NAMES[5]!, `${turned}`)])
            }
          }
          return genuine
        })
        const value = await harness.drive(map.get(key))
        // At the epoch before, while that is answered; else at the newest, all anew.
        const then = new Map(NAMES.map((name, i) => [name, database.contents.values[i]]))
        const now = new Map([...then, [NAMES[4]!, undefined], ['new.example', utf8('added')]])
        expect(value).toEqual((epochs === 1 ? then : now).get(key))
        expect(map.epoch).toBe(epochs === 1 ? 1 : 1 + epochs)
        const seen = asked(network)
        const anew = epochs === 1 ? [] : STEPS
        expect(seen.map(({ body }) => decodeInstantQuery(body).of)).toEqual([...STEPS, ...anew])
        expect(new Set(bodies(seen)).size).toBe(seen.length)
        views.add(shapes(seen).join('\n'))
      }
      expect(views.size).toBe(1)
    },
  )

  test('faster than lookups is given up after as many attempts as ever, the same for all keys', async () => {
    const views = new Set<string>()
    for (const key of [NAMES[0]!, 'absent.example', NAMES[7]!]) {
      const { network, database } = keyed()
      const living = new Living(network, database)
      const { harness, map } = await opened(network)
      network.misbehave[B] = on(INSTANT_PATH, (genuine, { body }) => {
        const { of } = decodeInstantQuery(body)
        if (of === 'directory') for (let i = 0; i < 2; i++) living.publish([change(NAMES[5]!, 'again')])
        return genuine
      })
      expect(await harness.failure(map.get(key))).toMatchObject({ code: 'version' })
      views.add(shapes(asked(network)).join('\n'))
      expect(asked(network)).toHaveLength(3 * 4)
    }
    expect(views.size).toBe(1)
  })

  test('sync() finds what was published before the call, also while an earlier one is under way', async () => {
    const { network, database } = keyed()
    const living = new Living(network, database)
    const { harness, map } = await opened(network)
    let published = false
    // The first request to A is answered before the epoch is there; that to B breaks, and is made again when it is.
    network.misbehave[B] = on('/v1/info', genuine => {
      if (published) return genuine
      published = true
      living.publish([change(NAMES[5]!, 'again')])
      return Promise.reject(new TypeError('the connection broke'))
    })
    const [first] = [map.sync()]
    await settle()
    expect(published).toBe(true)
    const second = map.sync()
    await harness.drive(Promise.all([first, second]))
    expect(map.epoch).toBe(2)
  })

  test('is followed without a byte but what servers show, and manifests; the directory neither', async () => {
    const { network, database } = keyed()
    const living = new Living(network, database)
    const { harness, map } = await opened(network)
    for (let i = 0; i < 3; i++) {
      const before = network.seen.length
      living.publish([add(`new ${i}`, 'x')])
      await harness.drive(map.sync())
      const paths = network.seen.slice(before).map(({ path }) => path)
      expect(paths).toEqual(['/v1/info', '/v1/info', `/v1/manifest?generation=1&epoch=${i + 2}`])
    }
    expect(await harness.drive(map.get('new 2'))).toEqual(utf8('x'))
  })

  test('is answered at the epoch before, and followed when that is not answered any more: all is asked anew', async () => {
    const living = livingKeyless()
    const { harness, map, network } = await opened(living.network)
    living.publish([edit(3, 'later'), append('grown'), append('again')])
    expect(await harness.drive(map.at(4))).toEqual(living.newest.byIndex[4])
    expect([map.epoch, map.size, asked(network).length]).toEqual([1, 15, 2])
    living.publish([edit(3, 'last!')])
    expect(await harness.drive(map.at(3))).toEqual(utf8('last!'))
    expect([map.epoch, map.size]).toEqual([3, 17])
    expect(await harness.drive(map.at(16))).toEqual(utf8('again'))
    expect(new Set(bodies(asked(network))).size).toBe(asked(network).length)
  })
})

describe('servers', () => {
  test('that are both away, or have no room, are named after as many attempts as fit into fifteen seconds', async () => {
    const { network, database } = keyless()
    const { harness, map } = await opened(network)
    const full = on(INSTANT_PATH, () => problem(503, 'instant_full', { 'retry-after': '1' }))
    const limited = on(INSTANT_PATH, () => problem(429, 'rate_limited', { 'retry-after': '9' }))
    for (const [name, misbehave, expected, attempts] of [
      ['silent', hang(INSTANT_PATH), { code: 'network', timedOut: true }, 2],
      ['full', full, { code: 'network', refusal: 'instant_full' }, 3],
      ['limited', limited, { code: 'rate_limited' }, 2],
    ] as const) {
      network.both(misbehave)
      const before = asked(network).length
      expect(await harness.failure(map.at(3)), name).toMatchObject(expected)
      expect(asked(network, before).length, name).toBe(2 * attempts)
      network.both(undefined)
    }
    expect(await harness.drive(map.at(3))).toEqual(database.byIndex[3])
  })

  test.each([[A], [B], [A, B]])(
    'of which %s offers no instant lookups are refused by name, unasked',
    async (...not) => {
      const { network } = keyed()
      for (const server of not) network.misbehave[server] = offersNoInstant(network, server)
      await expect(opened(network)).rejects.toMatchObject({
        name: 'UnsupportedError',
        message: expect.stringContaining(`${not[0]!.slice(8)} does not offer`.replace(/^.*\//, '')),
      })
      expect(asked(network)).toEqual([])
    },
  )

  test('estimate() does not name, nor leads to', async () => {
    const { network } = keyless(6, {})
    network.misbehave[B] = offersNoInstant(network, B)
    const { modes, mode } = await estimate([A, B], { fetch: network.fetch })
    expect([Object.keys(modes).sort(), mode]).toEqual([['full', 'local'], 'local'])
  })

  test('whose database has no commitments are refused before anything is asked', async () => {
    const values = Array.from({ length: 6 }, (_, i) => Uint8Array.of(i + 1))
    const { network } = keyless(6, {
      values,
      partitions: 2,
      manifest: { suite: SUITE_TAGS, commitments: new Uint8Array(64) },
    })
    await expect(opened(network)).rejects.toMatchObject({ name: 'UnsupportedError' })
    expect(asked(network)).toEqual([])
    expect(Object.keys((await estimate([A, B], { fetch: network.fetch })).modes).sort()).toEqual(['full', 'local'])
  })
})

test('close() does not wait for a sync() that was given up', async () => {
  const { harness, map, network } = await opened(keyless().network)
  network.misbehave[A] = hang('/v1/info')
  const given = new AbortController()
  const syncing = map.sync({ signal: given.signal })
  await settle()
  given.abort()
  await expect(syncing).rejects.toThrow()
  const before = harness.clock.now()
  await harness.drive(map.close())
  expect(harness.clock.now()).toBe(before)
})

test('close() waits for a lookup under way, and for what that needs of the servers', async () => {
  const { harness, map, network } = await opened(keyless().network)
  const { promise: held, resolve: answer } = deferred()
  network.misbehave[A] = after(INSTANT_PATH, held)
  const found = map.at(3)
  await settle()
  const closed = map.close()
  await settle()
  answer()
  expect(await harness.drive(found)).toBeDefined()
  await harness.drive(closed)
})
