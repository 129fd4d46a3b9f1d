// The publishers' keys. Signatures are verified by Node, many times as fast as JavaScript does it.

import { createPublicKey, type KeyObject, verify } from 'node:crypto'
import type { Environment } from '@keyhush/client/environment'
import { toHex } from '@keyhush/protocol'
import { ed25519 } from '@noble/curves/ed25519.js'
import { PUBLISHER, type SigningKey } from '../../support/publishing.js'

/** The key that a publisher changes to. */
export const OTHER_PUBLISHER: SigningKey = ed25519.keygen(new Uint8Array(32).fill(8))

export const KEYS = [PUBLISHER, OTHER_PUBLISHER] as const

export const hexKey = (key: SigningKey): string => toHex(key.publicKey)

/** What stands before the 32 bytes of a public key in its SubjectPublicKeyInfo (RFC 8410). */
const KEY_PREFIX = Buffer.from('302a300506032b6570032100', 'hex')

const imported = new Map<string, KeyObject>()

/** The platform's cryptography, without threads. */
export const subtle: NonNullable<Environment['subtle']> = {
  importKey: async (_format, key) => {
    const name = toHex(key)
    const known = imported.get(name)
    if (known !== undefined) return known
    const made = createPublicKey({ key: Buffer.concat([KEY_PREFIX, key]), format: 'der', type: 'spki' })
    imported.set(name, made)
    return made
  },
  verify: async (_algorithm, key, signature, data) => verify(null, data, key as KeyObject, signature),
}
