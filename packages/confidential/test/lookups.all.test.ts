// Lookups in a confidential database, from the owner's list to the value: real servers, real evaluators, and those that lie.

import { execFile } from 'node:child_process'
import { readdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { type KeyhushMap, open } from '@keyhush/client'
import { type ConfidentialOptions, confidential } from '@keyhush/confidential'
import { encodeManifest } from '@keyhush/protocol'
import { buildDataset } from '@keyhush/server'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type OwnedOptions, own } from './support/owned.js'

const LIST = Object.fromEntries(Array.from({ length: 40 }, (_, i) => [`key ${i}`, `value ${i}`]))
const LONG = 'k'.repeat(4000)
type Owned = Awaited<ReturnType<typeof own>>

const closing: { close(): Promise<unknown> }[] = []
afterAll(async () => {
  for (const each of closing.reverse()) await each.close()
})

async function owned(options?: OwnedOptions): Promise<Owned> {
  const one = await own({ ...LIST, [LONG]: 'long' }, options)
  closing.push(one)
  return one
}

interface Seen {
  readonly url: string
  readonly length: number
  readonly body: string
}

/** A map, and what it sends. `answer` may give a reply in the place of an evaluator's. */
async function mapOf(
  { servers, publisherKey, evaluationKey, evaluators }: Owned,
  options: Partial<ConfidentialOptions> = {},
  answer?: (url: string, body: Uint8Array, ask: () => Promise<Response>) => Promise<Response>,
) {
  const seen: Seen[] = []
  const fetched = async (url: string, init: RequestInit): Promise<Response> => {
    const body = init.body as Uint8Array | undefined
    if (body) seen.push({ url, length: body.length, body: Buffer.from(body).toString('hex') })
    const ask = () => fetch(url, init)
    return answer && url.endsWith('/v1/evaluate') ? await answer(url, body!, ask) : await ask()
  }
  const inner = await open({ servers, publisherKey, mode: 'instant', fetch: fetched })
  const map = confidential(inner, { evaluationKey, evaluators, fetch: fetched, ...options })
  closing.push(map)
  return { map, inner, seen }
}

const failure = async (work: Promise<unknown>) =>
  await work.then(
    value => expect.fail(`expected an error, got ${value}`),
    (error: Error & { code: string }) => error,
  )

