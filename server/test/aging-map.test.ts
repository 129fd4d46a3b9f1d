import fc from 'fast-check'
import { expect, test } from 'vitest'
import { AgingMap } from '../dist/base/aging-map.js'

test('the oldest key is the first of those that are there, whatever came, went and came again', () => {
  const key = fc.integer({ min: 0, max: 2000 }).map(String)
  const steps = fc.oneof(
    { weight: 8, arbitrary: fc.record({ does: fc.constant('set' as const), key }) },
    { weight: 4, arbitrary: fc.record({ does: fc.constant('delete' as const), key }) },
    { weight: 8, arbitrary: fc.constant({ does: 'delete the oldest' as const }) },
    { weight: 1, arbitrary: fc.constant({ does: 'fill' as const }) },
    { weight: 1, arbitrary: fc.constant({ does: 'clear' as const }) },
  )
  fc.assert(
    fc.property(fc.array(steps, { maxLength: 60, size: 'max' }), all => {
      const map = new AgingMap<number>()
      const plain = new Map<string, number>()
      for (const [n, step] of all.entries()) {
        if (step.does === 'set') for (const each of [map, plain]) each.set(step.key, n)
        else if (step.does === 'fill')
          for (let i = 0; i < 1100; i++) for (const each of [map, plain]) each.set(`${i}`, n)
        else if (step.does === 'clear') for (const each of [map, plain]) each.clear()
        else {
          const gone = step.does === 'delete' ? step.key : map.oldest
          for (const each of [map, plain]) each.delete(`${gone}`)
        }
        if (n % 3 > 0) expect(map.oldest).toBe(plain.keys().next().value)
      }
      expect([...map]).toEqual([...plain])
    }),
    { numRuns: 25 },
  )
})
