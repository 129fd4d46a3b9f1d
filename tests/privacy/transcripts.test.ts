// The transcript recorder: everything either server could see of the SDK over real HTTP. Whatever is looked up, as long
// as it is equally often, the transcripts have one shape: they differ in the offsets of the vectors alone, and those
// are held to uniformity in uniformity.test.ts and in rust-core.
//
// Which server is the refresh server is drawn at random, and shows: it alone is asked for the rollback fence, and sent a
// claim behind each query. So runs are compared that have drawn alike: each seed is a series of seeds, of which the first
// counts that leads to these roles.

import type { KeyhushMap } from '@keyhush/client'
import { bytesToHex } from '@noble/hashes/utils.js'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { Reader } from '../interop/reference/bytes.js'
import { hash } from '../interop/reference/hash.js'
import { decodeManifest } from '../interop/reference/manifest.js'
import { decodeQuery, encodeQuery, suiteIn } from '../interop/reference/message.js'
import type { Exchange, Lie } from '../support/proxy.js'
import { type NetworkEvent, Rig, type RigClient, type RigOptions } from '../support/rig.js'
import { type Data, distinctRecords } from '../support/servers.js'
import { answers, claimIn, claims, fences, queryIn, shapeOf } from '../support/shapes.js'

const values = distinctRecords(400, 8)
const keylessData: Data = { format: 'bin', content: Buffer.concat(values), recordBytes: 8, partitions: 8 }
const names = Array.from({ length: 40 }, (_, i) => `name-${i}`)
const keyedData: Data = {
  format: 'csv',
  content: `key,value\n${names.map(name => `${name},${name}!\n`).join('')}`,
  partitions: 8,
}

let keyless: Rig
let keyed: Rig
beforeAll(async () => {
  keyless = await Rig.start(keylessData, { living: true })
  keyed = await Rig.start(keyedData, { living: true })
})
afterAll(async () => {
  await keyless.close()
  await keyed.close()
})

type Use = (map: KeyhushMap, client: RigClient) => Promise<unknown>

interface Roles {
  /** of the two, the one that is to be the refresh server; undefined: whichever is drawn */
  readonly refresh?: 0 | 1 | undefined
}

/** A new client whose randomness is its own, and which has drawn these roles. */
async function opened(
  rig: Rig,
  seed: string | undefined,
  { refresh, ...options }: Roles & RigOptions,
  kind: { readonly durable?: boolean } = {},
) {
  for (let draw = 0; ; draw++) {
    // (The same seed twice would register the same hint twice.)
    const series = `${expect.getState().currentTestName}, ${seed}, draw ${draw}`
    const client = rig.client(seed && series, kind)
    const map = await client.open(options)
    if (refresh === undefined || (await client.refreshServer()) === refresh) return { client, map }
    await client.run(map.close())
  }
}

/** What each server has seen: all exchanges, in the order in which the client sent them. */
function seenBy({ proxies }: Rig): [Exchange[], Exchange[]] {
  const inOrder = (seen: readonly Exchange[]) => [...seen].sort((a, b) => a.number - b.number)
  return [inOrder(proxies[0].seen), inOrder(proxies[1].seen)]
}

/** What each server sees of a new client. */
async function transcripts(
  rig: Rig,
  seed: string | undefined,
  use: Use,
  roles: Roles & RigOptions = { refresh: 1 },
): Promise<[Exchange[], Exchange[]]> {
  const { client, map } = await opened(rig, seed, roles)
  await client.run(use(map, client))
  await client.run(map.close())
  return seenBy(rig)
}

/** Lengths of queries and of the answers to them, headers of both included. */
const lookupsIn = (seen: readonly ReturnType<typeof shapeOf>[]) =>
  seen
    .filter(({ request }) => request.path === '/v1/answer')
    .map(({ request, reply }) => reply && [request.bytes, reply.bytes])

async function shapes(rig: Rig, seed: string, use: Use, roles?: Roles & RigOptions) {
  const [a, b] = await transcripts(rig, seed, use, roles)
  return { a: a.map(shapeOf), b: b.map(shapeOf) }
}

/** A claim, written from docs/protocol.md; id and hash in hex. */
function decodeClaim(bytes: Uint8Array) {
  const reader = new Reader(bytes)
  reader.expect('magic', 'PIRF')
  reader.expect('format', Uint8Array.of(1, 0))
  const kind = { 1: 'register', 2: 'confirm' }[reader.u16()]
  reader.take(16) // database
  const hintId = bytesToHex(reader.take(16))
  const version = Number(reader.u64())
  const requestHash = bytesToHex(reader.take(32))
  reader.end()
  return { kind, hintId, version, requestHash }
}

const inTurn =
  (indices: readonly number[]): Use =>
  async map => {
    for (const index of indices) expect(await map.at(index)).toEqual(new Uint8Array(values[index]!))
  }

