// `keyhush serve`: load, listen, and stop in good order. stdout gets one line, the address; the log goes to stderr.

import { readFile } from 'node:fs/promises'
import { MAX_SHARDS } from '@keyhush/protocol'
import type { FastifyInstance } from 'fastify'
import { BoundedLog } from '../base/bounded-log.js'
import { BuildError } from '../base/errors.js'
import { loadDataset } from '../dataset/load.js'
import { Metrics } from '../http/metrics.js'
import type { MountedDataset } from '../http/plugin.js'
import { checkNames, createServer, weightOfLookup } from '../http/server.js'
import { preparedBytes } from '../one-server/contents.js'
import { readKeyFile, readPublicKey } from '../publisher/files.js'
import { ShardedDatabase } from '../sharded/database.js'
import { Fabric } from '../sharded/fabric.js'
import { isConnection } from '../storage/kinds.js'
import { silenceCommits } from '../storage/lmdb.js'
import { addressOf } from './listening.js'
import { withProgress } from './progress.js'
import { closeWhenAsked, tellSupervisor } from './stopping.js'
import { openStorageOf, openStore } from './store.js'

/** Connections that the system has accepted and this process has yet to; what comes beyond them knocks again after seconds. */
const MOST_CONNECTING = 4096

/** What `--trust-proxy` without a value trusts. */
const PRIVATE_ADDRESSES = 'loopback,linklocal,uniquelocal'

/** The options of `serve` as commander gives them. */
export interface ServeArguments {
  readonly dataset?: string[]
  readonly store?: string[]
  /** their number, and URLs with `{shard}` */
  readonly shards?: string[]
  /** the same, of the next generation */
  readonly next?: string[]
  readonly shardKey?: string
  readonly catchUp?: string[]
  readonly publisherKey?: string[]
  readonly replica?: boolean
  readonly history?: number
  readonly port: number
  readonly host: string
  /** missing: any */
  readonly allowOrigin?: string[]
  readonly trustProxy?: string | true
  readonly rateLimit: number
  /** worker threads; false: off; missing: as many as suit the machine */
  readonly instant?: number | false
  /** false: nobody can download */
  readonly blobs: boolean
  readonly metrics?: { readonly host: string; readonly port: number }
  /** how long /readyz says no before nothing new is answered */
  readonly drainSeconds: number
  readonly logLevel: string
}

export async function serve(options: ServeArguments): Promise<void> {
  let app: FastifyInstance | undefined
  let datasets: MountedDataset[] = []
  let figures: FastifyInstance | undefined
  const closeRest = async () => {
    for (const { updatable, sharded } of datasets) await (sharded ?? updatable)?.close()
    await figures?.close()
  }
  silenceCommits()
  closeWhenAsked(() => app, closeRest, options.drainSeconds)
  datasets = await mountAll(options)
  const metrics = options.metrics === undefined ? undefined : new Metrics()
  const server = await createServer({
    datasets,
    allowOrigins: options.allowOrigin,
    trustProxy: options.trustProxy === true ? PRIVATE_ADDRESSES : options.trustProxy,
    rateLimit: options.rateLimit,
    instant: options.instant === false ? false : { workers: options.instant },
    oneServer: options.instant === false ? false : {},
    blobs: options.blobs,
    metrics,
    log: { level: options.logLevel, stream: new BoundedLog(process.stderr) },
  })
  app = server
  figures = await metrics?.server(server.readiness)
  try {
    await figures?.listen(options.metrics)
    await server.listen({ host: options.host, port: options.port, backlog: MOST_CONNECTING })
  } catch (error) {
    await server.close() // what listens, and what is computed in the background, would keep the process alive
    await closeRest()
    throw error
  }
  if (figures !== undefined) process.stderr.write(`keyhush: figures at ${addressOf(figures)}/metrics\n`)
  process.stdout.write(`listening on ${addressOf(server)}\n`)
  tellSupervisor('READY=1')
}

