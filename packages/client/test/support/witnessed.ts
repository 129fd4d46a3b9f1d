// A publisher's log in memory, and witnesses that sign whatever they are asked: tests decide who signs what.

import { signedBytes, toHex } from '@keyhush/protocol'
import * as log from '@keyhush/protocol/log'
import { ed25519 } from '@noble/curves/ed25519.js'
import { blake3 } from '@noble/hashes/blake3.js'
import '../../src/servers/witnesses.js' // loaded on demand; here before, for the test's clock does not wait for files
import type { Database } from './database.js'
import type { Network } from './network.js'
import { publisherKey, SECRET } from './signed.js'

const pairOf = (seed: number) => ed25519.keygen(new Uint8Array(32).fill(seed))
const LOG = pairOf(1)
const WITNESSES = ['a', 'b', 'c'].map((name, i) => {
  const { publicKey, secretKey } = pairOf(10 + i)
  return { name, secretKey, key: log.noteKey(`${name}.example/w`, log.WITNESS_KEY, publicKey) }
})
const originOf = ({ manifest }: Database) => log.logOrigin('example.com/keys', manifest.databaseId)

/** Of the log of this database: two of three witnesses. */
export function policyOf(database: Database, quorum = 'group g 2 a b c\nquorum g\n'): string {
  const key = log.encodeNoteKey(log.noteKey(originOf(database), log.LOG_KEY, LOG.publicKey))
  const lines = WITNESSES.map(({ name, key }) => `witness ${name} ${log.encodeNoteKey(key)}\n`)
  return `log ${key}\n${lines.join('')}${quorum}`
}

export interface Proving {
  /** who signs, each as often as it stands here */
  readonly by?: string
  /** instead of the epoch's place */
  readonly index?: number
  readonly origin?: string
}

/** The proof of the last of these epochs, in a log that has them all. */
export function proofOf(epochs: readonly Database[], { by = 'abc', index, origin }: Proving = {}): string {
  const last = epochs.at(-1)!
  const entries = epochs.map(({ manifest, manifestBytes }) => {
    const { databaseId, epoch } = manifest
    return log.leafHash(log.logEntry({ databaseId, epoch, manifestHash: blake3(manifestBytes) }))
  })
  const at = index ?? last.manifest.epoch - 1
  const name = origin ?? originOf(last)
  const text = log.checkpointText({ origin: name, size: entries.length, root: log.rootOf(entries) })
  const { id } = log.noteKey(name, log.LOG_KEY, LOG.publicKey)
  const signatures = [
    { name, id, bytes: ed25519.sign(log.signedNoteBytes(text), LOG.secretKey) },
    ...[...by].map(letter => {
      const { key, secretKey } = WITNESSES.find(({ name }) => name === letter)!
      const bytes = log.cosignature(1_795_900_000n, ed25519.sign(log.cosignedBytes(text, 1_795_900_000n), secretKey))
      return { name: key.name, id: key.id, bytes }
    }),
  ]
  return log.formatLogProof(at, log.inclusionPath(entries, at), log.formatNote({ text, signatures }))
}

/** Has servers show a proof of the last of these epochs, or a text in its place; undefined: its signature alone. */
export function showProof(network: Network, epochs: readonly Database[], text: string | undefined): void {
  const { manifest, manifestBytes } = epochs.at(-1)!
  const { generation, epoch } = manifest
  const bytes = Buffer.from(text ?? '')
  const hash = toHex(blake3(bytes))
  const signature = toHex(ed25519.sign(signedBytes(manifestBytes), SECRET))
  const entry = { publicKey: publisherKey, generation, epoch, signature }
  network.signatures.push({ ...entry, ...(text !== undefined && { proof: hash }) })
  if (text !== undefined) network.proofs.set(hash, new Uint8Array(bytes))
}
