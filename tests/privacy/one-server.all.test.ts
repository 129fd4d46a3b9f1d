// All that one server sees of a map without a download: the same paths, lengths and headers, in the same order, whether keys are
// present, absent or asked again, in whatever state the map is. Wrong clients are found out.

import { type KeyhushMap, type OpenOptions, open } from '@keyhush/client'
import { HEADER_BYTES, ONE_SERVER_PATH } from '@keyhush/protocol'
import { startServers, type TestServers } from '@keyhush/server/testing'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'

const DATA = Object.fromEntries(Array.from({ length: 300 }, (_, i) => [`key-${i}`, `value ${'x'.repeat(i % 40)}${i}`]))
/** what each map has asked for before */
const BEFORE = 'key-5'
const PAD_TO = 3

/** Keys that look the same, by the way in which an app asks for them. */
const QUESTIONS = {
  get: { present: ['key-1'], absent: ['nobody'], again: [BEFORE] },
  has: { present: ['key-1'], absent: ['nobody'], again: [BEFORE] },
  getMany: { present: ['key-1'], absent: ['nobody', 'no one'], again: [BEFORE, BEFORE, 'key-1'] },
}
type Way = keyof typeof QUESTIONS
const WAYS = Object.keys(QUESTIONS) as Way[]

let one: TestServers<readonly [string]>
beforeAll(async () => {
  one = await startServers(DATA, { count: 1 })
})
afterAll(async () => await one.close())

interface Client {
  readonly map: KeyhushMap
  /** what the server has seen, in the order in which it was sent */
  readonly seen: string[]
  /** what becomes of lookups */
  readonly server: { does: 'right' | 'lie' | 'hang up' }
}

async function opened(): Promise<Client> {
  const seen: string[] = []
  const server: Client['server'] = { does: 'right' }
  const fetched: OpenOptions['fetch'] = async (url, init) => {
    const path = url.slice(one.servers[0].length)
    const body = (init.body as Uint8Array | undefined) ?? new Uint8Array()
    const sent = `${path} ${body.length} ${Buffer.from(body.subarray(0, HEADER_BYTES)).toString('hex')}`
    const at = seen.push(sent) - 1
    if (path === ONE_SERVER_PATH && server.does === 'hang up') throw new TypeError('the server has hung up')
    const response = await fetch(url, init)
    const reply = new Uint8Array(await response.arrayBuffer())
    seen[at] = `${sent}: ${response.status} ${reply.length}`
    if (path === ONE_SERVER_PATH && server.does === 'lie') reply[HEADER_BYTES]! ^= 0x40
    return new Response(reply, response)
  }
  const { servers, publisherKey } = one
  const options = { servers, publisherKey, mode: 'instant', experimental: true, push: false } as const
  const map = await open({ ...options, fetch: fetched, timeoutMs: Number.POSITIVE_INFINITY })
  onTestFinished(async () => await map.close())
  return { map, seen, server }
}

type Ask = (map: KeyhushMap, way: Way, keys: readonly string[]) => Promise<unknown>

const right: Ask = async (map, way, keys) => {
  if (way === 'has') return await map.has(keys[0]!)
  if (way === 'get') return await map.getText(keys[0]!)
  const values = await map.getMany([...keys], { padTo: PAD_TO })
  return values.map(value => value && new TextDecoder().decode(value))
}

const answerTo = (way: Way, keys: readonly string[]) => {
  if (way === 'has') return keys[0]! in DATA
  return way === 'get' ? DATA[keys[0]!] : keys.map(key => DATA[key])
}

async function edit(value: string, keys: readonly string[] = ['key-9']): Promise<void> {
  const publish = () => one.publish(keys.map(key => ({ op: 'edit', key, value })))
  await publish().catch(publish) // on a slow machine the first may take longer than a connection lasts
}

/** Edits so much, again and again, that the base has changed twice: the server answers the newest and the one before. */
async function editAll(): Promise<void> {
  const keys = Object.keys(DATA).slice(10)
  for (const value of ['once', 'twice', 'three times', 'four times']) await edit(value, keys)
}

