// `npm run bench -- logs`: what the log costs a server process: sums every ten seconds (`serve --log-level info`, the default), and a
// line for each request (`debug`).
//
//   npm run bench -- logs [--records N]   of 32 bytes; default: 2^20
//                         [--seconds s]   of load, a round; default: 3
//                         [--rounds n]    default: 9; in each, all servers are asked, in the other order in the next
//
// By processor time an answer, all threads: on a machine that has other work that says more than answers a second.

import { parseArgs } from 'node:util'
import { type ServerProcess, startUnheardServer } from '../support/processes.js'
import { offer, type Question, questionFor } from './overload.js'
import { median } from './report.js'
import { newestManifest, processorMs, pseudorandomBytes, Stage } from './stage.js'

const RECORD_BYTES = 32
const CLIENTS = 64
const DISTINCT = 32
const WARM_UP_MS = 1000

/** Returns the exit code. */
export async function bench(args: string[]): Promise<number> {
  const { values } = parseArgs({
    args,
    options: {
      records: { type: 'string', default: `${2 ** 20}` },
      seconds: { type: 'string', default: '3' },
      rounds: { type: 'string', default: '9' },
    },
  })
  const [records, seconds, rounds] = [Number(values.records), Number(values.seconds), Number(values.rounds)]
  await Stage.with(async stage => {
    const data = pseudorandomBytes(records * RECORD_BYTES)
    const dataset = await stage.dataset(data, { records, recordBytes: RECORD_BYTES })
    const serve = async (level: string) => {
      const server = await startUnheardServer('--dataset', dataset, '--instant', 'off', '--log-level', level)
      stage.closeLast(server.stop)
      return server
    }
    const silent = await serve('silent')
    const servers = { without: silent, 'with sums': await serve('info'), 'with a line each': await serve('debug') }
    const manifest = await newestManifest(silent.url)
    for (const [name, proofs, count] of [
      ['tags', 'tags', 1],
      ['opening proofs', 'merkle', 1],
      ['opening proofs, 64 at once', 'merkle', 64],
    ] as const) {
      const questions: Question[] = []
      for (let i = 0; i < DISTINCT; i++) questions.push(await questionFor(silent.url, manifest, proofs, count))
      const found = new Map<string, number[]>()
      for (let round = 0; round < rounds; round++) {
        const inOrder = Object.entries(servers)
        for (const [level, server] of round % 2 === 0 ? inOrder : inOrder.reverse()) {
          found.set(level, [...(found.get(level) ?? []), await measured(server, questions, seconds)])
        }
      }
      const off = found.get('without')!
      for (const [level, each] of found) {
        const more = each.map((microseconds, round) => 100 * (microseconds / off[round]! - 1))
        const [least, most] = [Math.min(...more), Math.max(...more)].map(each => each.toFixed(1))
        console.log(
          `logs: N = ${records}, ${name}, ${level}: ${median(each).toFixed(1)} µs of a processor an answer, ` +
            `${median(more).toFixed(1)} % more (${least} to ${most} in ${rounds} rounds)`,
        )
      }
    }
  })
  return 0
}

/** µs of a processor, an answer. Throws if a reply is wrong. */
async function measured({ url, pid }: ServerProcess, questions: readonly Question[], seconds: number): Promise<number> {
  await offer(url, questions, { clients: CLIENTS, milliseconds: WARM_UP_MS })
  const before = await processorMs(pid)
  const { inTimePerSecond, late } = await offer(url, questions, { clients: CLIENTS, milliseconds: 1000 * seconds })
  const after = await processorMs(pid)
  return (1000 * ((after ?? Number.NaN) - (before ?? Number.NaN))) / (inTimePerSecond * seconds + late)
}
