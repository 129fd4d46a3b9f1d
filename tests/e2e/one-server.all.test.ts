// Lookups with one server that keeps no state, over loopback: right values, the same traffic whatever is asked, every lie refused alike.

import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type KeyhushMap, type OpenOptions, open } from '@keyhush/client'
import { MemoryStore, openWith, platformEnvironment } from '@keyhush/client/environment'
import { HEADER_BYTES, type Info, ONE_SERVER_PATH, SUITE_ONE_SERVER, signedBytes, toHex } from '@keyhush/protocol'
import { buildDataset, createServer, loadDataset, MemoryStorage, UpdatableDatabase } from '@keyhush/server'
import { startServers, type TestServers } from '@keyhush/server/testing'
import { ed25519 } from '@noble/curves/ed25519.js'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { PUBLISHER, PUBLISHER_KEY } from '../support/publishing.js'
import { temporaryFolder } from '../support/servers.js'
import { THOROUGH } from '../support/thorough.js'
import { thoroughly } from '../support/thoroughly.js'

const DATA = Object.fromEntries(Array.from({ length: 300 }, (_, i) => [`key-${i}`, `value ${'x'.repeat(i % 40)}${i}`]))

let one: TestServers<readonly [string]>
beforeAll(async () => {
  one = await startServers(DATA, { count: 1 })
})
afterAll(async () => await one.close())

interface Seen {
  readonly path: string
  readonly body: Uint8Array
  readonly bytesDown: number
}

type Lie = (path: string, reply: Uint8Array, of: Uint8Array) => Uint8Array

/** A map on the server, what it sends, and replies that a test may change. */
async function opened(options: Partial<OpenOptions> = {}) {
  const seen: Seen[] = []
  const how: { lie?: Lie | undefined } = {}
  const fetched: OpenOptions['fetch'] = async (url, init) => {
    const response = await fetch(url, init)
    if (!response.ok || url.endsWith('/v1/events')) return response
    const path = url.slice(one.servers[0].length)
    const body = new Uint8Array((init.body as Uint8Array | undefined) ?? [])
    const genuine = new Uint8Array(await response.arrayBuffer())
    const reply = how.lie?.(path, genuine.slice(), body) ?? genuine
    seen.push({ path, body: body.slice(), bytesDown: reply.length })
    return new Response(reply as Uint8Array<ArrayBuffer>)
  }
  const { servers, publisherKey } = one
  const map = await open({
    ...{ servers, publisherKey, mode: 'instant', experimental: true, fetch: fetched, push: false },
    ...options,
  })
  onTestFinished(async () => await map.close())
  const asked = (skip = 0) => seen.filter(({ path }) => path === ONE_SERVER_PATH).slice(skip)
  return { map, how, asked, seen }
}

/** All that could differ between lookups, but for what is drawn anew. */
const shapes = (seen: readonly Seen[]) =>
  seen.map(({ path, body, bytesDown }) => {
    return `${path} ${body.length} ${Buffer.from(body.subarray(0, HEADER_BYTES)).toString('hex')} ${bytesDown}`
  })

