// A new generation of a sharded database: shards that were built on the head take the place of those before.

import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { open } from '@keyhush/client'
import { toHex } from '@keyhush/protocol'
import { loadCore } from '@keyhush/wasm'
import { ed25519 } from '@noble/curves/ed25519.js'
import { expect, onTestFinished, test } from 'vitest'
import { PUBLISHER } from '../../tests/support/publishing.js'
import { usePostgres } from '../../tests/support/use-postgres.js'
import { buildDataset, MemoryStorage, openPostgres, PublisherRecord, publish, type Storage } from '../dist/index.js'
import { ShardedDatabase } from '../dist/sharded/database.js'
import { Fabric } from '../dist/sharded/fabric.js'
import { temporaryDirectory } from './helpers.js'
import { coordinatorOf, LIST, requestFor, SHARDS, type Shards, shardFolders, shardsFrom } from './sharded-helpers.js'
import { batchOn } from './updatable-helpers.js'

const { store: storeUrl } = usePostgres()
const KEY = ed25519.keygen(new Uint8Array(32).fill(4))
const NEXT = 8
const MORE = new Map([...LIST, ...Array.from({ length: 400 }, (_, i): [string, string] => [`more ${i}`, 'added'])])
const options = { key: KEY, publisherKeys: [PUBLISHER.publicKey] }
const edit = (key: string, value: string) => ({ op: 'edit', key, value })
const generation = (shards: string | undefined) => ({ op: 'generation', shards })

class Kept extends MemoryStorage {
  override async close(): Promise<void> {}
}

const setOf = (folders: readonly string[]) => shardsFrom(folders, KEY.publicKey)

function fabricOf({ template, databases }: Shards, flag: Fabric['flag'] = '--next'): Fabric {
  const fabric = new Fabric(databases.length, [template], flag)
  onTestFinished(() => fabric.close())
  return fabric
}

/** What a batch names: the hash of the list of a set's shards. */
async function namedBy({ databases }: Shards): Promise<string> {
  const { blake3 } = await loadCore()
  return toHex(blake3(Buffer.concat(databases.map(({ newest }) => blake3(newest.manifestBytes)))))
}

/** A coordinator with shards, and those of the next generation that were built on its head. */
async function grown(more: Partial<{ storage: Storage; list: ReadonlyMap<string, string> }> = {}) {
  const [shards, storage] = [await setOf(await shardFolders()), more.storage ?? new Kept()]
  const first = await coordinatorOf([shards.template], { ...options, storage })
  await first.sharded.publish(batchOn(first.sharded, [edit('key 1', 'first')]))
  await expect.poll(() => first.sharded.newest.manifest.epoch).toBe(2)
  const { manifestBytes } = first.sharded.newest
  const next = await setOf(await shardFolders(more.list ?? MORE, NEXT, manifestBytes, 8000))
  await first.sharded.close()
  const restart = (changed: object = {}) =>
    coordinatorOf([shards.template], { ...options, storage, next: fabricOf(next), ...changed })
  return { shards, storage, next, restart, named: await namedBy(next) }
}

