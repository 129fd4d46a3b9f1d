// ristretto255 on plain BigInt (RFC 9496), and what RFC 9497 hashes to and from it. Slow, and not in constant time.

import { createHash } from 'node:crypto'
import { equalBytes } from '@noble/ciphers/utils.js'
import { concatBytes, hexToBytes, utf8ToBytes } from '@noble/hashes/utils.js'

/** ℓ */
export const ORDER = 2n ** 252n + 27742317777372353535851937790883648493n

const P = 2n ** 255n - 19n
const mod = (value: bigint, by = P) => ((value % by) + by) % by
const isNegative = (value: bigint) => mod(value) % 2n === 1n
const abs = (value: bigint) => (isNegative(value) ? mod(-value) : mod(value))

function power(base: bigint, exponent: bigint, by = P): bigint {
  let result = 1n
  for (let square = mod(base, by), rest = exponent; rest > 0n; rest >>= 1n) {
    if (rest & 1n) result = (result * square) % by
    square = (square * square) % by
  }
  return result
}

/** The inverse of a scalar. */
export const inverse = (scalar: bigint) => power(scalar, ORDER - 2n, ORDER)
export const scalarOf = (value: bigint) => mod(value, ORDER)

const D = mod(-121665n * power(121666n, P - 2n))
const I = power(2n, (P - 1n) / 4n)

/** A square root of u/v, or else of I·u/v. */
function rootOfRatio(u: bigint, v: bigint): { readonly isSquare: boolean; readonly root: bigint } {
  const root = mod(u * v ** 3n * power(u * v ** 7n, (P - 5n) / 8n))
  const check = mod(v * root * root)
  const isSquare = check === mod(u) || check === mod(-u)
  const isTurned = check === mod(-u) || check === mod(-u * I)
  return { isSquare, root: abs(isTurned ? root * I : root) }
}

const ROOT_OF_AD_LESS_ONE = 25063068953384623474111414158702152701244531502492656460079210482610430750235n
const INVERSE_ROOT_OF_A_LESS_D = 54469307008909316920995813868745141605393597292927456921205312896311721017578n

export function littleEndian(bytes: Uint8Array): bigint {
  return bytes.reduceRight((sum, byte) => sum * 256n + BigInt(byte), 0n)
}

export function bytesOf(value: bigint): Uint8Array {
  return Uint8Array.from({ length: 32 }, (_, i) => Number((value >> BigInt(8 * i)) & 255n))
}

export class Point {
  static readonly identity = new Point(0n, 1n, 1n, 0n)
  static readonly generator = Point.decode(
    hexToBytes('e2f2ae0a6abc4e71a884a961c500515f58e30b6aa582dd8db6a65945e08d2d76'),
  )

  private constructor(
    readonly x: bigint,
    readonly y: bigint,
    readonly z: bigint,
    readonly t: bigint,
  ) {}

  /** Throws for bytes that are not canonical. */
  static decode(bytes: Uint8Array): Point {
    const s = littleEndian(bytes)
    if (bytes.length !== 32 || s >= P || isNegative(s)) throw new Error('an element that is not canonical')
    const [u1, u2] = [mod(1n - s * s), mod(1n + s * s)]
    const v = mod(-D * u1 * u1 - u2 * u2)
    const { isSquare, root } = rootOfRatio(1n, mod(v * u2 * u2))
    const [x, y] = [abs(2n * s * root * u2), mod(u1 * root * root * u2 * v)]
    if (!isSquare || isNegative(x * y) || y === 0n) throw new Error('bytes that are no element')
    return new Point(x, y, 1n, mod(x * y))
  }

  encode(): Uint8Array {
    const { x, y, z, t } = this
    const [u1, u2] = [mod((z + y) * (z - y)), mod(x * y)]
    const { root } = rootOfRatio(1n, mod(u1 * u2 * u2))
    const [d1, d2] = [mod(root * u1), mod(root * u2)]
    const zInverse = mod(d1 * d2 * t)
    const isRotated = isNegative(t * zInverse)
    const [x0, y0] = isRotated ? [y * I, x * I] : [x, y]
    const denominator = isRotated ? d1 * INVERSE_ROOT_OF_A_LESS_D : d2
    return bytesOf(abs(denominator * (z - (isNegative(x0 * zInverse) ? -y0 : y0))))
  }

  add(other: Point): Point {
    const a = (this.y - this.x) * (other.y - other.x)
    const b = (this.y + this.x) * (other.y + other.x)
    const c = 2n * D * this.t * other.t
    const d = 2n * this.z * other.z
    const [e, f, g, h] = [mod(b - a), mod(d - c), mod(d + c), mod(b + a)]
    return new Point(mod(e * f), mod(g * h), mod(f * g), mod(e * h))
  }

  times(scalar: bigint): Point {
    let result = Point.identity
    for (const bit of scalarOf(scalar).toString(2)) {
      result = result.add(result)
      if (bit === '1') result = result.add(this)
    }
    return result
  }

  equals(other: Point): boolean {
    return equalBytes(this.encode(), other.encode())
  }

  /** `MAP` of RFC 9496, of 32 bytes. */
  static mapped(bytes: Uint8Array): Point {
    const t = mod(littleEndian(bytes) % 2n ** 255n)
    const r = mod(I * t * t)
    const v = mod((-1n - r * D) * (r + D))
    const { isSquare, root } = rootOfRatio(mod((r + 1n) * (1n - D * D)), v)
    const s = isSquare ? root : mod(-abs(root * t))
    const n = mod((isSquare ? -1n : r) * (r - 1n) * (D - 1n) ** 2n - v)
    const [w0, w1, w2, w3] = [2n * s * v, n * ROOT_OF_AD_LESS_ONE, 1n - s * s, 1n + s * s]
    return new Point(mod(w0 * w3), mod(w2 * w1), mod(w1 * w3), mod(w0 * w2))
  }
}

const sha512 = (...parts: Uint8Array[]) =>
  new Uint8Array(
    createHash('sha512')
      .update(concatBytes(...parts))
      .digest(),
  )

/** Big-endian, as RFC 9497 writes lengths. */
const length = ({ length }: Uint8Array) => Uint8Array.of(length >> 8, length & 255)

export function hashToGroup(input: Uint8Array): Point {
  const name = utf8ToBytes('HashToGroup-OPRFV1-\0-ristretto255-SHA512')
  const suffix = concatBytes(name, Uint8Array.of(name.length))
  const first = sha512(new Uint8Array(128), input, Uint8Array.of(0, 64, 0), suffix)
  const uniform = sha512(first, Uint8Array.of(1), suffix)
  return Point.mapped(uniform.subarray(0, 32)).add(Point.mapped(uniform.subarray(32)))
}

/** What `Finalize` makes of an input and its element times the secret: 64 bytes. */
export function finalized(input: Uint8Array, product: Point): Uint8Array {
  const element = product.encode()
  return sha512(length(input), input, length(element), element, utf8ToBytes('Finalize'))
}