describe('with two evaluators', () => {
  let world: Owned
  let map: KeyhushMap
  let inner: KeyhushMap
  let seen: Seen[]
  beforeAll(async () => {
    world = await owned()
    ;({ map, inner, seen } = await mapOf(world))
  })

  test('each form of a lookup gives what the owner has', async () => {
    expect(await map.getText('key 7')).toBe('value 7')
    expect(await map.get('nobody')).toBeUndefined()
    expect(await map.has('key 39')).toBe(true)
    expect(await map.has('key 40')).toBe(false)
    expect(await map.getManyText(['key 1', 'nobody', 'key 1', LONG], { padTo: 8 })).toEqual([
      ...['value 1', undefined, 'value 1', 'long'],
    ])
    expect(await map.hasMany(['key 3', 'no'])).toEqual([true, false])
    expect(await map.getMany([])).toEqual([])
    expect(new TextDecoder().decode(await map.get(Buffer.from('key 2')))).toBe('value 2')
    expect([map.size, map.epoch, map.mode]).toEqual([inner.size, 1, 'instant'])
  })

  test('present, absent, repeated and long keys make requests alike', async () => {
    const shapes: string[] = []
    for (const key of ['key 5', 'key 5', 'nobody', LONG, 'key']) {
      seen.length = 0
      await map.get(key)
      shapes.push(JSON.stringify(seen.map(({ url, length }) => [url, length]).sort()))
      const evaluations = seen.filter(({ url }) => url.endsWith('/v1/evaluate'))
      // Both evaluators get the same; the lookups come after both.
      expect(new Set(evaluations.map(({ body }) => body)).size).toBe(1)
      expect(seen.slice(0, 2)).toEqual(evaluations)
      expect(seen.map(({ body }) => body).join()).not.toContain(Buffer.from(key).toString('hex'))
    }
    expect(new Set(shapes).size).toBe(1)
  })

  test('padding hides how many keys there are', async () => {
    const lengths = async (keys: string[]) => {
      seen.length = 0
      await map.getMany(keys, { padTo: 4 })
      return seen.map(({ length }) => length).sort()
    }
    expect(await lengths(['key 1'])).toEqual(await lengths(['key 1', 'a', 'key 3', 'b']))
  })

  test('no key and no value is in what servers have', async () => {
    const blind = await readFile(world.at('blind.csv'), 'latin1')
    const files = await readdir(world.at('dataset'), { recursive: true, withFileTypes: true })
    const stored = files.filter(each => each.isFile()).map(({ parentPath, name }) => readFile(join(parentPath, name)))
    const dataset = Buffer.concat(await Promise.all(stored))
    expect(dataset.length).toBeGreaterThan(41 * (22 + 32))
    for (const text of ['key 7', 'value 7', LONG]) {
      expect(blind).not.toContain(text)
      expect(dataset.includes(text)).toBe(false)
    }
    // The lines are in the order of the pseudorandom keys, and values have one length.
    const lines = blind.trim().split('\n').slice(1)
    expect(lines).toEqual([...lines].sort())
    expect(new Set(lines.map(line => line.length)).size).toBe(1)
  })

  test('keys may be wiped as soon as a call has begun', async () => {
    const [key, other] = [Buffer.from('key 7'), Buffer.from('key 6')]
    const keys = [other]
    const found = [map.getText(key), map.getManyText(keys)]
    keys.length = 0
    for (const bytes of [key, other]) bytes.fill(0)
    expect(await Promise.all(found)).toEqual(['value 7', ['value 6']])
  })

  test('what has no meaning here is refused with its reason', async () => {
    await expect(map.at(0)).rejects.toMatchObject({ code: 'usage', message: /its records are sealed/ })
    await expect(map.watch('key 1', () => {})).rejects.toMatchObject({ code: 'usage' })
    expect(() => map.excludes('key 1')).toThrow(/use has\(\)/)
  })

  test('changes are followed: edits, adds and deletes', async () => {
    await world.publish([
      { op: 'edit', key: 'key 8', value: 'another' },
      { op: 'delete', key: 'key 9' },
      { op: 'add', key: 'key new', value: 'new' },
    ])
    await map.sync()
    expect(await map.getManyText(['key 8', 'key 9', 'key new', 'key 10'])).toEqual([
      ...['another', undefined, 'new', 'value 10'],
    ])
  })

  test('wrong options are refused', () => {
    const { evaluationKey, evaluators } = world
    const options = { evaluationKey, evaluators }
    const refused = (more: object) => () => confidential(inner, { ...options, ...more })
    expect(refused({ evaluationKey: 'c2' })).toThrow(/evaluationKey: expected 64/)
    expect(refused({ evaluationKey: '00'.repeat(32) })).toThrow(/an element of the group/)
    expect(refused({ evaluators: [] })).toThrow(/^evaluators: expected/)
    expect(refused({ evaluators: [evaluators[0], evaluators[0]] })).toThrow(/evaluators: .* twice/)
    expect(refused({ evaluators: ['http://a.example'] })).toThrow(/evaluators: expected https/)
    expect(refused({ atLeast: 3 })).toThrow(/atLeast/)
    expect(refused({ evaluatorz: 1 })).toThrow(/there is no option/)
  })
})

test('more keys than the database answers at once are looked up in several requests, after one evaluation', async () => {
  const world = await owned({ valueBytes: 30_000 })
  const { map, inner, seen } = await mapOf(world)
  const sealed = Array.from({ length: 64 }, (_, i) => Buffer.from('~'.padEnd(65, `${i % 10}`)))
  expect((await failure(inner.getMany(sealed))).message).toMatch(/keys: expected at most 17 keys at once/)
  seen.length = 0
  const keys = Array.from({ length: 50 }, (_, i) => `key ${i}`)
  const found = await map.getManyText(keys, { padTo: 64 })
  expect(found).toEqual(keys.map(key => LIST[key] ?? undefined))
  expect(seen.filter(({ url }) => url.endsWith('/v1/evaluate'))).toHaveLength(2)
})

test('a map that is not under confidential() finds no key absent: it refuses each call, and sends nothing', async () => {
  const world = await owned()
  const { inner, seen } = await mapOf(world)
  const calls = [
    () => inner.get('key 1'),
    () => inner.has('key 1'),
    () => inner.has('00'.repeat(32)), // a hash, as lists have them
    () => inner.has('~'.padEnd(64, '0')),
    () => inner.hasMany([Buffer.from('key 1')], { padTo: 4 }),
  ]
  for (const call of calls) {
    const error = await failure(call())
    expect(error.code).toBe('usage')
    expect(error.message).toMatch(/expected a database with plain keys, .* confidential\(map\)/)
  }
  expect(seen).toEqual([])
})

