// Publishing to a sharded database, with real shards: whole or not at all, and what a coordinator does that was interrupted.

import { buffer } from 'node:stream/consumers'
import { open } from '@keyhush/client'
import { decodeManifest, toHex } from '@keyhush/protocol'
import { loadCore } from '@keyhush/wasm'
import { ed25519 } from '@noble/curves/ed25519.js'
import { expect, onTestFinished, test } from 'vitest'
import { PUBLISHER } from '../../tests/support/publishing.js'
import { MemoryStorage, PublisherRecord, publish } from '../dist/index.js'
import { TIMEOUT_MILLISECONDS } from '../dist/publisher/server.js'
import { Fabric } from '../dist/sharded/fabric.js'
import { catchUp, sendPart } from '../dist/sharded/parts.js'
import { coordinatorOf, LIST, SHARDS, shardFolders, shardsFrom } from './sharded-helpers.js'
import { batchOn } from './updatable-helpers.js'

const SHARD_KEY = ed25519.keygen(new Uint8Array(32).fill(4))
const KEYS = [...LIST.keys()]
const options = { key: SHARD_KEY, publisherKeys: [PUBLISHER.publicKey] }

class Kept extends MemoryStorage {
  override async close(): Promise<void> {}
}

async function operator(folders: readonly string[], more = {}) {
  const shards = await shardsFrom(folders, SHARD_KEY.publicKey)
  return { shards, ...(await coordinatorOf([shards.template], { storage: new Kept(), ...options, ...more })) }
}

type Operator = Awaited<ReturnType<typeof operator>>

const edit = (key: string, value = 'xxxxx') => ({ op: 'edit', key, value })
const add = (key: string) => ({ op: 'add', key, value: 'added' })
const epochsOf = ({ shards }: Operator) => shards.databases.map(({ newest }) => newest.manifest.epoch)
const all = (epoch: number) => Array(SHARDS).fill(epoch)

/** Which shard has each key. */
async function placesOf({ sharded }: Operator, keys: readonly string[]): Promise<Uint8Array> {
  const core = await loadCore()
  const prints = Buffer.concat(keys.map(key => core.fingerprint(Buffer.from(key))))
  return core.shardsOf(prints, sharded.newest.manifest.directorySeed, SHARDS)
}

/** Another coordinator of the same shards, with the same store. */
async function restarted({ shards, storage, sharded }: Operator, more = {}): Promise<Operator> {
  await sharded.close()
  return { shards, ...(await coordinatorOf([shards.template], { storage, ...options, ...more })) }
}

test('operators get a batch as one database would: one manifest, every change is found, and all shards have the epoch', async () => {
  const folders = await shardFolders()
  const operators = [await operator(folders), await operator(folders)]
  const servers = operators.map(({ url }) => url)
  const [{ sharded }] = operators as [Operator]
  const record = new PublisherRecord()
  const lines = [edit('key 1', 'first'), add('new key'), { op: 'delete', key: 'key 2' }, edit('key 3', 'third')]
  const run = (operations: readonly object[], expires = 0) => {
    const text = operations.map(line => `${JSON.stringify(line)}\n`).join('')
    const trustBase = sharded.newest.manifestHash
    return publish({ servers, key: PUBLISHER, record, trustBase, operations: Buffer.from(text), expires })
  }
  expect(await run(lines)).toMatchObject({ epoch: 2, changes: 4, repeated: false, began: false })
  expect(await run(lines)).toMatchObject({ epoch: 2, repeated: true })
  expect(await run([{ op: 'renew' }], 4_000_000_000)).toMatchObject({ epoch: 3, changes: 0 })
  for (const each of operators) {
    expect([epochsOf(each), each.sharded.newest.manifest.expires]).toEqual([all(3), 4_000_000_000])
    expect(each.sharded.newest.manifestBytes).toEqual(sharded.newest.manifestBytes)
    expect(each.sharded.signed.list().map(({ epoch }) => epoch)).toEqual([2, 3])
    expect((await each.app.inject('/readyz')).json()).toEqual({ status: 'ready' })
  }
  const { publicKey } = PUBLISHER
  const trusted = { servers: servers as [string, string], publisherKey: toHex(publicKey), development: true }
  const map = await open({ ...trusted, mode: 'instant', push: false })
  onTestFinished(() => map.close())
  const values = await map.getManyText(['key 1', 'new key', 'key 2', 'key 3', 'key 4'])
  expect(values).toEqual(['first', 'added', undefined, 'third', '00004'])
})

