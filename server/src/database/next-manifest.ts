// The manifest of the epoch that a batch makes.

import { type Batch, encodeManifest, type Manifest } from '@keyhush/protocol'
import type { KnownManifest } from '../base/known-manifest.js'
import type { DirectoryFields } from '../dataset/blocks.js'
import type { Epoch } from './epochs.js'
import type { Generation } from './generation.js'

/** A manifest that says all fields: a new field does not compile here until it is known what batches do to it. */
type Whole = { readonly [Field in keyof Manifest]-?: Manifest[Field] }

/** `generation` is what the batch has made, `before` the epoch before it. */
export function nextManifest(
  { core, database }: Pick<Generation, 'core' | 'database'>,
  before: Epoch,
  { epoch, expires }: Batch,
  changed: DirectoryFields &
    Pick<Whole, 'generation' | 'updateListBytes' | 'updateListHash' | 'pointproofs' | 'oneServer' | 'slotMarksHash'>,
): KnownManifest {
  const { suite, databaseId, recordBytes, blockRecords, valueBytes, keyed, variable } = before.manifest
  const { layout, maxQueries } = database
  const { records, partitions, partitionRecords } = layout
  layout.free()
  const manifest: Whole = {
    ...{ suite, databaseId, recordBytes, blockRecords, valueBytes, keyed, variable },
    ...{ epoch, expires, records, partitions, partitionRecords, maxQueries },
    ...changed,
    shards: undefined,
    commitments: database.commitments(),
    contentHashes: database.contentHashes(),
    previousManifest: core.blake3(before.manifestBytes),
  }
  return { manifest, bytes: encodeManifest(manifest) }
}
