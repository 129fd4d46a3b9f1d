// Light hints whose answers have one proof each: made as those for Merkle proofs are, so that nothing of it shows which they are for,
// and held to the same: a lie about the hint falls back to a download, a lie in an answer condemns.

import {
  decodeLightRequest,
  HEADER_BYTES,
  type LightPart,
  lightPath,
  lightReplyBytes,
  SUITE_MERKLE_BLAKE3,
  SUITE_POINTPROOFS,
  toHex,
} from '@keyhush/protocol'
import { loadPointproofs } from '@keyhush/wasm/pointproofs'
import { describe, expect, test } from 'vitest'
import { THOROUGH } from '../../../tests/support/thorough.js'
import type { MapEvent } from '../src/index.js'
import { light } from '../src/scheme/light/light.js'
import { someValues } from './support/database.js'
import { core, Harness, sameOnBoth } from './support/harness.js'
import { A, B, bytesOf, type Misbehave, type Network, ok, on } from './support/network.js'
import { buildProved, nextProved } from './support/pointproofs.js'
import { World } from './support/world.js'

const module = await loadPointproofs()
const environment = { loadPointproofs: async () => module }

const keys = Array.from({ length: 8 }, (_, i) => `key ${i}`)
const contents = { keys, values: someValues(8, 5), partitions: 2, partitionRecords: 5 }
const database = buildProved(core, contents)
const { rowsHash, keyHash } = database.manifest.pointproofs!
const options = { mode: 'light', proofs: 'pointproofs' } as const
const PARTS = ['hint', 'tags'] as const
const PATHS = PARTS.map(lightPath)
const VERIFIER = [rowsHash, keyHash].map(hash => `/v1/blobs/${toHex(hash)}`)

async function opened(network: Network = sameOnBoth(database), seed = 5) {
  const harness = new Harness(network, seed, environment)
  const events: MapEvent[] = []
  const map = await harness.open({
    ...options,
    push: false,
    onEvent: event => void (event.type === 'storage' || events.push(event)),
  })
  return { harness, map, events, network }
}

function changing(path: string, change: (body: Uint8Array) => void): Misbehave {
  return on(path, async genuine => {
    const bytes = (await bytesOf(genuine)).slice()
    change(bytes.subarray(HEADER_BYTES))
    return ok(bytes)
  })
}

const tampered = (map: { readonly stats: { readonly incidents: readonly { server: string; code: string }[] } }) =>
  map.stats.incidents.filter(({ code }) => code === 'tampered').map(({ server }) => server)

test('what verifies is fetched first; then servers are shown what they are for Merkle proofs; every record is found', async () => {
  const { harness, map, network, events } = await opened()
  const costs = light.costs(core, database.manifest, { proofs: 'pointproofs' })
  expect([map.mode, costs.proofs, events]).toEqual(['light', 'pointproofs', []])
  const asked = network.seen.filter(({ path }) => PATHS.includes(path))
  expect(asked).toHaveLength(2)
  for (const { path, body } of asked) {
    const request = decodeLightRequest(PARTS[PATHS.indexOf(path)]!, body)
    expect([request.suite, request.secrets.length]).toEqual([SUITE_MERKLE_BLAKE3, path === PATHS[0] ? 64 : 8])
  }
  const paths = network.seen.map(({ path }) => path)
  for (const path of VERIFIER) {
    expect(paths.filter(other => other === path)).toHaveLength(1)
    expect(paths.indexOf(path)).toBeLessThan(network.seen.indexOf(asked[0]!))
  }
  const prepared = PARTS.reduce((sum, part) => sum + lightReplyBytes(part, database.manifest), 0)
  expect(costs.prepareBytes).toBe(prepared + costs.held['verifier']!)
  expect(map.stats.held).toEqual({ tags: 0, ...costs.held })
  for (const [i, key] of keys.entries()) expect(await harness.drive(map.get(key))).toEqual(contents.values[i])
  expect(await harness.drive(map.get('absent'))).toBeUndefined()
  expect(new Set(network.queries().map(({ body }) => body[6]))).toEqual(new Set([SUITE_POINTPROOFS]))
  const { lookupBytesUp, lookupBytesDown } = costs
  expect(map.stats.lastLookup).toMatchObject({ bytesUp: lookupBytesUp, bytesDown: lookupBytesDown })
})