test('clients that are open find what was and what is new, at operators that move one after the other, with other numbers of shards', async () => {
  const folders = await shardFolders()
  const storages = [new Kept(), new Kept()]
  const sets = [await setOf(folders), await setOf(folders)]
  let operators = await Promise.all(
    sets.map(({ template }, i) => coordinatorOf([template], { ...options, storage: storages[i]! })),
  )
  const record = new PublisherRecord()
  const trustBase = operators[0]!.sharded.newest.manifestHash
  const run = (operation: object, again = false) =>
    publish({
      ...{ servers: operators.map(({ url }) => url), key: PUBLISHER, record, trustBase, again },
      operations: Buffer.from(`${JSON.stringify(operation)}\n`),
    })
  await run(edit('key 1', 'first'))
  const list = new Map([...MORE, ['key 1', 'first']])
  const next = await shardFolders(list, NEXT, operators[0]!.sharded.newest.manifestBytes, 8000)
  const nextSets = [await setOf(next), await setOf(next)]
  for (const { sharded } of operators) await sharded.close()
  operators = await Promise.all(
    sets.map(({ template }, i) =>
      coordinatorOf([template], { ...options, storage: storages[i]!, next: fabricOf(nextSets[i]!) }),
    ),
  )
  const servers = operators.map(({ url }) => url) as [string, string]
  const publisherKey = toHex(PUBLISHER.publicKey)
  const mapOf = async (more: object) => {
    const map = await open({ servers, mode: 'instant', development: true, ...more })
    onTestFinished(() => map.close())
    expect(await map.getManyText(['key 1', 'key 2', 'more 7'])).toEqual(['first', '00002', undefined])
    return map
  }
  const maps = [await mapOf({}), await mapOf({ publisherKey }), await mapOf({ push: true, publisherKey })]
  const named = await namedBy(nextSets[0]!)
  // A batch that names none is refused, and the refusal has what it is to say.
  await expect(run(generation(undefined))).rejects.toThrow(`{"op":"generation","shards":"${named}"}`)
  // The second operator's shards are away at first.
  const old = operators[0]!.sharded.newest.manifest
  let isAway = true
  nextSets[1]!.proxy.lie = (_shard, _path, reply) => (isAway ? { status: 503, body: Buffer.from('away') } : reply)
  await expect(run(generation(named))).rejects.toMatchObject({ exit: 3 })
  expect(operators.map(({ sharded }) => sharded.newest.manifest.epoch)).toEqual([2, 2])
  expect(operators[1]!.sharded.publishing!.problem).toMatch(/^--next: expected its shards to make epoch 3, got: /)
  isAway = false
  await expect.poll(() => operators[1]!.sharded.publishing!.problem).toBeUndefined()
  expect(await run(generation(named))).toMatchObject({ generation: 2, epoch: 3, changes: 0, began: false })
  const [a, b] = operators.map(({ sharded }) => sharded)
  expect(a!.newest.manifestBytes).toEqual(b!.newest.manifestBytes)
  expect(a!.newest.manifest).toMatchObject({ generation: 2, epoch: 3, shards: NEXT, databaseId: old.databaseId })
  // Those that are told move at once. The others stay at the epoch before, which is answered until the next one.
  await expect.poll(() => maps[2]!.getText('more 7')).toBe('added')
  expect(await maps[0]!.getManyText(['key 1', 'more 7'])).toEqual(['first', undefined])
  const { payload } = await requestFor(old, 1)
  const ask = ({ app }: (typeof operators)[0]) => app.inject({ method: 'POST', url: '/v1/instant', payload })
  for (const each of operators) expect((await ask(each)).statusCode).toBe(200)
  await run(edit('more 7', 'third'))
  for (const map of maps) await expect.poll(() => map.getText('more 7')).toBe('third')
  for (const each of operators) expect((await ask(each)).json()).toMatchObject({ code: 'epoch_unknown', epoch: 4 })
  const ready = async ({ app }: (typeof operators)[0]) => (await app.inject('/readyz')).json()
  for (const each of operators) await expect.poll(() => ready(each)).toEqual({ status: 'ready' })
})

test('a shard is built on the whole’s manifest, and has an id of its own; others are refused', async () => {
  const folders = await shardFolders()
  const { sharded } = await coordinatorOf([(await setOf(folders)).template], options)
  const { manifestBytes: head, manifest: whole } = sharded.newest
  const next = (await setOf(await shardFolders(LIST, SHARDS, head))).databases.map(({ newest }) => newest.manifest)
  const { blake3 } = await loadCore()
  for (const manifest of next)
    expect(manifest).toMatchObject({ generation: 2, epoch: 2, updateListBytes: 0, previousManifest: blake3(head) })
  const ids = [whole, ...next].map(({ databaseId }) => toHex(databaseId))
  expect(new Set(ids).size).toBe(1 + SHARDS)
  const ofShard = await readFile(join(folders[0]!, 'manifest.bin'))
  await expect(shardFolders(LIST, SHARDS, ofShard)).rejects.toThrow(
    '--succeeds: expected a manifest of a coordinator, got one of one server',
  )
  const file = join(await temporaryDirectory(), 'head.bin')
  await writeFile(file, head)
  const data = join(folders[0]!, '../0.csv')
  await expect(buildDataset({ data, succeeds: file, out: `${file}.d` })).rejects.toThrow(
    '--succeeds: expected a manifest of one server, got one of a coordinator',
  )
})

