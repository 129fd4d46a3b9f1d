// Two maps of one identity with different options, as in two pages of an app, one of which was updated first.

import { expect, test } from 'vitest'
import { rest } from './support/clock.js'
import { World } from './support/world.js'

test.each([
  [{ proofs: 'merkle' }, { proofs: 'tags' }],
  [{ mode: 'full' }, { mode: 'local' }],
])('%o beside %o: the database is not downloaded again for each lookup', async (one, other) => {
  const w = new World()
  const [first, second] = [w.life(), w.life()]
  const maps = [
    await first.open({ push: false, ...one } as never),
    await second.open({ push: false, ...other } as never),
  ]
  await rest()
  const blobs = () => w.network.seen.filter(({ path }) => path.startsWith('/v1/blobs/')).length
  const before = blobs()
  for (let i = 0; i < 5; i++) {
    for (const map of maps) {
      await w.drive(map.at(i))
      await rest()
    }
  }
  for (const map of maps) await w.drive(map.close())
  expect((blobs() - before) / 16).toBeLessThan(3)
})
