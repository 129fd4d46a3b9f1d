// Tables of measured rows.

import { expect, test } from 'vitest'
import { table } from './document.js'

test('a table has a row for every x, a column for every series, and shows spreads where there are any', () => {
  const rows = [
    { series: 'ours', x: 2 ** 20, median: 0.005, min: 0.004, max: 0.02 },
    { series: 'ours', x: 2 ** 16, median: 0.00025 },
    { series: 'theirs', x: 2 ** 20, median: 0.0147 },
  ]
  expect(table({ title: '', y: '', unit: 'seconds', x: 'N', rows })).toBe(
    [
      '| N   |                ours |  theirs |',
      '| --- | ------------------: | ------: |',
      '| 2¹⁶ |              250 µs |         |',
      '| 2²⁰ | 5 ms (4 ms – 20 ms) | 14.7 ms |',
    ].join('\n'),
  )
})