test.each<[string, (of: Awaited<ReturnType<typeof grown>>) => Promise<[object, object]>, RegExp]>([
  [
    'without --next',
    async ({ named }) => [{ next: undefined }, generation(named)],
    /^line 1: expected shards of the next generation, got none; restart the coordinator with --next$/,
  ],
  [
    'with another list than the batch names',
    async () => [{}, generation('ab'.repeat(32))],
    /^line 1: expected {"op":"generation","shards":"[0-9a-f]{64}"}, as --next has here, got another; /,
  ],
  [
    'with a member that belongs to other databases',
    async () => [{}, { op: 'generation', headroom: 5 }],
    /^line 1: the member "headroom" does not belong to generation in a sharded database/,
  ],
  [
    'with shards of the first generation',
    async () => {
      const next = await setOf(await shardFolders())
      return [{ next: fabricOf(next) }, generation(await namedBy(next))]
    },
    /^line 1: shard \d of --next: expected generation 2 from epoch 3, got generation 1 at epoch 1; build it with /,
  ],
  [
    'with shards on another manifest',
    async ({ shards }) => {
      const other = await coordinatorOf([(await setOf(await shardFolders())).template], options)
      await other.sharded.publish(batchOn(other.sharded, [edit('key 2', 'other')]))
      const next = await setOf(await shardFolders(LIST, SHARDS, other.sharded.newest.manifestBytes))
      expect(shards.databases).toHaveLength(SHARDS)
      return [{ next: fabricOf(next) }, generation(await namedBy(next))]
    },
    /^line 1: shard \d of --next: expected the manifest of epoch 2 here before its own, got another; build it with /,
  ],
])('a generation %s is refused, and nothing changes', async (_, of, words) => {
  const all = await grown()
  const [changed, operation] = await of(all)
  const { sharded } = await all.restart(changed)
  const body = batchOn(sharded, [operation])
  await expect(sharded.check(body)).rejects.toMatchObject({
    code: 'batch_refused',
    message: expect.stringMatching(words),
  })
  await expect(sharded.publish(body)).rejects.toMatchObject({ code: 'batch_refused' })
  expect(sharded.newest.manifest).toMatchObject({ generation: 1, epoch: 2 })
  // Publishing goes on.
  expect(await sharded.publish(batchOn(sharded, [edit('key 1', 'again')]))).toMatchObject({ generation: 1, epoch: 3 })
  await expect(sharded.check(batchOn(sharded, [generation(all.named)]))).rejects.toMatchObject({
    code: 'batch_refused',
  })
})

test('a coordinator finishes by itself a generation that it has begun, whatever ended it', async () => {
  const { restart, next, named } = await grown()
  const first = await restart()
  // After the check a shard of the next generation is away.
  let asked = 0
  next.proxy.lie = (shard, _path, reply) =>
    shard === 5 && ++asked > 1 ? { status: 503, body: Buffer.from('away') } : reply
  const body = batchOn(first.sharded, [generation(named)])
  const pending = first.sharded.publish(body).catch((error: Error) => error.message)
  await expect
    .poll(() => first.sharded.publishing!.problem)
    .toMatch(/^--next: expected its shards to make epoch 3, got: /)
  const other = batchOn(first.sharded, [edit('key 1', 'other')])
  await expect(first.sharded.publish(other)).rejects.toMatchObject({ code: 'batch_conflict' })
  await first.sharded.close()
  expect(await pending).toContain('this server stops')
  // Without --next it cannot, and says so.
  const forgetful = await restart({ next: undefined })
  await expect.poll(() => forgetful.sharded.publishing!.problem).toContain('restart the coordinator with --next')
  expect(forgetful.sharded.newest.manifest.epoch).toBe(2)
  await forgetful.sharded.close()
  next.proxy.lie = (_shard, _path, reply) => reply
  const second = await restart()
  await expect.poll(() => second.sharded.newest.manifest).toMatchObject({ generation: 2, epoch: 3 })
  expect(await second.sharded.publish(body)).toMatchObject({ generation: 2, epoch: 3, changes: 0 })
  expect(second.sharded.publishing!.problem).toBeUndefined()
})

