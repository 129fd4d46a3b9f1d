// A publisher whose signatures both servers hand on.

import { type SignatureInfo, signedBytes, toHex } from '@keyhush/protocol'
import { ed25519 } from '@noble/curves/ed25519.js'
import '../../src/servers/curves.js' // loaded on demand; here before, for the test's clock does not wait for files
import type { Database } from './database.js'
import { sameOnBoth } from './harness.js'
import type { Network } from './network.js'

export const SECRET = new Uint8Array(32).fill(7)
export const publisherKey = toHex(ed25519.getPublicKey(SECRET))

/** The publisher's signature of a database, or another's. */
export function signatureOf(
  { manifest: { generation, epoch }, manifestBytes }: Pick<Database, 'manifest' | 'manifestBytes'>,
  secret = SECRET,
): SignatureInfo {
  const signature = toHex(ed25519.sign(signedBytes(manifestBytes), secret))
  return { publicKey: toHex(ed25519.getPublicKey(secret)), generation, epoch, signature }
}

/** Servers that have these epochs and all signatures: each is genuine. */
export function signedOnBoth(...databases: Database[]): Network {
  const network = sameOnBoth(...databases)
  network.signatures.push(...databases.map(database => signatureOf(database)))
  return network
}
