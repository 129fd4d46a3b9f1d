// Which kind of proof a new hint is made for (docs/costs.md). Tags make a lookup a tenth as large and cost 8 bytes a
// record in memory; Pointproofs make it as small, for a tenth of a second of the device's. Servers see which kind is asked for, so that the choice follows from the manifest, or is the app's:
// one that followed from the device would tell devices apart.

import { type Manifest, type Proofs, proofsOf } from '@keyhush/protocol'
import type { Core } from '@keyhush/wasm/client'
import { UnsupportedError } from '../../base/errors.js'
import { hintsOf, inCore } from '../../platform/core.js'
import { isUsable, KINDS } from '../kinds.js'
import type { SchemeOptions } from '../scheme.js'

/**
 * Left open: tags if they suit the client, else Pointproofs where they are to be had, else Merkle. Throws UnsupportedError if
 * these servers do not have what is wished for.
 */
export function chooseProofs(core: Core, manifest: Manifest, options: SchemeOptions): Proofs {
  const { proofs: wish } = options
  const offered = proofsOf(manifest)
  if (wish !== 'auto') {
    KINDS[wish].packaged?.assertTrusted(manifest, options)
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
    const suitable = hintsOf(core).suitableProofs(layout, directoryBytes)
    layout.free()
    const better = (proofs: Proofs) =>
      KINDS[proofs].packaged?.insteadOf === suitable && isUsable(proofs, manifest, options)
    return offered.find(better) ?? suitable
  })
}
