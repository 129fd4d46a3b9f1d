// Light hints (docs/protocol.md): the refresh server is shown the seed of the permutations and makes the parities; the
// retrieve server is shown a key and makes the tags that they are checked with. What comes of it is a hint like any other,
// whose lookups are TAPIR's. What fails falls back to downloading one.

import { hasLight, type Manifest } from '@pirouette/protocol'
import { UnsupportedError } from '../../base/errors.js'
import { StateUnreadableError } from '../../store/store.js'
import { costsOf } from '../costs.js'
import { HINT_PARTIES, REFRESH, reopenHint } from '../hint-state.js'
import type { SchemeOptions, StatefulScheme } from '../scheme.js'
import { LightPreparation } from './preparation.js'

export const light: StatefulScheme = {
  name: 'light',
  kind: 'stateful',
  parties: HINT_PARTIES,
  fencedBy: REFRESH,
  fallback: 'full',

  costs(core, manifest, options) {
    assertOffered(manifest, options)
    return { ...costsOf(core, manifest, 'light', 'merkle', options.usage), maxBatch: manifest.maxBatch }
  },

  prepare(context, manifest) {
    assertOffered(manifest, context.options)
    return new LightPreparation(context, manifest)
  },

  resume() {
    throw new StateUnreadableError('a light hint is not stored before it is whole')
  },

  reopen: reopenHint,
}

function assertOffered(manifest: Manifest, { proofs }: SchemeOptions): void {
  if (!hasLight(manifest)) {
    throw new UnsupportedError('offer', "mode: 'light' needs commitments, and this database was built for tags alone")
  }
  if (proofs === 'tags')
    throw new UnsupportedError('offer', "proofs: 'tags' is for mode: 'full'; light hints have proofs")
}
