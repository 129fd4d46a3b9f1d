// Checking an Ed25519 signature. In a module of its own, which is loaded only for maps that have a publisher's key; it
// takes what it needs of the library, where a dynamic import of the library itself would ship all of it.

import { ed25519 } from '@noble/curves/ed25519.js'

/** As RFC 8032 has it: canonical points, and no key of small order, under which anybody can sign. Never throws. */
export function verifies(signature: Uint8Array, message: Uint8Array, publicKey: Uint8Array): boolean {
  try {
    return ed25519.verify(signature, message, publicKey, { zip215: false })
  } catch {
    return false // not the right lengths
  }
}
