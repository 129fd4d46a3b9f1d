// What tests of coordinators share: the shards of a list, on a server in this process, and coordinators before them.

import { once } from 'node:events'
import { writeFile } from 'node:fs/promises'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { buffer } from 'node:stream/consumers'
import { encodeInstantQuery, FINGERPRINT_BYTES, fromHex, instantLayout, type Manifest } from '@keyhush/protocol'
import { loadCore } from '@keyhush/wasm'
import { onTestFinished } from 'vitest'
import { encodeShape, planShape } from '../dist/dataset/shape-file.js'
import { layoutOf } from '../dist/dataset/view.js'
import { buildDataset, MemoryStorage, type ServerOptions, type Storage, type UpdatableDatabase } from '../dist/index.js'
import { ShardedDatabase, type ShardedOptions, shardsAt } from '../dist/sharded/database.js'
import { Fabric } from '../dist/sharded/fabric.js'
import { createIn, listening, temporaryDirectory } from './helpers.js'
import { batchOn, opened } from './updatable-helpers.js'

export const SHARDS = 4

/** Keys and values of five bytes. */
export const LIST: ReadonlyMap<string, string> = new Map(
  Array.from({ length: 400 }, (_, i) => [`key ${i}`, `${i}`.padStart(5, '0')]),
)

/** Folders with the datasets of the shards of a list; both operators build the same. `after`: the manifest that a generation succeeds. */
export async function shardFolders(
  list = LIST,
  shards = SHARDS,
  after?: Uint8Array,
  records = 2000,
): Promise<string[]> {
  const [core, folder] = [await loadCore(), await temporaryDirectory()]
  const shape = planShape(core, { records, valueBytes: 5, shards })
  const succeeds = after && join(folder, 'manifest.bin')
  if (succeeds !== undefined) await writeFile(succeeds, after!)
  const file = join(folder, 'shape.json')
  await writeFile(file, encodeShape(shape))
  const keys = [...list.keys()]
  const prints = Buffer.concat(keys.map(key => core.fingerprint(Buffer.from(key))))
  if (prints.length !== keys.length * FINGERPRINT_BYTES) throw new Error('a fingerprint has another length')
  const places = core.shardsOf(prints, fromHex(shape.directorySeed), shards)
  const folders: string[] = []
  for (let shard = 0; shard < shards; shard++) {
    const data = join(folder, `${shard}.csv`)
    const own = keys.filter((_, i) => places[i] === shard)
    await writeFile(data, ['key,value', ...own.map(key => `${key},${list.get(key)}`), ''].join('\n'))
    folders.push(join(folder, `shard${shard}`))
    await buildDataset({ data, shape: file, shard, succeeds, out: folders[shard]! })
  }
  return folders
}

/** The shards of one operator, as replicas of one another if there are several. */
export interface Shards {
  readonly databases: readonly UpdatableDatabase[]
  /** with `{shard}` */
  readonly template: string
  readonly proxy: ShardProxy
}

/** Shards on one server, each with a store of its own, behind a proxy that can lie. */
export async function shardsFrom(folders: readonly string[], ...publisherKeys: readonly Uint8Array[]): Promise<Shards> {
  const databases: UpdatableDatabase[] = []
  for (const folder of folders) databases.push(await opened(await createIn(new MemoryStorage(), folder)))
  const datasets = databases.map((updatable, shard) => ({ name: `s${shard}`, updatable, publisherKeys }))
  const { url } = await listening({ datasets })
  const proxy = await ShardProxy.start(url)
  return { databases, template: `${proxy.url}/s{shard}`, proxy }
}

/** A coordinator, and the server before it. */
export async function coordinatorOf(
  templates: readonly string[],
  {
    storage = new MemoryStorage(),
    key,
    now,
    batches,
    publisherKeys,
    shards = SHARDS,
    next,
    ...options
  }: { storage?: Storage; publisherKeys?: readonly Uint8Array[]; shards?: number } & ShardedOptions &
    Partial<ServerOptions> = {},
) {
  const fabric = new Fabric(shards, templates)
  onTestFinished(() => fabric.close())
  const sharded = await ShardedDatabase.open(storage, fabric, { key, now, batches, next })
  const server = await listening({ datasets: [{ sharded, publisherKeys }], ...options })
  onTestFinished(() => sharded.close())
  return { ...server, sharded, fabric, storage }
}

/** Has all shards take the next epoch, and the coordinator show it. */
export async function advance({ databases }: Shards, sharded: ShardedDatabase): Promise<void> {
  for (const database of databases) await database.publish(batchOn(database, [{ op: 'renew' }]))
  const { generation, epoch } = sharded.newest.manifest
  const made = await shardsAt(sharded.fabric, { generation, epoch: epoch + 1 }, () => false)
  const next = sharded.successor({ fabric: sharded.fabric, shards: made, expires: 0 })
  await sharded.advance(next, { batch: 'ab'.repeat(32), changes: 0 })
}

/** The first server's queries for the first record, so many times, and the request. */
export async function requestFor(manifest: Manifest, count: number, entropy = 7) {
  const core = await loadCore()
  const layout = layoutOf(core, instantLayout(manifest, 'records'))
  const query = core.newInstantQuery(layout, new Uint32Array(count), new Uint8Array(32).fill(entropy))
  const queries = query.request(0)
  query.free()
  layout.free()
  return { queries, payload: Buffer.from(encodeInstantQuery(manifest, 'records', count, queries)) }
}

export interface PassedReply {
  readonly status: number
  readonly body: Buffer
}

/** Changes a reply, or takes the connection over: undefined. */
export type ShardLie = (
  shard: number,
  path: string,
  reply: PassedReply,
  response: ServerResponse,
) => PassedReply | undefined

/** Stands before shards: counts their requests, and lies. */
export class ShardProxy {
  readonly url: string
  lie: ShardLie = (_shard, _path, reply) => reply
  /** called with each request before it is passed on */
  see: (shard: number, path: string, body: Buffer) => Promise<void> | void = () => {}
  lookups = 0

  private constructor(url: string) {
    this.url = url
  }

  /** `target`: the server of all shards, or where a request for one goes. */
  static async start(target: string | ((shard: number, path: string) => string)): Promise<ShardProxy> {
    const server = createServer((request, response) => {
      proxy.#pass(target, request, response).catch(() => response.destroy())
    }).listen(0, '127.0.0.1')
    await once(server, 'listening')
    onTestFinished(() => {
      server.close()
      server.closeAllConnections()
    })
    const proxy = new ShardProxy(`http://127.0.0.1:${(server.address() as AddressInfo).port}`)
    return proxy
  }

  async #pass(
    target: string | ((shard: number, path: string) => string),
    request: IncomingMessage,
    response: ServerResponse,
  ): Promise<void> {
    const { method = '', url = '', headers } = request
    const shard = Number(/^\/s(\d+)/.exec(url)?.[1])
    const body = await buffer(request)
    if (method === 'POST' && url.endsWith('/v1/instant')) this.lookups++
    await this.see(shard, url, body)
    const passed = Object.entries(headers).filter(([name]) => name.startsWith('keyhush') || name === 'content-type')
    const init = { method, headers: Object.fromEntries(passed) as Record<string, string> }
    const to = typeof target === 'string' ? target + url : target(shard, url)
    const reply = await fetch(to, method === 'POST' ? { ...init, body: new Uint8Array(body) } : init)
    const genuine = { status: reply.status, body: Buffer.from(await reply.arrayBuffer()) }
    const told = this.lie(shard, url, genuine, response)
    if (told !== undefined) response.writeHead(told.status).end(told.body)
  }
}
