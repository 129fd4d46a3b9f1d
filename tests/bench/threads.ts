// `npm run bench -- threads`: what threads that answer (`serve --answer-threads`) add to a server process.
//
//   npm run bench -- threads [--records N]   of 32 bytes; default: 2^20
//                            [--seconds s]   of load, a figure; default: 4
//                            [--rounds n]    default: 5; every figure is the median of as many, which take turns
//                            [--beside FOLDER]   another version of all this, built, whose server takes turns with them
//
// Who asks needs a processor too, though little (rust-core/load): so what each thread of the process takes for an answer is shown
// as well. The busiest one limits how many answers there can be. Every reply is compared with one that was there before.

import { execFile } from 'node:child_process'
import { readdir, readFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import { parseArgs, promisify } from 'node:util'
import * as protocol from '@keyhush/protocol'
import { type ServerProcess, startListening } from '../support/processes.js'
import { askAll } from './asking.js'
import { type Question, questionFor } from './overload.js'
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
      rounds: { type: 'string', default: '5' },
      beside: { type: 'string' },
    },
  })
  const [records, seconds, rounds] = [Number(values.records), Number(values.seconds), Number(values.rounds)]
  await Stage.with(async stage => {
    const data = pseudorandomBytes(records * RECORD_BYTES)
    const dataset = await stage.dataset(data, { records, recordBytes: RECORD_BYTES })
    const serve = async (...more: string[]) => ({
      server: await stage.serve('--dataset', dataset, '--instant', '1', ...more),
      ...protocol,
    })
    const threads = (count: number) => serve('--answer-threads', `${count}`, '--answer-port', '0')
    const subjects: Record<string, Subject> = {
      ...(values.beside !== undefined && { [values.beside]: await other(stage, values.beside) }),
      'without threads': await serve(),
      'one thread': await threads(1),
      'two threads': await threads(2),
    }
    for (const proofs of ['tags', 'merkle'] as const) {
      const found = new Map<string, Round[]>()
      const questions = new Map<string, Question[]>()
      for (const [name, { server, decodeManifest, encodeQuery }] of Object.entries(subjects)) {
        const manifest = await newestManifest(server.url, decodeManifest)
        const question = () => questionFor(server.url, manifest, proofs, 1, encodeQuery)
        questions.set(name, await Promise.all(Array.from({ length: DISTINCT }, question)))
        found.set(name, [])
      }
      for (let round = 0; round < rounds; round++) {
        for (const [name, { server }] of Object.entries(subjects)) {
          found.get(name)!.push(await measured(server, questions.get(name)!, seconds))
        }
      }
      const of = (name: string, figure: keyof Round) => median(found.get(name)!.map(each => each[figure]))
      for (const name of found.keys()) {
        console.log(
          `threads: N = ${records}, ${proofs}, ${name}: ${of(name, 'perSecond').toFixed(0)} answers a second, ` +
            `${of(name, 'microseconds').toFixed(1)} µs of a processor each, ${of(name, 'ofBusiest').toFixed(1)} µs in the busiest thread`,
        )
      }
      const times = (a: string, b: string) => {
        const [clock, busiest] = [of(a, 'perSecond') / of(b, 'perSecond'), of(b, 'ofBusiest') / of(a, 'ofBusiest')]
        const both = `${clock.toFixed(2)} times as many answers, ${busiest.toFixed(2)} times by the busiest thread’s processor time`
        console.log(`threads: ${proofs}: ${a} beside ${b}: ${both}`)
      }
      times('two threads', 'one thread')
      for (const name of values.beside === undefined ? [] : ['without threads', 'two threads'])
        times(name, values.beside!)
    }
  })
  return 0
}

/** A server, and how it is spoken with. */
type Subject = Pick<typeof protocol, 'decodeManifest' | 'encodeQuery'> & { readonly server: ServerProcess }

/** The server of another version, with the same records. */
async function other(stage: Stage, folder: string): Promise<Subject> {
  const [root, dataset] = [resolve(folder), join(stage.folder, 'dataset-of-other')]
  const command = join(root, 'server/bin/keyhush.js')
  const data = join(stage.folder, 'dataset-0.bin')
  const build = ['build', data, '--record-bytes', `${RECORD_BYTES}`, '--out', dataset]
  await promisify(execFile)(process.execPath, [command, ...build])
  const server = await startListening(command, 'serve', '--port', '0', '--log-level', 'warn', '--dataset', dataset)
  stage.closeLast(server.stop)
  const { decodeManifest, encodeQuery }: typeof protocol = await import(
    /* @vite-ignore */ pathToFileURL(join(root, 'packages/protocol/dist/index.js')).href
  )
  return { server, decodeManifest, encodeQuery }
}

/** Throws if a reply is wrong. */
async function measured(server: ServerProcess, questions: readonly Question[], seconds: number): Promise<Round> {
  const urls = server.answering.length === 0 ? [server.url] : server.answering
  const connections = CLIENTS / urls.length
  const ask = async (milliseconds: number) => await askAll(urls, questions, { connections, milliseconds })
  await ask(WARM_UP_MS)
  const [before, allBefore] = [await threadsMs(server.pid), await processorMs(server.pid)]
  const answers = await ask(1000 * seconds)
  const [after, allAfter] = [await threadsMs(server.pid), await processorMs(server.pid)]
  const each = (milliseconds: number) => (1000 * milliseconds) / answers
  const busiest = Math.max(...Array.from(after, ([thread, ms]) => ms - (before.get(thread) ?? 0)))
  return {
    perSecond: answers / seconds,
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