test('a batch that one shard refuses changes none, and the refusal names the lowest line of the whole batch', async () => {
  const each = await operator(await shardFolders())
  const { sharded } = each
  const places = await placesOf(each, KEYS)
  const of = (shard: number) => KEYS.filter((_, i) => places[i] === shard)
  const good = [0, 1, 2, 3].map(shard => edit(of(shard)[0]!))
  const refusal = (operations: readonly object[]) =>
    Promise.all([
      sharded.check(batchOn(sharded, operations)).catch(({ reply }) => reply),
      sharded.publish(batchOn(sharded, operations)).catch(({ reply }) => reply),
    ])
  for (const shard of [0, 3]) {
    const wrong = [...good, edit(of(shard)[1]!), add(of(3 - shard)[2]!), add(of(shard)[3]!)]
    const [checked, published] = await refusal(wrong)
    expect(checked).toMatchObject({ code: 'batch_refused', line: 6, message: expect.stringMatching(/^line 6: /) })
    expect(published).toEqual(checked)
  }
  const [full] = await refusal(Array.from({ length: 9000 }, (_, i) => add(`more ${i}`)))
  expect(full).toMatchObject({
    code: 'batch_refused',
    message: expect.stringMatching(/^line \d+: the shard of this key is full; leave/),
  })
  const [hex] = await refusal([edit('key 1', '0a0b0c0d0e')])
  expect(hex.message).toMatch(
    /got 10; if it is hex, give --value-encoding hex; otherwise for values of other lengths begin/,
  )
  const [generation] = await refusal([{ op: 'generation' }])
  expect(generation).toMatchObject({ code: 'batch_refused', line: 1 })
  expect([epochsOf(each), sharded.newest.manifest.epoch]).toEqual([all(1), 1])
  expect(await (each.storage as Kept).get('intent')).toBeUndefined()
  const right = batchOn(sharded, [...good, add('new')])
  expect(await sharded.check(right)).toMatchObject({ epoch: 2 })
  const made = await sharded.publish(right)
  expect(made).toMatchObject({ epoch: 2, changes: 5 })
  expect(await sharded.publish(right)).toEqual(made)
  await expect(sharded.publish(batchOn(sharded, good, { epoch: 2 }))).rejects.toMatchObject({
    code: 'batch_conflict',
  })
})

test('a coordinator finishes by itself what it has begun, whatever ended it, and takes no other batch for that epoch', async () => {
  const first = await operator(await shardFolders())
  const { sharded, shards } = first
  const [batch, other] = [batchOn(sharded, [edit('key 1')]), batchOn(sharded, [edit('key 2')])]
  // One shard does not take its part, until it is told to.
  let isAway = true
  shards.proxy.lie = (shard, path, reply, response) => {
    if (shard !== 2 || !path.includes('/v1/epochs') || !isAway) return reply
    response.destroy()
    return undefined
  }
  const pending = sharded.publish(batch).catch((error: Error) => error.message)
  await expect.poll(() => sharded.publishing!.problem).toContain('shard 2: expected it to take its part of epoch 2')
  expect((await first.app.inject('/readyz')).json()).toMatchObject({
    problems: expect.arrayContaining(['a shard takes no batches']),
  })
  await expect(sharded.publish(other)).rejects.toMatchObject({ code: 'batch_conflict' })
  await expect(sharded.check(other)).rejects.toMatchObject({ code: 'batch_conflict' })
  expect(await sharded.check(batch)).toMatchObject({ epoch: 2 })
  expect(sharded.newest.manifest.epoch).toBe(1)
  const second = await restarted(first)
  expect(await pending).toContain('this server stops')
  await expect.poll(() => second.sharded.publishing!.problem).toContain('shard 2')
  expect(second.sharded.newest.manifest.epoch).toBe(1)
  await expect(second.sharded.publish(other)).rejects.toMatchObject({ code: 'batch_conflict' })
  isAway = false
  await expect.poll(() => second.sharded.newest.manifest.epoch, { timeout: 20_000 }).toBe(2)
  expect([epochsOf(second), second.sharded.publishing!.problem]).toEqual([all(2), undefined])
  expect(await second.sharded.publish(batch)).toMatchObject({ epoch: 2, changes: 1 })
})

