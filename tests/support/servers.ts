// Real servers for tests: two Fastify instances in this process over the same data, on ports of the system's choosing.

import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { KeyhushMap } from '@keyhush/client'
import { encodeBatch, toHex } from '@keyhush/protocol'
import {
  type BuildOptions,
  buildDataset,
  createServer,
  loadDataset,
  MemoryStorage,
  type MountedDataset,
  UpdatableDatabase,
} from '@keyhush/server'
import { blake3 } from '@noble/hashes/blake3.js'

/** A data file's contents, and how to build it. */
export interface Data extends Omit<BuildOptions, 'data' | 'onProgress'> {
  readonly format: NonNullable<BuildOptions['format']>
  readonly content: string | Uint8Array
}

/** The id in hex of a database that is built with this name. */
export function databaseIdOf(name: string): string {
  const utf8 = (text: string) => new TextEncoder().encode(text)
  return toHex(blake3(utf8(name), { context: utf8('keyhush 2026-11 database id v1'), dkLen: 16 }))
}

/** An empty folder, and how to remove it with all that is in it. */
export async function temporaryFolder(): Promise<{ path: string; remove(): Promise<void> }> {
  const path = await mkdtemp(join(tmpdir(), 'keyhush-tests-'))
  return { path, remove: () => rm(path, { recursive: true, force: true }) }
}

/** Builds a dataset into a folder below `parent`; returns its path. */
export async function buildInto(parent: string, { content, ...options }: Data): Promise<string> {
  const data = join(parent, 'data')
  const out = join(parent, 'dataset')
  await writeFile(data, content)
  await buildDataset({ ...options, data, out })
  return out
}

export interface ServerPair {
  readonly urls: readonly [string, string]
  /** publishes the next epoch to both, if they are living */
  publish(operations: readonly object[]): Promise<void>
  close(): Promise<void>
}

/** `living`: of databases that can change, with a rollback fence. */
export async function startPair(data: Data, { living = false } = {}): Promise<ServerPair> {
  const folder = await temporaryFolder()
  const dataset = await loadDataset(await buildInto(folder.path, data))
  const mounted = async (): Promise<MountedDataset> => {
    if (!living) return { dataset }
    const storage = new MemoryStorage()
    await UpdatableDatabase.create(storage, dataset)
    return { updatable: await UpdatableDatabase.open(storage) }
  }
  const datasets = [await mounted(), await mounted()] as const
  const apps = [
    await createServer({ datasets: [datasets[0]] }),
    await createServer({ datasets: [datasets[1]] }),
  ] as const
  const listen = (app: (typeof apps)[number]) => app.listen({ host: '127.0.0.1', port: 0 })
  return {
    urls: [await listen(apps[0]), await listen(apps[1])],
    async publish(operations) {
      for (const { updatable } of datasets) await updatable?.publish(batchOn(updatable.newest, operations))
    },
    async close() {
      for (const app of apps) {
        app.server.closeAllConnections()
        await app.close()
      }
      for (const { updatable } of datasets) await updatable?.close()
      dataset.close()
      await folder.remove()
    },
  }
}

function batchOn({ manifest, manifestBytes }: UpdatableDatabase['newest'], operations: readonly object[]): Uint8Array {
  const { databaseId, generation, epoch } = manifest
  const lines = operations.map(each => `${JSON.stringify(each)}\n`).join('')
  return encodeBatch({
    ...{ encoding: 'utf8', databaseId, generation, epoch: epoch + 1, expires: 0 },
    previousManifest: blake3(manifestBytes),
    operations: new TextEncoder().encode(lines),
  })
}

/** `count` records of `bytes` bytes each, all different where that is possible. */
export function distinctRecords(count: number, bytes: number): Uint8Array[] {
  return Array.from({ length: count }, (_, i) =>
    Uint8Array.from({ length: bytes }, (_, b) => ((i + 1) * 0x9e3779b1 + b * 0x85ebca6b) >>> (8 * (b % 4))),
  )
}

/** Resolves when the map is at this epoch, or a later one. */
export function reached(map: KeyhushMap, epoch: number): Promise<void> {
  return new Promise(resolve => {
    const look = () => map.epoch >= epoch && resolve()
    map.on('updated', look)
    look()
  })
}
