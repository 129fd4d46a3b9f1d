// Extreme sizes from end to end: two servers build and serve, the SDK looks up.

import { open } from '@keyhush/client'
import { expect, onTestFinished, test } from 'vitest'
import { distinctRecords, startPair } from '../support/servers.js'
import { THOROUGH } from '../support/thorough.js'

interface Size {
  /** N */
  readonly records: number
  /** ℓ */
  readonly bytes: number
  /** Q, if it is not to be planned */
  readonly partitions?: number
  /** records a block */
  readonly pack?: number
}

const sizes: Record<string, Size> = {
  'one record': { records: 1, bytes: 32 },
  'two records': { records: 2, bytes: 32 },
  '15 records': { records: 15, bytes: 32 },
  '16 records, M = 1': { records: 16, bytes: 32 },
  '17 records': { records: 17, bytes: 32 },
  '1 000 records': { records: 1000, bytes: 32 },
  '5 003 records': { records: 5003, bytes: 7 },
  'records of one byte': { records: 300, bytes: 1 },
  'records of 64 KiB': { records: 20, bytes: 65_536 },
  'one partition': { records: 100, bytes: 5, partitions: 1 },
  'a partition for each record': { records: 100, bytes: 5, partitions: 100 },
  'blocks of four, the last half full': { records: 30, bytes: 24, partitions: 2, pack: 4 },
  'M = 65 536': { records: 65_536, bytes: 2, partitions: 1 },
  'M = 65 536 twice, not full': { records: 131_071, bytes: 3, partitions: 2 },
}

const SAMPLE = ['one record', 'records of 64 KiB', 'blocks of four, the last half full', 'M = 65 536']

test.each(Object.entries(sizes).filter(([name]) => THOROUGH || SAMPLE.includes(name)))(
  '%s',
  async (_name, { records, bytes, ...layout }) => {
    const values = distinctRecords(records, bytes)
    const data = { format: 'bin', content: Buffer.concat(values), recordBytes: bytes, ...layout } as const
    const { urls, close } = await startPair(data)
    onTestFinished(close)
    // All of a few records; of many the first, the last and some between. Each again after the hint was shuffled.
    const step = Math.max(1, Math.floor(records / 37))
    const indices = [0, records - 1, ...Array.from({ length: Math.ceil(records / step) }, (_, i) => i * step)]
    const ways = [
      { servers: urls, mode: 'full' },
      { servers: urls, mode: 'instant' },
      { servers: urls.slice(0, 1), mode: 'single', integrity: 'server' },
    ] as const
    for (const way of ways) {
      const map = await open(way)
      expect([map.size, map.mode]).toEqual([records, way.mode])
      for (const index of [...indices, ...indices]) {
        const found = await map.at(index)
        expect(Buffer.from(found!).equals(values[index]!)).toBe(true)
      }
      await map.close()
    }
  },
)
