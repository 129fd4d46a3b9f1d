// Everything that either server can see of the SDK over real HTTP. The same number of lookups gives the same transcript,
// whatever is looked up, except for the offsets of the vectors; rust-core/core/tests/privacy.rs checks those.
//
// The refresh server is drawn at random, and transcripts show it: it alone is asked for the fence, and gets a claim with each
// query. So runs with equal roles are compared: each seed stands for a series, whose first member with these roles is used.

import type { KeyhushMap } from '@keyhush/client'
import { bytesToHex } from '@noble/hashes/utils.js'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { decodeManifest } from '../interop/reference/manifest.js'
import { decodeQuery, encodeQuery, suiteIn } from '../interop/reference/message.js'
import type { Exchange } from '../support/proxy.js'
import { Rig, type RigClient, type RigOptions } from '../support/rig.js'
import { type Data, distinctRecords } from '../support/servers.js'
import { answers, claimIn, fences, queryIn, shapeOf } from '../support/shapes.js'

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
  /** the refresh server of the two; undefined: whichever is drawn */
  readonly refresh?: 0 | 1 | undefined
}

/** A new client with randomness of its own that has drawn these roles. */
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

/** All exchanges of each server, in the order in which the client sent them. */
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

/** Which server gave which partition depends on who was quicker, before anything is looked up. Together they gave each once. */
async function shapes(rig: Rig, seed: string, use: Use, roles?: Roles & RigOptions) {
  const all = await transcripts(rig, seed, use, roles)
  const isDownload = ({ request }: ReturnType<typeof shapeOf>) => request.path.startsWith('/v1/blobs/')
  const [a, b] = all.map(seen => seen.map(shapeOf).filter(shape => !isDownload(shape))) as [Shapes, Shapes]
  const downloads = all.flatMap(seen => seen.map(shapeOf).filter(isDownload))
  return { a, b, downloads: downloads.sort((one, other) => one.request.path.localeCompare(other.request.path)) }
}
type Shapes = ReturnType<typeof shapeOf>[]

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
    expect(expected.downloads.length).toBe(8)
    expect(retrieve.length).toBe(2 + 4) // manifest and info, lookups
    const strict = roles.rollback === 'strict'
    expect(refresh.length).toBe(2 + 2 + 4 * (strict ? 2 : 1)) // a new hint is registered and confirmed
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
    expect(retrieve.map(paths)).toEqual(['/v1/info', '/v1/answer', '/v1/answer'])
    const ahead = roles.rollback === 'strict' ? ['/v1/fence'] : []
    expect(refresh.map(paths)).toEqual([
      ...['/v1/info', '/v1/fence'],
      ...[...ahead, '/v1/answer'],
      ...[...ahead, '/v1/answer'],
    ])
    expect(await revisit('b', [399, 0], [0, 399])).toEqual(expected)
    expect(await revisit('c', [1, 2], [3, 300])).toEqual(expected)
  })
})

test('two sequences look the same where there is no fence, for which the client does not ask', async () => {
  const fixed = await Rig.start(keylessData)
  try {
    const expected = await shapes(fixed, 'a', inTurn([0, 0, 0]))
    expect(expected.a.length).toBe(2 + 3)
    expect(expected.b.length).toBe(2 + 3)
    expect(await shapes(fixed, 'b', inTurn([399, 17, 399]))).toEqual(expected)
  } finally {
    await fixed.close()
  }
})

test('the two servers share nothing but constants: the same headers from every client, and a public head', async () => {
  const first = await transcripts(keyless, 'first', inTurn([1, 2]))
  const second = await transcripts(keyless, 'second', inTurn([300, 300]))
  const manifest = decodeManifest(first[0].find(({ path }) => path === '/v1/manifest')!.reply!.body)
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
  for (const { path } of all) expect([...blobs, '/v1/manifest', '/v1/info', '/v1/answer', '/v1/fence']).toContain(path)
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

test.each([
  ['both servers are asked before either has answered', 'confirm'],
  ['with rollback strict, both servers are asked once the fence has replied', 'strict'],
] as const)('%s', async (_, rollback) => {
  const { client, map } = await opened(keyless, 'both', { refresh: 1, rollback })
  const [first, second] = keyless.proxies
  const asked = [`fetch called ${first.url}/v1/answer`, `fetch called ${second.url}/v1/answer`]
  const fenced = ['fetch called', 'response begun', 'response read'].map(kind => `${kind} ${second.url}/v1/fence`)
  const ahead = rollback === 'strict' ? fenced : []
  for (let lookup = 0; lookup < 3; lookup++) {
    client.events.length = 0
    await client.run(map.at(5))
    const all = client.events.map(({ kind, url }) => `${kind} ${url}`)
    expect(all.slice(0, ahead.length)).toEqual(ahead)
    const [both, rest] = [all.slice(ahead.length, ahead.length + 2), client.events.slice(ahead.length + 2)]
    expect(both.sort()).toEqual([...asked].sort())
    const kinds = rest.map(({ kind }) => kind)
    expect(kinds.sort()).toEqual([...Array(2).fill('response begun'), ...Array(2).fill('response read')])
  }
  await client.run(map.close())
})
