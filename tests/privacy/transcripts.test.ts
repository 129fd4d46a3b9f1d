// The transcript recorder: everything either server could see of the SDK over real HTTP. Whatever is looked up, as long
// as it is equally often, the transcripts have one shape: they differ in the offsets of the vectors alone, and those
// are held to uniformity in uniformity.test.ts and in rust-core.

import { bytesToHex } from '@noble/hashes/utils.js'
import type { PirouetteMap } from '@pirouette/client'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { decodeManifest } from '../interop/reference/manifest.js'
import { decodeQuery, encodeQuery } from '../interop/reference/message.js'
import type { Exchange, Lie } from '../support/proxy.js'
import { type NetworkEvent, Rig, type RigClient } from '../support/rig.js'
import { type Data, distinctRecords } from '../support/servers.js'
import { answers, shapeOf } from '../support/shapes.js'

const values = distinctRecords(400, 8)
const keylessData: Data = { format: 'bin', content: Buffer.concat(values), recordBytes: 8 }
const names = Array.from({ length: 40 }, (_, i) => `name-${i}`)
const keyedData: Data = { format: 'csv', content: `key,value\n${names.map(name => `${name},${name}!\n`).join('')}` }

let keyless: Rig
let keyed: Rig
beforeAll(async () => {
  keyless = await Rig.start(keylessData)
  keyed = await Rig.start(keyedData)
})
afterAll(async () => {
  await keyless.close()
  await keyed.close()
})

type Use = (map: PirouetteMap, client: RigClient) => Promise<unknown>

/** What each server sees of a new client with its own randomness: all exchanges, in order. */
async function transcripts(rig: Rig, seed: string | undefined, use: Use): Promise<[Exchange[], Exchange[]]> {
  const client = rig.client(seed)
  const map = await client.open()
  await client.run(use(map, client))
  await client.run(map.close())
  return [[...rig.proxies[0].seen], [...rig.proxies[1].seen]]
}

async function shapes(rig: Rig, seed: string, use: Use) {
  const [a, b] = await transcripts(rig, seed, use)
  return { a: a.map(shapeOf), b: b.map(shapeOf) }
}

const inTurn =
  (indices: readonly number[]): Use =>
  async map => {
    for (const index of indices) expect(await map.at(index)).toEqual(new Uint8Array(values[index]!))
  }

test('any two sequences of lookups of equal number look the same to either server', async () => {
  const expected = await shapes(keyless, 'a', inTurn([0, 0, 0, 0]))
  expect(expected.a.length).toBe(1 + 8 + 4) // manifest, half of 16 partitions, lookups
  expect(expected.b.length).toBe(1 + 8 + 4)
  expect(await shapes(keyless, 'b', inTurn([399, 0, 399, 0]))).toEqual(expected)
  expect(await shapes(keyless, 'c', inTurn([17, 3, 250, 38]))).toEqual(expected)
})

test('the two servers share nothing but constants: the same headers from every client, and a public head', async () => {
  const first = await transcripts(keyless, 'first', inTurn([1, 2]))
  const second = await transcripts(keyless, 'second', inTurn([300, 300]))
  const manifest = decodeManifest(first[0][0]!.reply!.body)
  const blobs = manifest.contentHashes.map(contentHash => `/v1/blobs/${bytesToHex(contentHash)}`)
  const all = [...first, ...second].flat()

  for (const method of ['GET', 'POST']) {
    const headers = all.filter(exchange => exchange.method === method).map(exchange => exchange.headers)
    for (const each of headers) expect(each).toEqual(headers[0])
    const sent = headers[0]!.map(([name]) => name.toLowerCase())
    for (const forbidden of ['cookie', 'referer', 'origin', 'authorization', 'traceparent', 'if-none-match']) {
      expect(sent).not.toContain(forbidden)
    }
  }
  for (const { path } of all) expect([...blobs, '/v1/manifest', '/v1/answer']).toContain(path)
  for (const { body } of answers(all)) expect(encodeQuery(manifest, decodeQuery(manifest, body))).toEqual(body)
  for (const { reply } of answers(all)) expect(reply!.headers).not.toHaveProperty('content-encoding')
  // Four lookups, two vectors each, and no two of them alike.
  const bodies = answers(all).map(({ body }) => bytesToHex(body))
  expect(new Set(bodies).size).toBe(8)
})

