// Which kind of proof a new hint is made for (docs/costs.md). Tags make a lookup a tenth as large and cost 8 bytes a
// record in memory. Servers see which kind is asked for, so that the choice follows from the manifest, or is the app's:
// one that followed from the device would tell devices apart.

import { type Manifest, type Proofs, proofsOf } from '@pirouette/protocol'
import type { Core } from '@pirouette/wasm/client'
import { UnsupportedError } from '../../base/errors.js'
import { inCore } from '../../platform/core.js'
import type { ProofsPreference } from '../scheme.js'

/** Throws UnsupportedError if these servers do not have what is wished for. */
export function chooseProofs(core: Core, manifest: Manifest, wish: ProofsPreference): Proofs {
  const offered = proofsOf(manifest)
  if (wish !== 'auto') {
    if (offered.includes(wish)) return wish
    throw new UnsupportedError(
      'offer',
      `proofs: '${wish}' is not offered by these servers, which offer ${offered.join(', ')}`,
    )
  }
  if (offered.length === 1) return offered[0]
  const { records, recordBytes, partitions, partitionRecords, blockRecords, directoryBytes } = manifest
  return inCore(core, () => {
    const layout = core.layout(records, recordBytes, partitions, partitionRecords, blockRecords)
    const suitable = core.suitableProofs(layout, directoryBytes)
    layout.free()
    return suitable
  })
}
