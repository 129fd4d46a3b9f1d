// `npm run soak -- fence`: the costs of a rollback fence with many hints: memory, disk, start, each request, and the day on which
// some hints expire.
//
//   npm run soak -- fence                       10 000 000 confirmed hints, and as many new ones as there may be
//   npm run soak -- fence 100000                so many
//   npm run soak -- fence 1000000 --postgres    in a PostgreSQL server of its own, or in that of KEYHUSH_POSTGRES
//   npm run soak -- fence --write               into docs/operations/capacity.md
//   npm run soak -- fence --flood               a step of the fence while others flood public reads, in either store; TMPDIR=/dev/shm leaves the disk out

import { execFile, fork } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { stat } from 'node:fs/promises'
import { Agent, type IncomingMessage, request } from 'node:http'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs, promisify } from 'node:util'
import { encodeFenceRequest, toHex } from '@keyhush/protocol'
import { mostNew } from '../../server/dist/database/fence.js'
import { PostgresFence } from '../../server/dist/database/postgres-fence.js'
import { openPostgres } from '../../server/dist/storage/postgres.js'
import { aligned, writeBetween } from '../bench/document.js'
import { batchOn } from '../bench/large-batches.js'
import { newestManifest, partitionUrls, processorMs, Stage } from '../bench/stage.js'
import { newStore, queryStore } from '../support/postgres.js'
import { PUBLISHER_KEY, signed } from '../support/publishing.js'
import { temporaryFolder } from '../support/servers.js'
import { DAYS, type Measured, measured } from './fence-process.mjs'

/** The longest that anything may hold the event loop; on a quiet machine it is a tenth of that. */
const LONGEST_MS = 100

/** How many times as long a step of the fence may take under a flood of reads, in stores in memory (TMPDIR): disks wait for processors, too. */
const MOST_RATIO = 2

const program = fileURLToPath(new URL('fence-process.mjs', import.meta.url))

/** Returns the exit code. */
export async function soak(args: string[]): Promise<number> {
  const { values, positionals } = parseArgs({
    args,
    allowPositionals: true,
    options: {
      ...{ postgres: { type: 'boolean', default: false }, write: { type: 'boolean', default: false } },
      flood: { type: 'boolean', default: false },
    },
  })
  if (values.flood) return Math.max(await underFlood('LMDB'), await underFlood('PostgreSQL')) <= MOST_RATIO ? 0 : 1
  const count = Number(positionals[0] ?? 10_000_000)
  if (!Number.isSafeInteger(count) || count < 1000) throw new Error('expected a number, of 1000 or more')
  const table = fenceTable(count, await (values.postgres ? inPostgres(count) : inLmdb(count)))
  console.log(table.text)
  if (values.write && !values.postgres) await writeBetween('operations/capacity.md', 'fence', table.text)
  if (table.longestMs <= LONGEST_MS) return 0
  console.log(`the event loop was held for ${table.longestMs.toFixed(0)} ms, and may be for ${LONGEST_MS}`)
  return 1
}

interface Findings extends Measured {
  readonly fresh: number
  readonly diskBytes: number
  readonly startSeconds: number
}

async function inLmdb(count: number): Promise<Findings> {
  const folder = await temporaryFolder()
  try {
    const fresh = mostNew(Math.ceil(1.25 * count))
    const run = async (what: string) => {
      const args = [program, what, folder.path, `${count}`, `${fresh}`]
      return (await promisify(execFile)(process.execPath, args)).stdout
    }
    console.log(`filling a store with ${count} hints, and ${fresh} new ones`)
    await run('fill')
    const { size } = await stat(join(folder.path, 'data.mdb'))
    console.log('measuring')
    return { fresh, diskBytes: size, ...(JSON.parse(await run('measure')) as Measured & { startSeconds: number }) }
  } finally {
    await folder.remove()
  }
}

async function inPostgres(count: number): Promise<Findings> {
  const { store: url, remove } = await newStore()
  try {
    const storage = await openPostgres(url, { role: 'writer' })
    try {
      let passed = 0
      const elapsed = () => performance.now() / 1000 + passed
      const options = { entries: Math.ceil(1.25 * count), days: DAYS, elapsed }
      await PostgresFence.open(storage.engine, options)
      const today = Math.floor(Date.now() / 86_400_000)
      console.log(`filling a database with ${count} hints`)
      await queryStore(
        url,
        `INSERT INTO schema.fence SELECT
           decode(lpad(to_hex(floor(i::numeric * 4294967296 / ${count})::bigint), 8, '0'), 'hex')
             || substr(sha256(convert_to('hint ' || i, 'UTF8')), 5, 12),
           ${today} - i % ${DAYS + 1}, 1, sha256(convert_to(i::text, 'UTF8')), NULL
         FROM generate_series(0, ${count - 1}) AS i`,
      )
      await queryStore(url, 'ANALYZE schema.fence')
      const begun = performance.now()
      const fence = await PostgresFence.open(storage.engine, options)
      const startSeconds = (performance.now() - begun) / 1000
      const [row] = await queryStore(url, `SELECT pg_total_relation_size('schema.fence')::float8 AS bytes`)
      console.log('measuring')
      const figures = await measured(fence, count, days => {
        passed += days * 86_400
      })
      return { fresh: 0, diskBytes: Number(row!['bytes']), startSeconds, ...figures }
    } finally {
      await storage.close()
    }
  } finally {
    await remove()
  }
}

