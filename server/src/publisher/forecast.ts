// Whether clients will have to download a list again after changes. For dry runs: the servers decide when the batches come.

import { FINGERPRINT_BYTES, type Manifest } from '@keyhush/protocol'
import type { Core } from '@keyhush/wasm'
import type { KeyedRecords } from '../dataset/ingest/table.js'
import type { Difference } from './difference.js'
import { whyGenerationPays } from './growth.js'

const DIRECTORY_HEADER_BYTES = 32
const OVERLAY_ENTRY_BYTES = 20

/** Why a new generation is expected; undefined: none is. `directory`: that of the manifest. */
export function whyDownloadedAgain(
  core: Core,
  manifest: Manifest,
  directory: Uint8Array,
  { fingerprints }: KeyedRecords,
  { before, adds }: Difference,
): string | undefined {
  const lengths = blockLengths(directory)
  const shape = core.directoryShape(manifest.directoryBlockLog, manifest.directoryBlockBytes, manifest.directorySeed)
  for (const row of adds) {
    const number = shape.number(fingerprints.subarray(FINGERPRINT_BYTES * row, FINGERPRINT_BYTES * (row + 1)))
    lengths[number]! += OVERLAY_ENTRY_BYTES
  }
  shape.free()
  if (lengths.some(length => length > manifest.directoryBlockBytes))
    return 'the file adds more than the generation has room for'
  const records = Math.max(manifest.records, before + adds.length)
  const partitions = Math.max(manifest.partitions, Math.ceil(records / manifest.partitionRecords))
  const directoryBytes = manifest.directoryBytes + OVERLAY_ENTRY_BYTES * adds.length
  return whyGenerationPays(core, { ...manifest, records, partitions, directoryBytes })
}

/** The bytes of each block of a directory, without padding (docs/protocol.md, Directory). */
function blockLengths(directory: Uint8Array): number[] {
  const view = new DataView(directory.buffer, directory.byteOffset, directory.length)
  const lengths: number[] = []
  for (let start = DIRECTORY_HEADER_BYTES, at = start; start < directory.length; start = at) {
    at = start + 8
    for (let left = view.getUint16(start + 4, true); left > 0; ) {
      for (const end = at + 8 * Math.ceil(left / 32); at < end; at += 4) {
        left -= bitsIn(view.getUint32(at, true))
      }
    }
    at += OVERLAY_ENTRY_BYTES * view.getUint16(start + 6, true)
    lengths.push(at - start)
  }
  return lengths
}

function bitsIn(word: number): number {
  let bits = 0
  for (let rest = word; rest !== 0; rest &= rest - 1) bits++
  return bits
}