describe('a lookup with one server', () => {
  test('finds values by key and by index, and proves absence', async () => {
    const { map } = await opened()
    expect(map.mode).toBe('instant')
    expect(await map.getText('key-7')).toBe(DATA['key-7'])
    expect(await map.has('key-299')).toBe(true)
    expect(await map.has('nobody')).toBe(false)
    expect(await map.get('nobody')).toBeUndefined()
    const values = await map.getMany(['key-0', 'nobody', 'key-0', 'key-123'], { padTo: 5 })
    const texts = values.map(value => value && new TextDecoder().decode(value))
    expect(texts).toEqual([DATA['key-0'], undefined, DATA['key-0'], DATA['key-123']])
    const atIndex = await Promise.all([0, map.size - 1].map(index => map.at(index)))
    for (const value of atIndex) expect(Object.values(DATA)).toContain(new TextDecoder().decode(value))
  })

  test('sends fresh bytes for each lookup, and asks for the hint once', async () => {
    const { map, asked, seen } = await opened()
    for (const key of ['key-1', 'absent', 'key-1']) await map.get(key)
    const bodies = asked().map(({ body }) => Buffer.from(body.subarray(HEADER_BYTES)).toString('hex'))
    expect(bodies).toHaveLength(6)
    expect(new Set(bodies).size).toBe(bodies.length)
    expect(seen.filter(({ path }) => path.startsWith('/v1/blobs/'))).toHaveLength(1)
  })

  test('of clones whose generators are in one state shares no secret, unless they ask for the same', async () => {
    const { servers, publisherKey } = one
    const keysOf = async (key: string) => {
      const keys: string[] = []
      const recording = async (url: string, init: RequestInit) => {
        const body = init.body as Uint8Array | undefined
        if (url.endsWith(ONE_SERVER_PATH)) keys.push(Buffer.from(body!.slice(HEADER_BYTES, 24_616)).toString('hex'))
        return await fetch(url, init)
      }
      const environment = {
        ...platformEnvironment(recording),
        random: (bytes: number) => new Uint8Array(bytes).fill(7),
      }
      const map = await openWith(environment, {
        ...{ servers, publisherKey, mode: 'instant', experimental: true, push: false, storage: 'memory' },
      })
      await map.get(key)
      await map.close()
      return keys
    }
    const [once, again, other] = [await keysOf('key-1'), await keysOf('key-1'), await keysOf('key-250')]
    expect(once).toHaveLength(2)
    expect(again).toEqual(once)
    expect(new Set([...once, ...other]).size).toBe(4)
  })

  test('costs what is said beforehand', async () => {
    const { estimate } = await import('@keyhush/client')
    const { map, asked } = await opened()
    const { modes } = await estimate(one.servers, { experimental: true })
    const { lookupBytesUp, lookupBytesDown } = modes.instant!
    await map.get('key-1')
    expect(map.stats.lastLookup).toMatchObject({ bytesUp: lookupBytesUp, bytesDown: lookupBytesDown })
    expect(asked().reduce((sum, { body }) => sum + body.length, 0)).toBe(lookupBytesUp)
    expect((await estimate(one.servers)).modes.instant).toBeUndefined()
  })

  test('is refused alike when the server lies, whatever was asked, and nothing more is sent', async () => {
    const lies: Record<string, Lie> = {
      'the first row of the answer': flipped(HEADER_BYTES, 0x40),
      'the last row of the answer': flipped(-1, 0x80),
      'a row in the middle': flipped(HEADER_BYTES + 704, 0x80),
      'the answer of another request': (path, reply) => (path === ONE_SERVER_PATH ? shifted(reply) : reply),
    }
    // About blocks of the directory, which are asked for first, or about records alone.
    const cases = Object.entries(lies).flatMap(([name, lie]) => [
      { name, lie, requests: 1 },
      { name: `${name}, of records`, lie: ofRecords(lie), requests: 2 },
    ])
    for (const { name, lie, requests } of THOROUGH ? cases : cases.slice(2, 4)) {
      const outcomes: string[] = []
      for (const key of ['key-1', 'key-200', 'absent']) {
        const { map, how, asked } = await opened()
        how.lie = lie
        outcomes.push(JSON.stringify([await failureOf(map.get(key)), shapes(asked())]))
        expect(asked(), name).toHaveLength(requests)
        how.lie = undefined
        expect(await map.getText('key-3')).toBe(DATA['key-3']) // nothing is condemned
      }
      expect(outcomes[0], name).toContain('"tampered"')
      expect(outcomes[0], name).toContain(one.servers[0])
      for (const outcome of outcomes) expect(outcome, name).toBe(outcomes[0])
    }
  })

  test('asks the same bytes once more after an answer of a wrong length, and then fails', async () => {
    const { map, how, asked } = await opened({ timeoutMs: Number.POSITIVE_INFINITY })
    how.lie = (path, reply) => (path === ONE_SERVER_PATH ? reply.subarray(1) : reply)
    expect((await failureOf(map.get('key-1'))).code).toBe('protocol')
    expect(new Set(asked().map(({ body }) => Buffer.from(body).toString('hex'))).size).toBe(1)
    expect(asked()).toHaveLength(2)
  })

  test('fails while the server is away, limits or breaks off, and goes on when it is back', async () => {
    const { map, asked } = await opened({ timeoutMs: Number.POSITIVE_INFINITY })
    await map.get('key-1')
    for (const [how, code] of [
      ['down', 'network'],
      ['cut', 'network'],
      ['limit', 'rate_limited'],
      ['lie', 'tampered'],
    ] as const) {
      one.misbehave(0, how)
      expect((await failureOf(map.get('key-1'))).code, how).toBe(code)
      one.misbehave(0, undefined)
    }
    const before = asked().length
    expect(await map.getText('key-1')).toBe(DATA['key-1'])
    expect(asked(before)).toHaveLength(2)
  })

  test('sends nothing if the hint is not the one that is signed', async () => {
    for (const key of ['key-1', 'absent']) {
      const { map, how, asked } = await openedWithLie((path, reply) => {
        if (path.startsWith('/v1/blobs/')) reply[40]! ^= 1
        return reply
      })
      expect(await failureOf(map.get(key))).toMatchObject({ code: 'tampered', server: one.servers[0] })
      expect(asked()).toEqual([])
      how.lie = undefined
      expect(await map.getText('key-1')).toBe(DATA['key-1'])
    }
  })

  thoroughly('follows the database: at the next epoch with its hint, and other requests', async () => {
    const own = await startServers({ otter: 'river', heron: 'shore' }, { count: 1 })
    onTestFinished(async () => await own.close())
    const { servers, publisherKey } = own
    const options = { servers, publisherKey, mode: 'instant', experimental: true, push: false } as const
    const old = new Map<string, Uint8Array<ArrayBuffer>>()
    const store = Object.assign(new MemoryStore({ durable: true }), { close: async () => {} })
    const environment = { ...platformEnvironment(), openStore: async () => ({ store, storage: 'persistent' as const }) }
    const fetchAndKeep = async (url: string, init: RequestInit) => {
      const response = await fetch(url, init)
      const bytes = new Uint8Array(await response.clone().arrayBuffer())
      if (response.ok && !old.has(url)) old.set(url, bytes)
      return response
    }
    const map = await openWith({ ...environment, fetch: fetchAndKeep }, options)
    expect(await map.getText('otter')).toBe('river')
    await own.publish([{ op: 'edit', key: 'otter', value: 'lakes' }])
    expect(await map.getText('otter')).toBe('river') // the epoch before is answered
    await own.publish([{ op: 'add', key: 'newt', value: 'ponds' }])
    await map.sync()
    expect(await map.getText('otter')).toBe('lakes')
    expect(map.epoch).toBe(3)
    expect(await map.getText('newt')).toBe('ponds')
    expect(await map.getText('heron')).toBe('shore')
    await map.close()
    // The next visit knows: what a server said then is refused.
    const replayed = async (url: string) => new Response(old.get(url))
    const failure = await failureOf(openWith({ ...environment, fetch: replayed }, options))
    expect(failure).toMatchObject({ code: 'signature', message: expect.stringContaining('gone back') })
  })

  thoroughly('goes on in an open map after a generation without a hint; in mode auto with the database', async () => {
    const folder = await temporaryFolder()
    onTestFinished(() => folder.remove())
    const [data, succeeds] = [join(folder.path, 'data.csv'), join(folder.path, 'manifest.bin')]
    const expires = Math.floor(Date.now() / 1000) + 3600
    /** A server with the generation after the last. */
    const serving = async (number: number, oneServer: boolean) => {
      const out = join(folder.path, `dataset ${number}`)
      await writeFile(data, `key,value\notter,river ${number}\nheron,shore\n`)
      await buildDataset({ data, out, expires, oneServer, ...(number > 1 && { succeeds }) })
      const [dataset, storage] = [await loadDataset(out), new MemoryStorage()]
      await UpdatableDatabase.create(storage, dataset)
      dataset.close()
      const updatable = await UpdatableDatabase.open(storage)
      await updatable.newest.oneServer?.prepared?.made
      const { manifest, manifestBytes } = updatable.newest
      await writeFile(succeeds, manifestBytes)
      const signature = toHex(ed25519.sign(signedBytes(manifestBytes), PUBLISHER.secretKey))
      const { generation, epoch } = manifest
      await updatable.addSignature({ publicKey: PUBLISHER_KEY, generation, epoch, signature })
      const app = await createServer({ datasets: [{ updatable }] })
      onTestFinished(async () => {
        await app.close()
        await updatable.close()
      })
      return { address: await app.listen({ host: '127.0.0.1', port: 0 }), hint: manifest.oneServer?.hintHash }
    }
    const { address, hint } = await serving(1, true)
    let now = address
    const options = { servers: [address], publisherKey: PUBLISHER_KEY } as const
    const fetched: OpenOptions['fetch'] = (url, init) => fetch(url.replace(address, now), init)
    const { map } = await opened({ ...options, fetch: fetched })
    const { map: auto } = await opened({
      ...{ ...options, mode: 'auto' },
      fetch: async (url, init) => {
        const isHint = url.endsWith(toHex(hint!))
        if (now === address && url.includes('/v1/blobs/') && !isHint) throw new TypeError('no database yet')
        return await fetched(url, init)
      },
    })
    for (const each of [map, auto]) expect(await each.getText('otter')).toBe('river 1')
    expect(auto.mode).toBe('instant')
    now = (await serving(2, false)).address
    expect(await auto.getText('otter')).toBe('river 2')
    expect(auto.mode).toBe('local')
    for (const _ of [1, 2]) {
      expect(await failureOf(map.get('otter'))).toMatchObject({
        code: 'unsupported',
        message: expect.stringContaining('does not offer them'),
      })
    }
    now = address
    expect(await map.getText('otter')).toBe('river 1') // an epoch that is answered stays good meanwhile
    now = (await serving(3, true)).address
    expect(await map.getText('otter')).toBe('river 3')
  })

  test('is refused when the epoch has expired', async () => {
    const { servers, publisherKey } = one
    const environment = platformEnvironment()
    const date = () => Date.now() + 2 * 24 * 3600 * 1000
    const clock = { ...environment.clock, date }
    const opening = openWith(
      { ...environment, clock },
      { servers, publisherKey, mode: 'instant', experimental: true, push: false },
    )
    expect((await failureOf(opening)).code).toBe('signature')
  })
})