test('normalize of open() is refused, which keys of the list pass by', async () => {
  const { servers, publisherKey, evaluationKey, evaluators } = await owned()
  const opened = await open({ servers, publisherKey, mode: 'instant', normalize: key => key.toLowerCase() })
  closing.push(opened)
  expect(() => confidential(opened, { evaluationKey, evaluators })).toThrow(/pass it to confidential\(\)/)
})

test('a refusal is not repeated: an evaluator that does not know its proxy', async () => {
  const world = await owned()
  const { map, seen } = await mapOf(world, {}, async (url, body) =>
    fetch(url, { method: 'POST', body: Buffer.from(body), headers: { 'x-forwarded-for': '203.0.113.9' } }),
  )
  const error = await failure(map.get('key 1'))
  expect(error).toMatchObject({ code: 'protocol', refusal: 'bad_request', retryable: false })
  expect(error.message).toMatch(/it does not know its proxy/)
  expect(seen).toHaveLength(2)
})

test('`keyhush-confidential get` prints what `keyhush get` would', async () => {
  const { servers, publisherKey, evaluationKey, evaluators } = await owned()
  const bin = fileURLToPath(new URL('../bin/keyhush-confidential.js', import.meta.url))
  const options = ['--servers', servers.join(), '--publisher-key', publisherKey, '--evaluators', evaluators.join()]
  const run = async (...args: string[]) =>
    await promisify(execFile)(process.execPath, [bin, 'get', ...args, ...options, '--evaluation-key', evaluationKey])
  expect((await run('key 1', 'nobody')).stdout).toBe('"key 1" found "value 1"\n"nobody" absent\n')
  await expect(run('nobody')).rejects.toMatchObject({ code: 1, stdout: '"nobody" absent\n' })
  await expect(run('key 1', '--at-least', '3')).rejects.toMatchObject({ code: 2, stderr: /atLeast: expected/ })
})

test('plain keys are neither built nor published: servers would see them', async () => {
  const world = await owned()
  const line = { op: 'add', key: 'plain', value: Buffer.alloc(54).toString('base64') }
  const plain = Buffer.from(`${JSON.stringify(line)}\n`)
  const words = /line 1: expected a key of a confidential list.*`keyhush-confidential transform`.*Nothing was sent/
  await expect(world.send(plain)).rejects.toThrow(words)
  await expect(world.send(Buffer.from('{"op":"delete","key":"00"}\n'))).rejects.toThrow(words)
  await expect(world.send(Buffer.from('plain,value\n'))).rejects.toThrow(words)
  expect(world.databases.map(({ newest }) => newest.manifest.epoch)).toEqual([1, 1])
  const [data, out, name] = [world.at('plain.csv'), world.at('plain'), `confidential-${world.evaluationKey}`]
  await writeFile(data, 'key,value\nplain,1\n')
  await expect(buildDataset({ data, out, name })).rejects.toThrow(/plain\.csv:2: expected a key of a confidential list/)
  const blind = { data: world.at('blind.csv'), valueEncoding: 'base64' } as const
  const { manifest } = await buildDataset({ ...blind, out, name })
  await writeFile(world.at('manifest.bin'), encodeManifest(manifest))
  const next = { data, out: world.at('next'), succeeds: world.at('manifest.bin') }
  await expect(buildDataset(next)).rejects.toThrow(/plain\.csv:2: expected a key of a confidential list/)
})

describe('an evaluator that lies', () => {
  let world: Owned
  beforeAll(async () => {
    world = await owned()
  })

  const changed =
    (change: (reply: Uint8Array) => void) => async (url: string, _body: Uint8Array, ask: () => Promise<Response>) => {
      const response = await ask()
      if (url.startsWith(world.evaluators[1]!)) {
        const bytes = new Uint8Array(await response.arrayBuffer())
        change(bytes)
        return new Response(bytes, { headers: { 'content-length': `${bytes.length}` } })
      }
      return response
    }

  test.each<[string, string, (reply: Uint8Array) => void]>([
    [
      'with its elements in another order',
      'tampered',
      reply => reply.set([...reply.slice(64, 96), ...reply.slice(32, 64)], 32),
    ],
    ['with one element for both', 'tampered', reply => reply.set(reply.slice(32, 64), 64)],
    ['with another share number', 'tampered', reply => reply.set([3], 8)],
    ["with the other's share number", 'protocol', reply => reply.set([1], 8)],
    ['with bytes that are no element', 'protocol', reply => reply.fill(0xff, 32, 64)],
    ['with the identity', 'protocol', reply => reply.fill(0, 32, 64)],
    ['for another database', 'protocol', reply => reply.set([1, 2, 3], 16)],
    ['with unused bytes', 'protocol', reply => reply.set([1], 9)],
  ])('%s: %s, no lookup follows, and the map answers afterwards', async (_, code, change) => {
    let lies = true
    const { map, seen } = await mapOf(world, {}, async (url, body, ask) =>
      lies ? await changed(change)(url, body, ask) : await ask(),
    )
    for (const key of ['key 1', 'nobody']) {
      seen.length = 0
      const error = await failure(map.get(key))
      expect(error.code).toBe(code)
      expect(seen.every(({ url }) => url.endsWith('/v1/evaluate'))).toBe(true)
      if (code === 'tampered') expect(seen).toHaveLength(2) // nothing is repeated
    }
    lies = false
    expect(await map.getText('key 1')).toBe('value 1')
  })
})

