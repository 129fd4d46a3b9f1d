// Without signatures, a single server can answer every query with another new epoch. A lookup follows a bounded number of them;
// otherwise it would never end, and keep all update lists.

import { expect, test } from 'vitest'
import { openedOn } from './support/harness.js'
import { edit, livingKeyless } from './support/living.js'
import { A, epochUnknown } from './support/network.js'

const one = { servers: [A], integrity: 'server', mode: 'single', lookups: 60, storage: 'memory' } as const

test('a server that always has a newer epoch: the lookup fails, and the next one goes on', async () => {
  const living = livingKeyless()
  const { network } = living
  const { harness, map } = await openedOn({ network }, one)
  let turns = 0
  network.misbehave[A] = async (seen, genuine) => {
    if (seen.path !== '/v1/answer' || turns++ >= 200) return genuine
    living.publish([edit(1, `${turns}aaaaa`.slice(0, 5))])
    return epochUnknown(living.newest.manifest)
  }
  expect((await harness.failure(map.at(5))).code).toBe('version')
  expect(turns).toBeLessThan(100)
  expect(map.condemned).toBeUndefined()
  turns = 200
  expect(await harness.drive(map.at(5))).toEqual(living.newest.byIndex[5])
  expect(new Set(network.queries().map(({ body }) => body.length)).size).toBe(1)
})
