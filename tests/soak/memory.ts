// `npm run soak -- memory`: whether the memory of two servers grows that are used in every way, rightly and wrongly.
//
//   npm run soak -- memory                 an hour, from a random seed
//   npm run soak -- memory 45 --seed 7     so many minutes, from seed 7
//
// In the first third of the time, code, caches and history fill. Then two figures, taken every two minutes, may not grow faster
// than GROWTH, by the median slope: the least private memory of a process, and its JavaScript heap after a collection. In less
// than half an hour the slope is mostly noise.

import { randomBytes, randomInt } from 'node:crypto'
import { setMaxListeners } from 'node:events'
import { writeFile } from 'node:fs/promises'
import { connect } from 'node:net'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { type OpenOptions, open } from '@keyhush/client'
import { type BuildSummary, buildDataset, createKeyFile, PublisherRecord, publish } from '@keyhush/server'
import { residentBytes } from '../bench/stage.js'
import { runKeyhushProcess, startCollectingServer } from '../support/processes.js'
import { temporaryFolder } from '../support/servers.js'
import { draws } from '../world/chance.js'
import { floors, growthPerHour, type Sample } from './trend.js'

const RECORDS = 2 ** 14
const SAMPLE_SECONDS = 10
const SPAN_SECONDS = 120
const TOLD_SECONDS = 300
/** how often a call is made before its failure counts */
const CALLS = 30

/** MiB an hour. */
const GROWTH = { anonymous: 24, heap: 8 } as const
type Figure = keyof typeof GROWTH

/** A map of each kind, each in a database of its own that changes. */
const MAPS: Readonly<Record<string, Partial<OpenOptions>>> = {
  tags: { mode: 'full', proofs: 'tags', rollback: 'strict' },
  merkle: { mode: 'full', proofs: 'merkle' },
  pointproofs: {
    mode: 'full',
    proofs: 'pointproofs',
    pointproofs: () => import('@keyhush/pointproofs' as string),
    development: true,
  },
  instant: { mode: 'instant' },
  single: { mode: 'single', integrity: 'server', lookups: 2000 },
  local: { mode: 'local' },
}
/** Proving takes two milliseconds a record. */
const PROVED_RECORDS = 2 ** 10
const recordsOf = (name: string) => (name === 'pointproofs' ? PROVED_RECORDS : RECORDS)

/** Returns the exit code. */
export async function soak(args: string[]): Promise<number> {
  const { values, positionals } = parseArgs({ args, allowPositionals: true, options: { seed: { type: 'string' } } })
  const seed = values.seed === undefined ? randomInt(2 ** 31) : Number(values.seed)
  const minutes = Number(positionals[0] ?? 60)
  if (!Number.isSafeInteger(seed) || !(minutes > 0)) throw new Error('expected numbers')
  console.log(`seed ${seed}, ${minutes} minutes`)
  const folder = await temporaryFolder()
  const servers: Server[] = []
  try {
    const publishing = await begin(folder.path, servers)
    return (await run(seed, 60 * minutes, servers, publishing)) ? 0 : 1
  } finally {
    for (const server of servers) await server.kill()
    await folder.remove()
  }
}

type Server = Awaited<ReturnType<typeof startCollectingServer>>
type Publishing = (name: string, operations: readonly object[]) => Promise<void>

async function begin(dir: string, servers: Server[]): Promise<Publishing> {
  const ceremony = join(dir, 'ceremony')
  await runKeyhushProcess('ceremony', 'init', '--out', `${ceremony}.begun`, '--development')
  await runKeyhushProcess('ceremony', 'contribute', `${ceremony}.begun`, '--name', 'soak', '--out', ceremony)
  const key = await createKeyFile(join(dir, 'publisher.key'))
  const names = Object.keys(MAPS)
  const datasetOf = (name: string) => join(dir, name === 'pointproofs' ? 'proved' : 'dataset')
  const built = new Map<string, BuildSummary>()
  for (const name of names) {
    const out = datasetOf(name)
    const lines = Array.from({ length: recordsOf(name) }, (_, key) => `key ${key},value ${key}\n`)
    const data = `${out}.csv`
    await writeFile(data, `key,value\n${lines.join('')}`)
    const proofs = name === 'pointproofs' ? ({ proofs: name, ceremony } as const) : {}
    built.set(out, built.get(out) ?? (await buildDataset({ data, out, maxValueBytes: 24, ...proofs })))
  }
  for (const operator of ['a', 'b']) {
    const stores = names.flatMap(name => [
      ...['--dataset', `${name}=${datasetOf(name)}`, '--store', `${name}=${join(dir, `${operator}-${name}`)}`],
    ])
    const publisher = ['--publisher-key', Buffer.from(key.publicKey).toString('hex')]
    // History is full before the time to warm up is over.
    const limits = ['--history', '8', '--rate-limit', '1000000', '--instant', '1']
    servers.push(await startCollectingServer(...stores, ...publisher, ...limits, '--metrics', '0'))
  }
  const records = new Map<string, PublisherRecord>()
  for (const name of names) {
    const { databaseId, manifest, manifestHash } = built.get(datasetOf(name))!
    const record = await PublisherRecord.open(join(dir, `record-${name}`))
    await record.addManifest({ databaseId, epoch: manifest.epoch, hash: manifestHash })
    records.set(name, record)
  }
  return async (name, operations) => {
    const urls = [`${servers[0]!.url}/${name}`, `${servers[1]!.url}/${name}`] as const
    const lines = operations.map(operation => `${JSON.stringify(operation)}\n`).join('')
    const record = records.get(name)!
    // As a publisher would: repeats it.
    for (let attempt = 1; ; attempt++) {
      try {
        await publish({ servers: urls, key, record, operations: Buffer.from(lines), generation: false })
        return
      } catch (error) {
        if (attempt === CALLS) throw error
        await sleep(1000)
      }
    }
  }
}

