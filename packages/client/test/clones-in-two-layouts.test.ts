// Clones with equal random generators: seeds of an instant lookup's keys depend on the epoch, too. Otherwise keys for one index in
// two generations' layouts have equal seeds and other corrections, which show how the two groups differ.

import { decodeInstantQuery, INSTANT_PATH } from '@keyhush/protocol'
import { expect, test } from 'vitest'
import { buildDatabase, type Database, later, someValues } from './support/database.js'
import { core, Harness, hex, sameOnBoth } from './support/harness.js'
import { B } from './support/network.js'

const values = someValues(3000, 256)

/** The key that a clone sends to server B for this record: the seed, and the rest. */
async function sent(database: Database, index: number) {
  const network = sameOnBoth(database)
  const harness = new Harness(network, 7) // the same chance for all
  const map = await harness.open({ mode: 'instant' } as never)
  await harness.drive(map.at(index))
  await harness.drive(map.close())
  const { body } = network.seen.find(({ server, path }) => server === B && path === INSTANT_PATH)!
  const { queries } = decodeInstantQuery(body)
  return { seed: hex(queries.subarray(0, 16)), corrections: hex(queries.subarray(16)) }
}

test('clones that ask in two layouts of the database do not send keys under the same seeds', async () => {
  const before = buildDatabase(core, { values, partitions: 16 })
  const after = buildDatabase(core, { values, partitions: 32, partitionRecords: 128, manifest: later(2, 2) })
  const one = await sent(before, 2345)
  const other = await sent(after, 2345)
  expect(one.corrections).not.toBe(other.corrections) // another group
  expect(one.seed).not.toBe(other.seed)
})
