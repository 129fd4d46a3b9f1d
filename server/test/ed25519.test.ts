// Signatures of publishers: the verdict is that of Node and of @noble/curves together, and a false one costs little.

import { createHash, createPublicKey, verify } from 'node:crypto'
import { ED25519_TORSION_SUBGROUP, ed25519 } from '@noble/curves/ed25519.js'
import { expect, test } from 'vitest'
import { verifies } from '../dist/base/ed25519.js'
import { pseudoRandom } from './helpers.js'

interface Vector {
  readonly publicKey: Uint8Array
  readonly message: Uint8Array
  readonly signature: Uint8Array
}

const { Point } = ed25519
const ORDER = Point.Fn.ORDER
const SECRET = 0x1234_5678_9abc_def1n
const KEY = Point.BASE.multiply(SECRET)
const [IDENTITY, ...TORSION] = ED25519_TORSION_SUBGROUP.map(hex => Buffer.from(hex, 'hex'))
/** y = p and y = p + 1: 0 and 1, not written as they should be. */
const NOT_CANONICAL = ['ed', 'ee'].map(low => Buffer.from(`${low}${'ff'.repeat(30)}7f`, 'hex'))
const MESSAGES = Array.from({ length: 16 }, (_, i) => pseudoRandom(8, i + 1))

const scalar = (n: bigint) => Buffer.from(n.toString(16).padStart(64, '0'), 'hex').reverse()
const number = (bytes: Uint8Array) => BigInt(`0x${Buffer.from(bytes).reverse().toString('hex')}`)

/** Signs with the secret number of `KEY`, for whatever stands for the key and for R. */
function signedAs(publicKey: Uint8Array, R: Uint8Array, r: bigint, message: Uint8Array): Vector {
  const h = number(createHash('sha512').update(R).update(publicKey).update(message).digest()) % ORDER
  return { publicKey, message, signature: Buffer.concat([R, scalar((r + h * SECRET) % ORDER)]) }
}

function hostile(): Vector[] {
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

function orFalse(work: () => boolean): boolean {
  try {
    return work()
  } catch {
    return false
  }
}

const byNoble = ({ signature, message, publicKey }: Vector) =>
  orFalse(() => ed25519.verify(signature, message, publicKey, { zip215: false }))
const byNode = ({ signature, message, publicKey }: Vector) =>
  orFalse(() => {
    const x = Buffer.from(publicKey).toString('base64url')
    return verify(null, message, createPublicKey({ key: { kty: 'OKP', crv: 'Ed25519', x }, format: 'jwk' }), signature)
  })

test('what is accepted is what both accept, of hostile keys and signatures too', () => {
  const counts = { both: 0, nobleAlone: 0, nodeAlone: 0 }
  for (const vector of hostile()) {
    const [noble, node] = [byNoble(vector), byNode(vector)]
    expect(verifies(vector.signature, vector.message, vector.publicKey)).toBe(noble && node)
    if (noble && node) counts.both++
    else if (noble) counts.nobleAlone++
    else if (node) counts.nodeAlone++
  }
  // Neither is stricter than the other.
  expect(Math.min(...Object.values(counts))).toBeGreaterThan(0)
})

test('a false signature costs less than half of what it takes JavaScript to refuse it', () => {
  const right = signedAs(KEY.toBytes(), Point.BASE.multiply(77n).toBytes(), 77n, MESSAGES[0]!)
  const wrong = { ...right, message: MESSAGES[1]! }
  /** Processor time; the least of several, for others use this machine too. */
  const cost = (work: () => boolean) => {
    const rounds = Array.from({ length: 7 }, () => {
      const before = process.cpuUsage()
      for (let i = 0; i < 20; i++) expect(work()).toBe(false)
      const { user, system } = process.cpuUsage(before)
      return user + system
    })
    return Math.min(...rounds)
  }
  const now = cost(() => verifies(wrong.signature, wrong.message, wrong.publicKey))
  expect(now).toBeLessThan(cost(() => byNoble(wrong)) / 2)
})
