// Replies of something else than a Keyhush server are the network's fault; and what `open({ fetch })` may return.

import { describe, expect, test } from 'vitest'
import { NetworkError, open } from '../src/index.js'
import { Harness, keyed, keyless, NAMES, openedOn, refusedBy } from './support/harness.js'
import { A, B, bytesOf, ok, on, problem } from './support/network.js'

const html = (status: number) => () =>
  new Response('<!doctype html><h1>Log in</h1>', { status, headers: { 'content-type': 'text/html; charset=utf-8' } })
const json = (status: number) => () => Response.json({ statusCode: status, error: 'Not Found' }, { status })

const OTHERS: [string, string, () => Response][] = [
  ['a page', 'status 200 and text/html', html(200)],
  ...[204, 206, 302, 307, 403, 404, 407, 411, 451, 502, 511].map((status): [string, string, () => Response] => [
    `status ${status}`,
    status === 302 || status === 307 ? 'a redirect' : `status ${status}`,
    status === 204 ? () => new Response(null, { status }) : html(status),
  ]),
  ['JSON of the app around it', 'status 200 and application/json', () => Response.json({ ok: true })],
  ['JSON and status 404', 'status 404', json(404)],
  [
    'a redirect that a browser hides',
    'a redirect',
    () => Object.defineProperty(Response.error(), 'type', { value: 'opaqueredirect' }),
  ],
  [
    'a redirect that was followed',
    'a redirect',
    () => Object.defineProperty(ok(new Uint8Array(9)), 'redirected', { value: true }),
  ],
]

describe.each(OTHERS)('%s', (_, came, reply) => {
  test.each(['/v1/info', '/v1/manifest', '/v1/blobs/'])(
    'to %s of both servers: retryable, and says what came',
    async path => {
      const { network } = keyless()
      network.both(on(path, reply))
      const error = await refusedBy({ network })
      expect(error).toMatchObject({ name: 'NetworkError', code: 'network', retryable: true })
      const contents = { '/v1/info': 'no info', '/v1/manifest': 'no manifest' }[path]
      const what = contents === undefined ? came : came.replace(/^status 200 and .*/, `status 200 and ${contents}`)
      expect(error.message).toContain(`got ${what} of no Keyhush server`)
      const asked = network.seen.map(seen => new URL(seen.url)).map(({ pathname, search }) => pathname + search)
      const [, said] = /expected a reply at (\S+), got/.exec(error.message) ?? []
      expect([said?.startsWith(path), asked.some(each => each.endsWith(said!))]).toEqual([true, true])
    },
  )

  test('to a lookup: the same bytes three times, then the error; later the map answers', async () => {
    const { network, harness, map, database } = await openedOn(keyless())
    network.misbehave[B] = on('/v1/answer', reply)
    const error = await harness.failure(map.at(3))
    expect(error).toMatchObject({ code: 'network', retryable: true, server: B })
    expect(error.message).toContain(`got ${came} of no Keyhush server`)
    const sent = network.queries().filter(({ server }) => server === B)
    expect([sent.length, new Set(sent.map(({ body }) => Buffer.from(body).toString('hex'))).size]).toEqual([3, 1])
    network.both(undefined)
    expect(await harness.drive(map.at(3))).toEqual(database.byIndex[3])
  })
})

test('a blob that both servers no longer have: retryable, since they may have gone on; later the map opens', async () => {
  const { network } = keyless()
  network.both(on('/v1/blobs/', () => problem(404, 'not_found')))
  const error = await refusedBy({ network })
  expect(error).toMatchObject({ code: 'version', refusal: 'not_found', retryable: true })
  expect(error.message).toMatch(/expected a blob of an epoch .* no longer has it, or not yet; call again/)
  network.both(undefined)
  await openedOn({ network })
})

test.each([
  ['a page', html(404), `${A} and ${B}: expected a reply at /v1/info, got status 404`],
  ['nobody', () => Promise.reject(new TypeError('fetch failed')), `${A} and ${B}: expected an answer, got none`],
  ['too often', () => problem(429, 'rate_limited'), `${A} and ${B}: expected an answer, got a refusal of too many`],
])('what both servers fail with stands once: %s', async (_, reply, said) => {
  const { network } = keyless()
  network.both(reply)
  const { message, other } = (await refusedBy({ network })) as NetworkError
  expect(message.startsWith(said)).toBe(true)
  expect(message.match(/expected /g)).toHaveLength(1)
  expect(other?.message.startsWith(`${B}: `)).toBe(true)
})

test('what they fail with stands for each if it differs', async () => {
  const { network } = keyless()
  network.misbehave[A] = html(404)
  network.misbehave[B] = html(403)
  const { message } = await refusedBy({ network })
  expect(message).toMatch(/^https:\/\/b.*got status 403.*; and https:\/\/a.*got status 404/)
})

test.each([
  ['no JSON', '<html>'],
  ['JSON of something else', '{"ok":true}'],
  ['a list', '[]'],
  ['null', 'null'],
  ['text', '"portal"'],
  ['nothing', ''],
])('/v1/info of %s, whatever it calls itself: something else', async (_, text) => {
  const { network } = keyless()
  for (const type of ['application/json', 'text/plain', 'application/octet-stream']) {
    network.both(on('/v1/info', () => new Response(text, { headers: { 'content-type': type } })))
    expect(await refusedBy({ network })).toMatchObject({ code: 'network', retryable: true })
  }
})

