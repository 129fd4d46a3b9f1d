// Ed25519 in JavaScript, for platforms without. It takes what it needs of the library, where a dynamic import of the library itself would
// ship all of it.

import { ed25519 } from '@noble/curves/ed25519.js'
import { bytesToNumberLE } from '@noble/curves/utils.js'
import { sha512 } from '@noble/hashes/sha2.js'

const { Point } = ed25519
const POINT_BYTES = 32

/**
 * RFC 8032, 5.1.7, without the cofactor: whether [S]B = R + [k]A, as platforms compute it. The library's own check multiplies by
 * the cofactor, and accepts signatures that platforms refuse. For bytes that may be a key and a signature.
 */
export function verifies(signature: Uint8Array, message: Uint8Array, publicKey: Uint8Array): boolean {
  const r = signature.subarray(0, POINT_BYTES)
  const s = Point.Fn.fromBytes(signature.subarray(POINT_BYTES))
  const hashed = sha512.create().update(r).update(publicKey).update(message).digest()
  const k = Point.Fn.create(bytesToNumberLE(hashed))
  try {
    const right = Point.fromBytes(r).add(Point.fromBytes(publicKey).multiplyUnsafe(k))
    return Point.BASE.multiplyUnsafe(s).equals(right)
  } catch {
    return false // not on the curve
  }
}
