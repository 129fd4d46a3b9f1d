// Decides when a new generation pays (docs/operations/growth.md). It reads the agreed manifest alone, so that every
// publisher decides the same.

import type { Manifest } from '@keyhush/protocol'
import type { Core } from '@keyhush/wasm'

/** A lookup costs 2·Q entries. A new plan pays when Q is this many times the planner's. */
const MOST_PARTITIONS_OVER_PLAN = 1.25

/** What an added key costs in the directory. */
const ADDED_KEY_BYTES = 20

/** Most bytes of a directory without an overlay, for each record and block. */
const FRESH_DIRECTORY_BYTES_A_RECORD = 0.75
const FRESH_DIRECTORY_BYTES_A_BLOCK = 16
const MOST_OVERLAY_BYTES_A_RECORD = 1
const SMALL_OVERLAY_BYTES = 20_000

/** Default room in a new generation: one part in so many of N. */
const HEADROOM_PART = 10

/** The fields of a manifest that decide. */
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
  | 'shards'
>

/** Why a new generation pays; undefined: it does not, or the database is sharded and takes none. */
export function whyGenerationPays(core: Core, manifest: Size): string | undefined {
  const { records, partitions, keyed, directoryBytes, directoryBlockLog, shards } = manifest
  if (shards !== undefined) return undefined
  const planned = plannedPartitions(core, manifest)
  if (planned !== undefined && partitions > MOST_PARTITIONS_OVER_PLAN * planned) {
    return `the database has ${partitions} partitions where ${planned} suffice, and each makes lookups dearer`
  }
  const overlay = Math.max(SMALL_OVERLAY_BYTES, MOST_OVERLAY_BYTES_A_RECORD * records)
  const fresh = FRESH_DIRECTORY_BYTES_A_RECORD * records + FRESH_DIRECTORY_BYTES_A_BLOCK * 2 ** directoryBlockLog
  if (keyed && directoryBytes > fresh + overlay) {
    return `the key directory has grown to ${directoryBytes} bytes`
  }
  return undefined
}

/** The same once so many keys were added to those that there are; about, because an added key may cost less. */
export function whyGenerationWillPay(core: Core, manifest: Size, keys: number, added: number): string | undefined {
  const records = Math.max(manifest.records, keys + added)
  const partitions = Math.max(manifest.partitions, Math.ceil(records / manifest.partitionRecords))
  const directoryBytes = manifest.directoryBytes + ADDED_KEY_BYTES * added
  return whyGenerationPays(core, { ...manifest, records, partitions, directoryBytes })
}

/** How many records a new generation has room for by default. */
export function defaultHeadroom({ records }: Pick<Size, 'records'>): number {
  return Math.ceil(records / HEADROOM_PART)
}

/** The planner's Q for as many records as there are slots; undefined: there is no plan. */
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
