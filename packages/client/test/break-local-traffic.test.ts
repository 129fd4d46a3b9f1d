// docs/threat-model.md: of a map in mode local "nothing at all is shown by a lookup".

import { expect, test } from 'vitest'
import { buildDatabase, someValues } from './support/database.js'
import { core } from './support/harness.js'
import { A, B, problem } from './support/network.js'
import { publisherKey, signedOnBoth } from './support/signed.js'
import { World } from './support/world.js'

const options = { publisherKey, mode: 'local' } as const
const DAY = 24 * 60 * 60
const NOW = Date.UTC(2026, 10, 20) / 1000

function world(expires: number) {
  const database = buildDatabase(core, { values: someValues(15, 5), partitions: 4, manifest: { expires } })
  return new World({ network: signedOnBoth(database), database })
}

test('also when the newest epoch has expired, because a server withholds the next', async () => {
  const there = world(NOW + DAY)
  const life = there.life()
  const map = await life.open(options)
  there.clock.setTimeout(() => {}, 1000 * DAY)
  while (there.clock.waiting > 0) there.clock.advance()
  const before = there.network.seen.length
  for (let i = 0; i < 3; i++) expect((await life.failure(map.at(i))).code).toBe('signature')
  expect(there.network.seen.slice(before).map(({ server, path }) => server + path)).toEqual([])
})

test('also when the servers were away at open()', async () => {
  const there = world(0)
  await there.drive((await there.life().open(options)).close())
  for (const server of [A, B]) there.network.misbehave[server] = () => problem(503, 'not_ready')
  const life = there.life()
  const map = await life.open(options)
  const before = there.network.seen.length
  await there.drive(map.at(3).catch(() => {}))
  expect(there.network.seen.slice(before).map(({ server, path }) => server + path)).toEqual([])
})
