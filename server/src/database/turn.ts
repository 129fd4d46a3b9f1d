// A batch's changes become the next epoch in memory (TAPIR Fig. 6, UpdateDB).

import type { Batch, Manifest } from '@keyhush/protocol'
import type { CoreError, RefusedError } from '@keyhush/wasm'
import { Refusal } from '../base/refusal.js'
import { directoryFields } from '../dataset/blocks.js'
import type { RowProofs } from '../dataset/proof-kinds.js'
import type { BatchRecord } from './epoch-store.js'
import type { EpochInMemory, Generation } from './generation.js'
import { hashed } from './hashing.js'
import { type NextEpoch, nextOfBatch } from './next-epoch.js'
import { nextManifest } from './next-manifest.js'
import { withHint } from './one-server.js'
import { type Operations, refuse } from './operations.js'

/** What a batch made of the core's database, not yet on disk. */
export interface Turn {
  readonly epoch: EpochInMemory
  /** as clients fetch it */
  readonly list: Uint8Array
  /** indices of records that changed */
  readonly changed: Uint32Array
  readonly batch: BatchRecord
}

/** Drafts what a batch's operations make. Throws a Refusal, and then nothing has changed. */
export async function draftNext(generation: Generation, operations: Operations): Promise<NextEpoch> {
  try {
    return await nextOfBatch(generation, operations)
  } catch (error) {
    const { code, message } = error as CoreError
    if (code === 'layout') throw new Refusal('batch_refused', message)
    if (code !== 'refused') throw error
    const { operation, reason } = error as RefusedError
    return refuse(operation + 1, reason)
  }
}

interface Step {
  readonly batch: Batch
  readonly hash: string
  readonly proofs: RowProofs | undefined
  readonly answersOneServer: boolean
  readonly begun: () => void
}

/** Writes the next epoch into the core's database. `hash` is the batch's; `begun` is called when there is no way back. */
export async function writeNext(
  generation: Generation,
  before: EpochInMemory,
  next: NextEpoch,
  { batch, hash, proofs, begun, answersOneServer }: Step,
): Promise<Turn> {
  await next.write(begun)
  const { core, database, blocks } = generation
  const { list: changes, listHash, changed, directory } = next.made
  if (directory !== undefined) {
    generation.directory?.free()
    generation.directory = directory.handle
  }
  const directoryBytes = directory?.bytes ?? new Uint8Array()
  let list = changes
  let { pointproofs }: Pick<Manifest, 'pointproofs'> = before.manifest
  if (proofs !== undefined && pointproofs !== undefined) {
    const { rows, rowsHash } = await proofs.turn(batch.epoch, changes, database)
    pointproofs = { ...pointproofs, rowsHash }
    list = Buffer.concat([changes, rows])
  }
  const unhinted = nextManifest(generation, before, batch, {
    ...directoryFields(core, directory?.handle, directoryBytes, blocks, directory?.hash),
    generation: before.manifest.generation,
    updateListBytes: list.length,
    updateListHash: list === changes ? listHash : await hashed(core, list),
    pointproofs,
    oneServerHint: undefined,
  })
  next.free()
  const { known, oneServer } = await withHint(generation, before.manifest, unhinted, answersOneServer)
  const epoch = generation.epochOf(known, directoryBytes)
  epoch.oneServer = oneServer
  const record = { batch: hash, changes: changed.length }
  return { epoch, list, changed, batch: record }
}
