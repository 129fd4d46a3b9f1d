// kill -9 at any moment of a publication: afterwards the store holds the old epoch or the new one, whole, and the same
// batch leads to the same epoch.

import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { cpSync, statSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { decodeManifest } from '@keyhush/protocol'
import { beforeAll, describe, expect, test } from 'vitest'
import { buildInto, temporaryFolder } from '../../tests/support/servers.js'
import { THOROUGH } from '../../tests/support/thorough.js'
import { openLmdb, UpdatableDatabase } from '../dist/index.js'
import { createIn, queryAt, temporaryDirectory } from './helpers.js'
import { storeServer } from './spawned.js'
import { batchOn } from './updatable-helpers.js'

const child = fileURLToPath(new URL('children/publish-and-die.mjs', import.meta.url))

/** A store at some epoch, the body of a batch for the next one, and what that makes. */
interface Case {
  readonly store: string
  readonly body: Uint8Array<ArrayBuffer>
  readonly old: string
  readonly made: string
}

async function prepare(dir: string, epochs: number, last?: object): Promise<Case> {
  const content = `key,value\n${Array.from({ length: 2000 }, (_, i) => `key ${i},value ${i}\n`).join('')}`
  const store = join(dir, 'store')
  await (await createIn(await openLmdb(store), await buildInto(dir, { format: 'csv', content }))).close()
  const updatable = await UpdatableDatabase.open(await openLmdb(store))
  const batch = (from: number, deletes: boolean) => {
    const { epoch } = updatable.newest.manifest
    const operations = Array.from({ length: 300 }, (_, i) => {
      const key = `key ${from + i}`
      return deletes && i % 3 === 0 ? { op: 'delete', key } : { op: 'edit', key, value: `new ${epoch}` }
    })
    return batchOn(updatable, operations)
  }
  for (let epoch = 2; epoch <= epochs; epoch++) await updatable.publish(batch(epoch === 2 ? 0 : 500, epoch === 2))
  const old = updatable.newest.manifestHash
  const body = last === undefined ? batch(1000, true) : batchOn(updatable, [last])
  await updatable.close()
  const copy = join(dir, 'copy')
  cpSync(store, copy, { recursive: true })
  const reference = await UpdatableDatabase.open(await openLmdb(copy))
  const { manifest: made } = await reference.publish(body)
  await reference.close()
  return { store, body, old, made }
}

/** One case for the tests of a group. */
function preparedOnce(...of: [epochs: number, last?: object]): () => Case {
  let prepared: Case
  beforeAll(async () => {
    const folder = await temporaryFolder()
    prepared = await prepare(folder.path, ...of)
    return folder.remove
  })
  return () => prepared
}

/** Opens what was left, which checks every digest; says which epoch it holds, and publishes the batch again. */
async function afterwards({ body, old, made }: Case, store: string): Promise<'old' | 'new'> {
  const updatable = await UpdatableDatabase.open(await openLmdb(store))
  try {
    const found = updatable.newest.manifestHash
    expect([old, made]).toContain(found)
    expect(updatable.list().length).toBe(2)
    expect((await updatable.publish(body)).manifest).toBe(made)
    expect(updatable.newest.manifestHash).toBe(made)
    return found === old ? 'old' : 'new'
  } finally {
    await updatable.close()
  }
}

/** Publishes in a process that dies at `point`; resolves to what it left. */
async function dieAt(prepared: Case, point: string, transaction = 1): Promise<'old' | 'new'> {
  const store = await temporaryDirectory()
  cpSync(prepared.store, store, { recursive: true })
  const body = join(await temporaryDirectory(), 'batch')
  await writeFile(body, prepared.body)
  const dying = spawn(process.execPath, [child, store, body, point, `${transaction}`], {
    stdio: ['ignore', 'ignore', 'inherit'],
  })
  const [, signal] = (await once(dying, 'exit')) as [number | null, string | null]
  expect(signal).toBe('SIGKILL')
  return afterwards(prepared, store)
}

describe('a process that is killed while it publishes leaves the old epoch or the new one', () => {
  const prepared = preparedOnce(2)

  test.each([
    ['before the transaction', 'old'],
    ['as it begins', 'old'],
    ['before its writes', 'old'],
    ['after its writes', undefined],
    ['while it commits', undefined],
    ...(THOROUGH ? [0, 1, 2, 3, 5, 8] : [0, 2, 5]).map(ms => [`after ${ms} ms`, undefined] as const),
    ['once it is done', 'new'],
    ['before its epoch is told', 'new'],
  ] as const)('%s', async (point, expected) => {
    const found = await dieAt(prepared(), point)
    if (expected !== undefined) expect(found).toBe(expected)
  })
})

// After 64 epochs chunks are written: the batch's own transaction is the first, chunks follow, and at last the base.
describe('a process that is killed while it writes the chunks that are behind loses nothing', () => {
  const prepared = preparedOnce(65)

  const points = ['before its writes', 'after its writes', 'while it commits', 'once it is done']
  test.each([2, 3].flatMap(transaction => points.map(point => [point, transaction] as const)))(
    '%s of transaction %i',
    async (point, transaction) => {
      expect(await dieAt(prepared(), point, transaction)).toBe('new')
    },
  )
})

// Chunks that are behind come first, then the new base, the new generation's mark and its chunks, and its epoch last.
describe('a process that is killed while it begins a generation leaves the old one or the new one', () => {
  const prepared = preparedOnce(3, { op: 'generation', headroom: 500 })

  // Between two transactions it is killed once in `npm test`, of the last at every moment.
  test.each([1, 2, 3, 4, 5])('in transaction %i', async transaction => {
    const isLast = transaction === 5
    const moments = ['before its writes', 'while it commits', 'once it is done'] as const
    for (const [n, moment] of moments.entries()) {
      if (!THOROUGH && !isLast && n !== transaction % 3) continue
      const left = await dieAt(prepared(), moment, transaction)
      if (!isLast || n === 0) expect(left).toBe('old')
      if (isLast && n === 2) expect(left).toBe('new')
    }
  })
})

// The limit on a file's size is what a full disk is to LMDB, and can be lifted again.
test('a server with a full disk still answers, reports it, and takes batches when there is room', async () => {
  const dir = await temporaryDirectory()
  const { store, body } = await prepare(dir, 2)
  const server = await storeServer(store)
  const limit = (bytes: number | 'unlimited') =>
    execFileSync('prlimit', ['--pid', `${server.pid}`, `--fsize=${bytes}:unlimited`])

  const manifest = decodeManifest(new Uint8Array(await (await server.ask('/v1/manifest')).arrayBuffer()))
  limit(statSync(join(store, 'data.mdb')).size)
  const failed: unknown[] = []
  for (let burst = 0; burst < 20 && failed.length < 100; burst++) {
    const register = (_: unknown, i: number) => server.fence(manifest, 'register', 40 * burst + i)
    const outcomes = await Promise.all(Array.from({ length: 40 }, register))
    failed.push(...outcomes.filter(outcome => outcome !== 'granted'))
  }
  expect(failed.length).toBeGreaterThanOrEqual(100)
  for (const outcome of failed) expect(outcome).toEqual([503, 'not_ready'])
  for (let i = 0; i < 2; i++) expect(await server.publish(body)).toEqual([503, 'not_ready'])
  const ready = await server.ask('/readyz')
  expect([ready.status, await ready.json()]).toEqual([
    200,
    { status: 'ready', problems: ['the store cannot be written'] },
  ])
  const answer = await server.ask('/v1/answer', { method: 'POST', body: queryAt(manifest, 0) })
  expect(answer.status).toBe(200)
  expect(server.log()).toContain('StorageError E')
  expect(server.log()).not.toContain('lmdb/write.js') // the binding's own lines

  limit('unlimited')
  expect(await server.publish(body)).toBe('published')
  expect(await (await server.ask('/readyz')).json()).toEqual({ status: 'ready' })
  expect(await server.fence(manifest, 'register', 5000)).toBe('granted')
  await server.stop()
})
