// What proves the answers to a light hint. Tags of both servers make a lookup a fraction as large, and the hint longer; Pointproofs
// make it as small and the hint no longer, for a tenth of a second of the device's.
// Servers see which kind is asked for, so that the choice follows from the manifest, or is the app's.

import { type EntryProofs, hasLight, type Manifest, type Proofs, proofsOf } from '@keyhush/protocol'
import type { Core } from '@keyhush/wasm/client'
import { UnsupportedError } from '../../base/errors.js'
import { hintsOf, inCore } from '../../platform/core.js'
import { withLayout } from '../../platform/layout.js'
import type { SchemeOptions } from '../scheme.js'
import { assertCeremony } from '../verifier.js'

/**
 * Left open: tags where they do not make the hint long, else Pointproofs where they are to be had, else Merkle. Throws
 * UnsupportedError if this database has no light hints, or not with what is wished for.
 */
export function chooseProofs(
  core: Core,
  manifest: Manifest,
  { proofs: wish, allowDevelopmentCeremony = false }: SchemeOptions,
): Proofs {
  if (!hasLight(manifest)) {
    throw new UnsupportedError('offer', "mode: 'light' needs commitments, and this database was built for tags alone")
  }
  const offered = proofsOf(manifest)
  if (wish !== 'auto') {
    if (wish === 'pointproofs') assertCeremony(manifest, allowDevelopmentCeremony)
    if (offered.includes(wish)) return wish
    throw new UnsupportedError(
      'offer',
      `proofs: '${wish}' is not offered by these servers, which offer ${offered.join(', ')}`,
    )
  }
  const suitable = withLayout(core, manifest, layout => inCore(core, () => hintsOf(core).lightProofs(layout)))
  const isProved = offered.includes('pointproofs') && (allowDevelopmentCeremony || !manifest.pointproofs?.development)
  return suitable !== 'tags' && isProved ? 'pointproofs' : suitable
}

/** As what such a hint is asked for: with Pointproofs, it is made as one for Merkle proofs is. */
export function madeAs(proofs: Proofs): EntryProofs {
  return proofs === 'tags' ? 'tags' : 'merkle'
}
