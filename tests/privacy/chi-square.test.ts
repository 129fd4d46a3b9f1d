// Values made with mpmath at 40 digits, cut to 15: gammainc(df/2, x/2, regularized=True).

import { expect, test } from 'vitest'
import { chiSquareSurvival, uniformityPValue } from './chi-square.js'

test.each([
  [1, 3.841458820694124, 0.0500000000000001],
  [2, 10, 0.00673794699908547],
  [15, 15, 0.451417211225725],
  [15, 37.697, 0.00100010112300483],
  [15, 100, 1.30470434362514e-14],
  [15, 1000, 1.34772898177087e-203],
  [255, 200, 0.995425444541952],
  [255, 255, 0.488222521770406],
  [255, 330.5197, 0.00100000548153945],
  [255, 450, 5.77520295645219e-13],
  [255, 500, 4.38496191679965e-18],
  [255, 2000, 6.87959020114152e-268],
])(
  'chi-square of %d degrees exceeds %d with a probability of %d, and the bound is near it',
  (degrees, statistic, probability) => {
    const bound = chiSquareSurvival(statistic, degrees)
    expect(bound).toBeGreaterThan(probability)
    expect(bound).toBeLessThan(20 * probability ** 0.95)
  },
)

test('even counts are as likely as can be, and one missing value is not', () => {
  expect(uniformityPValue(Array(16).fill(1250))).toBe(1)
  expect(uniformityPValue([0, ...Array(15).fill(1333)])).toBeLessThan(1e-200)
})
