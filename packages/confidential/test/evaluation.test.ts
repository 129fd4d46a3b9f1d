// What a client accepts of evaluators: the vectors of RFC 9497, all sets of shares, every lie, and the check element enumerated in a
// small group.

import { randomBytes } from 'node:crypto'
import { ristretto255 } from '@noble/curves/ed25519.js'
import { describe, expect, test } from 'vitest'
import { type Element, ENTROPY_BYTES, Evaluation, elementsOf } from '../src/client/evaluation.js'
import { RFC_9497 } from './support/rfc9497.js'

const { Point } = ristretto255
const { Fn } = Point
const hex = (text: string) => Uint8Array.from(Buffer.from(text, 'hex'))
const scalar = (bytes: Uint8Array) => Fn.fromBytes(bytes)
const random = () => Fn.create(BigInt(`0x${randomBytes(40).toString('hex')}`))

/** The values at 1 to 8 of a polynomial, by their numbers. */
function sharesOf(secret: bigint, atLeast: number): Map<number, bigint> {
  const coefficients = [secret, ...Array.from({ length: atLeast - 1 }, random)]
  const valueAt = (at: number) => coefficients.reduceRight((sum, each) => Fn.add(Fn.mul(sum, BigInt(at)), each), 0n)
  return new Map([1, 2, 3, 4, 5, 6, 7, 8].map(number => [number, valueAt(number)]))
}

const multiplied = (evaluation: Evaluation, number: number, share: bigint) => ({
  number,
  points: elementsOf(evaluation.elements)!.map(element => element.multiply(share)),
})

test.each(RFC_9497)('it gives the outputs of RFC 9497: input $input', ({ secret, input, output }) => {
  const share = scalar(hex(secret))
  const evaluation = new Evaluation([hex(input)], randomBytes(ENTROPY_BYTES))
  const found = evaluation.finish(Point.BASE.multiply(share), [multiplied(evaluation, 1, share)])
  expect(found?.map(each => Buffer.from(each).toString('hex'))).toEqual([output])
})

test('any set of shares that suffices gives the same outputs, and one share less gives none', () => {
  const [secret, inputs] = [random(), [randomBytes(32), randomBytes(32)]]
  const key = Point.BASE.multiply(secret)
  const evaluation = new Evaluation(inputs, randomBytes(ENTROPY_BYTES))
  const whole = evaluation.finish(key, [multiplied(evaluation, 1, secret)])
  expect(whole).toHaveLength(2)
  for (const [atLeast, sets] of [
    [
      2,
      [
        [1, 2],
        [2, 1],
        [3, 8],
        [1, 5],
      ],
    ],
    [
      3,
      [
        [1, 2, 3],
        [8, 5, 2],
      ],
    ],
    [8, [[1, 2, 3, 4, 5, 6, 7, 8]]],
  ] as [number, number[][]][]) {
    const shares = sharesOf(secret, atLeast)
    const of = (numbers: number[]) => numbers.map(number => multiplied(evaluation, number, shares.get(number)!))
    for (const set of sets) {
      expect(evaluation.finish(key, of(set))).toEqual(whole)
      expect(evaluation.finish(key, of(set.slice(1)))).toBeUndefined()
    }
  }
})

