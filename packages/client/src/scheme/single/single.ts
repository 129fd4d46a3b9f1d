// Mode `single` (docs/protocol.md, One server): S3PIR (Mughees, Sun, Ren), Algorithms 2, 4 and 5. The client streams the database once
// and folds it into hints. A lookup uses one hint up, and sends a subset of stripes and an offset in each, which tell the server
// nothing. New hints are made when they run out.

import { inCore } from '../../platform/core.js'
import { withLayout } from '../../platform/layout.js'
import { costsOf } from '../costs.js'
import { SINGLE } from '../facts.js'
import type { StatefulScheme } from '../scheme.js'
import { fromStored, fromStoredInSteps } from '../stored-form.js'
import { singleOf, sizesOf } from './core.js'
import { SinglePreparation } from './preparation.js'
import { SingleState } from './state.js'

export const single: StatefulScheme = {
  ...SINGLE,
  fencedBy: 0,
  keepsRows: true,

  isOffered: ({ single, blobs }) => single && blobs,

  costs(core, manifest, { usage, lookups: wanted }) {
    const sizes = sizesOf(core, manifest)
    const { maxQueries } = sizes
    const lookups = wanted ?? sizes.lookups
    const costs = costsOf(core, manifest, 'single', undefined, { ...usage, hintLookups: lookups })
    return { ...costs, maxQueries: Math.min(maxQueries, lookups), lookups }
  },

  async prepare(context, manifest) {
    const { core, environment, options } = context
    const { lookups } = sizesOf(core, manifest)
    const entropy = environment.random(32)
    const builder = withLayout(core, manifest, layout =>
      inCore(core, () =>
        singleOf(core).newSingleBuilder(layout, manifest.contentHashes, entropy, options.lookups ?? lookups),
      ),
    )
    entropy.fill(0)
    return new SinglePreparation(context, manifest, builder)
  },

  async resume(context, manifest, partial, binding) {
    const { core } = context
    const builder = await fromStored(context, partial, form =>
      withLayout(core, manifest, layout =>
        singleOf(core).resumeSingleBuilder(form, layout, manifest.contentHashes, binding),
      ),
    )
    return new SinglePreparation(context, manifest, builder)
  },

  async reopen(context, manifest, checkpoint, binding) {
    const { core } = context
    const handle = await fromStoredInSteps(context, checkpoint, form =>
      withLayout(core, manifest, layout => singleOf(core).reopenSingle(form, layout, binding)),
    )
    return new SingleState(context, handle)
  },
}