interface State {
  /** what the server has seen from open() on counts, too */
  readonly cold?: true
  /** what each map does first, after it has asked for `BEFORE` */
  readonly prepare?: (client: Client, ask: Ask) => Promise<unknown>
  /** what happens then */
  readonly meanwhile?: () => Promise<void>
  /** requests of lookups in this state */
  readonly requests: number
  /** the code of their failure */
  readonly fails?: string
}

async function failing(does: Client['server']['does'], { map, server }: Client, ask: Ask) {
  server.does = does
  await expect(ask(map, 'get', ['key-3'])).rejects.toThrow()
  server.does = 'right'
}

const STATES: Record<string, State> = {
  'that has just opened': { cold: true, requests: 2 },
  'that has looked up before': { requests: 2 },
  'at the epoch before the newest': { meanwhile: () => edit('one'), requests: 2 },
  'on a base that is answered no more': { meanwhile: editAll, requests: 3 },
  'after a lie': { prepare: (client, ask) => failing('lie', client, ask), requests: 2 },
  'after a failure': { prepare: (client, ask) => failing('hang up', client, ask), requests: 2 },
  'whose server lies': {
    prepare: async ({ server }) => {
      server.does = 'lie'
    },
    requests: 1,
    fails: 'tampered',
  },
  'whose server hangs up': {
    prepare: async ({ server }) => {
      server.does = 'hang up'
    },
    requests: 3,
    fails: 'network',
  },
}

/** What the server sees of each question, by a client of its own. */
async function views({ cold, prepare, meanwhile, requests, fails }: State, way: Way, ask = right): Promise<string[][]> {
  const questions = Object.values(QUESTIONS[way])
  const clients = await Promise.all(questions.map(opened))
  for (const client of clients) {
    if (!cold) {
      await ask(client.map, 'get', [BEFORE])
      client.seen.length = 0
    }
    await prepare?.(client, ask)
  }
  await meanwhile?.()
  return await Promise.all(
    clients.map(async ({ map, seen }, n) => {
      const from = cold ? 0 : seen.length
      const asked = ask(map, way, questions[n]!)
      if (fails !== undefined) await expect(asked).rejects.toMatchObject({ code: fails })
      else expect(await asked).toEqual(answerTo(way, questions[n]!))
      const view = seen.slice(from)
      if (ask === right) expect(view.filter(line => line.startsWith(ONE_SERVER_PATH))).toHaveLength(requests)
      return view
    }),
  )
}

describe.each(Object.entries(STATES))('a map %s', (_, state) => {
  test.each(WAYS)('shows the same by %s for keys that are present, absent and asked again', async way => {
    const [first, ...others] = await views(state, way)
    for (const other of others) expect(other).toEqual(first)
  })
})

/** What a careless SDK could do. */
const asked = new WeakMap<KeyhushMap, Map<string, unknown>>()
const WRONG: Record<string, Ask> = {
  'remembers answers': async (map, way, keys) => {
    const known = asked.get(map) ?? new Map<string, unknown>()
    asked.set(map, known)
    const question = `${way} ${keys[0]}`
    if (!known.has(question)) known.set(question, await right(map, way, keys))
    return known.get(question)
  },
  'asks again for what is absent': async (map, way, keys) => {
    const answer = await right(map, way, keys)
    return answer === undefined || answer === false ? await right(map, way, keys) : answer
  },
  'sends as many queries as there are keys': async (map, way, keys) => {
    if (way !== 'getMany') return await right(map, way, keys)
    const values = await map.getMany([...keys])
    return values.map(value => value && new TextDecoder().decode(value))
  },
}

test.each(Object.entries(WRONG))('a client that %s is found out', async (_, ask) => {
  const state = STATES['that has looked up before']!
  const seen = await Promise.all(WAYS.map(way => views(state, way, ask)))
  expect(seen.some(([first, ...others]) => others.some(other => String(other) !== String(first)))).toBe(true)
})
