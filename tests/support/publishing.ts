// The publisher of tests: its key, and the headers of a batch that it signs.

import {
  BATCH_SIGNATURE_HEADER,
  type Batch,
  type BatchUse,
  decodeBatch,
  encodeBatchSignature,
  signedBatchBytes,
  toHex,
} from '@keyhush/protocol'
import { ed25519 } from '@noble/curves/ed25519.js'
import { blake3 } from '@noble/hashes/blake3.js'

export interface SigningKey {
  readonly publicKey: Uint8Array
  readonly secretKey: Uint8Array
}

export const PUBLISHER: SigningKey = ed25519.keygen(new Uint8Array(32).fill(7))

/** As `serve --publisher-key` takes it. */
export const PUBLISHER_KEY = toHex(PUBLISHER.publicKey)

/** The headers of a batch that is signed for a use; `other`: fields that are signed instead of the batch's own. */
export function signed(
  batch: Uint8Array,
  { publicKey, secretKey } = PUBLISHER,
  other: Partial<Batch> = {},
  use: BatchUse = 'batch',
): Record<string, string> {
  const { databaseId, previousManifest } = { ...decodeBatch(batch), ...other }
  const batchHash = blake3(batch)
  const signature = ed25519.sign(signedBatchBytes({ databaseId, previousManifest, batchHash }, use), secretKey)
  return { [BATCH_SIGNATURE_HEADER]: encodeBatchSignature({ publicKey, previousManifest, batchHash, signature }) }
}