describe.each<[string, Roles & RigOptions]>([
  ['the second being the refresh server', { refresh: 1 }],
  ['the first being the refresh server', { refresh: 0 }],
  ['the fence being waited for', { refresh: 1, rollback: 'strict' }],
  ['entries having proofs with them', { refresh: 1, proofs: 'merkle' }],
])('any two sequences of lookups of equal number look the same to either server, %s', (_, roles) => {
  test('on one visit', async () => {
    const expected = await shapes(keyless, 'a', inTurn([0, 0, 0, 0]), roles)
    const [retrieve, refresh] = roles.refresh === 1 ? [expected.a, expected.b] : [expected.b, expected.a]
    expect(retrieve.length).toBe(1 + 4 + 4) // manifest, half of 8 partitions, lookups
    const strict = roles.rollback === 'strict'
    expect(refresh.length).toBe(1 + 4 + 2 + 4 * (strict ? 2 : 1)) // a new hint is registered and confirmed
    // Each query of the refresh server has a claim behind it, and each of its answers a verdict.
    const claimed = lookupsIn(refresh).map(each => each?.map((bytes, i) => bytes - [80, 8][i]!))
    expect(claimed).toEqual(lookupsIn(retrieve))
    expect(new Set(lookupsIn(retrieve).map(String)).size).toBe(1)
    expect(await shapes(keyless, 'b', inTurn([399, 0, 399, 0]), roles)).toEqual(expected)
    expect(await shapes(keyless, 'c', inTurn([17, 3, 250, 38]), roles)).toEqual(expected)
  })

  test('on a later visit', async () => {
    const revisit = async (seed: string, before: readonly number[], after: readonly number[]) => {
      const { client, map } = await opened(keyless, seed, roles, { durable: true })
      await client.run(inTurn(before)(map, client))
      await client.run(map.close())
      for (const proxy of keyless.proxies) proxy.seen.length = 0
      const { refresh: _, ...options } = roles
      const again = await client.open(options)
      await client.run(inTurn(after)(again, client))
      await client.run(again.close())
      const [a, b] = seenBy(keyless)
      return { a: a.map(shapeOf), b: b.map(shapeOf) }
    }
    const expected = await revisit('a', [5, 5], [5, 5])
    const paths = ({ request }: ReturnType<typeof shapeOf>) => request.path
    const [retrieve, refresh] = roles.refresh === 1 ? [expected.a, expected.b] : [expected.b, expected.a]
    expect(retrieve.map(paths)).toEqual(['/v1/manifests?since=0', '/v1/answer', '/v1/answer'])
    const ahead = roles.rollback === 'strict' ? ['/v1/fence'] : []
    expect(refresh.map(paths)).toEqual([
      ...['/v1/manifests?since=0', '/v1/fence'],
      ...[...ahead, '/v1/answer'],
      ...[...ahead, '/v1/answer'],
    ])
    expect(await revisit('b', [399, 0], [0, 399])).toEqual(expected)
    expect(await revisit('c', [1, 2], [3, 300])).toEqual(expected)
  })
})

test('and so they do where there is no fence, which is found out once', async () => {
  const fixed = await Rig.start(keylessData)
  try {
    const expected = await shapes(fixed, 'a', inTurn([0, 0, 0]))
    expect(expected.a.length).toBe(1 + 4 + 3)
    expect(expected.b.length).toBe(1 + 4 + 1 + 3)
    expect(expected.b.filter(({ request }) => request.path === '/v1/fence')).toMatchObject([{ reply: { status: 404 } }])
    expect(await shapes(fixed, 'b', inTurn([399, 17, 399]))).toEqual(expected)
  } finally {
    await fixed.close()
  }
})

test('the two servers share nothing but constants: the same headers from every client, and a public head', async () => {
  const first = await transcripts(keyless, 'first', inTurn([1, 2]))
  const second = await transcripts(keyless, 'second', inTurn([300, 300]))
  const manifest = decodeManifest(first[0][0]!.reply!.body)
  const blobs = manifest.contentHashes.map(contentHash => `/v1/blobs/${bytesToHex(contentHash)}`)
  const all = [...first, ...second].flat()

  // A POST's length is that of its kind.
  const [bare, claimed] = [false, true].map(is => answers(all).filter(one => (claimIn(one) !== undefined) === is))
  expect([bare!.length, claimed!.length]).toEqual([4, 4])
  const kinds = [all.filter(({ method }) => method === 'GET'), bare!, claimed!, fences(all)]
  expect(kinds.flat().length).toBe(all.length)
  for (const kind of kinds) {
    const headers = kind.map(exchange => exchange.headers)
    for (const each of headers) expect(each).toEqual(headers[0])
    const sent = headers[0]!.map(([name]) => name.toLowerCase())
    for (const forbidden of ['cookie', 'referer', 'origin', 'authorization', 'traceparent', 'if-none-match']) {
      expect(sent).not.toContain(forbidden)
    }
  }
  for (const { path } of all) expect([...blobs, '/v1/manifest', '/v1/answer', '/v1/fence']).toContain(path)
  for (const exchange of answers(all)) {
    const query = queryIn(exchange)
    const suite = suiteIn(query) as 1 | 2
    expect(encodeQuery(manifest, decodeQuery(manifest, query, suite), suite)).toEqual(query)
  }
  for (const { reply } of answers(all)) expect(reply!.headers).not.toHaveProperty('content-encoding')
  // Four lookups, two vectors each, and no two of them alike.
  const queries = answers(all).map(exchange => bytesToHex(queryIn(exchange)))
  expect(new Set(queries).size).toBe(8)
})

