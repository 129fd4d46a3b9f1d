// Mode `full`: TAPIR (Falzon, Hetz, O'Toole). The client streams the database once and folds it into parities under secret permutations
// (Fig. 4). A lookup sends a vector of offsets to each of two servers (Fig. 5). Updates are folded in (Fig. 6).

import type { Manifest } from '@keyhush/protocol'
import { hintsOf, inCore } from '../../platform/core.js'
import { withLayout } from '../../platform/layout.js'
import { isFolderWith } from '../../servers/folder.js'
import { costsOf, queryLimit } from '../costs.js'
import { TAPIR } from '../facts.js'
import { REFRESH, reopenHint } from '../hint-state.js'
import type { StatefulScheme } from '../scheme.js'
import { fromStored, makeRoom } from '../stored-form.js'
import { HintPreparation } from './preparation.js'
import { chooseProofs } from './proofs.js'

export const tapir: StatefulScheme = {
  ...TAPIR,
  fencedBy: REFRESH,

  isOffered: offers => offers.blobs && !isFolderWith(offers),

  costs(core, manifest, options) {
    const proofs = chooseProofs(core, manifest, options)
    const costs = costsOf(core, manifest, 'full', proofs, options.usage)
    return { ...costs, maxQueries: queryLimit(core, manifest, proofs) }
  },

  async prepare(context, manifest) {
    const { core, environment, options } = context
    const proofs = chooseProofs(core, manifest, options)
    await makeRoom(context, costsOf(core, manifest, 'full', proofs).held)
    const { commitments, contentHashes } = manifest
    const builder = withLayout(core, manifest, layout =>
      inCore(core, () =>
        hintsOf(core).newHintBuilder(layout, commitments, contentHashes, environment.random(32), proofs),
      ),
    )
    return new HintPreparation(context, manifest, builder)
  },

  async resume(context, manifest: Manifest, partial, binding) {
    const { core } = context
    const { commitments, contentHashes } = manifest
    const builder = await fromStored(context, partial, form =>
      withLayout(core, manifest, layout =>
        hintsOf(core).resumeHintBuilder(form, layout, commitments, contentHashes, binding),
      ),
    )
    return new HintPreparation(context, manifest, builder)
  },

  reopen: reopenHint,
}
