// Servers that take as long as they may: the other one does their work, and is not made to wait for them again and again.

import { expect, test } from 'vitest'
import { buildDatabase, someValues } from './support/database.js'
import { core, Harness, sameOnBoth } from './support/harness.js'
import { edit, livingKeyless } from './support/living.js'
import { A, B, blobs, hang, on } from './support/network.js'

test.each([
  [A, B],
  [B, A],
])(
  '%s gives each partition just within its deadline: %s gives what is left, and the first is noted',
  async (slow, other) => {
    const database = buildDatabase(core, { values: someValues(1000, 8), partitions: 16 })
    const network = sameOnBoth(database)
    const harness = new Harness(network)
    network.misbehave[slow] = on('/v1/blobs/', async genuine => {
      await new Promise<void>(resolve => void harness.clock.setTimeout(resolve, 9_000))
      return genuine
    })
    const map = await harness.open({ mode: 'local' })
    const given = (server: string) => blobs(network).filter(seen => seen.server === server).length
    expect([given(slow), given(other)]).toEqual([1, 15])
    expect(map.stats.incidents).toEqual([{ server: slow, code: 'slow' }])
    for (let i = 0; i < map.size; i += 13) expect(await harness.drive(map.at(i))).toEqual(database.byIndex[i])
  },
)

test.each([A, B])('%s keeps silent about the lists of twenty epochs: it is waited for once', async silent => {
  const living = livingKeyless()
  const { network } = living
  const harness = new Harness(network)
  const map = await harness.open({ mode: 'local' })
  const before = blobs(network).length
  network.misbehave[silent] = hang('/v1/blobs/')
  for (let i = 0; i < 20; i++) living.publish([edit(i % 15, `n ${`${i}`.padEnd(3)}`)])
  await harness.drive(map.sync())
  const asked = blobs(network).slice(before)
  expect(asked.filter(({ server }) => server === silent)).toHaveLength(1)
  expect(map.stats.incidents).toEqual([{ server: silent, code: 'network' }])
  for (let i = 0; i < map.size; i++) expect(await harness.drive(map.at(i))).toEqual(living.newest.byIndex[i])
})
