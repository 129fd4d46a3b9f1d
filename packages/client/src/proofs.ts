// Which kind of proof a new hint is made for (docs/costs.md). Tags make a lookup a tenth as large and cost 8 bytes a
// record in memory. Servers see which kind is asked for, so that the choice follows from the manifest, or is the app's:
// one that followed from the device would tell devices apart.

import { type Manifest, type Proofs, partitionBytes, proofsOf } from '@pirouette/protocol'
import { UnsupportedError } from './errors.js'

export type ProofsPreference = 'auto' | Proofs

/** What a client may hold between lookups for tags to be chosen: the planner's rule (rust-core/core/src/cost.rs). */
const MEMORY_BYTES = 64_000_000
const TAG_BYTES = 8
const PERMUTATION_ENTRY_BYTES = 2

/** Throws UnsupportedError if these servers do not have what is wished for. */
export function chooseProofs(manifest: Manifest, wish: ProofsPreference): Proofs {
  const offered = proofsOf(manifest)
  if (wish !== 'auto') {
    if (offered.includes(wish)) return wish
    throw new UnsupportedError(`proofs: '${wish}' is not offered by these servers, which offer ${offered.join(', ')}`)
  }
  const slots = manifest.partitions * manifest.partitionRecords
  const held = partitionBytes(manifest) + (PERMUTATION_ENTRY_BYTES + TAG_BYTES) * slots + manifest.directoryBytes
  return offered.length === 1 || held > MEMORY_BYTES ? offered[0] : 'tags'
}
