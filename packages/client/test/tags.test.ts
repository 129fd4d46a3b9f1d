// Client-held tags (docs/threat-model.md): nothing on the wire proves an answer, and no lie passes.

import { HEADER_BYTES, type Manifest } from '@keyhush/protocol'
import { describe, expect, test } from 'vitest'
import { chooseProofs } from '../src/scheme/tapir/proofs.js'
import { core, Harness, keyless, openedOn } from './support/harness.js'
import { A, B, flip } from './support/network.js'

test('every record and every absent key is right, over and over', async () => {
  const { database, harness, map } = await openedOn(keyless(23), { proofs: 'tags' })
  for (let i = 0; i < 3 * map.size; i++) {
    const index = (i * 7) % map.size
    expect(await harness.drive(map.at(index))).toEqual(database.byIndex[index])
  }
  const { lastLookup } = map.stats
  expect(lastLookup!.bytesDown).toBe(2 * (HEADER_BYTES + 6 * 5)) // records, and nothing else
})

describe('a lie', () => {
  const { network, database } = keyless(15)
  const bytes = database.manifest.partitions * database.manifest.recordBytes
  const positions = Array.from({ length: bytes }, (_, at) => at)

  test.each([A, B])('in any byte of an answer of %s is caught, whatever is asked, and condemns', async server => {
    for (const at of positions) {
      const harness = new Harness(network, 100 + at + (server === A ? 0 : bytes))
      const map = await harness.open({ proofs: 'tags' })
      network.misbehave[server] = flip(HEADER_BYTES + at)
      expect(await harness.failure(map.at(at % 15))).toMatchObject({ name: 'TamperedError', server })
      network.misbehave[server] = undefined
      expect(await harness.failure(map.at(0))).toMatchObject({ name: 'CondemnedError', server })
      await harness.drive(map.close())
    }
  })
})

test('auto: tags while all that is held fits 64 MB, whatever the device; proofs where tags are all there is, never', () => {
  const of = (records: number): Manifest => ({
    ...keyless().database.manifest,
    recordBytes: 32,
    records,
    partitions: Math.max(16, records / 65_536),
    partitionRecords: Math.min(65_536, records / 16),
  })
  expect(
    [2 ** 16, 2 ** 20, 2 ** 22, 2 ** 24].map(records => chooseProofs(core, of(records), { proofs: 'auto' })),
  ).toEqual(['tags', 'tags', 'tags', 'merkle'])
  const without = { ...of(2 ** 20), suite: 2 }
  expect(chooseProofs(core, without, { proofs: 'auto' })).toBe('tags')
  expect(() => chooseProofs(core, without, { proofs: 'merkle' })).toThrow(/expected a kind that these servers offer/)
})
