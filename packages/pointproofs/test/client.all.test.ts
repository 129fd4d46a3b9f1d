// Lookups with one proof for a whole answer (docs/threat-model.md, Pointproofs): what a server may say that is not so, and
// what the client has to have before a query leaves.

import * as pointproofs from '@keyhush/pointproofs'
import { HEADER_BYTES, SUITE_POINTPROOFS, toHex } from '@keyhush/protocol'
import { describe, expect, test } from 'vitest'
import { THOROUGH } from '../../../tests/support/thorough.js'
import { chooseProofs } from '../../client/src/scheme/tapir/proofs.js'
import { someValues } from '../../client/test/support/database.js'
import { core, Harness, sameOnBoth } from '../../client/test/support/harness.js'
import { A, B, bytesOf, type Misbehave, ok, on, problem, queryIn } from '../../client/test/support/network.js'
import { World } from '../../client/test/support/world.js'
import { buildProved } from './support/database.js'

/** at hand: clocks here do not wait for what takes real time */
await pointproofs.loadPointproofs()
const proved = { proofs: 'pointproofs', pointproofs: async () => pointproofs } as const

const RECORDS = 11
const contents = { values: someValues(RECORDS, 5), partitions: 3 }
const database = buildProved(core, contents)
const development = buildProved(core, contents, true)
const ENTRIES = 3 * 5
const PROOF_AT = HEADER_BYTES + ENTRIES

const opened = async (network = sameOnBoth(database), seed = 7) => {
  const harness = new Harness(network, seed)
  return { harness, network, map: await harness.open(proved) }
}
const blob = (hash: Uint8Array) => `/v1/blobs/${toHex(hash)}`
const { rowsHash, keyHash } = database.manifest.pointproofs!

test('every record is found, by itself and among others; answers are records and 48 bytes', async () => {
  const { harness, network, map } = await opened()
  for (let index = 0; index < RECORDS; index++) {
    expect(await harness.drive(map.at(index))).toEqual(database.byIndex[index])
  }
  const suites = network.queries().map(({ body }) => body[6])
  expect(new Set(suites)).toEqual(new Set([SUITE_POINTPROOFS]))
  expect(map.stats.lastLookup?.bytesDown).toBe(2 * (HEADER_BYTES + ENTRIES + 48))
  expect(map.stats.held['tags']).toBe(0)
  // Key and rows: once for the life of the map, before the first query.
  const paths = network.seen.map(({ path }) => path)
  for (const hash of [rowsHash, keyHash]) {
    expect(paths.filter(path => path === blob(hash))).toHaveLength(1)
    expect(paths.indexOf(blob(hash))).toBeLessThan(paths.indexOf('/v1/answer'))
  }
})

/** One lookup against a server that lies: all that the caller and the servers could notice. */
async function outcome(server: string, misbehave: Misbehave, index: number) {
  const { harness, network, map } = await opened()
  network.misbehave[server] = misbehave
  const error = await harness.failure(map.at(index))
  const again = await harness.failure(map.at(0))
  const seen = { error: `${error.code} ${error.server} ${error.message}`, again: again.code, shapes: network.shapes() }
  await harness.drive(map.close())
  return { seen, error }
}

const changed = (change: (bytes: Uint8Array) => void) =>
  on('/v1/answer', async genuine => {
    const bytes = (await bytesOf(genuine)).slice()
    change(bytes)
    return ok(bytes)
  })
const set = (at: number, value: readonly number[]) => changed(bytes => bytes.set(value, at))
const flipped = (at: number, bits = 0x10) =>
  changed(bytes => {
    bytes[at]! ^= bits
  })
const identity = [0xc0, ...new Uint8Array(47)]
const outside = [0x80, ...new Uint8Array(46), 4] // on the curve, and not in the subgroup
const nowhere = [0x80, ...new Uint8Array(46), 1]

/** The proof of the answer before, of this server. */
function earlierProof(): Misbehave {
  let earlier: Uint8Array | undefined
  return on('/v1/answer', async genuine => {
    const bytes = (await bytesOf(genuine)).slice()
    const proof = bytes.slice(PROOF_AT)
    if (earlier !== undefined) bytes.set(earlier, PROOF_AT)
    earlier = proof
    return ok(bytes)
  })
}

/** An answer to other offsets, with the proof that is its own. */
const otherOffsets: Misbehave = on('/v1/answer', async (genuine, { body }) => {
  const bytes = (await bytesOf(genuine)).slice()
  const vectors = queryIn(body).slice(HEADER_BYTES)
  const offsets = new Uint16Array(vectors.buffer).map(offset => (offset + 1) % 3)
  bytes.set(database.answer(new Uint8Array(offsets.buffer), 'pointproofs'), HEADER_BYTES)
  return ok(bytes)
})

/** Of a database with the same records under another ceremony's key. */
const otherKey: Misbehave = on('/v1/answer', async (genuine, { body }) => {
  const bytes = (await bytesOf(genuine)).slice()
  bytes.set(development.answer(queryIn(body).slice(HEADER_BYTES), 'pointproofs'), HEADER_BYTES)
  return ok(bytes)
})

