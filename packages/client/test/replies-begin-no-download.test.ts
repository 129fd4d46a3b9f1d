// Mode `auto`: whatever comes back to an instant lookup, no download follows from it (I3). The lookup fails with a KeyhushError or
// succeeds, and the next honest one succeeds.

import { decodeInstantQuery, encodeInstantAnswer, INSTANT_PATH } from '@keyhush/protocol'
import { expect, test } from 'vitest'
import { InternalError, KeyhushError } from '../src/index.js'
import { SCHEMES } from '../src/scheme/table.js'
import { openWith } from '../src/testing.js'
import { rest } from './support/clock.js'
import { nextEpoch } from './support/epochs.js'
import { core, keyed, NAMES, sameOnBoth } from './support/harness.js'
import { A, B, blobs, bytesOf, ok, problem, type Seen } from './support/network.js'
import { dice, seededRandom } from './support/random.js'
import { World } from './support/world.js'

const REPLIES = 500

test.each([1])(`after ${REPLIES} random replies nothing was downloaded (seed %i)`, async seed => {
  const { database } = keyed()
  const next = nextEpoch(core, database, [{ op: 'edit', key: NAMES[0]!, value: new Uint8Array([1]) }])
  const network = sameOnBoth(database)
  const w = new World({ network, database, seed })
  const draw = dice(seed)
  const random = seededRandom(seed)
  const kept: Uint8Array[] = []
  const replies: readonly ((genuine: Uint8Array, seen: Seen) => Response)[] = [
    genuine => ok(genuine.slice(0, draw(genuine.length))),
    genuine => ok(kept[draw(kept.length)] ?? genuine), // another lookup's
    () => new Response('<html>'.repeat(1 + draw(400)), { headers: { 'content-type': 'text/html' } }),
    genuine => ok(Buffer.concat([genuine, random(1 + draw(100))])),
    genuine => ok(random(genuine.length)),
    (_genuine, { body }) => {
      const { of, count, queries } = decodeInstantQuery(body)
      return ok(encodeInstantAnswer(next.manifest, of, count, database.answerInstantly(of, queries)))
    },
    () => Response.json({ code: 'epoch_unknown', message: '', generation: 1, epoch: draw(9) }, { status: 404 }),
    () => problem(400 + draw(40), ['bad_request', 'not_found', 'nothing known'][draw(3)]!),
    () => problem(429, 'rate_limited', { 'retry-after': `${draw(100_000)}` }),
    () => problem(503, 'instant_full', { 'retry-after': '1' }),
    () => new Response(random(draw(200)) as Uint8Array<ArrayBuffer>, { status: 500 + draw(12) }),
    () => {
      throw new TypeError('Failed to fetch')
    },
  ]
  let lying: readonly string[] = []
  let how = replies[0]!
  for (const server of [A, B]) {
    network.misbehave[server] = (seen, genuine) => {
      if (seen.path !== INSTANT_PATH) return undefined
      return bytesOf(genuine).then(bytes => {
        if (lying.includes(server)) return how(bytes, seen)
        if (kept.length < 50) kept.push(bytes)
        return ok(bytes)
      })
    }
  }
  const events: string[] = []
  const options = {
    servers: [A, B],
    mode: 'auto',
    push: false,
    onEvent: ({ type }: { type: string }) => void events.push(type),
  }
  const map = await w.drive(openWith(w.life().environment, options as never, SCHEMES, () => false))
  const codes = new Map<string, number>()
  for (let i = 0; i < REPLIES; i++) {
    const key = i % 3 === 0 ? 'absent.example' : NAMES[draw(NAMES.length)]!
    const right = i % 3 === 0 ? undefined : database.contents.values[NAMES.indexOf(key)]
    lying = [[A], [B], [A, B]][draw(3)]!
    how = replies[i % replies.length]!
    try {
      expect(await w.drive(map.get(key))).toEqual(right)
    } catch (error) {
      expect(error).toBeInstanceOf(KeyhushError)
      expect(error, `${(error as Error).cause}`).not.toBeInstanceOf(InternalError)
      const { code } = error as KeyhushError
      codes.set(code, 1 + (codes.get(code) ?? 0))
    }
    lying = []
    expect(await w.drive(map.get(key))).toEqual(right)
  }
  await rest()
  expect([map.mode, blobs(network).length, events.filter(type => type !== 'slow')]).toEqual(['instant', 0, []])
  for (const code of ['tampered', 'protocol', 'network', 'rate_limited', 'version'])
    expect(codes.keys()).toContain(code)
})
