// Real servers in this process for an app's own tests. Each can be told to misbehave, so that a test can see what the app shows then.

import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { toHex } from '@keyhush/protocol'
import { PublishError } from '../base/errors.js'
import { UpdatableDatabase } from '../database/updatable.js'
import { buildDataset, hasKeys } from '../dataset/build.js'
import { loadDataset } from '../dataset/load.js'
import { createServer } from '../http/server.js'
import { createKeyFile } from '../publisher/files.js'
import { publish } from '../publisher/publish.js'
import { PublisherRecord } from '../publisher/record.js'
import { MemoryStorage } from '../storage/memory.js'
import { MISBEHAVIOURS, MisbehavingProxy, type Misbehaviour } from './misbehaving.js'

export { startWitness, type TestWitness, type WitnessFault } from './witness.js'
export { MISBEHAVIOURS, type Misbehaviour }

/** A line of a batch (docs/protocol.md, Publishing). */
export type Operation =
  | { readonly op: 'add' | 'edit'; readonly key: string; readonly value: string }
  | { readonly op: 'delete'; readonly key: string }

/** Two servers or more, unless `Servers` says that it is one. */
export interface TestServers<Servers = readonly [string, string, ...string[]]> {
  /** for `open()` */
  readonly servers: Servers
  readonly publisherKey: string
  /** What one of `servers` does from now on, by its place; undefined: what it should. Lookups it has left unanswered are hung up on. */
  misbehave(server: number, how: Misbehaviour | undefined): void
  /** Makes the next epoch at all of them, but for one that is behind, and signs it. */
  publish(operations: readonly Operation[]): Promise<void>
  close(): Promise<void>
}

const DAY_SECONDS = 24 * 60 * 60

/** Keys and values, or the path of a file. */
type Data = Readonly<Record<string, string>> | string

/**
 * Starts two servers, or `count` of them (1 to 8), on free ports of this machine. A single one answers with `experimental: true`. `data`: keys and values, or the path of a file that
 * `keyhush build` takes, CSV say.
 * @throws {BuildError} for data that cannot be a database
 * @example
 * const { servers, publisherKey, misbehave, close } = await startServers({ otter: 'river' })
 * const map = await open({ servers, publisherKey, mode: 'full' })
 * misbehave(1, 'lie')
 * await map.get('otter') // TamperedError
 */
export async function startServers(data: Data, options: { readonly count: 1 }): Promise<TestServers<readonly [string]>>
export async function startServers(data: Data, options?: { readonly count?: number }): Promise<TestServers>
export async function startServers(data: Data, { count = 2 }: { readonly count?: number } = {}): Promise<unknown> {
  const folder = await mkdtemp(join(tmpdir(), 'keyhush-testing-'))
  const [file, out] = [join(folder, 'data.jsonl'), join(folder, 'dataset')]
  if (typeof data === 'object') {
    const lines = Object.entries(data).map(([key, value]) => `${JSON.stringify({ key, value })}\n`)
    await writeFile(file, lines.join(''))
  }
  const alone = count === 1 // the publisher has a copy
  const expires = alone ? Math.floor(Date.now() / 1000) + DAY_SECONDS : undefined
  const source = { data: typeof data === 'object' ? file : data, out }
  const built = await buildDataset({ ...source, filter: hasKeys(source), oneServer: alone, expires }).catch(
    async error => {
      await rm(folder, { recursive: true })
      throw error
    },
  )
  const { databaseId, manifest, manifestHash: hash } = built
  const key = await createKeyFile(join(folder, 'key'))
  const record = new PublisherRecord()
  await record.addManifest({ databaseId, epoch: manifest.epoch, hash })
  const dataset = await loadDataset(out)
  const start = async () => {
    const storage = new MemoryStorage()
    await UpdatableDatabase.create(storage, dataset)
    const database = await UpdatableDatabase.open(storage)
    await database.newest.oneServer?.prepared?.made
    return await startServer(database, key.publicKey)
  }
  const started: Awaited<ReturnType<typeof start>>[] = []
  while (started.length < Math.max(2, count)) started.push(await start())
  dataset.close()
  await rm(folder, { recursive: true })
  const servers = started.map(({ url }) => url)
  await publish({ servers, own: alone, key, record })
  return {
    servers: servers.slice(0, count),
    publisherKey: toHex(key.publicKey),
    misbehave: (server: number, how: Misbehaviour | undefined) => started[server]!.proxy.misbehave(how),
    async publish(operations: readonly Operation[]) {
      const batch = Buffer.from(operations.map(operation => `${JSON.stringify(operation)}\n`).join(''))
      const options = { operations: batch, again: true, expires, generation: false }
      await publish({ servers, own: alone, key, record, ...options }).catch((error: unknown) => {
        if (!(error instanceof PublishError) || started.every(({ proxy }) => proxy.how !== 'behind')) throw error
      })
    },
    async close() {
      for (const server of started) await server.close()
    },
  }
}

async function startServer(database: UpdatableDatabase, publisherKey: Uint8Array) {
  const app = await createServer({ datasets: [{ updatable: database, publisherKeys: [publisherKey] }] })
  const proxy = await MisbehavingProxy.start(await app.listen({ host: '127.0.0.1', port: 0 }))
  return {
    proxy,
    url: `http://127.0.0.1:${proxy.port}`,
    async close() {
      await proxy.close()
      await app.close()
      await database.close()
    },
  }
}
