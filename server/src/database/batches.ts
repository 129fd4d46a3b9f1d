// A batch as it comes: whether it is what a publisher signed, and whether it makes the next epoch.

import {
  type Batch,
  type BatchSignature,
  decodeBatch,
  type EpochStatus,
  equalBytes,
  toHex,
  WireError,
} from '@keyhush/protocol'
import { Refusal } from '../base/refusal.js'
import type { Epoch } from './epochs.js'

/** What a batch's signature says of the batch. */
export type SignedFor = Pick<BatchSignature, 'batchHash' | 'previousManifest'>

/** Throws a Refusal if the bytes are no batch, or not the one that was signed, where one was. */
export function readBatch(body: Uint8Array, hash: Uint8Array, signed: SignedFor | undefined): Batch {
  if (signed !== undefined && !equalBytes(signed.batchHash, hash)) {
    throw new Refusal('unauthorized', 'these bytes are not the batch that was signed')
  }
  let batch: Batch
  try {
    batch = decodeBatch(body)
  } catch (error) {
    if (error instanceof WireError) throw new Refusal('bad_request', error.message)
    throw error
  }
  if (signed !== undefined && !equalBytes(signed.previousManifest, batch.previousManifest)) {
    throw new Refusal('unauthorized', 'the batch was signed for another manifest than the one it is made on')
  }
  return batch
}

/** Whether the batch makes the epoch after `newest`; else an earlier one. Throws a Refusal if it can do neither. */
export function isNext(batch: Batch, { manifest: { databaseId, epoch, generation }, manifestHash }: Epoch): boolean {
  if (!equalBytes(batch.databaseId, databaseId)) {
    throw new Refusal('wrong_database', 'the batch is for another database than the one served here')
  }
  if (batch.epoch <= epoch) return false
  if (batch.epoch !== epoch + 1) {
    throw new Refusal('epoch_gap', `the newest epoch here is ${epoch}, so the next is ${epoch + 1}`)
  }
  if (batch.generation !== generation || toHex(batch.previousManifest) !== manifestHash) {
    throw new Refusal('batch_conflict', `the batch was not made on the manifest of epoch ${epoch} here`)
  }
  return true
}

/** The status of an earlier epoch, if this batch made it. Throws a Refusal if another did. */
export function madeBefore({ epoch }: Batch, hash: string, status: EpochStatus | undefined): EpochStatus {
  if (status === undefined) throw new Refusal('epoch_gap', `what made epoch ${epoch} is no longer known here`)
  if (status.batch === hash) return status
  throw new Refusal('batch_conflict', `epoch ${epoch} was made from another batch`)
}