describe('mode auto', () => {
  test('stays without a state where the server withholds downloads, and prepare() says so', async () => {
    const paths: string[] = []
    const withholding: OpenOptions['fetch'] = async (url, init) => {
      const response = await fetch(url, init)
      paths.push(new URL(url).pathname)
      if (!url.endsWith('/v1/info')) return response
      const { offers, ...info } = (await response.json()) as Info
      return Response.json({ ...info, offers: { ...offers, blobs: false } })
    }
    const { map } = await opened({ mode: 'auto', fetch: withholding })
    for (const key of ['key-9', 'key-10']) expect(await map.getText(key)).toBe(DATA[key])
    const failed = await map.prepare().catch(error => error)
    expect(failed).toMatchObject({ code: 'unsupported', reason: 'offer' })
    expect(await map.getText('key-11')).toBe(DATA['key-11'])
    const blobs = paths.filter(path => path.startsWith('/v1/blobs/'))
    expect([map.mode, blobs.length]).toEqual(['instant', 1]) // the public hint
  })

  test('begins with one server in experiments, and then keeps the database', async () => {
    const { servers, publisherKey } = one
    const modes: string[] = []
    const map = await open({ servers, publisherKey, experimental: true, push: false })
    map.on('mode', ({ mode }) => void modes.push(mode ?? 'none'))
    onTestFinished(async () => await map.close())
    expect(map.mode).toBe('instant')
    expect(await map.getText('key-9')).toBe(DATA['key-9'])
    await map.prepare()
    expect(map.mode).toBe('local')
    expect(await map.getText('key-9')).toBe(DATA['key-9'])
    expect(modes).toEqual(['local'])
  })
})

