// A server that deviates at will, which may be the other as well: it changes, cuts, lengthens, replays, refuses or withholds what it
// likes, announces epochs and brings them about. Whatever it does, what both servers see is the same whatever is looked up; what is
// found is right at some epoch there was; and what a caller gets is a KeyhushError, which says of nobody else that it has lied.

import { HEADER_BYTES } from '@keyhush/protocol'
import { describe, expect, test } from 'vitest'
import { InternalError, KeyhushError, type KeyhushMap, type OpenOptions } from '../../src/index.js'
import { type Choose, chooseScheme, SCHEMES } from '../../src/scheme/table.js'
import { tapir } from '../../src/scheme/tapir/tapir.js'
import { openWith } from '../../src/testing.js'
import type { Database } from './database.js'
import { nextEpoch, type Operation } from './epochs.js'
import { core, hex, keyed, NAMES, sameOnBoth } from './harness.js'
import { add, change, remove } from './living.js'
import { A, among, B, bytesOf, epochUnknown, ok, problem, SERVERS, type Seen, silence } from './network.js'
import { drawing } from './random.js'
import { World } from './world.js'

/** What is published, one after the other, into the database of `keyed()`. */
export const CHANGES: Operation[][] = [
  [change(NAMES[0]!, 'edited')],
  [remove(NAMES[1]!), add('added.example', 'new')],
  Array.from({ length: 6 }, (_, i) => add(`more-${i}`, 'm')),
  [remove('added.example')],
]
/** The epochs that these changes make. */
export const plain = [keyed().database]
for (const operations of CHANGES) plain.push(nextEpoch(core, plain.at(-1)!, operations))
const { contents } = plain[0]!

/** What each name may be found to have, at one epoch or another. */
const possible = new Map<string, Set<string>>()
{
  const now = new Map(NAMES.map((name, i) => [name, hex(contents.values[i]!)]))
  const note = () => {
    for (const name of [
      ...NAMES,
      'added.example',
      'absent.example',
      ...Array.from({ length: 6 }, (_, i) => `more-${i}`),
    ]) {
      const values = possible.get(name) ?? new Set()
      possible.set(name, values.add(now.get(name) ?? 'absent'))
    }
  }
  note()
  for (const operations of CHANGES) {
    for (const { op, key, value } of operations) {
      if (op === 'delete') now.delete(key!)
      else now.set(key!, hex(value!))
    }
    note()
  }
}

/** Present, absent, repeated, changed meanwhile: by the number of the call. */
const patterns: Record<string, (i: number) => string> = {
  present: i => NAMES[(7 * i + 3) % 20]!,
  absent: () => 'absent.example',
  repeated: () => NAMES[5]!,
  changing: i => [NAMES[0]!, NAMES[1]!, 'added.example', 'more-3'][i % 4]!,
}

/** Expects a value that there was at some epoch. */
function expectPossible(key: string, value: Uint8Array | undefined): void {
  expect(possible.get(key)).toContain(value === undefined ? 'absent' : hex(value))
}

/** Calls that may fail, and the errors they failed with: KeyhushErrors, and none of a fault of ours. */
function attempting(drive: <T>(work: Promise<T>) => Promise<T>) {
  const failures: unknown[] = []
  const attempt = async <T>(work: () => Promise<T>): Promise<T | undefined> => {
    try {
      return await drive(work())
    } catch (error) {
      expect(error).toBeInstanceOf(KeyhushError)
      expect(error, String((error as Error).cause)).not.toBeInstanceOf(InternalError)
      failures.push(error)
      return undefined
    }
  }
  /** Of one key, or of two in one call. */
  const lookUp = async (map: KeyhushMap, key: string, other?: string): Promise<void> => {
    const before = failures.length
    const keys = other === undefined ? [key] : [key, other]
    const values = await attempt(async () =>
      other === undefined ? [await map.get(key)] : await map.getMany(keys, { padTo: 3 }),
    )
    if (failures.length === before) keys.forEach((asked, i) => void expectPossible(asked, values![i]))
  }
  return { attempt, lookUp, failures }
}

/**
 * Replies of all kinds, by the dice. Where lengths depend on chance, a lie stands `nearEnd`, behind the header. It can publish the
 * next epoch, on all servers or its own, and wait.
 */
export function lying(
  roll: (sides: number) => number,
  nearEnd = false,
  { publish = (_all: boolean) => {}, wait = async (_ms: number) => {} } = {},
): (seen: Seen, genuine: Response) => Promise<Response> {
  const kept = new Map<string, Uint8Array>()
  return async ({ path, init }, genuine) => {
    const bytes = await bytesOf(genuine)
    const replayed = kept.get(path)
    kept.set(path, bytes)
    const again = new Response(bytes.slice() as Uint8Array<ArrayBuffer>, genuine)
    const at = nearEnd ? bytes.length - 1 - (roll(200) % bytes.length) : roll(Math.max(1, bytes.length))
    switch (roll(14)) {
      case 0: {
        const changed = bytes.slice()
        if (changed.length > 0) changed[at]! ^= 1 << roll(8)
        return ok(changed)
      }
      case 1:
        return ok(bytes.slice(0, at))
      case 2:
        return ok(Buffer.concat([bytes, Buffer.alloc(1 + roll(100))]))
      case 3:
        return epochUnknown({ generation: 1, epoch: roll(9) })
      case 4:
        return problem(429, 'rate_limited', { 'retry-after': `${roll(100_000)}` })
      case 5:
        return problem(503, 'instant_full', { 'retry-after': '1' })
      case 6:
        return new Response('<html>'.repeat(1 + roll(1000)), { status: [200, 400, 404, 500, 504][roll(5)]! })
      case 7:
        return await silence(init.signal)
      case 8:
        if (replayed === undefined) return again
        // In a database this small a query may repeat by chance: its old answer is then the right one, and would be no lie.
        if (path === '/v1/answer' && hex(replayed) === hex(bytes)) replayed[replayed.length - 1]! ^= 1
        return ok(replayed)
      case 9:
        publish(false)
        return again
      case 10:
        publish(true)
        return again
      case 11:
        await wait(100 * roll(95))
        return again
      case 12:
        throw new TypeError('Failed to fetch')
      default:
        return ok(new Uint8Array(bytes.length))
    }
  }
}

