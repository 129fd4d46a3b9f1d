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

const CONTEXT = 'keyhush 2026-11 batch signature v1'
const PUBLIC_KEY_BYTES = 32
const SIGNATURE_BYTES = 64
const FORM = /^([0-9a-f]{64})\.([0-9a-f]{64})\.([0-9a-f]{64})\.([0-9a-f]{128})$/

/** The bytes that a publisher signs for a batch. Throws WireError if a length is wrong. */
export function signedBatchBytes({ databaseId, previousManifest, batchHash }: SignedBatch): Uint8Array {
  checkLength('database id', databaseId, DATABASE_ID_BYTES)
  checkLength('previous manifest', previousManifest, HASH_BYTES)
  checkLength('batch hash', batchHash, HASH_BYTES)
  const bytes = new Uint8Array(CONTEXT.length + DATABASE_ID_BYTES + 2 * HASH_BYTES)
  for (let i = 0; i < CONTEXT.length; i++) bytes[i] = CONTEXT.charCodeAt(i)
  bytes.set(databaseId, CONTEXT.length)
  bytes.set(previousManifest, CONTEXT.length + DATABASE_ID_BYTES)
  bytes.set(batchHash, CONTEXT.length + DATABASE_ID_BYTES + HASH_BYTES)
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
