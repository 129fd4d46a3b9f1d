// Mode `light` from end to end: the client's `open()` at two real servers, over HTTP, while the database changes and while
// one of them does not offer it.

import { open } from '@keyhush/client'
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

describe('open({ mode: "light" })', () => {
  test.each([
    [1, 'merkle'],
    [1, 'tags'],
    ['auto', 'merkle'],
    ['auto', 'tags'],
  ] as const)('makes a hint of what two servers send, pack: %s, %s, and finds keys', async (pack, proofs) => {
    const both = await changingServers({}, pack)
    const { partitions, partitionRecords, blockRecords } = both[0].updatable.newest.manifest
    expect(blockRecords > 1).toBe(pack === 'auto')
    const map = await openedAt(both, { mode: 'light', proofs })
    const tags = proofs === 'tags' ? (8 * partitions * partitionRecords) / blockRecords : 0
    expect([map.mode, map.size, map.stats.held['tags'], map.stats.incidents]).toEqual(['light', COUNT, tags, []])
    await expectContent(map)
    await map.reset()
    expect([map.mode, hexOf(await map.get(keyOf(5)))]).toEqual(['light', contentOf(5)])
  })

  test('while epochs are published, many at a time: every hint is of one epoch, and follows', async () => {
    const both = await changingServers()
    let going = true
    const opening = (async () => {
      let made = 0
      for (; going || made === 0; made++) {
        const map = await open({ servers: [both[0].url, both[1].url], mode: 'light' })
        expect(hexOf(await map.get(keyOf(100 + made)))).toBe(contentOf(100 + made))
        // That a server has moved on is no failure of its own.
        const failures = map.stats.incidents.filter(({ code }) => code !== 'version')
        expect([map.mode, failures]).toEqual(['light', []])
        await map.close()
      }
    })()
    const map = await openedAt(both, { mode: 'light', rollback: 'strict' })
    for (let round = 1; round <= 5; round++) {
      await publishRound(both, round)
      if (round % 2 === 0) await map.sync()
    }
    going = false
    await opening
    await map.sync()
    await expectFiveRounds(map)
  })

  test('downloads where one server does not offer it, and tries that one again after reset() alone', async () => {
    const both = await changingServers({ light: false })
    const map = await openedAt(both, { mode: 'light' })
    expect(map.mode).toBe('full')
    expect(map.stats.incidents).toEqual([{ server: both[1].url, code: 'protocol' }])
    expect(hexOf(await map.get(keyOf(1)))).toBe(contentOf(1))
    await map.reset()
    expect([map.mode, map.stats.incidents.length]).toEqual(['full', 2])
  })
})