test('a shard with another batch is named, and nothing is begun', async () => {
  const each = await operator(await shardFolders())
  const { sharded, shards } = each
  const [, second] = shards.databases
  const places = await placesOf(each, KEYS)
  await second!.publish(batchOn(second!, [edit(KEYS.find((_, i) => places[i] === 1)!, 'rival')]))
  await expect(sharded.publish(batchOn(sharded, [edit('key 1')]))).rejects.toMatchObject({ code: 'not_ready' })
  expect(sharded.publishing!.problem).toMatch(/^shard 1: .*; if this lasts, build it anew and restart .* --catch-up$/)
  expect(epochsOf(each)).toEqual([1, 2, 1, 1])
  expect(await (each.storage as Kept).get('intent')).toBeUndefined()
})

test('shards that were built anew or put back get what they lack from the publisher’s batches', async () => {
  const folders = await shardFolders()
  const first = await operator(folders)
  const bodies: Uint8Array<ArrayBuffer>[] = []
  for (let i = 0; i < 3; i++) {
    const body = batchOn(first.sharded, [edit(`key ${i}`), add(`new ${i}`)], { expires: i === 0 ? 0 : 4e9 })
    // A record also has batches that another run was faster than.
    bodies.push(body, batchOn(first.sharded, [edit(`key ${i}`, 'rival')]))
    await first.sharded.publish(body)
  }
  const { manifestHash } = first.sharded.newest
  await first.sharded.close()
  // Shard 1 is built anew, and shard 3 is put back by an epoch.
  const later = await shardsFrom(folders, SHARD_KEY.publicKey)
  for (const [shard, database] of later.databases.entries()) {
    const own = first.shards.databases[shard]!
    const most = [3, 0, 3, 2][shard]!
    for (let epoch = 2; epoch < 2 + most; epoch++) {
      const bytes = (await own.manifestOf(1, epoch))!
      const manifest = decodeManifest(bytes)
      const blob = (await own.findBlob(toHex(manifest.updateListHash)))!
      await database.take({ bytes, manifest }, await buffer(await blob.open(0, blob.bytes - 1)))
    }
  }
  expect(later.databases.map(({ newest }) => newest.manifest.epoch)).toEqual([4, 1, 4, 3])
  // Shard 2 starts with the coordinator.
  let away = 3
  later.proxy.lie = (shard, _path, reply) =>
    shard === 2 && away-- > 0 ? { status: 503, body: Buffer.from('starting') } : reply
  const again = await coordinatorOf([later.template], { storage: first.storage, ...options, batches: bodies.reverse() })
  expect(later.databases.map(({ newest }) => newest.manifest.epoch)).toEqual(all(4))
  expect(again.sharded.newest.manifestHash).toBe(manifestHash)
})

test('of two batches for an epoch of long ago none is taken: they would make a shard that differs', async () => {
  const folders = await shardFolders()
  const { sharded } = await operator(folders)
  const [body, rival] = [batchOn(sharded, [edit('key 1')]), batchOn(sharded, [edit('key 1', 'rival')])]
  const later = await shardsFrom(folders, SHARD_KEY.publicKey)
  const fabric = new Fabric(SHARDS, [later.template])
  onTestFinished(() => fabric.close())
  const shards = { core: await loadCore(), fabric, key: SHARD_KEY }
  const epochs = () => later.databases.map(({ newest }) => newest.manifest.epoch)
  const forgotten = async () => undefined
  await expect(catchUp(shards, [rival, body], forgotten)).rejects.toThrow(/the batch that made epoch 2, got two/)
  expect(epochs()).toEqual(all(1))
  await catchUp(shards, [body, body], forgotten)
  expect(epochs()).toEqual(all(2))
  // Nobody lacks it any more.
  await catchUp(shards, [rival, body], forgotten)
})

