// How a coordinator asks its shards: which replica, how long, and what counts as a failure.

import { once } from 'node:events'
import { createServer, type RequestListener, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { decodeManifest, encodeManifest } from '@keyhush/protocol'
import { expect, onTestFinished, test } from 'vitest'
import { Fabric, manifestCall, type Replica } from '../dist/sharded/fabric.js'
import { small } from './helpers.js'

/** A server whose first path is the shard: `http://127.0.0.1:1/3/v1/…`. */
async function site(listener: RequestListener): Promise<string> {
  const server = createServer(listener).listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(() => {
    server.close()
    server.closeAllConnections()
  })
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/{shard}`
}

function fabricOf(...templates: readonly string[]): Fabric {
  const fabric = new Fabric(4, templates)
  onTestFinished(() => fabric.close())
  return fabric
}

const refuse = (response: ServerResponse, status: number, code: string, more: object = {}) =>
  response.writeHead(status).end(JSON.stringify({ code, message: 'because', ...more }))

const call = { path: '/v1/instant', method: 'POST', body: Buffer.from('query'), most: 6 } as const
const text = (bytes: Uint8Array) => Buffer.from(bytes).toString()
const away = { code: 'not_ready', message: expect.not.stringMatching(/3|127/) }

test('a failed replica is not asked again while another is sound, and is once it shows the manifest of the epoch in use', async () => {
  const { manifest, manifestBytes } = await small()
  const older = { manifest, bytes: manifestBytes }
  const newer = decodeManifest(manifestBytes)
  const head = { manifest: { ...newer, expires: 1 }, bytes: encodeManifest({ ...newer, expires: 1 }) }
  const [asked, probes] = [[] as string[], [] as string[]]
  let [isBroken, shown] = [true, older.bytes]
  let meanwhile: string | undefined
  const first = await site((request, response) => {
    if (request.method === 'GET') {
      probes.push(request.url!)
      // Two probes see the epoch before: that is not enough.
      if (probes.length === 3) {
        shown = head.bytes
        meanwhile = fabric.problem
      }
      return response.end(shown)
    }
    asked.push(`first ${request.url}`)
    return isBroken ? refuse(response, 500, 'internal') : response.end('answer')
  })
  const second = await site((request, response) => {
    asked.push(`second ${request.url}`)
    response.end('answer')
  })
  const fabric = fabricOf(first, second)
  fabric.head = [older, older, older, head]
  const changes: Replica[] = []
  const soundAgain = new Promise<void>(resolve => {
    fabric.onChange = replica => {
      changes.push({ ...replica })
      if (replica.problem === undefined) resolve()
    }
  })
  for (let i = 0; i < 8; i++) expect(text(await fabric.ask(3, call))).toBe('answer')
  expect(asked.filter(each => each.startsWith('first'))).toEqual(['first /3/v1/instant'])
  expect(fabric.problem).toMatch(/^shard 3 at http:.*\/3: because$/)
  isBroken = false
  await soundAgain
  expect(meanwhile).toMatch(/^shard 3 at http:.*: expected the manifest of the epoch in use, got another$/)
  expect(probes).toEqual(Array(3).fill('/3/v1/manifest?generation=1&epoch=1'))
  expect(changes.map(({ shard, failed, problem }) => [shard, failed, problem !== undefined])).toEqual([
    [3, 1, true],
    [3, 1, false],
  ])
  expect(fabric.problem).toBeUndefined()
  asked.length = 0
  for (let i = 0; i < 2; i++) await fabric.ask(3, call)
  expect(asked.sort()).toEqual(['first /3/v1/instant', 'second /3/v1/instant'])
})

test.each<[string, (response: ServerResponse) => unknown, RegExp]>([
  ['another status', response => response.writeHead(502).end('bad gateway'), /expected JSON/],
  ['a longer reply', response => response.end('answers'), /expected a reply of its length, got a longer one/],
  ['a reply that is not to this call', response => response.end('other'), /not right/],
  ['a part of a reply', response => response.write('ans', () => response.socket!.destroy()), /./],
  ['no reply', response => response.socket!.destroy(), /./],
  ['a redirection', response => response.writeHead(302, { location: 'http://127.0.0.1:9/' }).end(), /./],
  ['a refusal', response => refuse(response, 404, 'epoch_unknown', { generation: 1, epoch: 2 }), /because/],
])('%s is a failure, and a shard is given up after three', async (_, reply, problem) => {
  let asked = 0
  const isRight = (bytes: Uint8Array) => {
    if (text(bytes) !== 'answer') throw new Error('not right')
  }
  const url = await site((_request, response) => {
    asked++
    reply(response)
  })
  const fabric = fabricOf(url)
  await expect(fabric.ask(3, { ...call, isRight })).rejects.toMatchObject(away)
  expect(asked).toBe(3)
  expect(fabric.replicas.map(({ failed, late }) => [failed, late])).toEqual([
    [0, 0],
    [0, 0],
    [0, 0],
    [3, 0],
  ])
  expect(fabric.problem).toMatch(/^shard 3 at http/)
  expect(fabric.problem).toMatch(problem)
})

test('a refusal that is passed on, and a full queue, count against no replica', async () => {
  let full = 2
  const url = await site((request, response) => {
    if (request.url!.startsWith('/0')) return refuse(response, 404, 'epoch_unknown', { generation: 1, epoch: 7 })
    return full-- > 0 ? refuse(response, 503, 'instant_full') : response.end('answer')
  })
  const fabric = fabricOf(url)
  const passesOn = ({ code }: { code: string }) => code === 'epoch_unknown'
  await expect(fabric.ask(0, { ...call, passesOn })).rejects.toMatchObject({
    reply: { code: 'epoch_unknown', message: 'because', generation: 1, epoch: 7 },
    statusCode: 404,
  })
  expect(text(await fabric.ask(1, { ...call, passesOn }))).toBe('answer')
  expect(full).toBe(-1)
  expect(fabric.problem).toBeUndefined()
  expect(fabric.replicas.every(({ failed, late }) => failed + late === 0)).toBe(true)
})

test('of a replica that hangs, another answers, and the next call does not wait for it', async () => {
  let hangs = false
  let held = 0
  const first = await site((_request, response) => {
    if (hangs) held++
    else response.end('answer')
  })
  const second = await site((_request, response) => response.end('second'))
  const fabric = fabricOf(first, second)
  for (let i = 0; i < 2; i++) await fabric.ask(2, call) // so that it is known how long replies take
  hangs = true
  for (let i = 0; i < 5; i++) expect(text(await fabric.ask(2, call))).toBe('second')
  const [replica] = fabric.replicas.filter(({ shard }) => shard === 2)
  expect([replica!.late, replica!.failed]).toEqual([1, 0])
  expect(replica!.problem).toMatch(/expected a reply in time, got none/)
  expect(held).toBeGreaterThanOrEqual(1)
})

test('of two replicas that failed, the one that has answered since is asked first', async () => {
  let [hangs, isBroken] = [false, false]
  const first = await site((_request, response) => void (hangs || response.end('answer')))
  const second = await site((_request, response) => {
    if (!isBroken) return response.end('answer')
    isBroken = false
    return refuse(response, 500, 'internal')
  })
  const fabric = fabricOf(first, second)
  for (let i = 0; i < 2; i++) await fabric.ask(2, call)
  hangs = true
  await fabric.ask(2, call)
  isBroken = true
  for (let i = 0; i < 5; i++) expect(text(await fabric.ask(2, call))).toBe('answer')
  const [one, other] = fabric.replicas.filter(({ shard }) => shard === 2)
  expect([one!.late, other!.failed]).toEqual([2, 1])
})

test.each([
  ['alone', []],
  ['beside a replica that is away', ['http://127.0.0.1:9/{shard}']],
  ['beside one that hangs', ['hangs']],
])('if a shard has become slower, the deadline follows: %s', async (_, others) => {
  let [milliseconds, hangs] = [0, false]
  const hanging = await site((_request, response) => void (hangs || response.end('answer')))
  const slower = await site((request, response) => {
    if (request.method === 'GET') response.end('manifest')
    else setTimeout(() => response.end('answer'), milliseconds)
  })
  const fabric = fabricOf(...others.map(other => (other === 'hangs' ? hanging : other)), slower)
  for (let i = 0; i < 2; i++) await fabric.ask(1, call)
  hangs = true
  milliseconds = 1300 // the shortest deadline is 1000
  // Between two tries of the one that hangs there is one of the slower, and probes find meanwhile that the first hangs.
  if (others.includes('hangs')) await expect(fabric.ask(1, call)).rejects.toMatchObject(away)
  expect(text(await fabric.ask(1, call))).toBe('answer')
  expect(fabric.replicas.filter(({ shard }) => shard === 1).at(-1)).toMatchObject({ late: 1, failed: 0 })
})

test('while all replicas of a shard hang, deadlines stay: three of the shortest are over before one of six seconds', async () => {
  let hangs = false
  const listener: RequestListener = (_request, response) => void (hangs || response.end('answer'))
  const fabric = fabricOf(await site(listener), await site(listener))
  for (let i = 0; i < 2; i++) await fabric.ask(1, call)
  hangs = true
  await expect(fabric.ask(1, call)).rejects.toMatchObject(away) // probes begin, and find no reply either
  const over: string[] = []
  const noted = (name: string) => (error: unknown) => {
    expect(error).toMatchObject(away)
    over.push(name)
  }
  const long = fabric.ask(2, { ...call, only: 'writer', deadline: 6000 }).catch(noted('long'))
  await fabric.ask(1, call).catch(noted('three'))
  expect(over).toEqual(['three'])
  await long
})

test('a replica that shows its manifest and answers no lookups holds ever fewer of them, and not for longer', async () => {
  let hangs = false
  let [held, slowest] = [0, 0]
  const first = await site((request, response) => {
    if (request.method === 'GET') return response.end('manifest')
    if (!hangs) return response.end('answer')
    return held++
  })
  const second = await site((_request, response) => response.end('answer'))
  const fabric = fabricOf(first, second)
  for (let i = 0; i < 2; i++) await fabric.ask(2, call)
  hangs = true
  for (const end = performance.now() + 8000; performance.now() < end; await sleep(20)) {
    const begun = performance.now()
    expect(text(await fabric.ask(2, call))).toBe('answer')
    slowest = Math.max(slowest, performance.now() - begun)
  }
  // At the start, and after one, two and four seconds.
  expect(held).toBeLessThanOrEqual(3)
  expect(held).toBeGreaterThanOrEqual(2)
  expect(slowest).toBeLessThan(1500)
})

test('sound replicas of each shard take turns', async () => {
  const asked: string[] = []
  const named = (name: string) =>
    site((request, response) => {
      if (request.method === 'POST') asked.push(`${name}${request.url!.slice(0, 2)}`)
      response.end('answer')
    })
  const fabric = fabricOf(await named('first'), await named('second'))
  for (let round = 0; round < 4; round++) {
    await fabric.ask(round, manifestCall())
    const from = asked.length
    await Promise.all([0, 1, 2, 3].map(shard => fabric.ask(shard, call)))
    // All shards together, so that a dead process is found by one round. Other calls take no turns.
    expect(new Set(asked.slice(from).map(each => each.slice(0, -2))).size).toBe(1)
  }
  for (const shard of [0, 1, 2, 3]) {
    for (const name of ['first', 'second'])
      expect(asked.filter(each => each === `${name}/${shard}`).length, `${name} of ${shard}`).toBe(2)
  }
})

test('a call for the replica that writes goes to no other, and once', async () => {
  const asked: string[] = []
  const first = await site((_request, response) => {
    asked.push('first')
    refuse(response, 503, 'not_ready')
  })
  const second = await site((_request, response) => {
    asked.push('second')
    response.end('answer')
  })
  await expect(fabricOf(first, second).ask(1, { ...call, only: 'writer' })).rejects.toMatchObject(away)
  expect(asked).toEqual(['first'])
})

test('a password in a URL is sent, and stands in no message', async () => {
  const sent: (string | undefined)[] = []
  const url = await site((request, response) => {
    sent.push(request.headers.authorization)
    refuse(response, 500, 'internal')
  })
  const fabric = fabricOf(url.replace('//', '//operator:secret%40@'))
  await expect(fabric.ask(3, call)).rejects.toMatchObject(away)
  expect(sent).toEqual(Array(3).fill(`Basic ${Buffer.from('operator:secret@').toString('base64')}`))
  expect(fabric.problem).toBe(`shard 3 at ${url.replace('{shard}', '3')}: because`)
})

test('a process that has several shards gets no more batches at once than it takes', async () => {
  let [underWay, most, asked] = [0, 0, 0]
  const url = await site((_request, response) => {
    most = Math.max(most, ++underWay)
    setTimeout(() => {
      underWay--
      response.end('answer')
    }, 50)
    asked++
  })
  const fabric = fabricOf(url)
  const shards = [0, 1, 2, 3, 0, 1, 2, 3]
  await Promise.all(shards.map(shard => fabric.ask(shard, { ...call, only: 'writer' })))
  expect([asked, most]).toEqual([8, 3])
})

test('a connection that the server closed between two calls is no failure', async () => {
  let asked = 0
  const url = await site((request, response) => {
    asked++
    // It takes the second request, and closes as if it had never come.
    if (asked === 2) return request.socket.resetAndDestroy()
    return response.end('answer')
  })
  const fabric = fabricOf(url)
  for (let i = 0; i < 2; i++) expect(text(await fabric.ask(0, call))).toBe('answer')
  expect(asked).toBe(3)
  expect(fabric.problem).toBeUndefined()
})

test('a reply that breaks off is a failure, also on a connection that was used before', async () => {
  let asked = 0
  const url = await site((_request, response) => {
    asked++
    if (asked === 1) return response.end('answer')
    return response.write('ans', () => response.socket!.destroy())
  })
  const fabric = fabricOf(url)
  await fabric.ask(0, call)
  await expect(fabric.ask(0, call)).rejects.toMatchObject(away)
  expect([asked, fabric.replicas[0]!.failed]).toEqual([4, 3])
})

test('URLs without a place for the shard are refused, and it may be anywhere', () => {
  for (const templates of [
    [],
    ['http://a:80'],
    ['ftp://{shard}'],
    ['http://a-{shard}:99999'],
    ['http://a:6553{shard}3'],
  ])
    expect(() => new Fabric(4, templates)).toThrow(/--shards: expected URLs such as .* got .*; give them/)
  const { replicas } = fabricOf('http://a:808{shard}/{shard}')
  expect(replicas.map(({ url }) => url)).toEqual([0, 1, 2, 3].map(shard => `http://a:808${shard}/${shard}`))
})
