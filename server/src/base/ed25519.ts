// Ed25519 as docs/protocol.md means it. Node's own verification is many times as fast as JavaScript's, and less strict about key and R.

import { createPublicKey, verify } from 'node:crypto'
import { mayBePublicKey, mayBeSignature } from '@keyhush/protocol'
import { ed25519 } from '@noble/curves/ed25519.js'

/** What stands before the 32 bytes of a public key in its SubjectPublicKeyInfo (RFC 8410). */
const KEY_PREFIX = Buffer.from('302a300506032b6570032100', 'hex')

/** Whether a signature verifies, by the same rules as in a client. */
export function verifies(signature: Uint8Array, message: Uint8Array, publicKey: Uint8Array): boolean {
  if (!mayBePublicKey(publicKey) || !mayBeSignature(signature)) return false
  try {
    const key = createPublicKey({ key: Buffer.concat([KEY_PREFIX, publicKey]), format: 'der', type: 'spki' })
    return verify(null, message, key, signature)
  } catch {
    return false
  }
}

/** Whether bytes are a public key: a point in canonical form, and not one of small order. */
export function isPublicKey(bytes: Uint8Array): boolean {
  if (!mayBePublicKey(bytes)) return false
  try {
    ed25519.Point.fromBytes(bytes)
    return true
  } catch {
    return false
  }
}