test('every client, every lookup and every reset draw randomness of their own', async () => {
  const same = inTurn([7, 7])
  const bodies: [string[], string[]] = [[], []]
  for (let client = 0; client < 5; client++) {
    const seen = await transcripts(keyless, undefined, async (map, client) => {
      await same(map, client)
      await map.reset()
      await same(map, client)
    })
    for (const server of [0, 1] as const) {
      bodies[server].push(...answers(seen[server]).map(({ body }) => bytesToHex(body)))
    }
  }
  // 20 vectors of 25^16 possible ones each: two are equal by chance with a probability below 10⁻¹⁹. Across the servers
  // they may be: what refreshed a column is what retrieves the same index next, but for one entry in 25.
  for (const seen of bodies) {
    expect(seen.length).toBe(20)
    expect(new Set(seen).size).toBe(20)
  }
})

test('both servers are asked before either has answered', async () => {
  const client = keyless.client('both')
  const map = await client.open()
  for (let lookup = 0; lookup < 3; lookup++) {
    client.events.length = 0
    await client.run(map.at(5))
    const [first, second, ...rest] = client.events
    expect([first!.kind, second!.kind]).toEqual(['fetch called', 'fetch called'])
    expect(first!.url).not.toBe(second!.url)
    expect(rest.map(({ kind }) => kind).sort()).toEqual(
      ['response begun', 'response begun', 'response read', 'response read'].sort(),
    )
  }
  await client.run(map.close())
})

describe('keys', () => {
  const lookUp =
    (keys: readonly string[]): Use =>
    async map => {
      for (const key of keys) {
        const expected = names.includes(key) ? new TextEncoder().encode(`${key}!`) : undefined
        expect(await map.get(key)).toEqual(expected)
      }
    }

  test('present, absent and repeated ones look the same, whether asked for with get or has', async () => {
    const expected = await shapes(keyed, 'present', lookUp(['name-1', 'name-2', 'name-3']))
    expect(await shapes(keyed, 'absent', lookUp(['x', 'nobody', 'x'.repeat(4096)]))).toEqual(expected)
    expect(await shapes(keyed, 'repeated', lookUp(['name-7', 'name-7', 'name-7']))).toEqual(expected)
    expect(await shapes(keyed, 'absent again', lookUp(['nobody', 'nobody', 'name-1']))).toEqual(expected)
    const has: Use = async map => {
      for (const key of ['name-1', 'nobody', 'name-1']) expect(await map.has(key)).toBe(names.includes(key))
    }
    expect(await shapes(keyed, 'has', has)).toEqual(expected)
  })

  test('a padded batch looks the same for any number of them, equal ones included', async () => {
    const batch =
      (keys: readonly string[]): Use =>
      map =>
        map.getMany(keys, { padTo: 4 })
    const expected = await shapes(keyed, 'four', batch(['name-1', 'name-2', 'nobody', 'name-3']))
    expect(await shapes(keyed, 'none', batch([]))).toEqual(expected)
    expect(await shapes(keyed, 'one', batch(['name-1']))).toEqual(expected)
    expect(await shapes(keyed, 'equal', batch(['name-1', 'name-1', 'name-1', 'name-1']))).toEqual(expected)
  })

  test('equal ones in a batch without padding are asked for as often as they stand there', async () => {
    const batch =
      (keys: readonly string[]): Use =>
      async map =>
        expect(await map.getMany(keys)).toHaveLength(3)
    const expected = await shapes(keyed, 'different', batch(['name-1', 'name-2', 'nobody']))
    expect(await shapes(keyed, 'equal', batch(['name-1', 'name-1', 'name-1']))).toEqual(expected)
  })

  test('several calls at once look like as many calls in turn', async () => {
    const expected = await shapes(keyed, 'in turn', lookUp(['name-1', 'name-2', 'name-3']))
    const atOnce: Use = map => Promise.all(['name-9', 'name-9', 'nobody'].map(key => map.get(key)))
    expect(await shapes(keyed, 'at once', atOnce)).toEqual(expected)
  })
})

