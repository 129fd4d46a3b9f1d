// What the core costs by itself, in WebAssembly under Node, with Merkle proofs and with tags: no network, no store.
//
//   node tests/run.mjs core [--records N] [--record-bytes ℓ] [--partitions Q] [--repeats n] [--lookups n]
//
// Times are this process's processor time, so that a busy machine lengthens them little.

import { randomBytes, randomInt } from 'node:crypto'
import { parseArgs } from 'node:util'
import { answerBytes, type Proofs, queryBytes } from '@pirouette/protocol'
import { type ClientHandle, type Core, loadCore } from '@pirouette/wasm'
import { type CommittedDatabase, layoutHandle, memory } from '../support/wasm.js'
import { type Figure, report } from './report.js'

const WARM_UP_LOOKUPS = 50

/** Samples of one run, by what they are of. */
interface Costs {
  readonly digestMs: number
  readonly offlineMs: number
  readonly queryUs: readonly number[]
  readonly answerUs: readonly number[]
  readonly reconUs: readonly number[]
  readonly checkpointBytes: number
}

/** Prints the table; returns the exit code. */
export async function core(args: string[]): Promise<number> {
  const { records, recordBytes, partitions, repeats, lookups } = readOptions(args)
  const core = await loadCore()
  const { partitions: q, partitionRecords } = core.planLayout(records, recordBytes, partitions)
  const layout = { records, recordBytes, partitions: q, partitionRecords }
  const content = randomBytes(records * recordBytes)
  const kinds: readonly Proofs[] = ['merkle', 'tags']
  const runs: Record<Proofs, Costs[]> = { merkle: [], tags: [] }
  // In turn, so that whatever changes meanwhile meets both alike.
  for (let run = 0; run < repeats; run++) {
    for (const proofs of kinds) runs[proofs].push(measure(core, layout, content, proofs, lookups))
  }
  console.log(
    `N = ${records}, ℓ = ${recordBytes}, Q = ${q}, M = ${partitionRecords}: ${repeats} runs of ${lookups} lookups`,
  )
  for (const proofs of kinds) {
    const each = (read: (costs: Costs) => number | readonly number[]) => runs[proofs].flatMap(read)
    const bytes = 2 * (queryBytes(layout, 1) + answerBytes(layout, 1, proofs))
    const figures: Figure[] = [
      { name: 'Server digests', unit: 'ms', samples: each(costs => costs.digestMs) },
      { name: 'Hashing, tagging and folding', unit: 'ms', samples: each(costs => costs.offlineMs) },
      { name: 'Query', unit: 'µs', samples: each(costs => costs.queryUs) },
      { name: 'Answer, one server', unit: 'µs', samples: each(costs => costs.answerUs) },
      { name: 'Verifying both and recon', unit: 'µs', samples: each(costs => costs.reconUs) },
      { name: 'Bodies of a lookup', unit: 'B', samples: [bytes] },
      { name: 'Checkpoint', unit: 'MiB', samples: each(costs => costs.checkpointBytes / 2 ** 20) },
    ]
    console.log(`\n${proofs}\n${report(figures)}`)
  }
  return 0
}

function readOptions(args: string[]) {
  const { values } = parseArgs({
    args,
    options: {
      records: { type: 'string', default: `${2 ** 20}` },
      'record-bytes': { type: 'string', default: '32' },
      partitions: { type: 'string' },
      repeats: { type: 'string', default: '7' },
      lookups: { type: 'string', default: '500' },
    },
  })
  return {
    records: Number(values.records),
    recordBytes: Number(values['record-bytes']),
    partitions: values.partitions === undefined ? undefined : Number(values.partitions),
    repeats: Number(values.repeats),
    lookups: Number(values.lookups),
  }
}

type Layout = Parameters<typeof layoutHandle>[1]

function measure(core: Core, layout: Layout, content: Uint8Array, proofs: Proofs, lookups: number): Costs {
  const handle = core.newDatabase(layoutHandle(core, layout), proofs)
  memory(core, handle.recordsPointer(), content.length).set(content)
  const partitions = Array.from({ length: layout.partitions }, (_, q) => q)
  const digestMs = milliseconds(() => {
    for (const q of partitions) handle.commit(q)
  })
  const digests = (of: (q: number) => Uint8Array) => Buffer.concat(partitions.map(of))
  const database = {
    handle,
    commitments: digests(q => handle.commitment(q)),
    contentHashes: digests(q => handle.contentHash(q)),
  }
  const { client, offlineMs } = offline(core, layout, content, database, proofs)

  const [queryUs, answerUs, reconUs]: number[][] = [[], [], []]
  for (let lookup = 0; lookup < WARM_UP_LOOKUPS + lookups; lookup++) {
    const index = randomInt(layout.records)
    const asked = milliseconds(() => client.query(Uint32Array.of(index), randomBytes(32)))
    const vectors = [client.retrieveVectors(), client.refreshVectors()] as const
    let answers: readonly Uint8Array[] = []
    const answered = milliseconds(() => {
      answers = vectors.map(vector => handle.answer(vector, proofs))
    })
    let record: Uint8Array = new Uint8Array()
    const recovered = milliseconds(() => {
      if (!client.verify(0, answers[0]!) || !client.verify(1, answers[1]!))
        throw new Error('an honest answer was refused')
      record = client.recon()
    })
    const expected = content.subarray(index * layout.recordBytes, (index + 1) * layout.recordBytes)
    if (!Buffer.from(expected).equals(record)) throw new Error(`the record at ${index} is wrong`)
    if (lookup < WARM_UP_LOOKUPS) continue
    queryUs!.push(1000 * asked)
    answerUs!.push(500 * answered)
    reconUs!.push(1000 * recovered)
  }
  const checkpointBytes = client.checkpoint(new Uint8Array(32)).length
  client.free()
  handle.free()
  return { digestMs, offlineMs, queryUs: queryUs!, answerUs: answerUs!, reconUs: reconUs!, checkpointBytes }
}

/** The offline phase from records in memory; copying them in is not counted. */
function offline(
  core: Core,
  layout: Layout,
  content: Uint8Array,
  { commitments, contentHashes }: Pick<CommittedDatabase, 'commitments' | 'contentHashes'>,
  proofs: Proofs,
): { client: ClientHandle; offlineMs: number } {
  const builder = core.newHintBuilder(layoutHandle(core, layout), commitments, contentHashes, randomBytes(32), proofs)
  const partitionBytes = layout.partitionRecords * layout.recordBytes
  let offlineMs = 0
  for (let q = 0; q < layout.partitions; q++) {
    builder.begin(0, q)
    const received = memory(core, builder.lanePointer(0), partitionBytes).fill(0)
    received.set(content.subarray(q * partitionBytes, (q + 1) * partitionBytes))
    offlineMs += milliseconds(() => {
      builder.absorb(0, partitionBytes)
      if (!builder.fold(0)) throw new Error(`partition ${q} does not match its content hash`)
    })
  }
  return { client: builder.finish(), offlineMs }
}

/** Processor time of some work. */
function milliseconds(work: () => void): number {
  const start = process.cpuUsage()
  work()
  const { user, system } = process.cpuUsage(start)
  return (user + system) / 1000
}
