// Partitions of the newest epoch, which clients download by their hash, as they are in memory.

import { equalBytes, HASH_BYTES, type Manifest, partitionBytes } from '@keyhush/protocol'
import { Refusal } from '../base/refusal.js'
import { recordBytesView } from '../dataset/view.js'
import { type Blob, slicedBlob } from './epochs.js'
import type { Generation } from './generation.js'

/** By its hash in hex. If a batch changes the partition during a download, that breaks off. */
export function partitionBlob(generation: Generation, manifest: Manifest, hash: string): Blob | undefined {
  const { core, database } = generation
  const wanted = Buffer.from(hash, 'hex')
  const q = partitionWith(manifest, wanted)
  if (q === undefined) return undefined
  const length = partitionBytes(manifest)
  const isThere = () => !generation.isFreed && equalBytes(database.contentHash(q), wanted)
  if (!isThere()) throw new Refusal('not_ready', 'a batch that is being written has changed this partition; try again')
  return slicedBlob(length, (first, last) => {
    if (!isThere()) throw new Error('the partition has changed since its download began; download it again')
    return recordBytesView(core, database, q * length + first, last - first + 1).slice()
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
