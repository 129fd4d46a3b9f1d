// What lookups take while hundreds of clients ask for all that they may and read nothing of it, against what they take without,
// from when each is due: refusals, and waiting to be sent again, are in it. When the attack begins, everybody's requests come at
// once, which any server needs a while for: that is shown, and judged is what follows.

import { once } from 'node:events'
import { Agent, request } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import { Worker } from 'node:worker_threads'
import { type Options, target } from './options.js'
import { type Question, questionFor } from './overload.js'
import type { Figure, Section } from './report.js'
import { newestManifest, pseudorandomBytes, residentBytes, Stage } from './stage.js'

/** Whatever the bench is asked for: replies are to be large. */
const SHAPE = { records: 2 ** 12, recordBytes: 8192 }
const LOOKUPS_A_SECOND = 100
const SECONDS = 10
const DISTINCT = 8
/** until a server that was attacked has nothing to do any more */
const REST_MS = 3000
/** until a lookup that was refused is sent again */
const AGAIN_MS = 1000

const ATTACKS = [
  { name: '500 clients, 20 batches each', count: 62, times: 20, connections: 500 },
  { name: '500 clients, 200 lookups each', count: 1, times: 200, connections: 500 },
]

export async function nonReading(options: Options): Promise<Section[]> {
  const figures = await Stage.with(async stage => {
    const dataset = await stage.dataset(pseudorandomBytes(SHAPE.records * SHAPE.recordBytes), SHAPE)
    const server = await stage.serve('--dataset', dataset)
    const manifest = await newestManifest(server.url)
    const questions: Question[] = []
    for (let i = 0; i < DISTINCT; i++) questions.push(await questionFor(server.url, manifest, 'tags', 1))
    await lookUp(server.url, questions) // until code has run
    const figures: Figure[] = []
    for (const { name, count, times, connections } of ATTACKS) {
      const { request } = await questionFor(server.url, manifest, 'tags', count)
      const [without, atFirst, during, ratios]: number[][] = [[], [], [], []]
      for (let run = 0; run < Math.min(3, options.repeats); run++) {
        const quiet = await lookUp(server.url, questions)
        const attack = new Worker(new URL('deaf.mjs', import.meta.url), {
          workerData: { url: server.url, request, times, connections },
        })
        await once(attack, 'online')
        const first = await lookUp(server.url, questions)
        const attacked = await lookUp(server.url, questions)
        const memory = ((await residentBytes(server.pid)) ?? 0) / 2 ** 20
        await attack.terminate()
        console.log(
          `non-reading: ${name}: p50 / p99 / most ${told(quiet)} ms without, ${told(first)} as the attack begins, ` +
            `${told(attacked)} then; ${first.refused + attacked.refused} refused; ${memory.toFixed(0)} MiB`,
        )
        without!.push(quiet.p99)
        atFirst!.push(first.p99)
        during!.push(attacked.p99)
        ratios!.push(attacked.p99 / quiet.p99)
        await sleep(REST_MS)
      }
      figures.push(
        { name: `${name}: p99 without`, unit: 'ms', samples: without! },
        { name: `${name}: p99 of the first ten seconds`, unit: 'ms', samples: atFirst! },
        { name: `${name}: p99 of the next ten`, unit: 'ms', samples: during! },
        { name: `${name}: these to those without`, unit: '×', target: target(options, '≤', 3), samples: ratios! },
      )
    }
    return figures
  })
  return [{ title: 'Lookups while others do not read their replies', figures }]
}

interface Waits {
  readonly p50: number
  readonly p99: number
  readonly most: number
  readonly refused: number
}

const told = ({ p50, p99, most }: Waits) => [p50, p99, most].map(ms => ms.toFixed(1)).join(' / ')

/** One after the other falls due, whatever has become of those before. Throws if an answer is wrong. */
async function lookUp(url: string, questions: readonly Question[]): Promise<Waits> {
  const agent = new Agent({ keepAlive: true })
  const waits: number[] = []
  let refused = 0
  const begun = performance.now()
  const one = async (question: Question, due: number) => {
    while (!(await isAnswered(url, question, agent))) {
      refused++
      await sleep(AGAIN_MS)
    }
    waits.push(performance.now() - due)
  }
  const asked: Promise<void>[] = []
  for (let i = 0; i < SECONDS * LOOKUPS_A_SECOND; i++) {
    const due = begun + (1000 * i) / LOOKUPS_A_SECOND
    const early = due - performance.now()
    if (early > 0) await sleep(early)
    asked.push(one(questions[i % questions.length]!, due))
  }
  await Promise.all(asked)
  agent.destroy()
  waits.sort((a, b) => a - b)
  const at = (share: number) => waits[Math.floor(share * (waits.length - 1))]!
  return { p50: at(0.5), p99: at(0.99), most: at(1), refused }
}

/** false: refused for now. */
function isAnswered(url: string, { request: asked, answer }: Question, agent: Agent): Promise<boolean> {
  const body = asked.subarray(asked.indexOf('\r\n\r\n') + 4)
  return new Promise((resolve, reject) => {
    const headers = { 'content-length': body.length }
    const sent = request(`${url}/v1/answer`, { method: 'POST', agent, headers }, reply => {
      const chunks: Buffer[] = []
      reply.on('data', chunk => chunks.push(chunk))
      reply.on('error', reject)
      reply.on('end', () => {
        const { statusCode } = reply
        if (statusCode === 200 && Buffer.concat(chunks).equals(answer)) resolve(true)
        else if (statusCode === 429 || statusCode === 503) resolve(false)
        else reject(new Error(`under attack a lookup was answered wrongly, with status ${statusCode}`))
      })
    })
    sent.on('error', reject).end(body)
  })
}