test('any two of three evaluators suffice: one that is away or lies is done without', async () => {
  const world = await owned({ evaluators: 3, atLeast: 2 })
  const bad: Record<string, () => Promise<Response>> = {}
  const { map } = await mapOf(world, { atLeast: 2 }, async (url, _body, ask) => {
    const how = bad[new URL(url).origin]
    return how ? await how() : await ask()
  })
  expect(await map.getText('key 1')).toBe('value 1')
  for (const evaluator of world.evaluators) {
    bad[evaluator] = () => Promise.reject(new TypeError('away'))
    expect(await map.getText('key 2')).toBe('value 2')
    bad[evaluator] = async () => new Response(new Uint8Array(96), { headers: { 'content-length': '96' } })
    expect(await map.getText('key 3')).toBe('value 3')
    delete bad[evaluator]
  }
})

test.each([1, 2, 3])('nor does it matter which share a liar names: %i', async number => {
  const world = await owned({ evaluators: 3, atLeast: 2 })
  const [liar] = world.evaluators as [string]
  let lied = () => {}
  const hasLied = new Promise<void>(resolve => {
    lied = resolve
  })
  const { map } = await mapOf(world, { atLeast: 2 }, async (url, _body, ask) => {
    const response = await ask()
    if (!url.startsWith(liar)) {
      await hasLied // the lie comes first
      return response
    }
    const bytes = new Uint8Array(await response.arrayBuffer())
    bytes[8] = number
    bytes.set(bytes.slice(32, 64), 64)
    lied()
    return new Response(bytes, { headers: { 'content-length': `${bytes.length}` } })
  })
  expect(await map.getText('key 1')).toBe('value 1')
})

test('a list under another key is no list where keys are absent: it is refused before anything is sent', async () => {
  const world = await owned({ name: 'another' })
  const { map, seen } = await mapOf(world)
  const error = await failure(map.has('key 1'))
  expect(error).toMatchObject({ code: 'unsupported', reason: 'offer' })
  expect(seen).toEqual([])
})

test('shares are replaced without a lookup lost, and mixed ones suffice while evaluators have both', async () => {
  const world = await owned()
  await world.reshare()
  const first = await world.evaluate(['share-1-deal-2', 'share-1'])
  let to = new Map<string, string>()
  const moved = async (url: string, body: Uint8Array, ask: () => Promise<Response>) => {
    const { origin, pathname } = new URL(url)
    const other = to.get(origin)
    return other === undefined
      ? await ask()
      : await fetch(other + pathname, { method: 'POST', body: Buffer.from(body) })
  }
  const { map, seen } = await mapOf({ ...world, evaluators: [first, world.evaluators[1]!] }, {}, moved)
  expect(await map.getText('key 4')).toBe('value 4')
  const evaluations = () => seen.splice(0).filter(({ url }) => url.endsWith('/v1/evaluate'))
  expect(evaluations()).toHaveLength(4) // of the newest; then both of the older
  expect(await map.getText('key 5')).toBe('value 5')
  expect(evaluations()).toHaveLength(2) // the older sufficed
  const both = await Promise.all([1, 2].map(async i => await world.evaluate([`share-${i}-deal-2`])))
  to = new Map([first, world.evaluators[1]!].map((url, i) => [url, both[i]!]))
  expect(await map.getText('key 6')).toBe('value 6')
  expect(evaluations()).toHaveLength(4) // which is gone
  expect(await map.getText('key 7')).toBe('value 7')
  expect(evaluations()).toHaveLength(2)
  const { map: next, seen: once } = await mapOf({ ...world, evaluators: both })
  expect(await next.getText('key 4')).toBe('value 4')
  expect(once.filter(({ url }) => url.endsWith('/v1/evaluate'))).toHaveLength(2)
  // Shares of two deals alone do not add up.
  const { map: mixed } = await mapOf({ ...world, evaluators: [both[0]!, world.evaluators[1]!] })
  expect(await failure(mixed.get('key 4'))).toMatchObject({ code: 'version', retryable: true })
})

