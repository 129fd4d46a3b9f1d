// The next generation, made in memory beside the one that is answered (docs/protocol.md, A new generation). The event
// loop gets a turn between steps.

import { setImmediate as nextTask } from 'node:timers/promises'
import { type Batch, HASH_BYTES } from '@keyhush/protocol'
import type { Core, CoreError, DatabaseHandle, GenerationHandle } from '@keyhush/wasm'
import type { KnownManifest } from '../base/known-manifest.js'
import { blocksOf, directoryFields } from '../dataset/blocks.js'
import { marksField, slotMarksOf } from '../dataset/slot-marks.js'
import type { Epoch } from './epochs.js'
import { Generation } from './generation.js'
import { nextManifest } from './next-manifest.js'
import { refuse } from './operations.js'

/** `old` must not change meanwhile. Throws a `batch_refused` Refusal if there is no such generation, or no memory. */
export async function makeGeneration(
  { core, database: old }: Generation,
  before: Epoch,
  batch: Batch,
  headroom: number,
): Promise<{ readonly generation: Generation; readonly known: KnownManifest; readonly directoryBytes: Uint8Array }> {
  const handle = await runSteps(core, old, before.manifest.keyed, headroom)
  const database = handle.takeDatabase()!
  const directory = handle.takeDirectory()
  handle.free()
  const directoryBytes = directory?.encode() ?? new Uint8Array()
  const blocks = blocksOf(before.manifest, directory)
  const generation = new Generation(core, { database, directory, blocks })
  if (before.manifest.slotMarksHash !== undefined) {
    generation.slotMarks = await slotMarksOf(generation)
  }
  const known = nextManifest(generation, before, batch, {
    ...directoryFields(core, directory, directoryBytes, blocks),
    generation: before.manifest.generation + 1,
    updateListBytes: 0,
    updateListHash: new Uint8Array(HASH_BYTES),
    pointproofs: undefined, // with them none is made here
    oneServer: undefined,
    ...(await marksField(core, generation.slotMarks)),
  })
  return { generation, known, directoryBytes }
}

async function runSteps(core: Core, old: DatabaseHandle, keyed: boolean, headroom: number): Promise<GenerationHandle> {
  try {
    const next = core.nextGeneration(old, keyed, headroom)
    try {
      while (next.step(old)) await nextTask()
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
