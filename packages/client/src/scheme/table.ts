// All schemes there are. A further one is a folder beside this file, and a line here.

import type { Manifest } from '@pirouette/protocol'
import type { Core, Mode } from '@pirouette/wasm/client'
import { inCore } from '../platform/core.js'
import { withLayout } from '../platform/layout.js'
import type { Apart } from '../servers/pair.js'
import { instant } from './instant/instant.js'
import { light } from './light/light.js'
import { local } from './local/local.js'
import type { Scheme, StatefulScheme, StatelessScheme } from './scheme.js'
import { single } from './single/single.js'
import { tapir } from './tapir/tapir.js'

/** By name, which is the mode that an app asks for. */
export const SCHEMES: ReadonlyMap<string, Scheme> = new Map(
  [tapir, light, local, instant, single].map(scheme => [scheme.name, scheme]),
)

/**
 * Those that may be used where so many parties stand apart: what needs two learns with one all there is to know; and of two
 * that do, none need be asked alone.
 */
export function schemesFor(schemes: ReadonlyMap<string, Scheme>, apart: Apart): ReadonlyMap<string, Scheme> {
  return new Map([...schemes].filter(([, { parties }]) => parties.length === 0 || parties.length === apart))
}

/** What answers before there is a state, if anything does. */
export function firstScheme(schemes: ReadonlyMap<string, Scheme>): StatelessScheme | undefined {
  return [...schemes.values()].find(scheme => scheme.kind === 'stateless')
}

/** Whether a state is worth being made after so many lookups without one: the planner's rule. */
export type Pays = (core: Core, manifest: Manifest, lookups: number) => boolean

export const paysAfter: Pays = (core, manifest, lookups) => choose(core, manifest, true, lookups) !== 'instant'

/** The scheme that a new map is made for where the app leaves it open: the planner's rule, from the manifest alone. */
export function chooseScheme(core: Core, manifest: Manifest, apart: Apart): StatefulScheme {
  if (choose(core, manifest, false, 0) === 'local') return local
  return apart === 1 ? single : tapir
}

/**
 * Never a light hint: two servers that pool what they know could then work out every lookup, and whether they may is the
 * app's to say.
 */
function choose(core: Core, manifest: Manifest, instant: boolean, lookups: number): Mode {
  return withLayout(core, manifest, layout =>
    inCore(core, () => core.chooseMode(layout, manifest, { instant, light: false }, lookups)),
  )
}
