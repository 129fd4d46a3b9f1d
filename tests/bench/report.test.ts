// The bench's tables: medians, spreads, targets.

import { expect, test } from 'vitest'
import { type Figure, median, passed, quantile, report } from './report.js'

const figure = (samples: number[], target?: Figure['target']): Figure => ({ name: 'a', unit: 'ms', target, samples })

test('the median of an even number of samples is the mean of the middle two', () => {
  expect(median([4, 1, 3, 2])).toBe(2.5)
  expect(median([3, 1, 2])).toBe(2)
  expect(median([7])).toBe(7)
})

test('a quantile is the least sample that is not below its share of all', () => {
  const samples = Array.from({ length: 100 }, (_, i) => 100 - i)
  expect(quantile(samples, 0)).toBe(1)
  expect(quantile(samples, 0.5)).toBe(50)
  expect(quantile(samples, 0.99)).toBe(99)
  expect(quantile(samples, 1)).toBe(100)
})

test('a target is met by the median, and `<` is not met by the limit itself', () => {
  expect(passed(figure([1, 5, 90], ['<', 6]))).toBe(true)
  expect(passed(figure([5], ['<', 5]))).toBe(false)
  expect(passed(figure([5], ['≤', 5]))).toBe(true)
  expect(passed(figure([5.01], ['≤', 5]))).toBe(false)
})

test('what has no target, or could not be measured, does not fail', () => {
  expect(passed(figure([5]))).toBe(true)
  expect(passed(figure([], ['≤', 5]))).toBe(true)
})

test('a table says what was measured, how far it spread, and whether that will do', () => {
  const figures: Figure[] = [
    { name: 'Lookup', unit: 'ms', target: ['≤', 5], samples: [3.456, 2, 9] },
    { name: 'Offline', unit: 's', target: ['<', 1], samples: [1.5] },
    { name: 'Floor', unit: 'ms', samples: [1, 2] },
    { name: 'Memory', unit: 'GiB', target: ['≤', 1.5], samples: [] },
  ]
  expect(report(figures)).toBe(
    [
      '| figure  | target    | median       | min – max |      |',
      '| ------- | --------- | ------------ | --------- | ---- |',
      '| Lookup  | ≤ 5 ms    | 3.46 ms      | 2 – 9     | pass |',
      '| Offline | < 1 s     | 1.5 s        |           | FAIL |',
      '| Floor   |           | 1.5 ms       | 1 – 2     |      |',
      '| Memory  | ≤ 1.5 GiB | not measured |           |      |',
    ].join('\n'),
  )
})