describe('the fence', () => {
  const lookups = inTurn([7, 7, 300])

  test.each([0, 1] as const)(
    'is kept by the refresh server alone, be it the first or the second (%d)',
    async refresh => {
      const seen = await transcripts(keyless, 'a fence', lookups, { refresh })
      const [retrieves, refreshes] = [seen[1 - refresh]!, seen[refresh]!]
      expect(claims(retrieves)).toEqual([])
      const claimed = claims(refreshes).map(decodeClaim)
      const lookedUp = (lookups: number) => 2 ** 32 - 1 + lookups // at epoch 1
      const places = [0, lookedUp(0), lookedUp(0), lookedUp(1), lookedUp(2)]
      expect(claimed.map(({ version }) => version)).toEqual(places)
      expect(claimed.map(({ kind }) => kind)).toEqual(['register', ...Array(4).fill('confirm')])
      expect(new Set(claimed.map(({ hintId }) => hintId)).size).toBe(1)
      // Each names its batch, and nobody without the hint's secret can make the name: it is no hash of what was sent.
      const names = claimed.slice(2).map(({ requestHash }) => requestHash)
      expect(new Set(names).size).toBe(3)
      const sent = [...answers(refreshes), ...answers(retrieves)].flatMap(exchange => {
        const query = queryIn(exchange)
        return [query, query.subarray(40)].map(bytes => bytesToHex(hash(bytes)))
      })
      expect(sent).toHaveLength(12)
      expect(names.filter(name => sent.includes(name))).toEqual([])
      for (const { requestHash } of claimed.slice(0, 2)) expect(requestHash).toBe('00'.repeat(32))
      // And goes with them.
      expect(fences(refreshes)).toHaveLength(2)
      expect(answers(refreshes).map(exchange => decodeClaim(claimIn(exchange)!))).toEqual(claimed.slice(2))
    },
  )

  test('tells it nothing that the other server is told: neither id nor hash, whole or in part', async () => {
    const [retrieves, refreshes] = await transcripts(keyless, 'a fence', lookups)
    const claimed = claims(refreshes).map(decodeClaim)
    const secrets = new Set(claimed.flatMap(({ hintId, requestHash }) => [hintId, requestHash]))
    secrets.delete('00'.repeat(32))
    expect(secrets.size).toBe(1 + 3)
    // In all that either server is sent besides; a run of four random bytes is found by chance with a probability below 10⁻⁴.
    const elsewhere = [...retrieves, ...answers(refreshes)].map(exchange => {
      const { method, path, headers } = exchange
      return `${method} ${path} ${JSON.stringify(headers)} ${bytesToHex(queryIn(exchange))}`
    })
    const runs = [...secrets].flatMap(secret =>
      Array.from({ length: secret.length / 2 - 3 }, (_, i) => secret.slice(2 * i, 2 * i + 8)),
    )
    expect(runs.filter(run => elsewhere.some(text => text.includes(run)))).toEqual([])
  })

  test('knows every hint by another id', async () => {
    const ids: string[] = []
    for (let client = 0; client < 5; client++) {
      const seen = await transcripts(keyless, undefined, map => map.reset(), {})
      const claimed = claims(seen.flat()).map(decodeClaim)
      ids.push(...claimed.filter(({ kind }) => kind === 'register').map(({ hintId }) => hintId))
    }
    expect(ids.length).toBe(10)
    expect(new Set(ids).size).toBe(10)
  })

  const silent: Lie = () => undefined
  const refusing: Lie = genuine => ({ ...genuine, status: 503, headers: {}, body: new Uint8Array() })

  test.each([
    ['silent', 'confirm', silent],
    ['busy', 'confirm', refusing],
    ['silent', 'strict', silent],
    ['busy', 'strict', refusing],
  ] as const)('being %s, what it costs does not depend on what is asked (%s)', async (_, rollback, lie) => {
    const through =
      (indices: readonly number[]): Use =>
      async (map, client) => {
        const [, proxy] = keyless.proxies
        proxy.lie = (genuine, exchange, connection) =>
          claimIn(exchange) === undefined ? genuine : lie(genuine, exchange, connection)
        // The first goes along with its claim, which is lost, or not at all; it is finished before the next.
        const [first, second, third] = indices as [number, number, number]
        expect(await client.failure(map.at(first))).toMatchObject({ code: 'network', server: proxy.url })
        expect(await client.failure(map.at(second))).toMatchObject({ code: 'network', server: proxy.url })
        proxy.lie = undefined
        await inTurn([third])(map, client)
      }
    const roles = { refresh: 1, rollback } as const
    const expected = await shapes(keyless, 'same', through([3, 3, 3]), roles)
    expect(await shapes(keyless, 'other', through([3, 399, 0]), roles)).toEqual(expected)
    expect(await shapes(keyless, 'back again', through([250, 4, 250]), roles)).toEqual(expected)
  })
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
      bodies[server].push(...answers(seen[server]).map(exchange => bytesToHex(queryIn(exchange))))
    }
  }
  // 20 vectors of 50^8 possible ones each: two are equal by chance with a probability below 10⁻¹⁰. Across the servers
  // they may be: what refreshed a column is what retrieves the same index next, but for one entry in 50.
  for (const seen of bodies) {
    expect(seen.length).toBe(20)
    expect(new Set(seen).size).toBe(20)
  }
})

