// A batch as it comes: whether it is what a publisher signed, and whether it makes the next epoch.

import { type Batch, type BatchSignature, decodeBatch, type EpochStatus, equalBytes, toHex } from '@keyhush/protocol'
import { Refusal, readMessage } from '../base/refusal.js'
import type { Epoch } from './epochs.js'

/** What a batch's signature says of the batch. */
export type SignedFor = Pick<BatchSignature, 'batchHash' | 'previousManifest'>

/** Throws a Refusal if the bytes are no batch, or if a signature is given and is for another batch. */
export function readBatch(body: Uint8Array, hash: Uint8Array, signed: SignedFor | undefined): Batch {
  if (signed !== undefined && !equalBytes(signed.batchHash, hash)) {
    throw new Refusal('unauthorized', 'expected the batch that was signed, got other bytes; publish again')
  }
  const batch = readMessage(() => decodeBatch(body))
  if (signed !== undefined && !equalBytes(signed.previousManifest, batch.previousManifest)) {
    throw new Refusal('unauthorized', 'expected a signature for the manifest that the batch follows, got another')
  }
  return batch
}

/** Whether the batch makes the epoch after `newest`; else an earlier one. Throws a Refusal if it can do neither. */
export function isNext(batch: Batch, newest: Pick<Epoch, 'manifest' | 'manifestHash'>): boolean {
  const { databaseId, epoch, generation } = newest.manifest
  if (!equalBytes(batch.databaseId, databaseId)) {
    throw new Refusal('wrong_database', 'expected a batch for the database served here, got one for another')
  }
  if (batch.epoch <= epoch) return false
  if (batch.epoch !== epoch + 1) {
    throw new Refusal('epoch_gap', `expected a batch for epoch ${epoch + 1}, got another; the newest is ${epoch}`)
  }
  if (batch.generation !== generation || toHex(batch.previousManifest) !== newest.manifestHash) {
    throw new Refusal('batch_conflict', `expected a batch on the manifest of epoch ${epoch} here, got another`)
  }
  return true
}

/** Throws a Refusal if the epoch that the batch makes would have expired. `now`: seconds since 1970. */
export function checkExpiry({ expires }: Batch, now: number): void {
  if (expires === 0 || expires > now) return
  const date = (seconds: number) => new Date(1000 * seconds).toISOString()
  throw new Refusal(
    'batch_refused',
    `expected an epoch that has not expired, got one until ${date(expires)}, and the clock here says ${date(now)}: set the wrong clock`,
  )
}

/** The status of an earlier epoch, if this batch made it. Throws a Refusal if another did. */
export function madeBefore({ epoch }: Batch, hash: string, status: EpochStatus | undefined): EpochStatus {
  if (status === undefined) throw new Refusal('epoch_gap', `it is no longer known which batch made epoch ${epoch}`)
  if (status.batch === hash) return status
  throw new Refusal('batch_conflict', `epoch ${epoch} was made from another batch`)
}