interface Counts {
  lookups: number
  opened: number
  failed: number
  streams: number
  wrong: number
  epochs: number
}

async function run(
  seed: number,
  seconds: number,
  servers: readonly Server[],
  publishing: Publishing,
): Promise<boolean> {
  const chance = draws(seed)
  const counts: Counts = { lookups: 0, opened: 0, failed: 0, streams: 0, wrong: 0, epochs: 0 }
  const over = new AbortController()
  setMaxListeners(0, over.signal)
  const urls = servers.map(({ url }) => url)
  const busy = [
    ...Object.keys(MAPS).map(name => lookUp(name, urls, chance, counts, over.signal)),
    publishAll(publishing, chance, counts, over.signal),
    ...Array.from({ length: 12 }, () => listen(urls, chance, counts, over.signal)),
    ...Array.from({ length: 3 }, () => misbehave(urls, chance, counts, over.signal)),
  ]
  const failed = Promise.all(busy)
  failed.catch(() => {})
  const samples = servers.map(() => ({ anonymous: [] as Sample[], heap: [] as Sample[] }))
  const begun = performance.now()
  let told = 0
  try {
    for (;;) {
      await Promise.race([sleep(1000 * SAMPLE_SECONDS), failed])
      const now = (performance.now() - begun) / 1000
      for (const [i, server] of servers.entries()) {
        await (await fetch(server.figures!)).arrayBuffer() // as who watches it does
        const { anonymous, heap } = samples[i]!
        anonymous.push({ seconds: now, value: (await residentBytes(server.pid))! / 2 ** 20 })
        if (heap.length > 0 && now - heap.at(-1)!.seconds < SPAN_SECONDS) continue
        heap.push({ seconds: now, value: (await server.heapBytes()) / 2 ** 20 })
      }
      if (now - told >= TOLD_SECONDS) {
        told = now
        const memory = samples.map(({ anonymous, heap }) =>
          [anonymous, heap].map(each => `${each.at(-1)?.value.toFixed(1)}`).join(' / '),
        )
        console.log(`${(now / 60).toFixed(0)} min: ${JSON.stringify(counts)}; MiB, own / heap: ${memory.join(', ')}`)
      }
      if (now >= seconds) break
    }
  } finally {
    over.abort()
  }
  await failed
  console.log(JSON.stringify(counts))
  const { failed: _failed, ...tried } = counts
  if (Object.values(tried).some(count => count === 0)) throw new Error('something was never tried')
  const steady = samples.map((of, i) =>
    (Object.keys(GROWTH) as Figure[]).map(figure => isSteady(`server ${'AB'[i]}`, figure, of[figure], seconds / 3)),
  )
  return steady.flat().every(Boolean) && counts.lookups > 0
}

function isSteady(server: string, figure: Figure, samples: readonly Sample[], warmUpSeconds: number): boolean {
  const counted = floors(
    samples.filter(({ seconds }) => seconds >= warmUpSeconds),
    SPAN_SECONDS,
  )
  const growth = growthPerHour(counted)
  const steady = growth <= GROWTH[figure]
  const [first, last] = [counted[0], counted.at(-1)].map(sample => sample?.value.toFixed(1))
  console.log(
    `${server}, ${figure}: ${first} MiB after warming up, ${last} MiB in the end, ` +
      `${growth.toFixed(1)} MiB an hour (at most ${GROWTH[figure]}): ${steady ? 'steady' : 'GROWS'}`,
  )
  return steady
}

type Chance = (count: number) => number