/** What is wrong with the arguments is said before any store is open, so that none has to be closed. */
async function mountAll(options: ServeArguments): Promise<MountedDataset[]> {
  const named = (options.dataset ?? []).map(parseMount)
  const stores = (options.store ?? []).map(store => {
    const { name, dir } = isConnection(store) ? { name: undefined, dir: store } : parseMount(store)
    const at = named.findIndex(dataset => dataset.name === name)
    return { name, dir, source: at === -1 ? undefined : named.splice(at, 1)[0]!.dir }
  })
  checkNames([...stores, ...named])
  if (stores.length === 0 && (options.replica || options.history !== undefined)) {
    throw new BuildError('--replica, --history: expected --store, got none; give it, or leave these options out')
  }
  const keys = await Promise.all((options.publisherKey ?? []).map(parseMount).map(readNamedKey))
  for (const { name } of keys) {
    if (stores.length === 0 || (name !== undefined && !stores.some(store => store.name === name))) {
      throw new BuildError(
        `--publisher-key: expected a store${name === undefined ? '' : ` named ${name}`}, got none; give --store, or leave the key out`,
      )
    }
  }

  const { shards, next, shardKey, catchUp } = options
  if (
    shards === undefined ? shardKey !== undefined : (keys.length > 0 || catchUp !== undefined) && shardKey === undefined
  )
    throw new BuildError(
      '--shard-key: expected it with --shards, if batches are to be taken, got one without the other; see --help',
    )
  if (shards === undefined && next !== undefined)
    throw new BuildError('--next: expected --shards too, got none; give the shards that answer now')
  if (shards !== undefined) return [await mountShards(shards, stores, named, options, keys)]
  const mounted: MountedDataset[] = []
  for (const { name, dir, source } of stores) {
    const publisherKeys = keys.filter(key => key.name === undefined || key.name === name).map(({ key }) => key)
    const { history, replica } = options
    const oneServer = options.instant !== false
    const updatable = await openStore(dir, source, { history, replica, oneServer, onPreparing: say(name) }, name)
    mounted.push({ name, publisherKeys, updatable })
  }
  for (const { name, dir } of named) {
    const dataset = await withProgress(onProgress => loadDataset(dir, onProgress))
    if (options.instant !== false && dataset.base !== undefined)
      say(name)(preparedBytes(dataset.core, dataset.base.manifest))
    mounted.push({ name, dataset })
  }
  return mounted
}

/** A coordinator of shards, whose head is in the one store. */
async function mountShards(
  answering: readonly string[],
  [store, ...others]: readonly {
    readonly name: string | undefined
    readonly dir: string
    readonly source: string | undefined
  }[],
  named: readonly unknown[],
  { history, replica, shardKey, catchUp = [], rateLimit, next: following }: ServeArguments,
  publisherKeys: readonly { readonly key: Uint8Array }[],
): Promise<MountedDataset> {
  const sets = [fabricOf('--shards', answering), ...(following === undefined ? [] : [fabricOf('--next', following)])]
  const [fabric, next] = sets as [Fabric, Fabric | undefined]
  const shards = Math.max(...sets.map(({ shards }) => shards))
  const weight = weightOfLookup(shards)
  if (rateLimit > 0 && rateLimit < weight)
    throw new BuildError(
      `--rate-limit: expected at least ${weight}, as one lookup counts with ${shards} shards, got ${rateLimit}; give more, or leave it out`,
    )
  if (store === undefined || others.length + named.length > 0 || store.source !== undefined)
    throw new BuildError('--shards: expected one --store and no --dataset, got others; leave them to the shards')
  const key = shardKey === undefined ? undefined : await readKeyFile(shardKey)
  const batches = await Promise.all(catchUp.map(file => readFile(file)))
  const storage = await openStorageOf(store.dir, replica)
  // The log does so once it listens.
  for (const set of sets)
    set.onChange = ({ problem }) => {
      if (problem !== undefined) process.stderr.write(`keyhush: waiting for a shard of ${set.flag}: ${problem}\n`)
    }
  try {
    const sharded = await ShardedDatabase.open(storage, fabric, { next, history, replica, key, batches })
    return { name: store.name, sharded, publisherKeys: publisherKeys.map(({ key }) => key) }
  } catch (error) {
    for (const set of sets) set.close()
    await storage.close()
    throw error
  }
}

/** Their number, and URLs. Throws BuildError. */
function fabricOf(flag: Fabric['flag'], [count = '', ...templates]: readonly string[]): Fabric {
  const shards = Number(count)
  if (!/^\d+$/.test(count) || shards < 2 || shards > MAX_SHARDS || !Number.isInteger(Math.log2(shards))) {
    const expected = `expected their number, a power of two up to ${MAX_SHARDS}, and URLs`
    throw new BuildError(
      `${flag}: ${expected}, got ${JSON.stringify(count)}; give ${flag} 64 http://a-{shard}.shards:8080`,
    )
  }
  return new Fabric(shards, templates, flag)
}

/** Says what lookups with one server will take, before they do. */
function say(name: string | undefined): (bytes: number) => void {
  const of = name === undefined ? '' : ` of ${name}`
  return bytes => {
    const each = `${Math.ceil(bytes / 1e6)} MB of memory for each base${of}, and two are kept`
    process.stderr.write(`keyhush: lookups with one server take ${each}\n`)
  }
}

/** `NAME=DIR` or `DIR`. A directory whose own name has a `=` is given as `./a=b`. */
function parseMount(argument: string): { name: string | undefined; dir: string } {
  const [, name, dir] = /^([^=/\\]+)=(.+)$/s.exec(argument) ?? []
  return name === undefined || dir === undefined ? { name: undefined, dir: argument } : { name, dir }
}

/** `NAME=KEY`: of the store of that name; `KEY`: of all. */
async function readNamedKey({ name, dir: key }: ReturnType<typeof parseMount>) {
  return { name, key: await readPublicKey(key) }
}