/** Everything that servers see of one life in which these keys are looked up; the adversary acts by what it sees of that. */
async function seenIn(
  which: string,
  seed: number,
  keyOf: (i: number) => string,
  { epochs, servers: count = 2, atLeast = count, ...wishes }: Deviating,
): Promise<string[]> {
  const [mode, hint] = which.split(' ') as [string, string?]
  const choose: Choose = which === 'auto full' ? () => tapir : chooseScheme

  const servers = count === 2 ? [A, B] : SERVERS.slice(0, count)
  const network = count === 2 ? sameOnBoth(epochs[0]!) : among(count, epochs[0]!)
  const w = new World({ network, database: epochs[0]!, seed })
  const draw = drawing(seed)
  const most = atLeast === count ? 1 : Math.min(atLeast - 1, count - atLeast)
  const liars = [...servers].sort(() => draw(3) - 1).slice(0, most)
  const seen: string[] = []
  const published = new Map<string, number>()
  const publish = (...to: readonly string[]) => {
    for (const server of to) {
      const next = 1 + (published.get(server) ?? 0)
      if (next === epochs.length) continue
      published.set(server, next)
      network.publish(server, epochs[next]!)
    }
  }
  const eagerness = 1 + draw(6)
  for (const liar of liars) {
    // Each liar's dice are its own: in what order replies come does not matter.
    const roll = drawing(100 * seed + servers.indexOf(liar))
    const lie = lying(roll, count > 2, { publish: all => publish(...(all ? servers : [liar])), wait: w.clock.wait })
    network.misbehave[liar] = (seen, genuine) => (roll(6) < eagerness ? lie(seen, genuine) : undefined)
  }
  const life = w.life({
    fetch: (url, init) => {
      const body = (init.body ?? new Uint8Array()) as Uint8Array
      // Among many, chance says who gets the vector: then lengths say nothing, and the form stands behind the header.
      const length = count === 2 ? body.length : 'some'
      const head = hex(body.subarray(0, atLeast === 2 ? HEADER_BYTES : HEADER_BYTES + 1))
      seen.push(`${w.clock.now()} ${init.method} ${url} ${length} ${head}`)
      return network.fetch(url, init)
    },
  })
  const { attempt, lookUp, failures } = attempting(work => w.drive(work))
  const pays = (_core: unknown, _manifest: unknown, lookups: number) => lookups >= 4
  const parties = mode === 'single' ? { collusion: hint, lookups: 24 } : {}
  const atLeastOf = count === 2 ? {} : { atLeast }
  const options = { servers, mode, push: false, ...atLeastOf, ...wishes, ...parties } as never
  let map: KeyhushMap | undefined
  for (let i = 0; i < 16; i++) {
    map ??= await attempt(() => openWith(life.environment, options, SCHEMES, pays, choose))
    seen.push(`call ${i}`)
    if (map === undefined) continue
    const open = map
    switch (draw(8)) {
      case 0:
        await lookUp(open, keyOf(i), keyOf(i + 1))
        break
      case 1:
        await attempt(() => open.sync())
        break
      case 2:
        await attempt(() => open.close())
        map = undefined
        break
      case 3:
        await attempt(() => open.reset())
        break
      case 4:
        publish(...servers.slice(0, draw(count + 1)))
        break
      default:
        await lookUp(open, keyOf(i))
    }
  }
  const told = [...failures, ...(map?.stats.incidents ?? [])] as { code: string; server: string | undefined }[]
  if (map !== undefined) await w.drive(map.close())
  for (const { code, server } of told) {
    if (server?.startsWith('one of ')) continue
    if (code === 'tampered' || code === 'condemned') expect([...liars, undefined]).toContain(server)
  }
  return seen
}

export interface Deviating extends Pick<OpenOptions, 'proofs' | 'pointproofs' | 'atLeast' | 'timeoutMs'> {
  /** of the database, as CHANGES make them */
  readonly epochs: readonly Database[]
  /** how many; two by default */
  readonly servers?: number
}

/** Tests of each of these modes, `runs` of each. */
export function deviate(modes: readonly string[], runs: number, by: Deviating = { epochs: plain }): void {
  describe.each(modes)('mode %s', mode => {
    for (let seed = 1; seed <= runs; seed++) {
      test(`what a deviating server makes both see does not depend on the keys (seed ${seed})`, async () => {
        const all = []
        for (const pattern of Object.values(patterns)) all.push(await seenIn(mode, seed, pattern, by))
        for (const seen of all) expect(seen).toEqual(all[0])
        expect(all[0]!.length).toBeGreaterThan(16)
      })
    }
  })
}