test('a redirect brings the server it points to no query of the other', async () => {
  const { client, map } = await opened(keyless, 'redirect', { refresh: 1 })
  const [first, second] = keyless.proxies
  for (const { seen } of keyless.proxies) seen.length = 0
  second.lie = (_genuine, { path }) => ({
    ...{ status: 307, headers: { location: first.url + path } },
    body: new Uint8Array(),
  })
  expect(await client.failure(map.at(5))).toMatchObject({ code: 'network', server: second.url })
  expect([answers(first.seen).length, answers(second.seen).length]).toEqual([1, 3])
  await client.run(map.close())
})

test('both servers are asked before either has answered', async () => {
  const { client, map } = await opened(keyless, 'both', { refresh: 1 })
  for (let lookup = 0; lookup < 3; lookup++) {
    client.events.length = 0
    await client.run(map.at(5))
    const asked = client.events.slice(0, 2)
    expect(asked.map(({ kind }) => kind)).toEqual(Array(2).fill('fetch called'))
    const [first, second] = keyless.proxies
    expect(asked.map(({ url }) => url).sort()).toEqual([`${first.url}/v1/answer`, `${second.url}/v1/answer`].sort())
    const rest = client.events.slice(2).map(({ kind }) => kind)
    expect(rest.sort()).toEqual([...Array(2).fill('response begun'), ...Array(2).fill('response read')])
  }
  await client.run(map.close())
})

test('where the fence is waited for, both servers are asked when it has been heard', async () => {
  const { client, map } = await opened(keyless, 'strict', { refresh: 1, rollback: 'strict' })
  for (let lookup = 0; lookup < 3; lookup++) {
    client.events.length = 0
    await client.run(map.at(5))
    const path = (url: string) => new URL(url).pathname
    expect(client.events.slice(0, 5).map(({ kind, url }) => `${kind} ${path(url)}`)).toEqual([
      ...['fetch called /v1/fence', 'response begun /v1/fence', 'response read /v1/fence'],
      ...['fetch called /v1/answer', 'fetch called /v1/answer'],
    ])
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

  // Two queries, one of them with a claim; or a claim, and then two queries.
  describe.each([
    ['confirm', 2],
    ['strict', 3],
  ] as const)('(%s, %d requests)', (rollback, requests) => {
    const roles = { refresh: 1, rollback } as const
    const moments = Array.from({ length: requests }, (_, i) => i + 1).flatMap(n => [
      [`request ${n} has left`, 'fetch called', n] as const,
      [`reply ${n} begins`, 'response begun', n] as const,
      [`reply ${n} is there`, 'response read', n] as const,
    ])

    let expected: Awaited<ReturnType<typeof shapes>>
    beforeAll(async () => {
      expected = await shapes(keyless, `undisturbed, ${rollback}`, inTurn([3, 4]), roles)
    })

    test.each(moments)('when %s cannot be seen', async (_, kind, n) => {
      expect(await shapes(keyless, 'aborted', abortAt(atEvent(kind, n)), roles)).toEqual(expected)
    })
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
      const queries = answers(sent[server]).map(exchange => bytesToHex(queryIn(exchange)))
      // Attempts that failed, the same once more when the next call finishes the batch, then that call's own.
      expect(bodies.length).toBe(times + 2)
      expect(new Set(bodies.slice(0, -1)).size).toBe(1)
      expect(queries.at(-1)).not.toBe(queries[0])
    }
  })
})
