// The queue that networks share: who gets in, who has to leave, and in which order all are served.

import fc from 'fast-check'
import { expect, test } from 'vitest'
import { FairQueue } from '../dist/workers/fair-queue.js'

interface Waiter {
  readonly network: string
  readonly weight: number
}

const queueOf = (most: number) => new FairQueue<Waiter>(most, ({ weight }) => weight)
const names = (waiters: readonly Waiter[] | undefined) => waiters?.map(({ network }) => network).join('')
const of = (network: string, weight = 1): Waiter => ({ network, weight })

test('networks take turns, and each network has its own in the order they came', () => {
  const queue = queueOf(20)
  const all = [...'aaaabbc'].map(network => of(network))
  for (const waiter of all) queue.add(waiter)
  expect(names(queue.inTurn())).toBe('abcabaa')
  // As threads would serve it.
  const served: Waiter[] = []
  for (let next = queue.inTurn()[0]; next !== undefined; next = queue.inTurn()[0]) {
    queue.remove(next)
    queue.served(next)
    served.push(next)
    if (served.length === 2) queue.add(of('d')) // who comes now waits for one turn of each of the others
  }
  expect(names(served)).toBe('abcabdaa')
  for (const network of 'abc') {
    const mine = (waiters: readonly Waiter[]) => waiters.filter(waiter => waiter.network === network)
    expect(mine(served)).toEqual(mine(all))
  }
  expect(queue.weight).toBe(0)
})

test('two networks that fill it do not keep a third out, and asking for more gains nothing', () => {
  const queue = queueOf(8)
  for (let i = 0; i < 4; i++) for (const network of 'ab') expect(queue.add(of(network))).toEqual([])
  expect([queue.add(of('a')), queue.add(of('b'))]).toEqual([undefined, undefined])
  const order = queue.inTurn()
  for (const expected of ['a', 'b']) {
    const [left] = queue.add(of('c'))!
    expect(left).toBe(order.findLast(({ network }) => network === expected))
  }
  // 3, 3 and 2: whoever took one of another's now would have as many as that one had.
  expect(queue.add(of('c'))).toBeUndefined()
  expect(queue.weight).toBe(8)
})

test('a newcomer that one is not made way for as a whole makes nobody leave', () => {
  const queue = queueOf(8)
  for (const waiter of [of('a', 6), of('b', 2)]) queue.add(waiter)
  expect(queue.add(of('c', 3))).toBeUndefined()
  expect(names(queue.inTurn())).toBe('ab')
  const alone = queueOf(8)
  expect(alone.add(of('a', 100))).toEqual([])
  expect(alone.add(of('b', 1))).toBeUndefined()
})

test('never holds more than it may, and a network that is refused or made to leave has the most, or would', () => {
  const arrivals = fc.array(fc.tuple(fc.constantFrom(...'abcdefgh'), fc.integer({ min: 1, max: 4 })), { maxLength: 60 })
  fc.assert(
    fc.property(arrivals, all => {
      const most = 12
      const queue = queueOf(most)
      const has = (name: string) =>
        queue
          .inTurn()
          .filter(({ network }) => network === name)
          .reduce((sum, { weight }) => sum + weight, 0)
      for (const [name, weight] of all) {
        const before = queue.inTurn()
        const leaving = queue.add(of(name, weight))
        expect(queue.weight).toBeLessThanOrEqual(most)
        if (leaving === undefined) expect(queue.inTurn()).toEqual(before)
        for (const left of leaving ?? []) {
          expect(left.network).not.toBe(name)
          expect(has(name)).toBeLessThanOrEqual(has(left.network))
        }
      }
    }),
    { seed: 1 },
  )
})
