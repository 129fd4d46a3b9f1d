// The schemes with their code, a row each, and the choice among them. To add one: its name in `Mode`, its folder beside this file,
// its facts in facts.ts; without its row here and in known.ts the compiler complains.

import type { Manifest } from '@keyhush/protocol'
import type { Advice, Core, Mode, Offers } from '@keyhush/wasm/client'
import { hintsOf, inCore } from '../platform/core.js'
import { withLayout } from '../platform/layout.js'
import type { Apart } from '../servers/parties.js'
import { instant } from './instant/instant.js'
import { local } from './local/local.js'
import type { Scheme, StatefulScheme } from './scheme.js'
import { single } from './single/single.js'
import { tapir } from './tapir/tapir.js'

/** By name, which is the mode that an app asks for. */
export const SCHEMES: ReadonlyMap<string, Scheme> = new Map(
  Object.entries({ full: tapir, local, instant, single } satisfies Record<Mode, Scheme>),
)

/** What the choice depends on beside the manifest. */
export interface Basis {
  /** lookups made so far */
  readonly lookups: number
  readonly apart: Apart
}

/** Whether making a state pays after the lookups that were made without one. */
export type Pays = (core: Core, manifest: Manifest, lookups: number, apart: Apart) => boolean

/** The scheme that mode `auto` prepares for a new map. */
export type Choose = (core: Core, manifest: Manifest, basis: Basis) => StatefulScheme

/** The planner's rule. */
export const paysAfter: Pays = (core, manifest, lookups, apart) =>
  choose(core, manifest, true, { lookups, apart }) !== 'instant'

/** The planner's rule. */
export const chooseScheme: Choose = (core, manifest, basis) => {
  const mode = choose(core, manifest, false, basis)
  return mode === local.name ? local : mode === tapir.name ? tapir : single
}

function choose(core: Core, manifest: Manifest, instant: boolean, { lookups, apart }: Basis): Mode {
  const offers = { instant, servers: apart }
  if (manifest.shards !== undefined) return 'instant'
  // In WebAssembly: with the core in JavaScript no state is made.
  return withLayout(core, manifest, layout => inCore(core, () => core.chooseMode!(layout, manifest, offers, lookups)))
}

/** What an app asks an advice for. */
export interface Asked extends Offers {
  readonly mayDownload: boolean
  readonly lookupsPerDay?: number | undefined
}

/** The planner's rule, for a month of such lookups. */
export function adviceFor(
  core: Core,
  manifest: Manifest,
  { mayDownload, lookupsPerDay = 20, ...offers }: Asked,
): Advice {
  return withLayout(core, manifest, layout =>
    inCore(core, () => hintsOf(core).advise(layout, manifest, offers, mayDownload, lookupsPerDay)),
  )
}
