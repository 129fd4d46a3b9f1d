// Coordinators of one operator that share a PostgreSQL store: one moves the head, and all show it together.

import { expect, onTestFinished, test } from 'vitest'
import { PUBLISHER } from '../../tests/support/publishing.js'
import { usePostgres } from '../../tests/support/use-postgres.js'
import { openPostgres } from '../dist/index.js'
import { ShardedDatabase } from '../dist/sharded/database.js'
import { Fabric } from '../dist/sharded/fabric.js'
import { advance, SHARDS, ShardProxy, shardFolders, shardsFrom } from './sharded-helpers.js'
import { signatureOf } from './updatable-helpers.js'

const { store: storeUrl } = usePostgres()

async function joined(url: string, template: string, replica: boolean): Promise<ShardedDatabase> {
  const fabric = new Fabric(SHARDS, [template])
  const storage = await openPostgres(url, { role: replica ? 'replica' : 'writer' })
  const sharded = await ShardedDatabase.open(storage, fabric, { replica })
  onTestFinished(() => sharded.close())
  return sharded
}

/** Resolves once clients of it are told of that epoch. */
const told = (sharded: ShardedDatabase, epoch: number) =>
  new Promise<void>(resolve => {
    const stop = sharded.signed.listen(event => {
      if (event.epoch < epoch) return
      stop()
      resolve()
    })
  })

test('a replica shows what the writer shows, not before it can answer it, and learns of signatures', async () => {
  const shards = await shardsFrom(await shardFolders())
  const url = storeUrl()
  const writer = await joined(url, shards.template, false)
  const replica = await joined(url, shards.template, true)
  expect(replica.list()).toEqual(writer.list())
  for (let epoch = 2; epoch <= 4; epoch++) {
    const both = Promise.all([told(writer, epoch), told(replica, epoch)])
    await advance(shards, writer)
    await both
    expect(replica.list()).toEqual(writer.list())
    expect(replica.newest.manifestBytes).toEqual(writer.newest.manifestBytes)
    expect(replica.status(epoch)).toEqual(writer.status(epoch))
    expect(await replica.since(1)).toEqual(await writer.since(1))
  }
  const signed = told(replica, 4)
  await writer.addSignature(signatureOf(writer, PUBLISHER))
  await signed
  expect(replica.signed.list()).toEqual(writer.signed.list())
  expect(replica.signed.list()).toMatchObject([{ epoch: 4 }])
  await expect(replica.addSignature(signatureOf(writer, PUBLISHER))).rejects.toMatchObject({ code: 'not_ready' })
})

test('while a replica cannot reach a shard, all show the epoch before; it takes the next one up by itself', async () => {
  const shards = await shardsFrom(await shardFolders())
  const proxy = await ShardProxy.start(shards.proxy.url)
  const url = storeUrl()
  const writer = await joined(url, shards.template, false)
  const replica = await joined(url, `${proxy.url}/s{shard}`, true)
  proxy.lie = (shard, _path, reply) => (shard === 2 ? { status: 503, body: Buffer.from('away') } : reply)
  const both = Promise.all([told(writer, 2), told(replica, 2)])
  const advanced = advance(shards, writer)
  await expect.poll(() => replica.fabric.problem).toMatch(/^shard 2 at/)
  expect([writer, replica].map(({ newest }) => newest.manifest.epoch)).toEqual([1, 1])
  // It is stored, and the writer answers whoever asks for it.
  await expect.poll(() => writer.answerable().map(({ manifest }) => manifest.epoch)).toEqual([1, 2])
  proxy.lie = (_shard, _path, reply) => reply
  await Promise.all([advanced, both])
  expect(replica.list()).toEqual(writer.list())
})
