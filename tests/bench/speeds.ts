// What a server computes for instant lookups and light hints, beside what the planner's model says
// (rust-core/core/src/cost/modes.rs, Speeds), and what a client computes to check a light hint: one thread of WebAssembly
// under Node, in processor time, the least of a few.
//
//   node tests/run.mjs speeds

import { type Core, type DatabaseHandle, type EntryProofs, type LightReplyHandle, loadCore } from '@keyhush/wasm'
import { finished, memory } from '../support/wasm.js'
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
  console.log('N, ℓ, g: instant lookup; light hint with proofs; light hint with tags')
  console.log(
    'milliseconds; of light hints: refresh server + retrieve server, client. In brackets, of servers, the model.',
  )
  for (const [records, recordBytes, blockRecords] of SHAPES) {
    const layout = core.planLayout(records, recordBytes, undefined, blockRecords)
    const database = core.newDatabase(layout)
    memory(core, database.recordsPointer(), records * recordBytes).set(pseudorandomBytes(records * recordBytes))
    for (let q = 0; q < layout.partitions; q++) database.commit(q)
    const rows = core.modeCosts(layout, { directoryBytes: 0 }, ['merkle', 'tags'], {})
    const instant = rows.find(({ mode }) => mode === 'instant')!
    const cells = [`${instantLookup(core, database).toFixed(1)} (${(instant.serverLookupMicros / 2000).toFixed(1)})`]
    for (const proofs of ['merkle', 'tags'] as const) {
      const light = rows.find(row => row.mode === 'light' && row.proofs === proofs)!
      const [refresh, retrieve, client] = lightHint(core, database, proofs).map(ms => ms.toFixed(1))
      cells.push(`${refresh} + ${retrieve} (${(light.serverPrepareMicros / 1000).toFixed(1)}), ${client}`)
    }
    console.log(`${records}, ${recordBytes}, ${blockRecords}: ${cells.join('; ')}`)
    database.free()
    layout.free()
  }
  return 0
}

/** One server's pass for one query. */
function instantLookup(core: Core, database: DatabaseHandle): number {
  const { layout } = database
  const query = core.newInstantQuery(layout, Uint32Array.of(5), ENTROPY)
  const request = query.request(0)
  query.free()
  layout.free()
  return least(() => {
    const pass = core.newInstantPass(database, request, new Uint8Array(1))
    while (pass.step(database));
    pass.finish(database)
    pass.free()
  })
}

/** The refresh server's reply, the retrieve server's, and the client's checks. */
function lightHint(core: Core, database: DatabaseHandle, proofs: EntryProofs): [number, number, number] {
  const { layout } = database
  const commitments = database.commitments()
  const begin = () => core.newLightAttempt(layout, commitments, ENTROPY, proofs)
  const attempt = begin()
  const [parities, tags] = [attempt.paritiesRequest(), attempt.tagsRequest()]
  attempt.free()
  const whole = (reply: LightReplyHandle) => {
    while (reply.step(database));
    const body = reply.finish()
    reply.free()
    return body
  }
  const hint = () => whole(core.newLightParities(database, parities, false))
  const tagged = () => whole(core.newLightTags(database, tags, false))
  const replies = [hint(), tagged()] as const
  const check = () => {
    const outcome = finished(core, begin(), ...replies)
    outcome.takeHint()!.free()
    outcome.free()
  }
  const measured: [number, number, number] = [least(hint), least(tagged), least(check)]
  layout.free()
  return measured
}

/** Milliseconds. */
function least(work: () => unknown): number {
  const times = Array.from({ length: RUNS }, () => {
    const start = process.cpuUsage()
    work()
    const { user, system } = process.cpuUsage(start)
    return (user + system) / 1000
  })
  return Math.min(...times)
}
