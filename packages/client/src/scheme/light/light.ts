// Light hints (docs/protocol.md): the refresh server is shown the seed of the permutations and makes the parities; the
// retrieve server is shown a key and makes the tags that they are checked with. What comes of it is a hint like any other,
// whose lookups are TAPIR's: answers carry proofs, or are checked with tags of both servers' making. What fails falls back
// to downloading one.

import { StateUnreadableError } from '../../store/store.js'
import { costsOf } from '../costs.js'
import { LIGHT } from '../facts.js'
import { REFRESH, reopenHint } from '../hint-state.js'
import type { StatefulScheme } from '../scheme.js'
import { LightPreparation } from './preparation.js'
import { chooseProofs } from './proofs.js'

export const light: StatefulScheme = {
  ...LIGHT,
  fencedBy: REFRESH,
  fallback: 'full',

  costs(core, manifest, { proofs, usage }) {
    return {
      ...costsOf(core, manifest, 'light', chooseProofs(core, manifest, proofs), usage),
      maxBatch: manifest.maxBatch,
    }
  },

  prepare(context, manifest) {
    chooseProofs(context.core, manifest, context.options.proofs)
    return new LightPreparation(context, manifest)
  },

  resume() {
    throw new StateUnreadableError('a light hint is not stored before it is whole')
  },

  reopen: reopenHint,
}
