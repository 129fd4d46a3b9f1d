// One evaluation of some inputs (docs/protocol/confidential.md, The check element): blinds them, checks what evaluators made of them all
// together against the evaluation key, and takes the blinds off. Its secrets are for one evaluation.
//
//   elements     Bᵢ = rᵢ·H(inputᵢ), and last X = Σ aᵢ·Bᵢ + b·G
//   check        Σ cⱼ·Xⱼ = Σᵢ aᵢ·(Σⱼ cⱼ·Bᵢⱼ) + b·D·K, with the combination D·k = Σ cⱼ·f(j)
//   unblinded    (D·rᵢ)⁻¹·Σⱼ cⱼ·Bᵢⱼ = k·H(inputᵢ)

import { ristretto255, ristretto255_hasher, ristretto255_oprf } from '@noble/curves/ed25519.js'
import { bytesToNumberLE } from '@noble/curves/utils.js'
import { concatBytes } from '@noble/hashes/utils.js'
import { hedged } from '../wire/derive.js'
import { ELEMENT_BYTES } from '../wire/messages.js'
import { combinationOf } from '../wire/shares.js'

const { Point } = ristretto255
const { Fn } = Point
/** An element of ristretto255 */
export type Element = InstanceType<(typeof ristretto255)['Point']>

/** Of RFC 9497, mode 0. */
const DST = 'HashToGroup-OPRFV1-\0-ristretto255-SHA512'

/** Of a scalar without bias, and of a coefficient of the check. */
const [WIDE_BYTES, CHECK_BYTES] = [64, 16]

/** Random bytes that one evaluation takes from the platform. */
export const ENTROPY_BYTES = 32

/** What an evaluator has made of the elements, in their order. */
export interface Product {
  /** of its share */
  readonly number: number
  readonly points: readonly Element[]
}

export class Evaluation {
  readonly #inputs: readonly Uint8Array[]
  readonly #blinds: readonly bigint[]
  readonly #checks: readonly bigint[]
  readonly #checkBlind: bigint
  /** what evaluators get: the blinded inputs, and the check element */
  readonly elements: Uint8Array

  /** `inputs`: 32 bytes each. `entropy`: ENTROPY_BYTES random bytes. */
  constructor(inputs: readonly Uint8Array[], entropy: Uint8Array) {
    const each = WIDE_BYTES + CHECK_BYTES
    const secret = hedged(entropy, concatBytes(...inputs), each * inputs.length + WIDE_BYTES)
    const number = (at: number, bytes: number) => bytesToNumberLE(secret.subarray(at, at + bytes))
    this.#inputs = inputs
    this.#blinds = inputs.map((_, i) => Fn.create(number(each * i, WIDE_BYTES)))
    this.#checks = inputs.map((_, i) => number(each * i + WIDE_BYTES, CHECK_BYTES))
    this.#checkBlind = Fn.create(number(each * inputs.length, WIDE_BYTES))
    secret.fill(0)
    const blinded = inputs.map((input, i) => ristretto255_hasher.hashToCurve(input, { DST }).multiply(this.#blinds[i]!))
    const check = this.#checked(blinded).add(Point.BASE.multiply(this.#checkBlind))
    this.elements = concatBytes(...[...blinded, check].map(element => element.toBytes()))
  }

  /** Σ aᵢ·elementᵢ */
  #checked(elements: readonly Element[]): Element {
    return elements.reduce((sum, element, i) => sum.add(element.multiplyUnsafe(this.#checks[i]!)), Point.ZERO)
  }

  /**
   * The outputs of RFC 9497, 64 bytes each, in the inputs' order. Undefined: the evaluators have not all multiplied by shares of this key.
   * `products`: of different numbers.
   */
  finish(key: Element, products: readonly Product[]): Uint8Array[] | undefined {
    const { scale, combined } = combinedOf(products, this.#inputs.length + 1)
    const check = combined.pop()!
    const expected = this.#checked(combined).add(key.multiply(Fn.mul(this.#checkBlind, BigInt(scale))))
    if (!check.equals(expected)) return undefined
    return combined.map((element, i) => unblinded(this.#inputs[i]!, this.#blinds[i]!, scale, element))
  }
}

/** An evaluation of one input without a check element, which would be a second purchase. The tag of what it opens is the check. */
export class Unlocking {
  readonly #input: Uint8Array
  readonly #blind: bigint
  readonly elements: Uint8Array

  constructor(input: Uint8Array, entropy: Uint8Array) {
    const secret = hedged(entropy, input, WIDE_BYTES)
    this.#input = input
    this.#blind = Fn.create(bytesToNumberLE(secret))
    secret.fill(0)
    this.elements = ristretto255_hasher.hashToCurve(input, { DST }).multiply(this.#blind).toBytes()
  }

  /** The output, if the evaluators have multiplied by shares of one secret. `products`: of different numbers. */
  finish(products: readonly Product[]): Uint8Array {
    const { scale, combined } = combinedOf(products, 1)
    return unblinded(this.#input, this.#blind, scale, combined[0]!)
  }
}

/** D·k times each of the elements. */
function combinedOf(products: readonly Product[], elements: number) {
  const { scale, weights } = combinationOf(products.map(({ number }) => number))
  const combined = Array.from({ length: elements }, (_, i) =>
    products.reduce((sum, { points }, j) => sum.add(times(points[i]!, weights[j]!)), Point.ZERO),
  )
  return { scale, combined }
}

function unblinded(input: Uint8Array, blind: bigint, scale: number, element: Element): Uint8Array {
  return ristretto255_oprf.oprf.finalize(input, Fn.toBytes(Fn.mul(blind, BigInt(scale))), element.toBytes())
}

/** Reads elements, 32 bytes each. Undefined: one is not canonical, or the identity. */
export function elementsOf(bytes: Uint8Array): Element[] | undefined {
  try {
    const elements = Array.from({ length: bytes.length / ELEMENT_BYTES }, (_, i) =>
      Point.fromBytes(bytes.subarray(i * ELEMENT_BYTES, (i + 1) * ELEMENT_BYTES)),
    )
    return elements.some(element => element.is0()) ? undefined : elements
  } catch {
    return undefined
  }
}

/** By a small number, which is public. */
function times(element: Element, weight: number): Element {
  const product = element.multiplyUnsafe(BigInt(Math.abs(weight)))
  return weight < 0 ? product.negate() : product
}
