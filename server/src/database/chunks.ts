// Records lie in the storage in chunks. Which ones, where an update list changes them, and their bytes.

import { type Manifest, partitionBytes } from '@keyhush/protocol'
import type { Core, DatabaseHandle } from '@keyhush/wasm'
import { recordBytesView } from '../dataset/view.js'
import { wholePages } from '../storage/storage.js'
import { DATE_BYTES } from './stored-values.js'

/** Bytes of records under one key. */
export const CHUNK_BYTES = wholePages(8) - DATE_BYTES

/** What is written in one transaction, so that neither memory nor the event loop has to bear a whole database. */
export const CHUNKS_TOGETHER = 128

/** What a list changes: records, ascending, and old ⊕ new of each. */
export interface Changes {
  readonly indices: Uint32Array
  readonly differences: Uint8Array
}

/** Throws the core's errors. */
export function changesOf(core: Core, list: Uint8Array): Changes {
  const handle = core.decodeUpdateList(list)
  const changes = { indices: handle.indices(), differences: handle.differences() }
  handle.free()
  return changes
}

/** The differences, cut where chunks end: chunk, position in the database, old ⊕ new. */
export function* inChunks(
  { indices, differences }: Changes,
  recordBytes: number,
): Iterable<{ number: number; at: number; delta: Uint8Array }> {
  for (const [i, index] of indices.entries()) {
    const start = index * recordBytes
    const delta = differences.subarray(i * recordBytes, (i + 1) * recordBytes)
    for (let done = 0; done < recordBytes; ) {
      const number = Math.floor((start + done) / CHUNK_BYTES)
      const end = Math.min(recordBytes, (number + 1) * CHUNK_BYTES - start)
      yield { number, at: start + done, delta: delta.subarray(done, end) }
      done = end
    }
  }
}

/** The chunks of records at these indices, which ascend. */
export function* chunksWith(indices: Uint32Array, recordBytes: number): Iterable<number> {
  let next = 0
  for (const index of indices) {
    next = Math.max(next, Math.floor((index * recordBytes) / CHUNK_BYTES))
    for (; next * CHUNK_BYTES < (index + 1) * recordBytes; next++) yield next
  }
}

/** Gives a database's chunks by number, as they are in memory when they are asked for. */
export function chunksOf(
  { core, database }: { readonly core: Core; readonly database: DatabaseHandle },
  manifest: Manifest,
): (number: number) => Uint8Array {
  const total = manifest.partitions * partitionBytes(manifest)
  return number => {
    const at = number * CHUNK_BYTES
    return recordBytesView(core, database, at, Math.min(CHUNK_BYTES, total - at))
  }
}
