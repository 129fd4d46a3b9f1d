// docs/protocol.md, A new generation: records, layout and directory, from the records of the epoch before alone.

import { isZero } from './bytes.js'
import { buildDirectory, encodeDirectory, indexOf } from './directory.js'
import { type Layout, planLayout, split } from './layout.js'

export interface Generation {
  readonly layout: Layout
  /** N·ℓ bytes */
  readonly records: Uint8Array
  /** of no bytes without keys */
  readonly directory: Uint8Array
}

/** `records`: the N·ℓ bytes of a database with or without keys. */
export function nextGeneration(before: Layout, records: Uint8Array, keyed: boolean, headroom: number): Generation {
  const { recordBytes, blockRecords } = before
  const kept = split(records, recordBytes).filter(record => !keyed || !isZero(record))
  const planned = planLayout(kept.length + headroom, recordBytes, undefined, blockRecords)
  const layout = { ...planned, records: kept.length }
  if (!keyed) return { layout, records, directory: new Uint8Array() }
  const prints = kept.map(record => record.subarray(0, 16))
  const directory = buildDirectory(prints, layout.partitions * layout.partitionRecords)
  const placed = new Uint8Array(kept.length * recordBytes)
  kept.forEach((record, i) => void placed.set(record, indexOf(directory, prints[i]!, kept.length) * recordBytes))
  return { layout, records: placed, directory: encodeDirectory(directory) }
}
