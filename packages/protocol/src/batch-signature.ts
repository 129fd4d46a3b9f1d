// A publisher's signature of a batch (docs/protocol.md, Publishing): what is signed, and the header that carries it, so
// that a server knows before it reads a body that its publisher sent it.

import { checkLength, fromHex, toHex } from './bytes.js'
import { DATABASE_ID_BYTES, HASH_BYTES } from './constants.js'
import { WireError } from './errors.js'

/** The name of the HTTP header, in lower case as Node gives it. */
export const BATCH_SIGNATURE_HEADER = 'keyhush-batch-signature'

/** What the signature binds a batch to, beside its own bytes. */
export interface SignedBatch {
  /** 16 bytes */
  readonly databaseId: Uint8Array
  /** hash of the manifest of the epoch before, 32 bytes */
  readonly previousManifest: Uint8Array
  /** BLAKE3 of the batch, 32 bytes */
  readonly batchHash: Uint8Array
}

export interface BatchSignature extends Omit<SignedBatch, 'databaseId'> {
  /** 32 bytes */
  readonly publicKey: Uint8Array
  /** Ed25519 over `signedBatchBytes`, 64 bytes */
  readonly signature: Uint8Array
}

/** What a signature is for: to publish the batch, or to check it alone. */
const CONTEXTS = {
  batch: 'keyhush 2026-11 batch signature v1',
  check: 'keyhush 2026-11 check signature v1',
}

export type BatchUse = keyof typeof CONTEXTS

const PUBLIC_KEY_BYTES = 32
const SIGNATURE_BYTES = 64
const FORM = /^([0-9a-f]{64})\.([0-9a-f]{64})\.([0-9a-f]{64})\.([0-9a-f]{128})$/

/** The bytes that a publisher signs for a batch. Throws WireError if a length is wrong. */
export function signedBatchBytes(
  { databaseId, previousManifest, batchHash }: SignedBatch,
  use: BatchUse = 'batch',
): Uint8Array {
  checkLength('database id', databaseId, DATABASE_ID_BYTES)
  checkLength('previous manifest', previousManifest, HASH_BYTES)
  checkLength('batch hash', batchHash, HASH_BYTES)
  const context = CONTEXTS[use]
  const bytes = new Uint8Array(context.length + DATABASE_ID_BYTES + 2 * HASH_BYTES)
  for (let i = 0; i < context.length; i++) bytes[i] = context.charCodeAt(i)
  bytes.set(databaseId, context.length)
  bytes.set(previousManifest, context.length + DATABASE_ID_BYTES)
  bytes.set(batchHash, context.length + DATABASE_ID_BYTES + HASH_BYTES)
  return bytes
}

/** The header's value: four times lower-case hex with dots between. */
export function encodeBatchSignature(signature: BatchSignature): string {
  const { publicKey, previousManifest, batchHash } = signature
  checkLength('public key', publicKey, PUBLIC_KEY_BYTES)
  checkLength('signature', signature.signature, SIGNATURE_BYTES)
  return [publicKey, previousManifest, batchHash, signature.signature].map(toHex).join('.')
}

/** Reads the header's value. Throws WireError. The caller verifies the signature. */
export function parseBatchSignature(text: string): BatchSignature {
  const [, publicKey, previousManifest, batchHash, signature] = FORM.exec(text) ?? []
  if (publicKey === undefined) {
    throw new WireError(
      'malformed',
      'batch signature: expected public key, previous manifest, batch hash and signature in hex, separated by dots, got another form',
    )
  }
  return {
    publicKey: fromHex(publicKey),
    previousManifest: fromHex(previousManifest!),
    batchHash: fromHex(batchHash!),
    signature: fromHex(signature!),
  }
}
