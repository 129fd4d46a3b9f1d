// Partitions of the newest epoch, which clients download by their hash, as they are in memory.

import { equalBytes, HASH_BYTES, type Manifest, partitionBytes } from '@keyhush/protocol'
import type { Core } from '@keyhush/wasm'
import { Refusal } from '../base/refusal.js'
import { recordBytesView } from '../dataset/view.js'
import { type Changes, changesOf } from './chunks.js'
import { type Blob, slicedBlob } from './epochs.js'
import type { Generation } from './generation.js'

/**
 * By its hash in hex. If a batch changes the partition during a download, that breaks off. `unwritten`: the list by which memory
 * is ahead of the manifest, while its batch cannot be written.
 */
export function partitionBlob(
  generation: Generation,
  manifest: Manifest,
  hash: string,
  unwritten?: Uint8Array,
): Blob | undefined {
  const { core, database } = generation
  const wanted = Buffer.from(hash, 'hex')
  const q = partitionWith(manifest, wanted)
  if (q === undefined) return undefined
  const length = partitionBytes(manifest)
  const now = database.contentHash(q)
  const changes = equalBytes(now, wanted) || unwritten === undefined ? undefined : readOnce(core, unwritten)
  if (changes === undefined && !equalBytes(now, wanted)) {
    throw new Refusal('not_ready', 'a batch that is not on disk yet has changed this partition')
  }
  return slicedBlob(length, (first, last) => {
    if (generation.isFreed || !equalBytes(database.contentHash(q), now)) throw new Error('the partition has changed')
    const at = q * length + first
    const bytes = recordBytesView(core, database, at, last - first + 1).slice()
    if (changes !== undefined) undo(bytes, at, changes, manifest.recordBytes)
    return bytes
  })
}

/** There may be tens of thousands, and anybody can ask: the search is the platform's. */
function partitionWith({ contentHashes }: Manifest, hash: Buffer): number | undefined {
  if (hash.length !== HASH_BYTES) return undefined
  const all = Buffer.from(contentHashes.buffer, contentHashes.byteOffset, contentHashes.length)
  let at = all.indexOf(hash)
  while (at !== -1 && at % HASH_BYTES !== 0) at = all.indexOf(hash, at + 1)
  return at === -1 ? undefined : at / HASH_BYTES
}

/** A list may be as long as a batch, and downloads of many clients need it for as long as they take: they share one copy. */
const read = new WeakMap<Uint8Array, Changes>()

function readOnce(core: Core, list: Uint8Array): Changes {
  const changes = read.get(list) ?? changesOf(core, list)
  read.set(list, changes)
  return changes
}

/** Makes bytes of the database, from byte `at` on, what they were before these changes. */
function undo(bytes: Uint8Array, at: number, { indices, differences }: Changes, recordBytes: number): void {
  let n = firstFrom(indices, Math.floor(at / recordBytes))
  for (; n < indices.length && indices[n]! * recordBytes < at + bytes.length; n++) {
    const start = indices[n]! * recordBytes - at
    for (let k = Math.max(0, -start); k < recordBytes && start + k < bytes.length; k++) {
      bytes[start + k]! ^= differences[n * recordBytes + k]!
    }
  }
}

/** Where the first of `indices`, which ascend, is that is not below `least`. */
function firstFrom(indices: Uint32Array, least: number): number {
  let [low, high] = [0, indices.length]
  while (low < high) {
    const middle = (low + high) >>> 1
    if (indices[middle]! < least) low = middle + 1
    else high = middle
  }
  return low
}