/** Maps of one kind, one after the other: opened, asked for one key or many, and closed. */
async function lookUp(
  name: string,
  urls: readonly string[],
  chance: Chance,
  counts: Counts,
  over: AbortSignal,
): Promise<void> {
  const servers = urls.map(url => `${url}/${name}`).slice(0, name === 'single' ? 1 : 2)
  const records = recordsOf(name)
  while (!over.aborted) {
    const map = await open({ servers, ...MAPS[name], storage: 'memory' } as OpenOptions).catch(whileAlive(counts, over))
    if (map === undefined) continue
    counts.opened++
    for (let n = 20 + chance(100); n > 0 && !over.aborted; n--) {
      const keys = Array.from({ length: chance(4) === 0 ? 1 + chance(16) : 1 }, () => chance(records + 100))
      const found = await map.getMany(keys.map(key => `key ${key}`)).catch(whileAlive(counts, over))
      for (const [i, key] of keys.entries()) {
        if (found === undefined) break
        const text = found[i] && new TextDecoder().decode(found[i])
        const right = key < records ? text?.startsWith(`value ${key}`) : text === undefined
        if (!right) throw new Error(`a wrong record: key ${key} is ${text}`)
        counts.lookups++
      }
      await sleep(200 + chance(400))
    }
    await map.close()
  }
}

/** Allowed errors: a server that is busy, or an epoch ahead. */
function whileAlive(counts: Counts, over: AbortSignal): (error: unknown) => Promise<undefined> {
  return async error => {
    const { code } = error as { code?: string }
    if (over.aborted) return undefined
    if (code !== 'network' && code !== 'servers_disagree') throw error
    counts.failed++
    await sleep(1000)
    return undefined
  }
}

async function publishAll(publishing: Publishing, chance: Chance, counts: Counts, over: AbortSignal): Promise<void> {
  const names = Object.keys(MAPS)
  for (let n = 0; !over.aborted; n++) {
    const name = names[n % names.length]!
    const keys = new Set(Array.from({ length: 1 + chance(100) }, () => chance(recordsOf(name))))
    const edits = [...keys].map(key => ({ op: 'edit', key: `key ${key}`, value: `value ${key} ${n}` }))
    await publishing(name, edits)
    counts.epochs++
    await sleep(1000 + chance(1000), undefined, { signal: over }).catch(() => {})
  }
}

/** Streams of events that come and go. */
async function listen(urls: readonly string[], chance: Chance, counts: Counts, over: AbortSignal): Promise<void> {
  const names = Object.keys(MAPS)
  while (!over.aborted) {
    const url = `${urls[chance(2)]}/${names[chance(names.length)]}/v1/events`
    const controller = new AbortController()
    const end = () => controller.abort()
    over.addEventListener('abort', end)
    const timer = setTimeout(end, 1000 + chance(20_000))
    try {
      const { body } = await fetch(url, { signal: controller.signal })
      counts.streams++
      for await (const _ of body!);
    } catch {
      // called off, as it should be
    }
    clearTimeout(timer)
    over.removeEventListener('abort', end)
    await sleep(100)
  }
}

/** Clients that break the protocol or HTTP, or do not read. Random bytes must be refused. */
async function misbehave(urls: readonly string[], chance: Chance, counts: Counts, over: AbortSignal): Promise<void> {
  const names = Object.keys(MAPS)
  const routes = ['answer', 'instant', 'hint', 'tags', 'fence', 'epochs', 'signatures', 'nothing']
  while (!over.aborted) {
    const server = urls[chance(2)]!
    const base = `/${names[chance(names.length)]}/v1`
    const body = randomBytes(chance(600))
    const path = `${base}/${routes[chance(routes.length)]}`
    const head = `POST ${path} HTTP/1.1\r\nHost: x\r\n`
    const tries = [
      async () => {
        const reply = await fetch(server + path, { method: 'POST', body, signal: AbortSignal.timeout(10_000) })
        await reply.arrayBuffer()
        if (reply.status < 400) throw new Error(`${path} took random bytes: ${reply.status}`)
      },
      // A body that never comes, one that is longer than its header says, and bytes that are no HTTP.
      () => throwAt(server, Buffer.from(`${head}Content-Length: 1000\r\n\r\n`), chance(2000)),
      () => throwAt(server, Buffer.concat([Buffer.from(`${head}Content-Length: 5\r\n\r\n`), body]), chance(500)),
      () => throwAt(server, body, chance(500)),
      // Asks for much, and reads nothing.
      () =>
        throwAt(
          server,
          Buffer.from(`GET ${base}/manifest HTTP/1.1\r\nHost: x\r\n\r\n`.repeat(200)),
          chance(5000),
          true,
        ),
    ]
    try {
      await tries[chance(tries.length)]!()
    } catch (error) {
      if (!over.aborted && (error as Error).message.includes('random bytes')) throw error
    }
    counts.wrong++
    await sleep(100 + chance(400))
  }
}

/** Sends bytes, waits, and hangs up. */
async function throwAt(server: string, bytes: Buffer, milliseconds: number, isDeaf = false): Promise<void> {
  const { hostname, port } = new URL(server)
  const socket = connect(Number(port), hostname)
  socket.on('error', () => {})
  if (isDeaf) socket.pause()
  else socket.resume()
  socket.write(bytes)
  await sleep(milliseconds)
  socket.destroy()
}