describe.each([A, B])('caught, named and condemned, whatever was asked: from %s', server => {
  test.each<[string, () => Misbehave]>([
    ["the first record's first bit", () => flipped(HEADER_BYTES)],
    ["the last record's last byte", () => flipped(PROOF_AT - 1)],
    ['the proof changed', () => flipped(PROOF_AT + 20)],
    ['the proof negated', () => flipped(PROOF_AT, 0x20)],
    ['the identity as proof', () => set(PROOF_AT, identity)],
    ['a proof outside the subgroup', () => set(PROOF_AT, outside)],
    ['a proof that is no point', () => set(PROOF_AT, nowhere)],
    ['zeros for a proof', () => set(PROOF_AT, [...new Uint8Array(48)])],
    [
      'all of it flipped',
      () =>
        changed(bytes => {
          for (let i = HEADER_BYTES; i < PROOF_AT + 48; i++) bytes[i]! ^= 0xff
        }),
    ],
    ['records swapped', () => changed(bytes => bytes.copyWithin(HEADER_BYTES, HEADER_BYTES + 5, HEADER_BYTES + 10))],
    ['an answer to other offsets', () => otherOffsets],
    ['an answer proved under another key', () => otherKey],
  ])('%s', async (_what, misbehave) => {
    const first = await outcome(server, misbehave(), 0)
    expect(first.error).toMatchObject({ name: 'TamperedError', server })
    expect(first.seen.again).toBe('condemned')
    for (let index = 1; index < RECORDS; index += THOROUGH ? 1 : 5) {
      expect((await outcome(server, misbehave(), index)).seen).toEqual(first.seen)
    }
  })

  test('the proof of an earlier answer', async () => {
    const { harness, network, map } = await opened()
    network.misbehave[server] = earlierProof()
    await harness.drive(map.at(3))
    expect(await harness.failure(map.at(3))).toMatchObject({ code: 'tampered', server })
  })

  test.each([
    ['row commitments', rowsHash],
    ['a key', keyHash],
  ])('%s that are not those agreed on: the other has them, and nothing is lost', async (_what, hash) => {
    const network = sameOnBoth(database)
    network.misbehave[server] = on(blob(hash), async genuine => {
      const bytes = (await bytesOf(genuine)).slice()
      bytes[100]! ^= 1
      return ok(bytes)
    })
    const { harness, map } = await opened(network)
    expect(await harness.drive(map.at(4))).toEqual(database.byIndex[4])
    const tampered = map.stats.incidents.filter(({ code }) => code === 'tampered')
    // Whoever is asked first; the other is not asked then.
    expect(tampered).toEqual(server === A ? [{ server: A, code: 'tampered' }] : [])
  })
})

/** What verifies, as the store has kept it. */
async function forget({ disk }: World): Promise<void> {
  await disk.putVerifier((await disk.read())!.record.hintId, new Uint8Array())
}

test('what verifies is had before a query leaves: without it nothing is sent, and no hint is lost', async () => {
  const world = new World({ network: sameOnBoth(database), database })
  const first = world.life()
  await world.drive((await world.drive(first.openIdle(proved))).close())
  await forget(world)
  const { network } = world
  network.misbehave[A] = network.misbehave[B] = on(blob(rowsHash), () => problem(503, 'not_ready'))
  const map = await world.drive(world.life().openIdle(proved))
  const asked = network.queries().length
  const error = await world.drive(map.at(1).catch(error => error))
  expect(error).toMatchObject({ code: 'network' })
  expect(network.queries()).toHaveLength(asked)
  // Both lie: named, nothing sent, and still nothing is condemned.
  network.misbehave[A] = network.misbehave[B] = on(blob(keyHash), () => ok(new Uint8Array(49_292)))
  expect(await world.drive(map.at(1).catch(error => error))).toMatchObject({ name: 'TamperedError' })
  expect([network.queries().length, map.condemned]).toEqual([asked, undefined])
  network.misbehave[A] = network.misbehave[B] = undefined
  expect(await world.drive(map.at(1))).toEqual(database.byIndex[1])
})

test('a lookup that was left pending is finished by the next life, which fetches what verifies first', async () => {
  const world = new World({ network: sameOnBoth(database), database })
  const map = await world.drive(world.life().openIdle(proved))
  await forget(world)
  const { network } = world
  network.misbehave[A] = network.misbehave[B] = on('/v1/answer', () => problem(503, 'not_ready'))
  expect(await world.drive(map.at(5).catch(error => error))).toMatchObject({ code: 'network' })
  const shown = network.queries().map(({ server, body }) => `${server} ${toHex(body)}`)
  network.misbehave[A] = network.misbehave[B] = undefined
  const before = network.seen.length
  const next = await world.drive(world.life().openIdle(proved))
  const since = network.seen.slice(before)
  const paths = since.map(({ path }) => path)
  expect(paths.indexOf(blob(rowsHash))).toBeLessThan(paths.indexOf('/v1/answer'))
  const resent = network
    .queries()
    .slice(-2)
    .map(({ server, body }) => `${server} ${toHex(body)}`)
  expect(shown).toEqual(expect.arrayContaining(resent)) // the same bytes
  expect(await world.drive(next.at(5))).toEqual(database.byIndex[5])
})

