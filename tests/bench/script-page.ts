// What a client computes for a lookup, by either core. Node runs it, and pages of browsers.

import { type InstantCore, loadInstantCore } from '@keyhush/wasm/instant'
import { scriptCore } from '@keyhush/wasm/script'
import { type Described, look, type Recorded, type Timed } from './look.js'

/** Starts one. */
export async function start(kind: InstantCore['kind']): Promise<InstantCore> {
  return kind === 'script' ? scriptCore : await loadInstantCore()
}

/** From when the code is there until the first lookup is verified, without the network: milliseconds. */
export async function first(kind: InstantCore['kind'], described: Described, lookup: Recorded): Promise<number> {
  const begun = performance.now()
  const core = await start(kind)
  look(core, described, [lookup])
  return performance.now() - begun
}

/** Rounds of all lookups by both cores in turn, after one that does not count. */
export async function rounds(described: Described, lookups: readonly Recorded[], count: number) {
  const cores = { wasm: await start('wasm'), script: await start('script') }
  const timed: Record<InstantCore['kind'], Timed[]> = { wasm: [], script: [] }
  for (let round = 0; round <= count; round++) {
    for (const kind of ['wasm', 'script'] as const) {
      const took = look(cores[kind], described, lookups)
      if (round > 0) timed[kind].push(took)
    }
  }
  return timed
}
