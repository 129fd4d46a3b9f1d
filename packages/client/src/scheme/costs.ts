// What the planner in the core says that a mode costs, under a manifest.

import { type Manifest, type Proofs, proofsOf } from '@pirouette/protocol'
import type { Core, Mode, ModeCosts, Usage } from '@pirouette/wasm/client'
import { inCore } from '../platform/core.js'
import { withLayout } from '../platform/layout.js'

/** Of the mode with this kind of proof, if it has any. */
export function costsOf(core: Core, manifest: Manifest, mode: Mode, proofs?: Proofs, usage: Usage = {}): ModeCosts {
  const commitments = proofsOf(manifest).includes('merkle')
  const all = withLayout(core, manifest, layout =>
    inCore(core, () => core.modeCosts(layout, manifest, commitments, usage)),
  )
  return all.find(costs => costs.mode === mode && (proofs === undefined || costs.proofs === proofs))!
}
