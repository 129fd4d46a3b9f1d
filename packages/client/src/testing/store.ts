// @keyhush/client/testing/store: what every store must do, one case for each law of StateStore. Needs no test runner;
// runs in Node and in pages.

import type { Case } from './store/bench.js'
import { CHANGES } from './store/changes.js'
import { CHECKPOINTS } from './store/checkpoints.js'
import { ENDS } from './store/ends.js'
import { HANDLES } from './store/handles.js'
import { KEEPING } from './store/keeping.js'
import { MAKING } from './store/making.js'
import { ROWS } from './store/rows.js'

export type { Bench, Case, Setup } from './store/bench.js'

export const conformance: readonly Case[] = [
  ...MAKING,
  ...CHANGES,
  ...CHECKPOINTS,
  ...ENDS,
  ...KEEPING,
  ...HANDLES,
  ...ROWS,
]
