import { expect, test } from 'vitest'
import { floors, growthPerHour, type Sample } from './trend.js'

const HOUR = 3600

/** Every ten seconds for an hour: what stays, what a collector takes away each 97 s, and now and then something large. */
function saw(staysAt: (seconds: number) => number): Sample[] {
  return Array.from({ length: HOUR / 10 }, (_, i) => {
    const seconds = 10 * i
    return { seconds, value: staysAt(seconds) + (seconds % 97) + (i % 50 === 49 ? 1000 : 0) }
  })
}

test('a figure that goes up and down does not grow; one of which something stays each time does', () => {
  const growthOf = (staysAt: (seconds: number) => number) => growthPerHour(floors(saw(staysAt), 120))
  expect(Math.abs(growthOf(() => 500))).toBeLessThan(5)
  const leaking = growthOf(seconds => 500 + (100 * seconds) / HOUR)
  expect(leaking).toBeGreaterThan(95)
  expect(leaking).toBeLessThan(105)
})

test('one sample, or none, shows no growth', () => {
  expect([growthPerHour([]), growthPerHour([{ seconds: 1, value: 9 }])]).toEqual([0, 0])
})
