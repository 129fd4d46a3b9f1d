// Ed25519 keys and signatures on which libraries differ, and what docs/protocol.md says of each (Signatures).

import { createHash } from 'node:crypto'
import { ED25519_TORSION_SUBGROUP, ed25519 } from '@noble/curves/ed25519.js'
import known from './vectors/ed25519-wycheproof.json' with { type: 'json' }

export interface Vector {
  readonly publicKey: Uint8Array
  readonly message: Uint8Array
  readonly signature: Uint8Array
}

/** Wycheproof's, with its verdicts. */
export function wycheproof(): (Vector & { readonly valid: boolean })[] {
  const bytes = (hex: string) => new Uint8Array(Buffer.from(hex, 'hex'))
  return known.vectors.map(({ publicKey, message, signature, valid }) => {
    return { publicKey: bytes(publicKey), message: bytes(message), signature: bytes(signature), valid }
  })
}

const { Point } = ed25519
const ORDER = Point.Fn.ORDER
const SECRET = 0x1234_5678_9abc_def1n
const KEY = Point.BASE.multiply(SECRET)
const [IDENTITY, ...TORSION] = ED25519_TORSION_SUBGROUP.map(hex => Buffer.from(hex, 'hex'))
/** y = p and y = p + 1: 0 and 1, not written as they should be. */
const NOT_CANONICAL = ['ed', 'ee'].map(low => Buffer.from(`${low}${'ff'.repeat(30)}7f`, 'hex'))
const MESSAGES = Array.from({ length: 16 }, (_, i) => Buffer.from(`message ${i}`))

const scalar = (n: bigint) => Buffer.from(n.toString(16).padStart(64, '0'), 'hex').reverse()
const number = (bytes: Uint8Array) => BigInt(`0x${Buffer.from(bytes).reverse().toString('hex')}`)

/** Signs with the secret number of `KEY`, for whatever stands for the key and for R. */
function signedAs(publicKey: Uint8Array, R: Uint8Array, r: bigint, message: Uint8Array): Vector {
  const h = number(createHash('sha512').update(R).update(publicKey).update(message).digest()) % ORDER
  return { publicKey, message, signature: Buffer.concat([R, scalar((r + h * SECRET) % ORDER)]) }
}

/** Points with a part of small order, other spellings of points and scalars, single wrong bits and wrong lengths. */
export function hostile(): Vector[] {
  const key = KEY.toBytes()
  const r = 77n
  const R = Point.BASE.multiply(r)
  const vectors: Vector[] = []
  for (const message of MESSAGES) {
    const right = signedAs(key, R.toBytes(), r, message)
    vectors.push(right)
    const s = number(right.signature.subarray(32))
    vectors.push({ ...right, signature: Buffer.concat([right.signature.subarray(0, 32), scalar(s + ORDER)]) })
    for (const torsion of TORSION) {
      const point = Point.fromBytes(torsion)
      vectors.push(signedAs(KEY.add(point).toBytes(), R.toBytes(), r, message))
      vectors.push(signedAs(key, R.add(point).toBytes(), r, message))
    }
  }
  const small = [IDENTITY!, ...TORSION, ...NOT_CANONICAL]
  for (const publicKey of small) {
    for (const R of small) {
      for (const message of MESSAGES.slice(0, 4)) {
        vectors.push({ publicKey, message, signature: Buffer.concat([R, scalar(0n)]) })
      }
    }
  }
  const right = signedAs(key, R.toBytes(), r, MESSAGES[0]!)
  for (let i = 0; i < 64; i++) {
    const signature = Buffer.from(right.signature)
    signature[i]! ^= 1
    vectors.push({ ...right, signature })
  }
  vectors.push({ ...right, signature: right.signature.subarray(0, 63) })
  vectors.push({ ...right, signature: Buffer.concat([right.signature, Buffer.alloc(1)]) })
  vectors.push({ ...right, publicKey: key.subarray(0, 31) })
  vectors.push({ ...right, publicKey: Buffer.concat([key, Buffer.alloc(1)]) })
  return vectors
}
