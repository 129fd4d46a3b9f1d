// What servers see of a life with three servers or more is the same whatever is asked, also while fewer than `atLeast` of them deviate at
// random; and no value is wrong. Who got the vector is drawn anew, so lengths of bodies are left out.

import { HEADER_BYTES, toHex } from '@keyhush/protocol'
import { describe, expect, test } from 'vitest'
import { THOROUGH } from '../../../tests/support/thorough.js'
import type { KeyhushMap } from '../src/index.js'
import { openWith } from '../src/testing.js'
import { rest } from './support/clock.js'
import { attempting, plain as epochs, patterns } from './support/deviating.js'
import { Harness } from './support/harness.js'
import { among, SERVERS } from './support/many.js'
import { bytesOf, epochUnknown, ok, problem, silence } from './support/network.js'
import { seededRandom } from './support/random.js'

const RUNS = THOROUGH ? 300 : 12
async function seenIn(seed: number, count: number, atLeast: number, keyOf: (i: number) => string): Promise<string[]> {
  const random = seededRandom(seed + 1000)
  const draw = (bound: number) => random(1)[0]! % bound
  const names = SERVERS.slice(0, count)
  const network = among(count, epochs[0]!)
  const harness = new Harness(network, seed)
  const liars = [...names]
    .sort(() => draw(3) - 1)
    .slice(0, atLeast === count ? 1 : Math.min(atLeast - 1, count - atLeast))
  const published = new Map(names.map(name => [name, 0]))
  const publish = (server: string) => {
    const at = published.get(server)!
    if (at === epochs.length - 1) return
    published.set(server, at + 1)
    network.publish(server, epochs[at + 1]!)
  }
  const kept = new Map<string, Uint8Array>()
  for (const liar of liars) {
    // Each liar's dice are its own: in what order replies come must not matter here.
    const own = seededRandom(seed * 100 + names.indexOf(liar))
    const roll = (bound: number) => own(1)[0]! % bound
    network.misbehave[liar] = async ({ path, init }, genuine) => {
      const bytes = await bytesOf(genuine)
      const again = () => new Response(bytes.slice() as Uint8Array<ArrayBuffer>, genuine)
      if (roll(3) === 0) return again()
      const replayed = kept.get(liar + path)
      kept.set(liar + path, bytes)
      switch (roll(10)) {
        case 0:
        case 1: {
          const lie = bytes.slice()
          if (lie.length > 0) lie[lie.length - 1 - (roll(200) % lie.length)]! ^= 1 << roll(8)
          return ok(lie)
        }
        case 2:
          return ok(bytes.slice(0, bytes.length >> 1))
        case 3:
          return epochUnknown({ generation: 1, epoch: roll(9) })
        case 4:
          return problem(429, 'rate_limited', { 'retry-after': `${roll(200)}` })
        case 5:
          return problem(503, 'instant_full', { 'retry-after': '1' })
        case 6:
          return await silence(init.signal)
        case 7:
          await harness.clock.wait(100 * roll(95))
          return again()
        case 8:
          publish(liar)
          return again()
        default:
          return ok(replayed ?? new Uint8Array(bytes.length))
      }
    }
  }
  const seen: string[] = []
  const environment = {
    ...harness.environment,
    fetch: (url: string, init: RequestInit) => {
      const head = (init.body as Uint8Array | undefined)?.slice(0, atLeast === 2 ? HEADER_BYTES : HEADER_BYTES + 1) // and the form
      seen.push(`${harness.clock.now()} ${init.method} ${url} ${head === undefined ? '' : toHex(head)}`)
      return network.fetch(url, init)
    },
  }
  const { attempt, lookUp } = attempting(harness.drive)
  const options = {
    servers: names,
    atLeast,
    mode: 'instant',
    push: false,
    timeoutMs: Number.POSITIVE_INFINITY,
  } as const
  let map: KeyhushMap | undefined
  for (let i = 0; i < 12; i++) {
    map ??= await attempt(() => openWith(environment, options))
    seen.push(`call ${i}`)
    if (map === undefined) continue
    const open = map
    switch (draw(7)) {
      case 0:
        await lookUp(open, keyOf(i), keyOf(i + 1))
        break
      case 1:
        await attempt(() => open.sync())
        break
      case 2: {
        const number = draw(count)
        for (const server of names.slice(0, number)) publish(server)
        break
      }
      case 3:
        for (const server of names) publish(server)
        break
      default:
        await lookUp(open, keyOf(i))
    }
  }
  if (map !== undefined) {
    for (const { server, code } of map.stats.incidents) {
      if (code === 'tampered' && !server.startsWith('one of')) expect(liars).toContain(server)
    }
    await harness.drive(map.close())
  }
  await rest()
  return seen
}

describe.each([
  [3, 3],
  [3, 2],
  [5, 3],
  [5, 4],
  [8, 5],
])('of %i servers at least %i', (count, atLeast) => {
  test('deviating servers see the same whatever is asked', async () => {
    for (let seed = 1; seed <= RUNS; seed++) {
      const all = []
      for (const pattern of Object.values(patterns)) all.push(await seenIn(seed, count, atLeast, pattern))
      for (const seen of all) expect(seen).toEqual(all[0])
    }
  })
})
