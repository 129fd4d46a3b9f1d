// When a new generation pays (docs/operations.md, Growth): decided from the agreed manifest alone, so that it does not
// matter which publisher decides, or how often.

import type { Manifest } from '@keyhush/protocol'
import type { Core } from '@keyhush/wasm'

/** A lookup costs 2·Q entries; beyond this many times the planner's Q, planning anew pays. */
const MOST_PARTITIONS_OVER_PLAN = 1.25

/** A directory without an overlay has at most so many bytes a record and a block, and an added key costs 20. */
const FRESH_DIRECTORY_BYTES_A_RECORD = 0.75
const FRESH_DIRECTORY_BYTES_A_BLOCK = 16
const MOST_OVERLAY_BYTES_A_RECORD = 1
const SMALL_OVERLAY_BYTES = 20_000

/** Room in a new generation by default, as a part of N. */
const HEADROOM_PART = 10

/** The fields of a manifest that decide it. */
export type Size = Pick<
  Manifest,
  | 'records'
  | 'recordBytes'
  | 'partitions'
  | 'partitionRecords'
  | 'blockRecords'
  | 'keyed'
  | 'directoryBytes'
  | 'directoryBlockLog'
>

/** Why a new generation pays; undefined: it does not. */
export function whyGenerationPays(core: Core, manifest: Size): string | undefined {
  const { records, partitions, keyed, directoryBytes, directoryBlockLog } = manifest
  const planned = plannedPartitions(core, manifest)
  if (planned !== undefined && partitions > MOST_PARTITIONS_OVER_PLAN * planned) {
    return `it has ${partitions} partitions where ${planned} would do, and every lookup costs in proportion`
  }
  const overlay = Math.max(SMALL_OVERLAY_BYTES, MOST_OVERLAY_BYTES_A_RECORD * records)
  const fresh = FRESH_DIRECTORY_BYTES_A_RECORD * records + FRESH_DIRECTORY_BYTES_A_BLOCK * 2 ** directoryBlockLog
  if (keyed && directoryBytes > fresh + overlay) {
    return `its directory has grown to ${directoryBytes} bytes`
  }
  return undefined
}

/** How many records to leave room for by default. */
export function defaultHeadroom({ records }: Pick<Size, 'records'>): number {
  return Math.ceil(records / HEADROOM_PART)
}

/** What the planner takes for as many records as there are slots; undefined: it finds nothing. */
function plannedPartitions(
  core: Core,
  { recordBytes, partitions: current, partitionRecords, blockRecords }: Size,
): number | undefined {
  try {
    const layout = core.planLayout(current * partitionRecords, recordBytes, undefined, blockRecords)
    const { partitions } = layout
    layout.free()
    return partitions
  } catch {
    return undefined
  }
}
