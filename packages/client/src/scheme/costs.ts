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
  const { shards, directoryBlockLog: log } = manifest
  // Nobody has the directories of a sharded database whole: the core needs to know that there are some.
  const directory = shards ? { ...manifest, directoryBytes: 1, directoryBlockLog: log + Math.log2(shards) } : manifest
  const all = withLayout(core, manifest, layout =>
    inCore(core, () => hintsOf(core).modeCosts(layout, directory, proofsOf(manifest), usage)),
  )
  return all.find(costs => costs.mode === mode && (proofs === undefined || costs.proofs === proofs))!
}
