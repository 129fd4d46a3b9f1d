// A publisher whose signatures both servers hand on.

import { type Manifest, type SignatureInfo, signedBytes, toHex } from '@keyhush/protocol'
import { ed25519 } from '@noble/curves/ed25519.js'
import '../../src/servers/curves.js' // loaded on demand; here before, for the test's clock does not wait for files
import { buildDatabase, type Database, someValues } from './database.js'
import { nextEpoch } from './epochs.js'
import { core, sameOnBoth } from './harness.js'
import type { Network } from './network.js'

export const DAY = 24 * 60 * 60
/** in seconds: when the test clock begins */
export const NOW = Date.UTC(2026, 10, 20) / 1000

/** Epochs of a database of 15 values of 5 bytes, each with the record of its place changed. */
export function epochsOf(count: number, manifest: Partial<Manifest> = {}): Database[] {
  const epochs = [buildDatabase(core, { values: someValues(15, 5), partitions: 4, manifest })]
  for (let i = 1; i < count; i++) {
    const value = new TextEncoder().encode(`ep. ${i}`)
    epochs.push(nextEpoch(core, epochs.at(-1)!, [{ op: 'edit', index: i, value }]))
  }
  return epochs
}

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

/** Both have these epochs from now on, and their signatures. */
export function publishSigned(network: Network, ...databases: Database[]): void {
  network.signatures.push(...databases.map(database => signatureOf(database)))
  network.publishOnBoth(...databases)
}

/** Servers that have these epochs and all signatures: each is genuine. */
export function signedOnBoth(...databases: Database[]): Network {
  const network = sameOnBoth(...databases)
  network.signatures.push(...databases.map(database => signatureOf(database)))
  return network
}
