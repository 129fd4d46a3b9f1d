// Partitions of the epochs that the core has, which clients download by their hash.

import { contentHash, equalBytes, HASH_BYTES, type Manifest, partitionBytes } from '@keyhush/protocol'
import type { Core, DatabaseHandle } from '@keyhush/wasm'
import { recordBytesView } from '../dataset/view.js'
import { type Blob, slicedBlob } from './epochs.js'

/** A generation's database, and the epochs that were made of it. */
interface KeptGeneration {
  readonly core: Core
  readonly database: DatabaseHandle
  readonly isFreed: boolean
  readonly epochs: readonly { readonly manifest: Manifest; readonly isCores: 'newest' | 'previous' | 'gone' }[]
}

/**
 * By its hash in hex. The core has the epoch before the newest too, also while it writes. A download breaks off once no epoch there has
 * this partition.
 */
export function partitionBlob(generation: KeptGeneration, manifest: Manifest, hash: string): Blob | undefined {
  const { core, database } = generation
  const wanted = Buffer.from(hash, 'hex')
  const q = partitionWith(manifest, wanted)
  if (q === undefined) return undefined
  const length = partitionBytes(manifest)
  const hasIt = ({ manifest: of, isCores }: KeptGeneration['epochs'][number]) =>
    isCores !== 'gone' && q < of.partitions && equalBytes(contentHash(of, q), wanted)
  return slicedBlob(length, (first, last) => {
    const epoch = generation.isFreed ? undefined : generation.epochs.find(hasIt)
    if (epoch === undefined) throw new Error('the epoch of this partition is no longer here; download a newer one')
    const [at, bytes] = [q * length + first, last - first + 1]
    if (epoch.isCores === 'previous') return database.previousBytes(at, bytes)
    return recordBytesView(core, database, at, bytes).slice()
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
