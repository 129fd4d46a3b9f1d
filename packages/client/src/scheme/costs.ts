// Costs of a mode under a manifest, from the planner in the core.

import { type Manifest, type Proofs, proofsOf } from '@keyhush/protocol'
import type { Core, Mode, ModeCosts, Usage } from '@keyhush/wasm/client'
import { hintsOf, inCore } from '../platform/core.js'
import { withLayout } from '../platform/layout.js'

/** Most queries of a request with this kind of proof. */
export function queryLimit(core: Core, manifest: Manifest, proofs: Proofs): number {
  return withLayout(core, manifest, layout =>
    inCore(hintsOf(core), () => layout.queryLimit(manifest.maxQueries, proofs)),
  )
}

/** `proofs`: for a mode that has a choice of them. */
export function costsOf(core: Core, manifest: Manifest, mode: Mode, proofs?: Proofs, usage: Usage = {}): ModeCosts {
  const all = withLayout(core, manifest, layout =>
    inCore(core, () => hintsOf(core).modeCosts(layout, manifest, proofsOf(manifest), usage)),
  )
  return all.find(costs => costs.mode === mode && (proofs === undefined || costs.proofs === proofs))!
}