test('a shard that is frozen does not hold a check for as long as the publisher waits', async () => {
  const { sharded } = await operator(await shardFolders())
  const deadlines: unknown[] = []
  const ask = async (_shard: number, { deadline }: Parameters<Fabric['ask']>[1]) => {
    deadlines.push(deadline)
    return Buffer.from('{}')
  }
  const shards = { core: await loadCore(), fabric: { shards: SHARDS, ask }, key: SHARD_KEY }
  const body = batchOn(sharded, [edit('key 1')])
  for (const use of ['check', 'batch'] as const) await sendPart(shards, 0, body, use)
  expect(deadlines).toEqual([TIMEOUT_MILLISECONDS / 2, TIMEOUT_MILLISECONDS])
})

test('a store that was lost begins anew with the manifest of the other operator, if the shards make it', async () => {
  const folders = await shardFolders()
  const [one, other] = [await operator(folders), await operator(folders)]
  const publisher = { key: PUBLISHER, record: new PublisherRecord(), trustBase: one.sharded.newest.manifestHash }
  const run = ({ url }: Operator, value: string) => {
    const operations = Buffer.from(`${JSON.stringify(edit('key 1', value))}\n`)
    return publish({ ...publisher, servers: [one.url, url], operations })
  }
  for (const value of ['first', 'again']) await run(other, value)
  await other.sharded.close()
  const { manifestBytes } = one.sharded.newest
  const anew = (...batches: Uint8Array[]) => restarted(other, { storage: new Kept(), batches })
  const batch = batchOn(one.sharded, [edit('key 1', 'third')])
  const strangers = await operator(await shardFolders())
  for (const [files, words] of [
    [
      [batch],
      'expected one manifest with an empty store, got others; begin the store anew: give --catch-up the newest',
    ],
    [[manifestBytes, batch], 'expected one manifest with an empty store, got others'],
    [[one.shards.databases[0]!.newest.manifestBytes], 'expected the manifest of a sharded database, got another'],
    [[strangers.sharded.newest.manifestBytes], 'expected the manifest of epoch 1 that the shards make, got another'],
  ] as const)
    await expect(anew(...files)).rejects.toThrow(words)
  const begun = await anew(manifestBytes)
  expect(begun.sharded.list()).toEqual([one.sharded.list().at(-1)])
  expect(await run(begun, 'third')).toMatchObject({ epoch: 4, changes: 1 })
  // The flag may stay.
  const later = await restarted(begun, { batches: [manifestBytes] })
  expect(later.sharded.newest.manifestHash).toBe(one.sharded.newest.manifestHash)
})

test.each<[string, number, string, RegExp]>([
  ['with another key', 401, 'unauthorized', /; start it with the public half of --shard-key as --publisher-key$/],
  ['that is busy', 429, 'rate_limited', /because; it is asked again; if this lasts, see its log$/],
])('of a shard %s it is not said that it must be built anew', async (_, status, code, words) => {
  const { sharded, shards } = await operator(await shardFolders())
  shards.proxy.lie = (shard, path, reply) =>
    shard === 1 && path.includes('/v1/checks')
      ? { status, body: Buffer.from(JSON.stringify({ code, message: 'because' })) }
      : reply
  await expect(sharded.publish(batchOn(sharded, [edit('key 1')]))).rejects.toMatchObject({ code: 'not_ready' })
  expect(sharded.publishing!.problem).toMatch(words)
  // It is not shown any more once that is over.
  shards.proxy.lie = (_shard, _path, reply) => reply
  await expect.poll(() => sharded.publishing!.problem).toBeUndefined()
})