async function openedWithLie(lie: Lie) {
  const { servers, publisherKey } = one
  const how: { lie: Lie | undefined } = { lie }
  const sent: string[] = []
  const fetched: OpenOptions['fetch'] = async (url, init) => {
    const response = await fetch(url, init)
    const path = url.slice(servers[0].length)
    sent.push(path)
    if (!response.ok) return response
    const reply = new Uint8Array(await response.arrayBuffer())
    return new Response((how.lie?.(path, reply, new Uint8Array()) ?? reply) as Uint8Array<ArrayBuffer>)
  }
  const map: KeyhushMap = await open({
    ...{ servers, publisherKey, mode: 'instant', experimental: true, fetch: fetched, push: false },
  })
  onTestFinished(async () => await map.close())
  return { map, how, asked: () => sent.filter(path => path === ONE_SERVER_PATH) }
}

/** One bit of each answer is another, worth more than an honest error; a negative place counts from its end. */
function flipped(at: number, bit: number): Lie {
  return (path, reply) => {
    if (path === ONE_SERVER_PATH) reply[at < 0 ? reply.length + at : at]! ^= bit
    return reply
  }
}

function ofRecords(lie: Lie): Lie {
  return (path, reply, body) => (body[6] === SUITE_ONE_SERVER ? lie(path, reply, body) : reply)
}

/** A right header, and rows that belong to other columns. */
function shifted(reply: Uint8Array): Uint8Array {
  const body = reply.slice(HEADER_BYTES)
  reply.set(body.subarray(5), HEADER_BYTES)
  reply.set(body.subarray(0, 5), reply.length - 5)
  return reply
}

async function failureOf(work: Promise<unknown>) {
  return await work.then(
    () => {
      throw new Error('expected a failure, got none')
    },
    ({ name, code, server, message }: Error & { code?: string; server?: string }) => ({ name, code, server, message }),
  )
}
