// Maps with a publisher's key and without stored state follow docs/protocol.md, Decisions, when their epoch has expired, and when the
// newest epoch is not signed yet.

import { expect, test } from 'vitest'
import { buildDatabase, type Database, someValues } from './support/database.js'
import { nextEpoch } from './support/epochs.js'
import { core } from './support/harness.js'
import { A, B } from './support/network.js'
import { publisherKey, signatureOf, signedOnBoth } from './support/signed.js'
import { World } from './support/world.js'

const NOW = Date.UTC(2026, 10, 20) / 1000
const DAY = 24 * 60 * 60

const edited = (before: Database, index: number, expires = 0) =>
  nextEpoch(core, before, [{ op: 'edit', index, value: new Uint8Array(5).fill(9) }], { expires })

test.each(['full', 'instant'])('mode %s: an expired epoch is followed by a newer one that is signed', async mode => {
  const first = buildDatabase(core, { values: someValues(15, 5), partitions: 4, manifest: { expires: NOW + DAY } })
  const network = signedOnBoth(first)
  const w = new World({ network, database: first })
  const map = await w.life().open({ mode, publisherKey, push: false } as never)
  const second = edited(first, 3, NOW + 10 * DAY)
  for (const server of [A, B]) network.publish(server, second)
  network.signatures.push(signatureOf(second))
  w.clock.pass(2 * DAY * 1000)
  expect(await w.drive(map.at(3))).toEqual(second.byIndex[3])
  expect(map.epoch).toBe(2)
  await w.drive(map.close())
})

test.each(['full', 'instant'])(
  'mode %s: stays at the newest epoch that is signed, if the newest is not',
  async mode => {
    const first = buildDatabase(core, { values: someValues(15, 5), partitions: 4 })
    const network = signedOnBoth(first)
    const w = new World({ network, database: first })
    const map = await w.life().open({ mode, publisherKey, push: false } as never)
    const second = edited(first, 3)
    const third = edited(second, 4)
    for (const server of [A, B]) {
      network.publish(server, second)
      network.publish(server, third)
    }
    network.signatures.push(signatureOf(second))
    expect(await w.drive(map.at(3))).toEqual(second.byIndex[3])
    expect(map.epoch).toBe(2)
    await w.drive(map.close())
  },
)
