// Verifies an Ed25519 signature. Only maps with a publisher's key load this module. It imports one function: a dynamic import of the
// library would ship all of it.

import { ed25519 } from '@noble/curves/ed25519.js'

/** As RFC 8032 says: points are canonical, and a key of small order is refused, because anybody can sign under it. Never throws. */
export function verifies(signature: Uint8Array, message: Uint8Array, publicKey: Uint8Array): boolean {
  try {
    return ed25519.verify(signature, message, publicKey, { zip215: false })
  } catch {
    return false // wrong lengths
  }
}
