// Light hints (docs/protocol.md): the refresh server is shown the seed of the permutations and makes the parities; the
// retrieve server is shown a key and makes the tags that they are checked with. What comes of it is a hint like any other,
// whose lookups are TAPIR's: answers carry proofs, one each or one for all of it, or are checked with tags of both servers' making. What fails falls back
// to downloading one.

import { StateUnreadableError } from '../../store/store.js'
import { batchLimit, costsOf } from '../costs.js'
import { LIGHT } from '../facts.js'
import { REFRESH, reopenHint } from '../hint-state.js'
import type { StatefulScheme } from '../scheme.js'
import { LightPreparation } from './preparation.js'
import { chooseProofs } from './proofs.js'

export const light: StatefulScheme = {
  ...LIGHT,
  fencedBy: REFRESH,
  fallback: 'full',

  costs(core, manifest, options) {
    const proofs = chooseProofs(core, manifest, options)
    const costs = costsOf(core, manifest, 'light', proofs, options.usage)
    return { ...costs, maxBatch: batchLimit(core, manifest, proofs) }
  },

  prepare(context, manifest) {
    chooseProofs(context.core, manifest, context.options)
    return new LightPreparation(context, manifest)
  },

  resume() {
    throw new StateUnreadableError('a light hint is not stored before it is whole')
  },

  reopen: reopenHint,
}
