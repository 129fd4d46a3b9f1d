// Who may publish: those who sign with a key that the operator named. It is looked at before a body is read, for a batch may be
// long and anyone may send one.

import type { IncomingHttpHeaders } from 'node:http'
import {
  BATCH_SIGNATURE_HEADER,
  type BatchSignature,
  equalBytes,
  parseBatchSignature,
  signedBatchBytes,
  toHex,
  WireError,
} from '@keyhush/protocol'
import { verifies } from '../base/ed25519.js'
import { Refusal } from '../base/refusal.js'

/**
 * What one of the publishers with these keys signed. Throws an `unauthorized` Refusal unless it verifies for this database.
 * Whether the body is the batch that was signed remains to be seen.
 */
export function signedBatch(
  headers: IncomingHttpHeaders,
  databaseId: Uint8Array,
  publisherKeys: readonly Uint8Array[],
): BatchSignature {
  const signature = readSignature(headers[BATCH_SIGNATURE_HEADER])
  checkKey(signature.publicKey, publisherKeys)
  if (!verifies(signature.signature, signedBatchBytes({ ...signature, databaseId }), signature.publicKey)) {
    throw new Refusal('unauthorized', "the batch's signature does not verify for this database")
  }
  return signature
}

/** Throws an `unauthorized` Refusal for a key that is none of these. */
export function checkKey(publicKey: Uint8Array, publisherKeys: readonly Uint8Array[]): void {
  if (!publisherKeys.some(key => equalBytes(key, publicKey))) {
    throw new Refusal('unauthorized', `${toHex(publicKey)} is not the key of a publisher known here`)
  }
}

function readSignature(header: string | string[] | undefined): BatchSignature {
  if (typeof header !== 'string') throw new Refusal('unauthorized', "this takes batches that a publisher's key signed")
  try {
    return parseBatchSignature(header)
  } catch (error) {
    if (error instanceof WireError) throw new Refusal('unauthorized', error.message)
    throw error
  }
}
