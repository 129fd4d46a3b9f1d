import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { AgingMap } from '../dist/base/aging-map.js'

const HASHES: Record<string, ((key: string) => number) | undefined> = {
  'secret hashes': undefined,
  'two hashes for all keys': key => key.length % 2,
}

describe.each(Object.entries(HASHES))('with %s', (_, hash) => {
  test('has what a Map has, and knows the first of those that are there, whatever came, went and came again', () => {
    const key = fc.integer({ min: 0, max: 2000 }).map(String)
    const steps = fc.oneof(
      { weight: 8, arbitrary: fc.record({ does: fc.constant('set' as const), key }) },
      { weight: 4, arbitrary: fc.record({ does: fc.constant('delete' as const), key }) },
      { weight: 8, arbitrary: fc.constant({ does: 'delete the oldest' as const }) },
      { weight: 1, arbitrary: fc.constant({ does: 'fill' as const }) },
      { weight: 1, arbitrary: fc.constant({ does: 'clear' as const }) },
    )
    // A failure shows its seed.
    fc.assert(
      fc.property(fc.array(steps, { maxLength: 60, size: 'max' }), all => {
        const map = new AgingMap<number>(hash)
        const plain = new Map<string, number>()
        for (const [n, step] of all.entries()) {
          if (step.does === 'set') for (const each of [map, plain]) each.set(step.key, n)
          else if (step.does === 'fill')
            for (let i = 0; i < 1100; i++) for (const each of [map, plain]) each.set(`${i}`, n)
          else if (step.does === 'clear') for (const each of [map, plain]) each.clear()
          else {
            const gone = step.does === 'delete' ? step.key : `${map.oldest}`
            expect(map.delete(gone)).toBe(plain.delete(gone))
          }
          if (n % 3 > 0) expect(map.oldest).toBe(plain.keys().next().value)
          expect(map.size).toBe(plain.size)
        }
        expect([...map]).toEqual([...plain])
        const found = (of: { has(key: string): boolean; get(key: string): number | undefined }) =>
          Array.from({ length: 2001 }, (_, i) => [of.has(`${i}`), of.get(`${i}`)])
        expect(found(map)).toEqual(found(plain))
      }),
      { numRuns: 25 },
    )
  })
})

test('has every key after every step of its growth, while the oldest go', () => {
  const seed = Math.floor(Math.random() * 2 ** 32)
  const random = fc.sample(fc.integer({ min: 0, max: 9 }), { numRuns: 9000, seed })
  const map = new AgingMap<number>()
  const plain = new Map<string, number>()
  for (const [n, digit] of random.entries()) {
    for (const each of [map, plain]) each.set(`${seed}/${n}`, n)
    if (digit < 3) for (const gone of [`${map.oldest}`]) for (const each of [map, plain]) each.delete(gone)
    if (digit === 3) for (const each of [map, plain]) each.delete(`${seed}/${n >> 1}`)
    // The step moved the keys of one bucket: all of them are looked for while there are few, and then now and again.
    if (n > 600 && n % 500 > 0) continue
    for (const [key, value] of plain) if (map.get(key) !== value) expect.fail(`seed ${seed}: ${key} has gone at ${n}`)
    expect([...map], `seed ${seed}`).toEqual([...plain])
  }
})

test('moves few keys in a step, however many it has', () => {
  let hashed = 0
  // As even as any: of 2^17 keys in as many buckets, eleven are together once in hundreds of times, and thirty never.
  const hash = (key: string) => {
    hashed++
    let mixed = Math.imul(Number(key) + 1, 0x9e3779b1)
    mixed = Math.imul(mixed ^ (mixed >>> 15), 0x85ebca6b)
    return mixed ^ (mixed >>> 13)
  }
  const map = new AgingMap<number>(hash)
  let most = 0
  const step = (does: () => void) => {
    hashed = 0
    does()
    most = Math.max(most, hashed)
  }
  for (let n = 0; n < 2 ** 17; n++) step(() => map.set(`${n}`, n))
  for (let n = 2 ** 17; n < 2 ** 18; n++) {
    step(() => map.delete(map.oldest!))
    step(() => map.set(`${n}`, n))
  }
  expect(map.size).toBe(2 ** 17)
  while (map.oldest !== undefined) step(() => map.delete(map.oldest!))
  expect(most).toBeLessThan(30)
})
