// `npm run bench -- processes`: what a second process adds, on one dataset and on one PostgreSQL store.
//
//   npm run bench -- processes [--records N]   of 32 bytes; default: 2^18
//                             [--seconds s]   of load, a round; default: 3
//                             [--rounds n]    default: 5; one process and two take turns
//
// Whoever asks needs processors too. So what two bear is computed from the processor time that each takes for an answer.

import { parseArgs } from 'node:util'
import { PostgresServer, storeAt } from '../support/postgres.js'
import type { ServerProcess } from '../support/processes.js'
import { offer, type Question, questionFor } from './offering.js'
import { median } from './report.js'
import { newestManifest, processorMs, pseudorandomBytes, Stage } from './stage.js'

const RECORD_BYTES = 32
/** Of each process: what whoever asks can keep up with. */
const PER_SECOND = 2000
const DISTINCT = 32
const WARM_UP_MS = 500

/** Returns the exit code. */
export async function bench(args: string[]): Promise<number> {
  const { values } = parseArgs({
    args,
    options: {
      records: { type: 'string', default: `${2 ** 18}` },
      seconds: { type: 'string', default: '3' },
      rounds: { type: 'string', default: '5' },
    },
  })
  const [records, seconds, rounds] = [Number(values.records), Number(values.seconds), Number(values.rounds)]
  const postgres = await PostgresServer.begin()
  try {
    await Stage.with(async stage => {
      const data = pseudorandomBytes(records * RECORD_BYTES)
      const dataset = await stage.dataset(data, { records, recordBytes: RECORD_BYTES })
      const store = storeAt(postgres.url)
      const serve = (...more: string[]) => stage.serve('--instant', 'off', ...more)
      const groups = {
        dataset: [await serve('--dataset', dataset), await serve('--dataset', dataset)],
        PostgreSQL: [await serve('--dataset', dataset, '--store', store), await serve('--replica', '--store', store)],
      }
      for (const [name, servers] of Object.entries(groups)) {
        const [alone, together]: [number[], number[]] = [[], []]
        const manifest = await newestManifest(servers[0]!.url)
        const question = () => questionFor(servers[0]!.url, manifest, 'merkle', 1)
        const questions = await Promise.all(Array.from({ length: DISTINCT }, question))
        for (let round = 0; round < rounds; round++) {
          alone.push((await measured(servers.slice(0, 1), questions, seconds))[0]!)
          together.push(...(await measured(servers, questions, seconds)))
        }
        const [one, two] = [median(alone), median(together)]
        console.log(
          `processes: N = ${records}, ${name}: ${one.toFixed(1)} µs of a processor an answer alone, ${two.toFixed(1)} µs beside another: ` +
            `two processes bear ${((2 * one) / two).toFixed(2)} times what one does`,
        )
      }
    })
  } finally {
    await postgres.remove()
  }
  return 0
}

/** µs of a processor an answer, of each server, all asked at once. Throws if a reply is wrong. */
async function measured(
  servers: readonly ServerProcess[],
  questions: readonly Question[],
  seconds: number,
): Promise<number[]> {
  const each = servers.map(async ({ url, pid }) => {
    await offer(url, questions, { perSecond: PER_SECOND, milliseconds: WARM_UP_MS })
    const before = await processorMs(pid)
    const { inTimePerSecond, late } = await offer(url, questions, {
      perSecond: PER_SECOND,
      milliseconds: 1000 * seconds,
    })
    const after = await processorMs(pid)
    return (1000 * ((after ?? Number.NaN) - (before ?? Number.NaN))) / (inTimePerSecond * seconds + late)
  })
  return await Promise.all(each)
}