test('a lookup gives the thread back while it verifies, as often whatever is asked and whatever comes back', async () => {
  let pauses = 0
  const pause = async () => void pauses++
  const during = async (index: number, misbehave?: Misbehave) => {
    const network = sameOnBoth(database)
    const harness = new Harness(network, 7, { pause })
    const map = await harness.open(proved)
    if (misbehave !== undefined) network.misbehave[B] = misbehave
    pauses = 0
    const outcome: unknown = await harness.drive(map.at(index).catch(error => error))
    const spent = pauses
    await harness.drive(map.close())
    return { spent, error: outcome instanceof Error ? outcome.name : undefined }
  }
  const honest = await during(0)
  expect(honest.error).toBeUndefined()
  // After each piece of both answers, and one that is not verifying's own.
  expect(honest.spent).toBeGreaterThan(2)
  for (const index of THOROUGH ? database.byIndex.keys() : [5, 10]) expect(await during(index)).toEqual(honest)
  for (const lie of [flipped(HEADER_BYTES), set(PROOF_AT, nowhere)]) {
    const lied = await during(5, lie)
    expect(lied.error).toBe('TamperedError')
    expect(lied.spent).toBeGreaterThanOrEqual(honest.spent - 1)
  }
})

test('a key for development is refused before anything is downloaded, unless it is allowed', async () => {
  const network = sameOnBoth(development)
  const harness = new Harness(network, 1)
  const error = await harness.failure(harness.open(proved))
  expect(error).toMatchObject({ code: 'unsupported', reason: 'ceremony' })
  expect(network.seen.filter(({ path }) => path.startsWith('/v1/blobs/'))).toEqual([])
  const map = await harness.open({ ...proved, development: true })
  expect(await harness.drive(map.at(2))).toEqual(development.byIndex[2])
})

test('a hint under a key for development is not taken up by who does not allow that', async () => {
  const world = new World({ network: sameOnBoth(development), database: development })
  const allowed = { ...proved, development: true } as const
  await world.drive((await world.drive(world.life().openIdle(allowed))).close())
  const kept = world.life()
  await world.drive((await world.drive(kept.openIdle(allowed))).close())
  expect(kept.events.map(({ type }) => type)).not.toContain('discarded')
  const other = world.life()
  const map = await world.drive(other.openIdle({ proofs: 'auto', pointproofs: proved.pointproofs }))
  expect(other.events.find(({ type }) => type === 'discarded')).toMatchObject({ reason: 'mode' })
  expect(await world.drive(map.at(2))).toEqual(development.byIndex[2])
  expect(world.network.queries().at(-1)?.body[6]).not.toBe(SUITE_POINTPROOFS)
})

test('left open: tags where they fit, else Pointproofs where they are to be had, else Merkle', () => {
  const of = (suite: number, development: boolean) => (records: number) => {
    const partitionRecords = Math.ceil(records / 256)
    const { pointproofs, ...rest } = database.manifest
    const layout = { ...rest, suite, records, partitions: 256, partitionRecords, recordBytes: 32, directoryBytes: 0 }
    return suite === SUITE_POINTPROOFS ? { ...layout, pointproofs: { ...pointproofs!, development } } : layout
  }
  const chosen = (make: ReturnType<typeof of>, development = false) =>
    [2 ** 20, 2 ** 24].map(records => chooseProofs(core, make(records), { ...proved, proofs: 'auto', development }))
  expect(chosen(of(1, false))).toEqual(['tags', 'merkle'])
  expect(chosen(of(6, false))).toEqual(['tags', 'pointproofs'])
  expect(chosen(of(6, true))).toEqual(['tags', 'merkle'])
  expect(chosen(of(6, true), true)).toEqual(['tags', 'pointproofs'])
})

test('a lookup has at most 256 entries to verify, or one query', async () => {
  const keys = Array.from({ length: 100 }, (_, i) => `key ${i}`)
  const many = buildProved(core, { keys, values: someValues(100, 2), partitions: 10, partitionRecords: 12 })
  const harness = new Harness(sameOnBoth(many), 1)
  const map = await harness.open(proved)
  const found = await harness.drive(map.getMany(keys.slice(0, 25)))
  expect(found).toHaveLength(25)
  expect(found.every(value => value !== undefined)).toBe(true)
  expect(await harness.failure(map.getMany(keys.slice(0, 26)))).toMatchObject({ code: 'usage' })
})

test('who has these proofs has the other kinds as ever', async () => {
  const harness = new Harness(sameOnBoth(database), 1)
  for (const proofs of ['merkle', 'tags'] as const) {
    const map = await harness.open({ proofs })
    expect(await harness.drive(map.at(6))).toEqual(database.byIndex[6])
    await harness.drive(map.close())
  }
})