test('a reply that claims to be of a Keyhush server and is malformed is that server’s fault', async () => {
  const { network, harness, map } = await openedOn(keyless())
  network.misbehave[B] = on('/v1/answer', async genuine => ok((await bytesOf(genuine)).fill(0, 0, 4)))
  expect(await harness.failure(map.at(3))).toMatchObject({ code: 'protocol', retryable: false, server: B })
  const { network: other } = keyless()
  other.both(on('/v1/info', () => Response.json({ ...other.info(A), epochs: 'none' })))
  expect(await refusedBy({ network: other })).toMatchObject({ code: 'protocol', retryable: false })
})

test.each([
  ['a page', html(404)],
  ['JSON of the app around it', json(404)],
])('a 404 of any shape for a route that not every server has means that it is not here: %s', async (_, reply) => {
  const { network } = keyless()
  network.both((seen, _genuine) => (['/v1/fence', '/v1/events'].includes(seen.path) ? reply() : undefined))
  const reasons: string[] = []
  const harness = new Harness(network)
  const map = await harness.open({
    push: true,
    onEvent: event => void (event.type === 'unfenced' && reasons.push(event.reason)),
  })
  await harness.drive(map.at(1))
  expect(reasons).toEqual(['none'])
  expect(harness.clock.waiting).toBe(0) // nobody asks again
  expect(
    network.seen
      .filter(({ path }) => path === '/v1/events')
      .map(({ server }) => server)
      .sort(),
  ).toEqual([A, B])
})

test('a fence that a server does not offer is not asked', async () => {
  const { network } = keyless()
  network.fence = false
  const { harness, map } = await openedOn({ network })
  await harness.drive(map.at(1))
  expect([map.stats.fenced, network.claims()]).toEqual([false, []])
})

describe('open({ fetch }) may return', () => {
  type Given = Parameters<typeof open>[0]['fetch']
  const opened = (change: (genuine: Response) => unknown, mode: 'instant' | 'full', push = false) => {
    const { network } = keyed()
    network.push = push
    const fetch = (async (url: string, init: RequestInit) => change(await network.fetch(url, init))) as Given
    return {
      network,
      map: open({ servers: [A, B], mode, storage: 'memory', push, proofs: mode === 'full' ? 'merkle' : 'auto', fetch }),
    }
  }
  const like = (genuine: Response, body: object) => ({ status: genuine.status, headers: genuine.headers, ...body })
  async function* pieces(genuine: Response) {
    const bytes = Buffer.from(await genuine.arrayBuffer())
    for (let at = 0; at < bytes.length; at += 100) yield bytes.subarray(at, at + 100)
  }

  test.each<[string, (genuine: Response) => unknown]>([
    ['a stream of Node', genuine => like(genuine, { body: pieces(genuine) })],
    ['no body, but bytes', genuine => like(genuine, { arrayBuffer: () => genuine.arrayBuffer() })],
    ['a body that it cannot stream', genuine => like(genuine, { body: {}, arrayBuffer: () => genuine.arrayBuffer() })],
  ])('%s', async (_, change) => {
    for (const mode of ['instant', 'full'] as const) {
      const map = await opened(change, mode).map
      expect([await map.has(NAMES[3]!), await map.getText(NAMES[3]!), await map.has('absent')]).toEqual([
        true,
        'vvv',
        false,
      ])
      await map.close()
    }
  })

  test('bytes in one piece, but no more than may come', async () => {
    const long = (genuine: Response) =>
      like(genuine, { arrayBuffer: async () => new ArrayBuffer((await genuine.arrayBuffer()).byteLength + 2 ** 20) })
    await expect(opened(long, 'instant').map).rejects.toMatchObject({ code: 'network' }) // JSON that is too long
    let read = 0
    const announced = () => ({
      ...{ status: 200, headers: new Headers({ 'content-length': `${2 ** 30}` }) },
      arrayBuffer: async () => new ArrayBuffer(++read),
    })
    await expect(opened(announced, 'instant').map).rejects.toMatchObject({ code: 'protocol' })
    expect(read).toBe(0)
  })

  test('no streams: then no events are read', async () => {
    const { network, map: opening } = opened(
      genuine => like(genuine, { arrayBuffer: () => genuine.arrayBuffer() }),
      'instant',
      true,
    )
    const map = await opening
    await expect.poll(() => network.seen.filter(({ path }) => path === '/v1/events').length).toBe(2)
    expect(await map.has(NAMES[3]!)).toBe(true)
    await map.close()
  })

  test.each([
    ['nothing', undefined],
    ['another library’s reply', { data: 'x', status: 200, headers: {} }],
    ['a reply without a body', { status: 200, headers: new Headers() }],
  ])('not %s: the error says what', async (_, reply) => {
    const error = await opened(() => reply, 'instant').map.catch(error => error)
    expect(error).toMatchObject({ code: 'usage', message: expect.stringContaining('fetch: expected a Response') })
    expect(error).not.toBeInstanceOf(NetworkError)
  })
})
