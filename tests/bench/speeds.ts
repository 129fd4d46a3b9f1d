// What a server computes for instant lookups, beside what the planner's model says (rust-core/core/src/cost/modes.rs, Speeds):
// one thread of WebAssembly under Node, in processor time, the least of a few.
//
//   node tests/run.mjs speeds

import { type Core, type DatabaseHandle, loadCore } from '@keyhush/wasm'
import { memory } from '../support/wasm.js'
import { milliseconds } from './compute.js'
import { pseudorandomBytes } from './stage.js'

const RUNS = 5
const ENTROPY = new Uint8Array(32).fill(7)

/** N, ℓ, g */
const SHAPES = [
  [2 ** 16, 32, 1],
  [2 ** 20, 32, 1],
  [2 ** 20, 32, 8],
  [2 ** 20, 48, 1],
  [2 ** 20, 48, 4],
  [2 ** 18, 256, 1],
  [2 ** 16, 1024, 1],
  [2 ** 22, 32, 1],
] as const

export async function speeds(): Promise<number> {
  const core = await loadCore()
  console.log('N, ℓ, g: instant lookup in milliseconds; in brackets, the model')
  for (const [records, recordBytes, blockRecords] of SHAPES) {
    const layout = core.planLayout(records, recordBytes, undefined, blockRecords)
    const database = core.newDatabase(layout)
    memory(core, database.recordsPointer(), records * recordBytes).set(pseudorandomBytes(records * recordBytes))
    for (let q = 0; q < layout.partitions; q++) database.commit(q)
    const rows = core.modeCosts(layout, { directoryBytes: 0 }, ['merkle', 'tags'], {})
    const instant = rows.find(({ mode }) => mode === 'instant')!
    const [measured, modelled] = [instantLookup(core, database), instant.serverLookupMicros / 2000]
    console.log(`${records}, ${recordBytes}, ${blockRecords}: ${measured.toFixed(1)} (${modelled.toFixed(1)})`)
    database.free()
    layout.free()
  }
  return 0
}

/** Milliseconds of one server's pass for one query. */
function instantLookup(core: Core, database: DatabaseHandle): number {
  const { layout } = database
  const query = core.newInstantQuery(layout, Uint32Array.of(5), ENTROPY)
  const request = query.request(0)
  query.free()
  layout.free()
  const times = Array.from({ length: RUNS }, () =>
    milliseconds(() => {
      const pass = core.newInstantPass(database, request, new Uint8Array(1))
      while (pass.step(database));
      pass.finish(database)
      pass.free()
    }),
  )
  return Math.min(...times)
}
