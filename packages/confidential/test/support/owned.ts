// An owner, its list at two servers that withhold downloads, and its evaluators, all real and on this machine.

import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import {
  type Authorized,
  createEvaluator,
  createOwnerKey,
  type Limits,
  Meter,
  readShare,
  reshare,
  transform,
} from '@keyhush/confidential/server'
import { toHex } from '@keyhush/protocol'
import {
  buildDataset,
  createKeyFile,
  createServer,
  loadDataset,
  MemoryStorage,
  PublisherRecord,
  type PublishOptions,
  publish,
  UpdatableDatabase,
} from '@keyhush/server'
import type { FastifyInstance } from 'fastify'
import { databaseNameOf } from '../../src/wire/derive.js'

export type Operation =
  | { readonly op: 'add' | 'edit'; readonly key: string; readonly value: string }
  | { readonly op: 'delete'; readonly key: string }

export const PLENTY: Limits = { perClientDay: 1e8, perNetworkDay: 1e8, totalDay: 1e8 }

export interface OwnedOptions {
  readonly evaluators?: number
  readonly atLeast?: number
  readonly valueBytes?: number
  readonly limits?: Limits
  readonly authorize?: Authorized
  /** for a priced list */
  readonly authorizeUnlock?: Authorized
  /** of the owner's key; missing: a key of its own */
  readonly name?: string
}

export async function own(entries: Readonly<Record<string, string>>, options: OwnedOptions = {}) {
  const {
    evaluators: count = 2,
    atLeast = count,
    valueBytes = 32,
    limits = PLENTY,
    authorize,
    authorizeUnlock,
  } = options
  const priced = authorizeUnlock !== undefined
  const folder = await mkdtemp(join(tmpdir(), 'keyhush-confidential-test-'))
  const at = (name: string) => join(folder, name)
  const key = at('owner.key')
  const evaluationKey = await createOwnerKey(key, { valueBytes, evaluators: count, atLeast, priced })
  const list = Object.entries(entries).map(([key, value]) => `${JSON.stringify({ key, value })}\n`)
  await writeFile(at('list.jsonl'), list.join(''))
  await transform({ from: at('list.jsonl'), to: at('blind.csv'), key })

  const name = options.name ?? databaseNameOf(evaluationKey, priced)
  const built = await buildDataset({
    data: at('blind.csv'),
    out: at('dataset'),
    valueEncoding: 'base64',
    name,
    headroom: 64,
  })
  const publisher = await createKeyFile(at('publisher.key'))
  /** Read anew by each publisher, as after a kill. */
  const recorded = async () => await PublisherRecord.open(at('publisher.key.record'))
  await (await recorded()).addManifest({ databaseId: built.databaseId, epoch: 1, hash: built.manifestHash })
  const dataset = await loadDataset(at('dataset'))
  const databases: UpdatableDatabase[] = []
  const apps: FastifyInstance[] = []
  const listen = async (app: FastifyInstance) => {
    apps.push(app)
    return await app.listen({ host: '127.0.0.1', port: 0 })
  }
  const servers: string[] = []
  for (let i = 0; i < 2; i++) {
    const storage = new MemoryStorage()
    await UpdatableDatabase.create(storage, dataset)
    const database = await UpdatableDatabase.open(storage)
    databases.push(database)
    const datasets = [{ updatable: database, publisherKeys: [publisher.publicKey] }]
    servers.push(await listen(await createServer({ datasets, blobs: false })))
  }
  dataset.close()
  await publish({ servers, key: publisher, record: await recorded() })

  /** On a port of its own, with shares of these files. */
  const evaluate = async (
    files: readonly string[],
    more: { readonly limits?: Limits; readonly countIn?: string } = {},
  ) => {
    const countIn = more.countIn ?? at(`count-${apps.length}`)
    const meter = await Meter.open({ ...(more.limits ?? limits), countIn })
    const shares = await Promise.all(files.map(file => readShare(at(file))))
    return await listen(await createEvaluator({ shares, meter, authorize, authorizeUnlock }))
  }
  const evaluators: string[] = []
  for (let i = 1; i <= count; i++) evaluators.push(await evaluate([`share-${i}`]))
  let batches = 0
  const transformed = async (operations: readonly Operation[]): Promise<string> => {
    const [from, to] = [at(`changes-${++batches}.jsonl`), at(`batch-${batches}.jsonl`)]
    await writeFile(from, operations.map(each => `${JSON.stringify(each)}\n`).join(''))
    await transform({ from, to, key })
    return to
  }
  const send = async (operations: Uint8Array, more: Partial<PublishOptions> = {}) =>
    await publish({ servers, key: publisher, record: await recorded(), operations, encoding: 'base64', ...more })
  return {
    ...{ at, key, evaluationKey, servers, evaluators, evaluate, databases },
    publisherKey: toHex(publisher.publicKey),
    reshare: async () => await reshare(key),
    ...{ transformed, send },
    /** Transforms changes, and publishes them as the next epoch. Returns the file of the batch. */
    async publish(operations: readonly Operation[]): Promise<string> {
      const file = await transformed(operations)
      await send(await readFile(file), { again: true })
      return file
    },
    async close(): Promise<void> {
      await Promise.all(apps.map(app => app.close()))
      await Promise.all(databases.map(database => database.close()))
      await rm(folder, { recursive: true })
    },
  }
}