describe('a lie about the hint', () => {
  const places = (part: LightPart) => {
    const bytes = lightReplyBytes(part, database.manifest) - HEADER_BYTES
    const step = THOROUGH ? 3 : bytes >> 1
    return Array.from({ length: Math.ceil(bytes / step) }, (_, i) => [part, Math.min(bytes - 1, i * step)] as const)
  }
  test.each(PARTS.flatMap(places))(
    'in what makes it (%s, byte %i) is refused and told on; a download takes its place, under the same proofs',
    async (part, at) => {
      const network = sameOnBoth(database)
      const lie = changing(lightPath(part), body => {
        body[at]! ^= 1 << (at & 7)
      })
      network.misbehave[A] = network.misbehave[B] = lie
      const { harness, map, events } = await opened(network)
      const liar = network.seen.find(({ path }) => path === lightPath(part))!.server
      expect([tampered(map), map.mode, events]).toEqual([[liar], 'full', []])
      expect(network.queries()).toEqual([])
      expect(await harness.drive(map.get('key 3'))).toEqual(contents.values[3])
      expect(network.queries().map(({ body }) => body[6])).toEqual([SUITE_POINTPROOFS, SUITE_POINTPROOFS])
    },
  )

  test('about what verifies: the other server has it, and no attempt is lost', async () => {
    for (const path of VERIFIER) {
      const network = sameOnBoth(database)
      network.misbehave[A] = changing(path, body => {
        body[9]! ^= 1
      })
      const { harness, map } = await opened(network)
      expect([map.mode, tampered(map)]).toEqual(['light', [A]])
      expect(await harness.drive(map.get('key 1'))).toEqual(contents.values[1])
    }
  })
})

const ENTRIES = 2 * database.manifest.recordBytes
describe.each([A, B])('a lie in an answer, from %s', server => {
  test.each<[string, (body: Uint8Array) => void]>([
    ['a record', body => body.set([body[3]! ^ 1], 3)],
    ['the last byte of the records', body => body.set([body[ENTRIES - 1]! ^ 0x80], ENTRIES - 1)],
    ['the proof', body => body.set([body[ENTRIES + 9]! ^ 4], ENTRIES + 9)],
    ['no proof', body => body.set(new Uint8Array(48), ENTRIES)],
    ['all of it', body => body.set(body.subarray(0, ENTRIES + 48).map(byte => byte ^ 0xff))],
  ])('is caught, names it and condemns, whatever was asked: %s', async (_, lie) => {
    for (const key of THOROUGH ? [...keys, 'absent'] : ['key 2', 'absent']) {
      const { harness, map, network } = await opened()
      network.misbehave[server] = changing('/v1/answer', lie)
      expect(await harness.failure(map.get(key))).toMatchObject({ name: 'TamperedError', server })
      network.misbehave[server] = undefined
      expect(await harness.failure(map.get('key 0'))).toMatchObject({ code: 'condemned' })
    }
  })
})

test('it follows the database, and the next life finds what verifies in the store', async () => {
  const world = new World({ network: sameOnBoth(database), database })
  const open = () => world.drive(world.life(environment).openIdle(options))
  const map = await open()
  const value = new TextEncoder().encode('third')
  const second = nextProved(core, database, [{ op: 'edit', key: 'key 3', value }])
  for (const server of [A, B]) world.network.publish(server, second)
  await world.drive(map.sync())
  expect(await world.drive(map.get('key 3'))).toEqual(value)
  await world.drive(map.close())
  const again = await open()
  expect([again.mode, again.epoch]).toEqual(['light', 2])
  expect(await world.drive(again.get('key 3'))).toEqual(value)
  const blobs = world.network.seen.filter(({ path }) => VERIFIER.includes(path))
  expect(blobs).toHaveLength(2)
  await world.auditor.assertSound()
})

test('a key for development is refused before anything is asked, unless it is allowed', async () => {
  const development = buildProved(core, contents, true)
  const network = sameOnBoth(development)
  const harness = new Harness(network, 1, environment)
  const error = await harness.failure(harness.open(options))
  expect(error).toMatchObject({ code: 'unsupported', reason: 'ceremony' })
  expect(network.seen.filter(({ path }) => PATHS.includes(path))).toEqual([])
  const map = await harness.open({ ...options, allowDevelopmentCeremony: true })
  expect(await harness.drive(map.get('key 2'))).toEqual(contents.values[2])
})
