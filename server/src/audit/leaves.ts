// The epochs that were checked, as a log has them: the hash of each one's entry, in the auditor's store (docs/protocol/witnesses.md).

import { type LoggedEpoch, leafHash, logEntry } from '@keyhush/protocol/log'
import { hex, parse, putJson, putSealed, unsealed } from '../database/stored-values.js'
import type { Storage } from '../storage/storage.js'

const LEAF = 'leaf/'
const FIRST = 'first-leaf'

/** Keeps that of an epoch that has been checked and stored. */
export async function keepLeaf(storage: Storage, logged: LoggedEpoch): Promise<void> {
  const key = LEAF + hex(logged.epoch)
  await storage.transact([FIRST], transaction => {
    if (transaction.get(FIRST) === undefined) putJson(transaction, FIRST, { epoch: logged.epoch })
    putSealed(transaction, key, leafHash(logEntry(logged)))
  })
}

/** Undefined: that epoch was not checked, or not yet. */
export async function leafOf(storage: Storage, epoch: number): Promise<Uint8Array | undefined> {
  const key = LEAF + hex(epoch)
  const value = await storage.get(key)
  return value && unsealed(key, value)
}

/** The first epoch that was checked. */
export async function firstChecked(storage: Storage): Promise<number> {
  const value = await storage.get(FIRST)
  return value === undefined ? Number.POSITIVE_INFINITY : (parse(FIRST, value) as { epoch: number }).epoch
}
