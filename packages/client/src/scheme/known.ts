// The schemes as far as every map has to know them, a row each: instant lookups whole, of the others what facts.ts says. Their code
// is in table.ts, which is loaded when a map begins to keep a state.

import type { Mode } from '@keyhush/wasm/client'
import type { Apart } from '../servers/parties.js'
import { LOCAL, SINGLE, TAPIR } from './facts.js'
import { instant } from './instant/instant.js'
import type { KnownScheme, StatelessScheme } from './scheme.js'

/** By name, which is the mode that an app asks for. */
export const KNOWN: ReadonlyMap<string, KnownScheme> = new Map(
  Object.entries({ full: TAPIR, local: LOCAL, instant, single: SINGLE } satisfies Record<Mode, KnownScheme>),
)

/**
 * The schemes for as many parties that do not all collude. Three or more parties answer instant lookups, and one of them hints for one
 * server: a hint for two would trust those two. One server answers instant lookups by a scheme of its own (on-demand.ts), in
 * experiments.
 */
export function schemesFor<S extends KnownScheme>(
  schemes: ReadonlyMap<string, S>,
  apart: Apart,
  experimental = false,
): ReadonlyMap<string, S> {
  const stateful = apart > 2 ? 1 : apart
  const isUsable = (scheme: S) =>
    scheme.kind === 'stateless' ? apart > 1 || experimental : [0, stateful].includes(scheme.parties.length)
  return new Map([...schemes].filter(([, scheme]) => isUsable(scheme)))
}

/** The scheme that answers before there is a state; undefined: none. */
export function firstScheme(schemes: ReadonlyMap<string, KnownScheme>): StatelessScheme | undefined {
  return [...schemes.values()].find(scheme => scheme.kind === 'stateless')
}