/** The phases by name are those of fence-process.mjs. */
export function fenceTable(
  count: number,
  { fresh, diskBytes, startSeconds, phases, ownMiB, mappedMiB }: Findings,
): { readonly text: string; readonly longestMs: number } {
  const rows: string[][] = [
    ['hints confirmed, and new', `${count}, ${fresh}`],
    ['on disk', `${(diskBytes / 1e6).toFixed(0)} MB: ${(diskBytes / (count + fresh)).toFixed(0)} bytes a hint`],
    ['memory of the process, without the mapped file', `${ownMiB.toFixed(0)} MiB`],
    [
      '– with what it has read of the file, which the system takes back when it needs it',
      `${(ownMiB + mappedMiB).toFixed(0)} MiB`,
    ],
    ['until a start has counted them', `${startSeconds.toFixed(1)} s`],
  ]
  for (const [name, { perSecond, p50, p99, processorMs, longestMs, gone }] of Object.entries(phases)) {
    if (name === 'warm-up') continue
    const took = `${perSecond.toFixed(0)} a second, p50 ${p50.toFixed(2)} ms, p99 ${p99.toFixed(1)} ms`
    rows.push([name, `${took}, processor ${processorMs.toFixed(3)} ms each`])
    rows.push([
      gone === undefined
        ? '– the event loop was held for, at most'
        : `– ${gone} removed; the event loop was held for, at most`,
      `${longestMs.toFixed(1)} ms`,
    ])
  }
  const longestMs = Math.max(...Object.values(phases).map(phase => phase.longestMs))
  return { text: aligned([['a fence', 'figure'], ...rows]), longestMs }
}

const EPOCHS = 8
const EDITS = 50
const ROUNDS = 20
const STEPS = 100

/** Prints what a client waits for a step, by turns on a quiet server and under a flood; returns how many times as long the second is. */
async function underFlood(kind: 'LMDB' | 'PostgreSQL'): Promise<number> {
  return await Stage.with(async stage => {
    const { store, remove } =
      kind === 'LMDB' ? { store: join(stage.folder, 'store'), remove: async () => {} } : await newStore()
    stage.closeLast(remove)
    const rows = Array.from({ length: 5000 }, (_, key) => `${key},0\n`)
    const dataset = await stage.build('csv', `key,value\n${rows.join('')}`)
    const { url, pid } = await stage.serve('--store', store, '--dataset', dataset, '--publisher-key', PUBLISHER_KEY)
    const reads = ['/v1/info']
    let manifest = await newestManifest(url)
    for (let value = 1; value <= EPOCHS; value++) {
      const lines = Array.from({ length: EDITS }, (_, key) => `{"op":"edit","key":"${key}","value":"${value}"}\n`)
      const body = await batchOn(manifest, lines.join(''))
      const response = await fetch(`${url}/v1/epochs`, { method: 'POST', headers: signed(body), body })
      if (response.status !== 200) throw new Error(`a batch was refused: ${await response.text()}`)
      while (manifest.epoch <= value) manifest = await newestManifest(url) // it is on disk before it is answered
      const { generation, epoch, updateListHash } = manifest
      reads.push(`/v1/manifest?generation=${generation}&epoch=${epoch}`, `/v1/epochs/${epoch}`)
      reads.push(`/v1/blobs/${toHex(updateListHash)}`)
    }
    reads.push(...partitionUrls('', manifest))
    const agent = new Agent({ keepAlive: true, maxSockets: 1 })
    stage.closeLast(async () => agent.destroy())
    const hint = { databaseId: manifest.databaseId, hintId: randomBytes(16) }
    const judge = async (body: Uint8Array) => {
      const sent = performance.now()
      const [reply] = (await once(request(`${url}/v1/fence`, { method: 'POST', agent }).end(body), 'response')) as [
        IncomingMessage,
      ]
      await once(reply.resume(), 'end')
      if (reply.statusCode !== 200) throw new Error(`a step was answered with ${reply.statusCode}`)
      return performance.now() - sent
    }
    await judge(encodeFenceRequest({ ...hint, kind: 'register', version: 0, requestHash: new Uint8Array(32) }))
    let version = 0
    const steps = async (waits: number[]) => {
      for (let i = 0; i < STEPS; i++) {
        const step = { ...hint, kind: 'confirm', version: ++version, requestHash: randomBytes(32) } as const
        waits.push(await judge(encodeFenceRequest(step)))
      }
    }
    await steps([])
    const [quiet, flooded]: [number[], number[]] = [[], []]
    let busyMs = 0
    for (let round = 0; round < ROUNDS; round++) {
      await steps(quiet)
      const flood = fork(program, ['flood', url, ...reads], { detached: true })
      const over = once(flood, 'exit')
      try {
        const [first] = await Promise.race([once(flood, 'message'), over])
        if (first !== 'begun') throw new Error('the flood has ended by itself')
        const before = await processorMs(pid)
        await steps(flooded)
        busyMs += ((await processorMs(pid)) ?? Number.NaN) - (before ?? 0)
        if (flood.exitCode !== null) throw new Error('the flood has ended by itself')
      } finally {
        flood.kill()
        await over
      }
    }
    const median = (waits: number[]) => waits.sort((a, b) => a - b)[waits.length >> 1]!
    const [ratio, all] = [median(flooded) / median(quiet), flooded.reduce((sum, wait) => sum + wait, 0)]
    console.log(
      `${kind}: a step of the fence takes ${median(quiet).toFixed(2)} ms, under a flood that takes ${((100 * busyMs) / all).toFixed(0)} % of a processor at the server ${median(flooded).toFixed(2)} ms: ${ratio.toFixed(2)} times as long`,
    )
    return ratio
  })
}
