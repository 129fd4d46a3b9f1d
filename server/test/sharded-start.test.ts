// How a coordinator starts: of its shards it makes the manifest anew, and compares it with what it has stored.

import { decodeManifest, encodeManifest } from '@keyhush/protocol'
import { expect, onTestFinished, test, vi } from 'vitest'
import { MemoryStorage } from '../dist/index.js'
import { ShardedDatabase, shardsAt } from '../dist/sharded/database.js'
import { Fabric } from '../dist/sharded/fabric.js'
import { advance, SHARDS, type Shards, shardFolders, shardsFrom } from './sharded-helpers.js'

/** A storage that stays open. */
class Kept extends MemoryStorage {
  override async close(): Promise<void> {}
}

async function opened(template: string, storage: MemoryStorage, shards = SHARDS): Promise<ShardedDatabase> {
  const fabric = new Fabric(shards, [template])
  onTestFinished(() => fabric.close())
  const sharded = await ShardedDatabase.open(storage, fabric)
  onTestFinished(() => sharded.close())
  return sharded
}

/** Has the manifest of a shard say something else, in what this proxy passes on. */
function changing(shards: Shards, shard: number, change: object, only = (_path: string) => true): void {
  shards.proxy.lie = (of, path, reply) => {
    if (of !== shard || !path.includes('/v1/manifest') || !only(path)) return reply
    return { ...reply, body: Buffer.from(encodeManifest({ ...decodeManifest(reply.body), ...change })) }
  }
}

test('it goes on where it was: with the same head, the epoch before, history and signatures', async () => {
  const shards = await shardsFrom(await shardFolders())
  const storage = new Kept()
  const first = await opened(shards.template, storage)
  for (let i = 0; i < 3; i++) await advance(shards, first)
  const [list, since, hash] = [first.list(), await first.since(1), first.newest.manifestHash]
  expect(list.map(({ epoch }) => epoch)).toEqual([3, 4])
  await first.close()
  const again = await opened(shards.template, storage)
  expect([again.list(), await again.since(1), again.newest.manifestHash]).toEqual([list, since, hash])
  expect(again.status(4)).toMatchObject({ epoch: 4, batch: 'ab'.repeat(32) })
  expect(again.newest.list.length).toBe(32 * SHARDS)
  // Nothing of the records is stored, and of the shard lists no more than history needs.
  for (const kind of ['chunk/', 'generation/']) expect(await storage.count(kind)).toBe(0)
})

test.each<[string, object, RegExp]>([
  ['other records', { commitments: new Uint8Array(64).fill(7) }, /shard 2: expected the manifest of epoch 1 that/],
  ['another id', { databaseId: new Uint8Array(16).fill(7) }, /shard 2: expected the manifest of epoch 1 that/],
  ['another shape', { directorySeed: new Uint8Array(16).fill(7) }, /shard 2: expected the manifest of epoch 1 that/],
])('%s in a shard: it answers nothing, and names the shard', async (_, change, words) => {
  const shards = await shardsFrom(await shardFolders())
  const storage = new Kept()
  await (await opened(shards.template, storage)).close()
  const { partitions } = shards.databases[0]!.newest.manifest
  const whole = 'commitments' in change ? { commitments: new Uint8Array(32 * partitions).fill(7) } : change
  changing(shards, 2, whole)
  await expect(opened(shards.template, storage)).rejects.toThrow(words)
})

test('shards that are exchanged or of another number are refused', async () => {
  const folders = await shardFolders()
  const shards = await shardsFrom(folders)
  const storage = new Kept()
  await (await opened(shards.template, storage)).close()
  const [first, second, ...others] = folders as [string, string, ...string[]]
  const exchanged = await shardsFrom([second, first, ...others])
  await expect(opened(exchanged.template, storage)).rejects.toThrow(/^shard 0: expected the manifest of epoch 1/)
  await expect(opened(shards.template, storage, 2)).rejects.toThrow(/expected a database of 2 shards, got one of 4/)
})

test('at first, shards that do not fit together are refused, and nothing is stored', async () => {
  const shards = await shardsFrom(await shardFolders())
  for (const [change, words] of [
    [{ directorySeed: new Uint8Array(16).fill(7) }, /^shard 3: expected the directorySeed of shard 0/],
    [{ expires: 9 }, /^shard 3: expected the expires of shard 0, 0, got 9/],
    [{ valueBytes: 6, recordBytes: 22 }, /^shard 3: expected the recordBytes of shard 0/],
  ] as const) {
    changing(shards, 3, change)
    const storage = new MemoryStorage()
    await expect(opened(shards.template, storage)).rejects.toThrow(words)
    expect(await storage.count('')).toBe(0)
  }
})

test('it starts before shards that have the next epoch and have forgotten the one before its own', async () => {
  const shards = await shardsFrom(await shardFolders())
  const storage = new Kept()
  const first = await opened(shards.template, storage)
  await advance(shards, first)
  await first.close()
  const unknown = { code: 'epoch_unknown', message: 'another', generation: 1, epoch: 3 }
  shards.proxy.lie = (_shard, path, reply) =>
    path.endsWith('epoch=1') ? { status: 404, body: Buffer.from(JSON.stringify(unknown)) } : reply
  const again = await opened(shards.template, storage)
  expect(again.list().map(({ epoch }) => epoch)).toEqual([2])
  expect(again.find(1, 1)).toBeUndefined()
  expect(again.fabric.problem).toBeUndefined()
})

test('it waits for shards that start with it', async () => {
  const shards = await shardsFrom(await shardFolders())
  let away = 5
  shards.proxy.lie = (shard, _path, reply) =>
    shard === 1 && away-- > 0 ? { status: 503, body: Buffer.from('starting') } : reply
  expect((await opened(shards.template, new MemoryStorage())).newest.manifest.shards).toBe(SHARDS)
  expect(away).toBeLessThanOrEqual(0)
})

test('after a minute it says what to do about a shard that is behind', async () => {
  const shards = await shardsFrom(await shardFolders())
  const storage = new Kept()
  await (await opened(shards.template, storage)).close()
  const body = Buffer.from(JSON.stringify({ code: 'epoch_unknown', message: 'another', generation: 1, epoch: 0 }))
  const clock = vi.spyOn(performance, 'now')
  onTestFinished(() => clock.mockRestore())
  shards.proxy.lie = (shard, _path, reply) => {
    if (shard !== 1) return reply
    clock.mockReturnValue(1e9)
    return { status: 404, body }
  }
  await expect(opened(shards.template, storage)).rejects.toThrow(
    /^--shards: expected all shards to answer within a minute, got: shard 1 at .*; start it, or .* give --catch-up the/,
  )
})

test('a shard that answers with another epoch than it was asked for is as one that does not answer', async () => {
  const shards = await shardsFrom(await shardFolders())
  const sharded = await opened(shards.template, new MemoryStorage())
  await advance(shards, sharded)
  const old = Buffer.from((await shards.databases[1]!.manifestOf(1, 1))!)
  shards.proxy.lie = (shard, path, reply) =>
    shard === 1 && path.includes('epoch=2') ? { status: 200, body: old } : reply
  const asked = shardsAt(sharded.fabric, { generation: 1, epoch: 2 }, () => false)
  await expect(asked).rejects.toMatchObject({ code: 'not_ready' })
  expect(sharded.fabric.problem).toMatch(/^shard 1 at .*: expected the manifest of epoch 2, got another/)
})