describe('aborting', () => {
  let world: Owned
  beforeAll(async () => {
    world = await owned()
  })

  test('before the first request nothing is sent; after it, evaluation and lookup run to their end', async () => {
    const sent: string[] = []
    const aborting = new AbortController()
    const { map, seen } = await mapOf(world, {}, async (url, _body, ask) => {
      sent.push(url)
      aborting.abort()
      return await ask()
    })
    const off = new AbortController()
    off.abort()
    await expect(map.get('key 1', { signal: off.signal })).rejects.toThrow()
    expect(sent).toEqual([])
    await expect(map.get('key 1', { signal: aborting.signal })).rejects.toThrow()
    await expect.poll(() => seen.filter(({ url }) => url.endsWith('/v1/instant')).length).toBeGreaterThanOrEqual(4)
  })

  test('a call that waits too long says for whom', async () => {
    const { map } = await mapOf(world, { timeoutMs: 50 }, () => new Promise(() => {}))
    const error = await failure(map.get('key 1'))
    expect(error).toMatchObject({ code: 'timeout', retryable: true, servers: [...world.evaluators].sort() })
  })

  test('what has waited too long for tokens sends nothing afterwards', async () => {
    const waiting: ((token: Uint8Array) => void)[] = []
    const authorize = () => new Promise<Uint8Array>(resolve => waiting.push(resolve))
    const { map, inner, seen } = await mapOf(world, { authorize })
    await map.getMany([])
    expect(await failure(map.get('key 1', { timeoutMs: 50 }))).toMatchObject({ code: 'timeout' })
    expect(waiting).toHaveLength(2)
    for (const resolve of waiting.splice(0)) resolve(new Uint8Array(4))
    await inner.get(Buffer.from('~'.padEnd(65, '0'))) // which sends
    expect(seen.filter(({ url }) => url.endsWith('/v1/evaluate'))).toEqual([])
    const next = map.getText('key 1')
    await expect.poll(() => waiting.length).toBe(2)
    for (const resolve of waiting) resolve(new Uint8Array(4))
    expect(await next).toBe('value 1')
  })
})

describe('a wrong call, and a refusal, say what to do', () => {
  const authorize = () => Uint8Array.of(1)
  let world: Owned
  beforeAll(async () => {
    world = await owned({ authorize: token => (token[0] === 1 ? 'alice' : undefined) })
  })
  const refused = async (options: Partial<ConfidentialOptions>) =>
    await failure((await mapOf(world, options)).map.get('key 1'))

  test('a token is missing or spent: apps see it by `refusal`', async () => {
    const { map } = await mapOf(world, { authorize })
    expect(await map.has('key 1')).toBe(true)
    const error = await refused({})
    expect(error).toMatchObject({ code: 'protocol', refusal: 'unauthorized' })
    expect(error.message).toMatch(/expected a token that this evaluator accepts/)
  })

  test('a server has no evaluator', async () => {
    const error = await refused({ authorize, evaluators: world.servers })
    expect(error).toMatchObject({ code: 'protocol', refusal: 'not_found' })
    expect(error.message).toMatch(/expected an evaluator, got nothing at \/v1\/evaluate/)
  })

  test('an evaluator has another key', async () => {
    const other = await owned()
    const error = await refused({ authorize, evaluators: [world.evaluators[0]!, other.evaluators[1]!] })
    expect(error).toMatchObject({ code: 'protocol', refusal: 'wrong_database' })
    expect(error.message).toMatch(/of this evaluation key/)
  })

  test('fewer evaluators than the owner demands', async () => {
    const error = await refused({ authorize, evaluators: world.evaluators.slice(1) })
    expect(error).toMatchObject({ code: 'tampered' })
    expect(error.message).toMatch(/name all evaluators/)
  })

  test('a promise of a map', () => {
    const promise = open({ servers: world.servers, publisherKey: world.publisherKey })
    closing.push({ close: async () => await (await promise).close() })
    const { evaluationKey, evaluators } = world
    expect(() => confidential(promise as never, { evaluationKey, evaluators })).toThrow(/await open\(\)/)
  })
})
