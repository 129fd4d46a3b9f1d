// `npm run bench -- threads`: what threads that answer (`serve --answer-threads`) add to a server process.
//
//   npm run bench -- threads [--records N]   of 32 bytes; default: 2^20
//                            [--seconds s]   of load, a figure; default: 4
//                            [--rounds n]    default: 3; every figure is the median of as many, which take turns
//
// Who sends needs a processor too: on a machine of two, answers a second say little of what two threads can do. So what each
// thread of the process takes for an answer is shown as well. The busiest one limits how many answers there can be.

import { readdir, readFile } from 'node:fs/promises'
import { parseArgs } from 'node:util'
import type { ServerProcess } from '../support/processes.js'
import { offer, type Question, questionFor } from './overload.js'
import { median } from './report.js'
import { newestManifest, processorMs, pseudorandomBytes, Stage } from './stage.js'

const RECORD_BYTES = 32
const CLIENTS = 64
const DISTINCT = 32
const WARM_UP_MS = 1000

interface Round {
  readonly perSecond: number
  /** of a processor, an answer */
  readonly microseconds: number
  /** the same of the busiest thread */
  readonly ofBusiest: number
}

/** Returns the exit code. */
export async function bench(args: string[]): Promise<number> {
  const { values } = parseArgs({
    args,
    options: {
      records: { type: 'string', default: `${2 ** 20}` },
      seconds: { type: 'string', default: '4' },
      rounds: { type: 'string', default: '3' },
    },
  })
  const [records, seconds, rounds] = [Number(values.records), Number(values.seconds), Number(values.rounds)]
  await Stage.with(async stage => {
    const data = pseudorandomBytes(records * RECORD_BYTES)
    const dataset = await stage.dataset(data, { records, recordBytes: RECORD_BYTES })
    const threads = (count: number) =>
      stage.serve('--dataset', dataset, '--instant', '1', '--answer-threads', `${count}`, '--answer-port', '0')
    const servers = {
      'without threads': await stage.serve('--dataset', dataset, '--instant', '1'),
      'one thread': await threads(1),
      'two threads': await threads(2),
    }
    for (const proofs of ['tags', 'merkle'] as const) {
      const { url } = servers['without threads']
      const manifest = await newestManifest(url)
      const questions: Question[] = []
      for (let i = 0; i < DISTINCT; i++) questions.push(await questionFor(url, manifest, proofs, 1))
      const found = new Map<string, Round[]>()
      for (let round = 0; round < rounds; round++) {
        for (const [name, server] of Object.entries(servers)) {
          found.set(name, [...(found.get(name) ?? []), await measured(server, questions, seconds)])
        }
      }
      const of = (name: string, figure: keyof Round) => median(found.get(name)!.map(each => each[figure]))
      for (const name of found.keys()) {
        console.log(
          `threads: N = ${records}, ${proofs}, ${name}: ${of(name, 'perSecond').toFixed(0)} answers a second, ` +
            `${of(name, 'microseconds').toFixed(1)} µs of a processor each, ${of(name, 'ofBusiest').toFixed(1)} µs in the busiest thread`,
        )
      }
      const times = of('one thread', 'ofBusiest') / of('two threads', 'ofBusiest')
      console.log(
        `threads: ${proofs}: two threads bear ${times.toFixed(2)} times what one does, each on a processor of its own`,
      )
    }
  })
  return 0
}

/** Throws if a reply is wrong. */
async function measured(server: ServerProcess, questions: readonly Question[], seconds: number): Promise<Round> {
  const urls = server.answering.length === 0 ? [server.url] : server.answering
  const ask = async (milliseconds: number) => {
    const clients = CLIENTS / urls.length
    const each = await Promise.all(urls.map(url => offer(url, questions, { clients, milliseconds })))
    return each.reduce((sum, { inTimePerSecond }) => sum + inTimePerSecond, 0)
  }
  await ask(WARM_UP_MS)
  const [before, allBefore] = [await threadsMs(server.pid), await processorMs(server.pid)]
  const perSecond = await ask(1000 * seconds)
  const [after, allAfter] = [await threadsMs(server.pid), await processorMs(server.pid)]
  const each = (milliseconds: number) => (1000 * milliseconds) / (perSecond * seconds)
  const busiest = Math.max(...Array.from(after, ([thread, ms]) => ms - (before.get(thread) ?? 0)))
  return {
    perSecond,
    microseconds: each((allAfter ?? Number.NaN) - (allBefore ?? Number.NaN)),
    ofBusiest: each(busiest),
  }
}

/** What each thread of a process has had of processors so far. Linux tells. */
async function threadsMs(pid: number): Promise<Map<string, number>> {
  const threads = await readdir(`/proc/${pid}/task`)
  const each = threads.map(async (thread): Promise<[string, number]> => {
    const stat = await readFile(`/proc/${pid}/task/${thread}/stat`, 'utf8').catch(() => '')
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
    return [thread, 10 * (Number(fields[11]) + Number(fields[12]))]
  })
  return new Map(await Promise.all(each))
}
