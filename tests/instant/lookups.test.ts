// Mode `instant` from end to end: the client's `open()` at two real servers, over HTTP, while the database changes and while
// one of them does not offer it.

import { describe, expect, test } from 'vitest'
import {
  COUNT,
  changingServers,
  contentOf,
  expectContent,
  expectFiveRounds,
  hexOf,
  keyOf,
  openedAt,
  publishRound,
} from '../support/changing.js'

describe('open({ mode: "instant" })', () => {
  test('finds keys, absent ones and batches, side by side', async () => {
    const map = await openedAt(await changingServers(), { mode: 'instant' })
    expect([map.mode, map.size, map.stats.held]).toEqual(['instant', COUNT, {}])
    await expectContent(map)
  })

  test('follows the database, with lookups under way at every moment', async () => {
    const both = await changingServers()
    const map = await openedAt(both, { mode: 'instant' })
    let going = true
    const lookups = (async () => {
      const seen = new Set<string | undefined>()
      for (let i = 0; going; i++) {
        expect(hexOf(await map.get(keyOf(100 + (i % 50))))).toBe(contentOf(100 + (i % 50)))
        seen.add(hexOf(await map.get(keyOf(7))))
      }
      return seen
    })()
    for (let round = 1; round <= 5; round++) {
      await publishRound(both, round)
      if (round % 2 === 0) await map.sync()
    }
    await map.sync()
    going = false
    const allowed = [0, 1, 2, 3, 4, 5].map(round => contentOf(7, round))
    for (const value of await lookups) expect(allowed).toContain(value)
    await expectFiveRounds(map)
  })

  test('names the server that does not offer it', async () => {
    const both = await changingServers({ instant: false })
    await expect(openedAt(both, { mode: 'instant' })).rejects.toMatchObject({
      name: 'UnsupportedError',
      message: expect.stringContaining(`${both[1].url} does not offer`),
    })
  })
})
