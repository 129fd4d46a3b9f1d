// The slot marks of a marked database (docs/protocol.md, Slot marks), made of the records in memory, in slices.

import { equalBytes, FINGERPRINT_BYTES, isZero, type Manifest, slotMark } from '@keyhush/protocol'
import type { Core, DatabaseHandle } from '@keyhush/wasm'
import { BYTES_AT_ONCE, Pace } from '../base/pace.js'
import { hashed } from './hashing.js'
import { recordBytesView } from './view.js'

/** A database in the core's memory. */
interface Marked {
  readonly core: Core
  readonly database: DatabaseHandle
}

/** Slots that are looked at between two looks at the clock. */
const SLOTS_AT_ONCE = 1 << 12

/** Those of all records. */
export async function slotMarksOf({ core, database }: Marked): Promise<Uint8Array> {
  const { layout } = database
  const { records, recordBytes } = layout
  layout.free()
  const [marks, pace] = [new Uint8Array(records), new Pace()]
  for (let start = 0; start < records; start += SLOTS_AT_ONCE) {
    const end = Math.min(records, start + SLOTS_AT_ONCE)
    const all = recordBytesView(core, database, start * recordBytes, (end - start) * recordBytes)
    for (let i = start; i < end; i++) marks[i] = markAt(all, (i - start) * recordBytes)
    await pace.yield()
  }
  return marks
}

/** Those of the epoch in memory, from those of the epoch before, which stay. `changed`: indices of the records that differ. */
export async function nextSlotMarks(
  { core, database }: Marked,
  before: Uint8Array,
  changed: Uint32Array,
): Promise<Uint8Array> {
  const { layout } = database
  const { records, recordBytes } = layout
  layout.free()
  const [marks, pace] = [new Uint8Array(records), new Pace()]
  for (let start = 0; start < before.length; start += BYTES_AT_ONCE) {
    marks.set(before.subarray(start, start + BYTES_AT_ONCE), start)
    await pace.yield()
  }
  for (let start = 0; start < changed.length; start += SLOTS_AT_ONCE) {
    const all = recordBytesView(core, database, 0, records * recordBytes)
    for (const i of changed.subarray(start, start + SLOTS_AT_ONCE)) marks[i] = markAt(all, i * recordBytes)
    await pace.yield()
  }
  return marks
}

function markAt(records: Uint8Array, at: number): number {
  const fingerprint = records.subarray(at, at + FINGERPRINT_BYTES)
  return isZero(fingerprint) ? 0 : slotMark(fingerprint)
}

/** What a manifest says of them. */
export async function marksField(
  core: Core,
  marks: Uint8Array | undefined,
): Promise<{ readonly slotMarksHash: Uint8Array | undefined }> {
  return { slotMarksHash: marks && (await hashed(core, marks)) }
}

/** Whether a manifest names these marks; without any, whether it names none. */
export async function namesMarks(
  core: Core,
  { slotMarksHash: named }: Pick<Manifest, 'slotMarksHash'>,
  marks: Uint8Array | undefined,
): Promise<boolean> {
  const { slotMarksHash: found } = await marksField(core, marks)
  return named === undefined || found === undefined ? named === found : equalBytes(named, found)
}
