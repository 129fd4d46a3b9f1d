// Ed25519 as docs/protocol.md means it: strictly RFC 8032, so that nobody disagrees about a signature.

import { ed25519 } from '@noble/curves/ed25519.js'

/** Whether it verifies; false also for what is no point or not canonical. */
export function verifies(signature: Uint8Array, message: Uint8Array, publicKey: Uint8Array): boolean {
  try {
    return ed25519.verify(signature, message, publicKey, { zip215: false })
  } catch {
    return false
  }
}

/** Whether bytes are a public key: a point in canonical form, and not one of small order. */
export function isPublicKey(bytes: Uint8Array): boolean {
  try {
    return !ed25519.Point.fromBytes(bytes, false).isSmallOrder()
  } catch {
    return false
  }
}
