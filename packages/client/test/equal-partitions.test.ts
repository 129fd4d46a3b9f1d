// Partitions with the same bytes, as empty ones have, are downloaded once for all their places, in every mode that downloads.

import { expect, test } from 'vitest'
import { buildDatabase, someValues } from './support/database.js'
import { core, Harness, sameOnBoth } from './support/harness.js'
import { A, B, blobs, flip, on } from './support/network.js'
import { World } from './support/world.js'

const [ROWS, PARTITIONS] = [4, 9]
/** The fifth and the last differ from the others, which are equal. */
const values = Array.from({ length: PARTITIONS }, (_, q) =>
  someValues(ROWS, 5).map(value => (q === 4 || q === 8 ? value.map(byte => byte ^ (q + 1)) : value)),
).flat()
const database = buildDatabase(core, { values, partitions: PARTITIONS })
const DISTINCT = 3
const loadCore = () => Promise.reject(new EvalError('Refused to create it'))

test.each([
  ['local', {}, {}],
  ['local, without WebAssembly', {}, { loadCore }],
  ['full', {}, {}],
  ['single', { collusion: 'tolerated', lookups: 60 }, {}],
] as const)('%s', async (name, options, change) => {
  const mode = name.split(',')[0] as 'local' | 'full' | 'single'
  for (const fault of ['none', 'tampered', 'broken off'] as const) {
    const network = sameOnBoth(database)
    const harness = new Harness(network, 1, change)
    if (fault === 'tampered') network.misbehave[A] = flip(3, '/v1/blobs/')
    let cut = 1 // the first is received by half; the second attempt is whole
    const half = on('/v1/blobs/', async genuine => {
      if (cut-- <= 0) return genuine
      const body = new Uint8Array(await genuine.arrayBuffer())
      return new Response(body.subarray(0, body.length / 2))
    })
    if (fault === 'broken off') network.both(half)
    const map = await harness.open({ mode, ...options })
    const right = new Set(
      blobs(network).flatMap(({ path, server }) => (fault === 'tampered' && server === A ? [] : [path])),
    )
    expect([fault, right.size]).toEqual([fault, DISTINCT])
    if (fault === 'none') expect(blobs(network)).toHaveLength(DISTINCT)
    for (const [i, value] of values.entries()) expect(await harness.drive(map.at(i))).toEqual(value)
    await harness.drive(map.close())
  }
})

test('a download that was interrupted goes on, and asks for nothing twice', async () => {
  const network = sameOnBoth(database)
  const world = new World({ network, database, audited: false })
  let left = 2
  network.both(on('/v1/blobs/', genuine => (left-- > 0 ? genuine : Promise.reject(new TypeError('offline')))))
  const wish = { servers: [A, B], mode: 'local' } as const
  expect((await world.life().failure(world.life().openIdle(wish))).code).toBe('network')
  const before = blobs(network).length
  network.both(undefined)
  const map = await world.life().open(wish)
  expect(blobs(network).slice(before).length).toBeLessThanOrEqual(DISTINCT - 1)
  for (const [i, value] of values.entries()) expect(await world.drive(map.at(i))).toEqual(value)
})
