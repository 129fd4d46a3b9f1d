// The schemes as far as every map has to know them, a row each: instant lookups whole, of the others what facts.ts says. Their code
// is in table.ts, which is loaded when a map begins to keep a state.

import type { Mode } from '@keyhush/wasm/client'
import type { Apart } from '../servers/pair.js'
import { LOCAL, SINGLE, TAPIR } from './facts.js'
import { instant } from './instant/instant.js'
import type { KnownScheme, StatelessScheme } from './scheme.js'

/** By name, which is the mode that an app asks for. */
export const KNOWN: ReadonlyMap<string, KnownScheme> = new Map(
  Object.entries({ full: TAPIR, local: LOCAL, instant, single: SINGLE } satisfies Record<Mode, KnownScheme>),
)

/**
 * Those that may be used where so many parties stand apart: what needs two learns with one all there is to know; and of two
 * that do, none need be asked alone.
 */
export function schemesFor<S extends KnownScheme>(
  schemes: ReadonlyMap<string, S>,
  apart: Apart,
): ReadonlyMap<string, S> {
  return new Map([...schemes].filter(([, { parties }]) => parties.length === 0 || parties.length === apart))
}

/** What answers before there is a state, if anything does. */
export function firstScheme(schemes: ReadonlyMap<string, KnownScheme>): StatelessScheme | undefined {
  return [...schemes.values()].find(scheme => scheme.kind === 'stateless')
}
