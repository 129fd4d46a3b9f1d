// @keyhush/client/testing/store: what every store must do, one case for each law of StateStore. It needs no test runner, and runs in
// Node and in pages.

import type { Case } from './store/bench.js'
import { CHANGES } from './store/changes.js'
import { CHECKPOINTS } from './store/checkpoints.js'
import { ENDS } from './store/ends.js'
import { HANDLES } from './store/handles.js'
import { KEEPING } from './store/keeping.js'
import { MAKING } from './store/making.js'
import { ROWS } from './store/rows.js'

export type { Bench, Case, Setup } from './store/bench.js'

/**
 * The cases that a store of your own must pass. Run each with a fresh bench: it throws if the store breaks a law. The suite cannot cut
 * the power, so it does not test that a write is on disk when its promise resolves.
 * @example
 * for (const { name, run } of conformance) test(name, async () => run(await openBench()))
 */
export const conformance: readonly Case[] = [
  ...MAKING,
  ...CHANGES,
  ...CHECKPOINTS,
  ...ENDS,
  ...KEEPING,
  ...HANDLES,
  ...ROWS,
]
