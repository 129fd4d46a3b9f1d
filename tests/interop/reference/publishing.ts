// docs/protocol.md, Publishing and Signatures: a publisher's batch, and what is signed of it and of a manifest.

import { createPrivateKey, createPublicKey, sign } from 'node:crypto'
import { concatBytes, bytesToHex as hex, hexToBytes, utf8ToBytes } from '@noble/hashes/utils.js'
import { isZero, offsetsOf, Reader, Writer } from './bytes.js'

const ENCODINGS = ['utf8', 'base64', 'hex'] as const

export interface Batch {
  readonly encoding: (typeof ENCODINGS)[number]
  readonly databaseId: Uint8Array
  readonly generation: number
  readonly epoch: number
  readonly expires: bigint
  /** hash of the manifest it is made on */
  readonly base: Uint8Array
  readonly operations: Uint8Array
}

/** The fields before the operations, in order, with their lengths. */
export const BATCH_FIELDS = {
  ...{ magic: 4, format: 2, encoding: 1, reserved: 1, databaseId: 16, generation: 4, epoch: 4, expires: 8, base: 32 },
} as const

export function encodeBatch(batch: Batch): Uint8Array {
  return new Writer()
    .put('PIRB')
    .u16(1)
    .put(Uint8Array.of(ENCODINGS.indexOf(batch.encoding), 0), batch.databaseId)
    .u32(batch.generation)
    .u32(batch.epoch)
    .u64(batch.expires)
    .put(batch.base, batch.operations)
    .bytes()
}

/** The operations are not looked at. */
export function decodeBatch(bytes: Uint8Array): Batch {
  const reader = new Reader(bytes)
  reader.expect('magic', 'PIRB')
  if (reader.u16() !== 1) throw new Error('unknown batch format')
  const [written, reserved] = reader.take(2)
  const encoding = ENCODINGS[written!]
  if (encoding === undefined) throw new Error('values written in no known way')
  if (reserved !== 0) throw new Error('reserved bytes')
  const databaseId = reader.take(16)
  const [generation, epoch] = [reader.u32(), reader.u32()]
  const expires = reader.u64()
  const base = reader.take(32)
  if (epoch < 2 || generation < 1 || generation > epoch) throw new Error('an epoch that no batch makes')
  if (expires >= 2n ** 53n) throw new Error('an expiry beyond 2^53 - 1')
  if (isZero(base)) throw new Error('a batch on nothing')
  return {
    encoding,
    databaseId,
    generation,
    epoch,
    expires,
    base,
    operations: bytes.slice(offsetsOf(BATCH_FIELDS).end),
  }
}

/** What a batch's signature is over. */
export function batchMessage(databaseId: Uint8Array, base: Uint8Array, batchHash: Uint8Array): Uint8Array {
  return concatBytes(utf8ToBytes('keyhush 2026-11 batch signature v1'), databaseId, base, batchHash)
}

/** What a manifest's signature is over. */
export function manifestMessage(manifest: Uint8Array): Uint8Array {
  return concatBytes(utf8ToBytes('keyhush 2026-11 manifest signature v1'), manifest)
}

/** Public key, base, batch's hash, signature. */
export type SignatureParts = readonly [Uint8Array, Uint8Array, Uint8Array, Uint8Array]

export const signatureHeader = (parts: SignatureParts) => parts.map(part => hex(part)).join('.')

export function parseSignatureHeader(text: string): SignatureParts {
  const parts = text.split('.')
  const lengths = [64, 64, 64, 128]
  if (parts.length !== 4 || parts.some((part, i) => part.length !== lengths[i] || /[^0-9a-f]/.test(part))) {
    throw new Error('not four hashes, keys and signatures')
  }
  return parts.map(part => hexToBytes(part)) as unknown as SignatureParts
}

/** RFC 8032's Ed25519, by the platform's own library. */
export function signWith(seed: Uint8Array, message: Uint8Array): { publicKey: Uint8Array; signature: Uint8Array } {
  const pkcs8 = concatBytes(hexToBytes('302e020100300506032b657004220420'), seed) // RFC 8410's form of a seed
  const key = createPrivateKey({ key: Buffer.from(pkcs8), format: 'der', type: 'pkcs8' })
  const publicKey = createPublicKey(key).export({ format: 'der', type: 'spki' }).subarray(-32)
  return { publicKey: Uint8Array.from(publicKey), signature: Uint8Array.from(sign(null, message, key)) }
}