test('after it, a coordinator starts with both sets or with the new one, and says what to do with others', async () => {
  const { restart, storage, shards, next, named } = await grown()
  const moved = await restart()
  const before = moved.sharded.newest.manifest
  // Its expiry is the batch's, whatever the shards were built with.
  await moved.sharded.publish(batchOn(moved.sharded, [generation(named)], { expires: 4_000_000_000 }))
  expect(moved.sharded.newest.manifest.expires).toBe(4_000_000_000)
  const { manifestHash } = moved.sharded.newest
  await moved.sharded.close()
  const answers = (sharded: ShardedDatabase) => sharded.list().map(({ epoch }) => epoch)
  const ask = async ({ app }: typeof moved) =>
    app.inject({ method: 'POST', url: '/v1/instant', payload: (await requestFor(before, 1)).payload })
  const both = await restart()
  expect([both.sharded.newest.manifestHash, answers(both.sharded)]).toEqual([manifestHash, [2, 3]])
  expect((await ask(both)).statusCode).toBe(200)
  await both.sharded.close()
  const alone = { storage, ...options, shards: NEXT }
  const without = await coordinatorOf([next.template], alone)
  expect([without.sharded.newest.manifestHash, answers(without.sharded)]).toEqual([manifestHash, [3]])
  expect(await without.sharded.publish(batchOn(without.sharded, [edit('more 7', 'third')]))).toMatchObject({ epoch: 4 })
  await without.sharded.close()
  await expect(restart({ next: undefined })).rejects.toThrow(
    '--shards: expected shards of generation 2, got generation 1; give those that --next named',
  )
  const again = await restart()
  expect(answers(again.sharded)).toEqual([3, 4])
  // Those of the first generation may be stopped: they are not asked.
  shards.proxy.lie = (_shard, _path, _reply, response) => void response.destroy()
  expect((await again.app.inject('/readyz')).json()).toEqual({ status: 'ready' })
  expect(again.sharded.problem).toBeUndefined()
})

test('shards that are put in place before a batch begins their generation are refused', async () => {
  const { storage, next } = await grown()
  await expect(coordinatorOf([next.template], { storage, ...options, shards: NEXT })).rejects.toThrow(
    '--shards: expected shards of generation 1, got generation 2; give these as --next, and those of generation 1 as --shards',
  )
})

test('all coordinators of an operator move together', async () => {
  const url = storeUrl()
  const { shards, next, named } = await grown({ storage: await openPostgres(url, { role: 'writer' }) })
  const joined = async (replica: boolean) => {
    const storage = await openPostgres(url, { role: replica ? 'replica' : 'writer' })
    const more = { key: replica ? undefined : KEY, replica, next: fabricOf(next) }
    const sharded = await ShardedDatabase.open(storage, fabricOf(shards, '--shards'), more)
    onTestFinished(() => sharded.close())
    return sharded
  }
  const [writer, replica] = [await joined(false), await joined(true)]
  await writer.publish(batchOn(writer, [generation(named)]))
  await expect.poll(() => replica.list()).toEqual(writer.list())
  await expect.poll(() => [replica, writer].map(({ newest }) => newest.manifest.generation)).toEqual([2, 2])
  expect(replica.newest.manifestBytes).toEqual(writer.newest.manifestBytes)
  expect(replica.fabric.shards).toBe(NEXT)
})