describe('an abort', () => {
  const abortAt =
    (when: (client: RigClient, abort: () => void) => void): Use =>
    async (map, client) => {
      const controller = new AbortController()
      const given = map.at(3, { signal: controller.signal })
      const rejected = expect(given).rejects.toThrow('enough')
      when(client, () => controller.abort(new Error('enough')))
      await rejected
      client.onEvent = () => {}
      expect(await map.at(4)).toEqual(new Uint8Array(values[4]!))
    }

  /** Aborts at the n-th event of this kind. */
  const atEvent = (kind: NetworkEvent, n: number) => (client: RigClient, abort: () => void) => {
    let left = n
    client.onEvent = happened => {
      if (happened === kind && --left === 0) abort()
    }
  }

  test.each<[string, (client: RigClient, abort: () => void) => void]>([
    ['when the first request has left', atEvent('fetch called', 1)],
    ['when both requests have left', atEvent('fetch called', 2)],
    ['when the first answer begins', atEvent('response begun', 1)],
    ['when the second answer begins', atEvent('response begun', 2)],
    ['when the first answer is there', atEvent('response read', 1)],
    ['when both answers are there', atEvent('response read', 2)],
  ])('%s cannot be seen', async (_, when) => {
    const expected = await shapes(keyless, 'undisturbed', inTurn([3, 4]))
    expect(await shapes(keyless, 'aborted', abortAt(when))).toEqual(expected)
  })

  test('before its turn withdraws a call: nothing is sent for it', async () => {
    const expected = await shapes(keyless, 'one call', inTurn([4]))
    const withdrawn: Use = async (map, client) => {
      const controller = new AbortController()
      const running = inTurn([4])(map, client)
      const waiting = map.at(3, { signal: controller.signal })
      controller.abort(new Error('enough'))
      await expect(waiting).rejects.toThrow('enough')
      await running
    }
    expect(await shapes(keyless, 'withdrawn', withdrawn)).toEqual(expected)
  })
})

describe.each<[string, Lie]>([
  ['silence', () => undefined],
  ['a broken connection', (_genuine, _exchange, connection) => void connection.destroy()],
  ['a refusal', genuine => ({ ...genuine, status: 503, headers: {}, body: new Uint8Array() })],
])('after %s instead of an answer', (_, lie) => {
  const failThen =
    (server: 0 | 1, next: Use): Use =>
    async (map, client) => {
      const proxy = keyless.proxies[server]
      proxy.lie = (genuine, exchange, connection) =>
        exchange.path === '/v1/answer' ? lie(genuine, exchange, connection) : genuine
      expect(await client.failure(map.at(3))).toMatchObject({ code: 'network', server: proxy.url })
      proxy.lie = undefined
      await next(map, client)
    }

  test.each([0, 1] as const)(
    'of server %d a retry looks the same for the same record and for another',
    async server => {
      const expected = await shapes(keyless, 'same', failThen(server, inTurn([3])))
      expect(await shapes(keyless, 'other partition', failThen(server, inTurn([399])))).toEqual(expected)
      expect(await shapes(keyless, 'neighbour', failThen(server, inTurn([4])))).toEqual(expected)
    },
  )

  test('the vectors that were sent are the only ones sent until they are answered', async () => {
    const sent = await transcripts(keyless, 'resent', failThen(0, inTurn([17])))
    for (const [server, times] of [
      [0, 3],
      [1, 1],
    ] as const) {
      const bodies = answers(sent[server]).map(({ body }) => bytesToHex(body))
      // Attempts that failed, the same once more when the next call finishes the batch, then that call's own.
      expect(bodies.length).toBe(times + 2)
      expect(new Set(bodies.slice(0, -1)).size).toBe(1)
      expect(bodies.at(-1)).not.toBe(bodies[0])
    }
  })
})
