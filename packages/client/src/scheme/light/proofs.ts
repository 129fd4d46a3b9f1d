// What proves the answers to a light hint. Tags of both servers make a lookup a fraction as large, and the hint longer.
// Servers see which kind is asked for, so that the choice follows from the manifest, or is the app's.

import { type EntryProofs, hasLight, type Manifest } from '@pirouette/protocol'
import type { Core } from '@pirouette/wasm/client'
import { UnsupportedError } from '../../base/errors.js'
import { hintsOf, inCore } from '../../platform/core.js'
import { withLayout } from '../../platform/layout.js'
import type { ProofsPreference } from '../scheme.js'

/** Throws UnsupportedError if this database has no light hints. */
export function chooseProofs(core: Core, manifest: Manifest, wish: ProofsPreference): EntryProofs {
  if (!hasLight(manifest)) {
    throw new UnsupportedError('offer', "mode: 'light' needs commitments, and this database was built for tags alone")
  }
  if (wish === 'pointproofs') {
    throw new UnsupportedError('offer', "proofs: 'pointproofs' does not go with mode: 'light', but with 'full'")
  }
  if (wish !== 'auto') return wish
  return withLayout(core, manifest, layout => inCore(core, () => hintsOf(core).lightProofs(layout)))
}
