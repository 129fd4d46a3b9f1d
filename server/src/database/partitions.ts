// Partitions of the newest epoch, which clients download by their hash, as they are in memory.

import { contentHash, equalBytes, type Manifest, partitionBytes } from '@keyhush/protocol'
import { Refusal } from '../base/refusal.js'
import { recordBytesView } from '../dataset/view.js'
import { type Blob, slicedBlob } from './epochs.js'
import type { Generation } from './generation.js'

/** By its hash in hex. If a batch changes the partition during a download, that breaks off. */
export function partitionBlob(generation: Generation, manifest: Manifest, hash: string): Blob | undefined {
  const { core, database } = generation
  const wanted = Buffer.from(hash, 'hex')
  const numbers = Array.from({ length: manifest.partitions }, (_, q) => q)
  const q = numbers.find(q => equalBytes(contentHash(manifest, q), wanted))
  if (q === undefined) return undefined
  const length = partitionBytes(manifest)
  const isThere = () => !generation.isFreed && equalBytes(database.contentHash(q), wanted)
  // A batch that could not be written is in memory already.
  if (!isThere()) throw new Refusal('not_ready', 'a batch that is not on disk yet has changed this partition')
  return slicedBlob(length, (first, last) => {
    if (!isThere()) throw new Error('the partition has changed')
    return recordBytesView(core, database, q * length + first, last - first + 1).slice()
  })
}
