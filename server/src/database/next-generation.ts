// The next generation, made in memory beside the one that is answered (docs/protocol.md, A new generation). The event
// loop gets a turn between steps.

import { setImmediate as nextTurn } from 'node:timers/promises'
import { type Batch, encodeManifest, HASH_BYTES, type Manifest } from '@keyhush/protocol'
import type { Core, CoreError, DatabaseHandle, GenerationHandle, ServerDirectoryHandle } from '@keyhush/wasm'
import { blocksOf, directoryFields } from '../dataset/blocks.js'
import type { Epoch } from './epochs.js'
import type { KnownManifest } from './loading.js'
import { refuse } from './operations.js'

export interface MadeGeneration {
  readonly database: DatabaseHandle
  readonly directory: ServerDirectoryHandle | undefined
  /** empty: keyless */
  readonly directoryBytes: Uint8Array
  /** the padded blocks of the directory; undefined if nobody can ask for one */
  readonly blocks: DatabaseHandle | undefined
  readonly known: KnownManifest
  free(): void
}

/** `old` must not change meanwhile. Throws a `batch_refused` Refusal if there is no such generation, or no memory. */
export async function makeGeneration(
  core: Core,
  old: DatabaseHandle,
  before: Epoch,
  batch: Batch,
  headroom: number,
): Promise<MadeGeneration> {
  const handle = await runSteps(core, old, before.manifest.keyed, headroom)
  const database = handle.takeDatabase()!
  const directory = handle.takeDirectory()
  handle.free()
  const directoryBytes = directory?.encode() ?? new Uint8Array()
  const blocks = blocksOf(before.manifest, directory)
  const fields = directoryFields(core, directory, directoryBytes, blocks)
  const manifest = { ...describe(core, database, before, batch), ...fields }
  return {
    ...{ database, directory, directoryBytes, blocks },
    known: { manifest, bytes: encodeManifest(manifest) },
    free() {
      database.free()
      directory?.free()
      blocks?.free()
    },
  }
}

async function runSteps(core: Core, old: DatabaseHandle, keyed: boolean, headroom: number): Promise<GenerationHandle> {
  try {
    const next = core.nextGeneration(old, keyed, headroom)
    try {
      while (next.step(old)) await nextTurn()
      return next.finish()
    } finally {
      next.free()
    }
  } catch (error) {
    const { code, message } = error as CoreError
    if (code === 'layout' || code === 'directory') return refuse(1, message)
    throw error
  }
}

function describe(
  core: Core,
  database: DatabaseHandle,
  { manifest: before, manifestBytes }: Epoch,
  batch: Batch,
): Manifest {
  const { layout } = database
  const { records, partitions, partitionRecords } = layout
  layout.free()
  const none = new Uint8Array(HASH_BYTES)
  return {
    ...before,
    ...{ generation: before.generation + 1, epoch: batch.epoch, expires: batch.expires },
    ...{ records, partitions, partitionRecords, maxBatch: database.maxBatch },
    ...{ commitments: database.commitments(), contentHashes: database.contentHashes() },
    ...{ updateListBytes: 0, updateListHash: none },
    previousManifest: core.blake3(manifestBytes),
  }
}
