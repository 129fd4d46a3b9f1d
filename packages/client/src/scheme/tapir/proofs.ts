// The kind of proof of a new hint (docs/costs.md). Servers see which kind a map asks for, so the choice depends on the manifest and
// the app's options alone. A choice by the device would let servers tell devices apart.

import { type Manifest, type Proofs, proofsOf } from '@keyhush/protocol'
import type { Core } from '@keyhush/wasm/client'
import { UnsupportedError } from '../../base/errors.js'
import { hintsOf, inCore } from '../../platform/core.js'
import { isUsable, KINDS } from '../kinds.js'
import type { SchemeOptions } from '../scheme.js'

/**
 * With `auto`: tags if the core finds them suitable, else a packaged kind that is usable, else Merkle. Throws UnsupportedError if the
 * servers do not offer the kind that the app asks for.
 */
export function chooseProofs(core: Core, manifest: Manifest, options: SchemeOptions): Proofs {
  const { proofs: wish } = options
  const offered = proofsOf(manifest)
  if (wish !== 'auto') {
    KINDS[wish].packaged?.assertTrusted(manifest, options)
    if (offered.includes(wish)) return wish
    throw new UnsupportedError(
      'offer',
      `proofs: expected a kind that these servers offer (${offered.join(', ')}), got '${wish}'; choose one of them, or leave the option out`,
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
