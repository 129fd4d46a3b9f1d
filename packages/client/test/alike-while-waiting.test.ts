// What servers see of lookups, and what the app hears, is alike for keys that are there, that are not, and that come again: whatever
// the app says to a download, however long it waits, whatever the line is, and in whatever state the map and its servers are.

import { HEADER_BYTES } from '@keyhush/protocol'
import { describe, expect, test } from 'vitest'
import { sampled } from '../../../tests/support/thorough.js'
import type { MapEvent } from '../src/index.js'
import { SCHEMES } from '../src/scheme/table.js'
import { tapir } from '../src/scheme/tapir/tapir.js'
import { type Fetch, openWith } from '../src/testing.js'
import { rest } from './support/clock.js'
import { buildDatabase } from './support/database.js'
import { nextEpoch } from './support/epochs.js'
import { core, Harness, hex, sameOnBoth } from './support/harness.js'
import { FakeLine } from './support/line.js'
import { A, B, hang, type Misbehave, problem } from './support/network.js'

/** 1.2 MiB, for the app to be asked before the download. */
const names = Array.from({ length: 150 }, (_, i) => `name-${i}`)
const values = names.map((_, i) => new Uint8Array(8 * 1024).fill(i))
const first = buildDatabase(core, { keys: names, values, partitions: 5 })
const second = nextEpoch(core, first, [{ op: 'edit', key: names[149]!, value: new Uint8Array(8 * 1024) }])

const KEYS = {
  present: names.slice(0, 3),
  absent: ['absent', 'gone', 'never'],
  repeated: [names[7]!, names[7]!, names[7]!],
  'repeated and absent': ['absent', 'absent', 'absent'],
}

const STATES = ['refused', 'preparing', 'prepared', 'postponed', 'prepared before the line was metered'] as const
type State = (typeof STATES)[number]
interface Case {
  readonly state: State
  /** the servers have another epoch since the map was opened */
  readonly outdated: boolean
  readonly misbehave: Misbehave | undefined
  readonly timeoutMs: number | undefined
}

const hold = (...paths: string[]): Misbehave => {
  const all = paths.map(hang)
  return (seen, genuine) => all.map(one => one(seen, genuine)).find(reply => reply !== undefined)
}
const QUERIES = ['/v1/answer', '/v1/instant']

/** Three lookups: what was sent and when, what the app heard and when, and how long it waited. */
async function lookedUp({ state, outdated, misbehave, timeoutMs }: Case, keys: readonly string[]) {
  const network = sameOnBoth(first)
  const seen: string[] = []
  const at = () => `${harness.clock.now()} ms`
  const fetch: Fetch = (url, init) => {
    const body = (init.body ?? new Uint8Array()) as Uint8Array
    seen.push(`${at()}: ${init.method} ${url} ${body.length} ${hex(body.subarray(0, HEADER_BYTES))}`)
    return network.fetch(url, init)
  }
  const line = new FakeLine()
  line.isMetered = state === 'postponed'
  const harness: Harness = new Harness(network, 5, { fetch, connection: line })
  const onEvent = ({ type }: MapEvent) => void seen.push(`${at()}: told ${type}`)
  const download = () => state !== 'refused'
  const options = { servers: [A, B], mode: 'auto', push: false, timeoutMs, download, onEvent } as const
  const pays = (_core: unknown, _manifest: unknown, lookups: number) => lookups >= 1
  const map = await harness.drive(openWith(harness.environment, options as never, SCHEMES, pays, () => tapir))
  if (state === 'preparing') network.both(hold('/v1/blobs'))
  await harness.drive(map.get(names[20]!)) // after which the app is asked
  const isPrepared = state.startsWith('prepared')
  if (isPrepared) await harness.drive(map.prepare())
  await rest()
  expect(map.mode).toBe(isPrepared ? 'full' : 'instant')
  expect(seen.some(line => line.endsWith('told postponed'))).toBe(state === 'postponed')
  if (isPrepared && state !== 'prepared') line.become('metered')
  if (outdated) network.publishOnBoth(second)
  const blobs = network.misbehave[B]
  network.misbehave[B] = (...of) => blobs?.(...of) ?? misbehave?.(...of)
  seen.length = 0
  for (const [i, key] of keys.entries()) {
    if (i === 2 && line.isMetered) line.become('unmetered')
    const failed = await harness.drive(
      map.get(key).then(
        () => {},
        error => error.code as string,
      ),
    )
    seen.push(`${at()}: ${failed ?? 'an answer'}`)
  }
  await harness.drive(map.close()) // waits for what is under way
  return seen
}

const SERVERS: readonly [string, Misbehave | undefined][] = [
  ['honest', undefined],
  ['of which one keeps silent', hold(...QUERIES)],
  ['of which one is away', () => Promise.reject(new TypeError('fetch failed'))],
  ['of which one is busy', () => problem(503, 'not_ready')],
]

describe.each(STATES)('a download that is %s', state => {
  describe.each([false, true])('outdated: %s', outdated => {
    test.each(sampled(SERVERS, 2))('servers %s', async (what, misbehave) => {
      for (const timeoutMs of [1_500, 5_000, undefined]) {
        const all = Object.values(KEYS).map(keys => lookedUp({ state, outdated, misbehave, timeoutMs }, keys))
        const [expected, ...others] = await Promise.all(all)
        for (const other of others) expect(other).toEqual(expected)
        const slow = expected!.filter(line => line.endsWith('told slow')).length
        if (what.includes('silent')) expect(slow).toBe(timeoutMs === 1_500 ? 0 : 3)
      }
    })
  })
})