describe('lies', () => {
  const [secret, inputs] = [random(), [randomBytes(32), randomBytes(32), randomBytes(32)]]
  const key = Point.BASE.multiply(secret)
  const shares = sharesOf(secret, 2)
  const evaluation = new Evaluation(inputs, randomBytes(ENTROPY_BYTES))
  const honest = () => [1, 3].map(number => multiplied(evaluation, number, shares.get(number)!))
  const changed = (who: number[], where: number[], how: (element: Element) => Element) =>
    honest().map(({ number, points }, i) => ({
      number,
      points: points.map((point, at) => (who.includes(i) && where.includes(at) ? how(point) : point)),
    }))

  test('none: the outputs are found', () => {
    expect(evaluation.finish(key, honest())).toHaveLength(3)
  })

  test.each([
    ['one', [0]],
    ['all together', [0, 1]],
  ])('of %s of the evaluators, at any element, are refused', (_, who) => {
    for (const where of [[0], [1], [2], [3], [0, 1], [0, 3], [0, 1, 2, 3]]) {
      expect(
        evaluation.finish(
          key,
          changed(who, where, point => point.add(Point.BASE)),
        ),
      ).toBeUndefined()
      expect(
        evaluation.finish(
          key,
          changed(who, where, point => point.negate()),
        ),
      ).toBeUndefined()
      expect(
        evaluation.finish(
          key,
          changed(who, where, point => point.double()),
        ),
      ).toBeUndefined()
    }
  })

  test('another secret of all is refused, and so are answers in another order, and to another request', () => {
    const other = random()
    expect(evaluation.finish(key, [multiplied(evaluation, 1, other)])).toBeUndefined()
    const [first, second] = honest()
    const turned = ({ number, points: [a, b, ...rest] }: typeof first & object) => ({
      number,
      points: [b!, a!, ...rest],
    })
    expect(evaluation.finish(key, [turned(first!), turned(second!)])).toBeUndefined()
    const before = new Evaluation(inputs, randomBytes(ENTROPY_BYTES))
    const replayed = [1, 3].map(number => multiplied(before, number, shares.get(number)!))
    expect(evaluation.finish(key, replayed)).toBeUndefined()
  })

  test('elements that are not canonical, or the identity, are none', () => {
    expect(elementsOf(new Uint8Array(32))).toBeUndefined() // the identity
    expect(elementsOf(new Uint8Array(32).fill(0xff))).toBeUndefined()
    expect(elementsOf(Point.BASE.toBytes())).toHaveLength(1)
  })
})

test('blinds do not repeat where the random source does: they depend on the inputs too', () => {
  const stuck = new Uint8Array(ENTROPY_BYTES)
  const [a, b, again] = ['a', 'b', 'a'].map(text => new Evaluation([Buffer.from(text.repeat(32))], stuck).elements)
  expect(Buffer.from(a!).equals(Buffer.from(b!))).toBe(false)
  expect(Buffer.from(a!).equals(Buffer.from(again!))).toBe(true)
})

// In a group of order 7, by exponents. H(x) is a number h; B = r·h; X = Σ a·B + b. The check: Σ a·B′ + b·k = X′.
describe('the check element, enumerated', () => {
  const ORDER = 7
  const CHECKS = [0, 1, 2, 3] // of "128 bits": 4 of 7 values
  const group = [...Array(ORDER).keys()]
  const blinds = group.slice(1)
  const mod = (value: number) => ((value % ORDER) + ORDER) % ORDER
  const pairs = <T>(items: readonly T[]) => items.flatMap(a => items.map(b => [a, b] as const))

  /** How often an evaluator sees each request of two keys. */
  function viewsOf(hashes: readonly [number, number], by = blinds): Map<string, number> {
    const views = new Map<string, number>()
    for (const [r0, r1] of pairs(by)) {
      for (const [a0, a1] of pairs(CHECKS)) {
        for (const b of group) {
          const [b0, b1] = [mod(r0 * hashes[0]), mod(r1 * hashes[1])]
          const view = `${b0} ${b1} ${mod(a0 * b0 + a1 * b1 + b)}`
          views.set(view, (views.get(view) ?? 0) + 1)
        }
      }
    }
    return views
  }

  test('what evaluators see does not depend on the keys', () => {
    const base = viewsOf([1, 2])
    for (const hashes of pairs(blinds)) expect(viewsOf(hashes)).toEqual(base)
    expect(viewsOf([2, 3], [1])).not.toEqual(viewsOf([1, 2], [1])) // planted: a client that does not blind
  })

  /** The largest share of the coefficients with which a change of the answers passes, over all requests and changes. */
  function bestLie(hidden: boolean): number {
    let best = 0
    for (const [b0, b1] of pairs(blinds)) {
      for (const x of group) {
        const isLike = ([a0, a1]: readonly [number, number]) => hidden || mod(a0 * b0 + a1 * b1) === x
        const alike = pairs(CHECKS).filter(isLike)
        for (const [d0, d1] of pairs(group)) {
          if (d0 === 0 && d1 === 0) continue
          for (const dx of group) {
            const passes = alike.filter(([a0, a1]) => mod(a0 * d0 + a1 * d1) === dx).length
            if (alike.length > 0) best = Math.max(best, passes / alike.length)
          }
        }
      }
    }
    return best
  }

  test('the best lie passes once in as many times as a coefficient has values, and always where no b hides them', () => {
    expect(bestLie(true)).toBe(1 / CHECKS.length)
    expect(bestLie(false)).toBe(1) // planted: a client without b
  })
})
