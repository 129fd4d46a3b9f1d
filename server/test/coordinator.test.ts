// A coordinator over four shards, as apps see it, and what it does if a shard misbehaves.

import { open } from '@keyhush/client'
import { decodeManifest, HEADER_BYTES, parseErrorReply, parseInfo } from '@keyhush/protocol'
import { describe, expect, onTestFinished, test } from 'vitest'
import {
  advance,
  coordinatorOf,
  LIST,
  requestFor,
  SHARDS,
  type Shards,
  shardFolders,
  shardsFrom,
} from './sharded-helpers.js'
import { batchOn } from './updatable-helpers.js'

const KEYS = [...LIST.keys()]

/** Shards and coordinator of each of so many operators. */
async function operators(count: number) {
  const folders = await shardFolders()
  return await Promise.all(
    Array.from({ length: count }, async () => {
      const shards = await shardsFrom(folders)
      return { shards, ...(await coordinatorOf([shards.template])) }
    }),
  )
}

async function mapOf(urls: readonly string[]) {
  const map = await open({ servers: urls as [string, string], mode: 'instant', push: false, development: true })
  onTestFinished(() => map.close())
  return map
}

describe.each([2, 3])('%i operators', count => {
  test('keys, absent keys, batches and indices are looked up in all shards as in one database', async () => {
    const all = await operators(count)
    const map = await mapOf(all.map(({ url }) => url))
    expect([map.mode, map.size]).toEqual(['instant', all[0]!.sharded.newest.manifest.records])
    expect(all[0]!.sharded.newest.manifest).toMatchObject({ suite: 11, shards: SHARDS, epoch: 1, keyed: true })
    for (const { sharded } of all) expect(sharded.newest.manifestBytes).toEqual(all[0]!.sharded.newest.manifestBytes)
    expect(await map.getText('key 7')).toBe('00007')
    expect(await map.getText('absent')).toBeUndefined()
    expect([await map.has('key 9'), await map.has('absent')]).toEqual([true, false])
    const some = KEYS.slice(100, 111)
    const many = await map.getMany([...some, 'absent'], { padTo: 16 })
    expect(many.map(value => value && Buffer.from(value).toString())).toEqual([
      ...some.map(key => LIST.get(key)),
      undefined,
    ])
    // Every lookup asks every shard the same number of times.
    const asked = all.map(({ shards }) => shards.proxy.lookups)
    expect(asked.every(n => n > 0 && n % SHARDS === 0)).toBe(true)
    for (const { sharded } of all) expect(sharded.fabric.problem).toBeUndefined()
  })
})

test('what a coordinator offers, and what it does not', async () => {
  const [{ app, sharded }] = (await operators(1)) as [Awaited<ReturnType<typeof operators>>[0]]
  const info = parseInfo((await app.inject('/v1/info')).json())
  expect(info.offers).toEqual({
    ...{ proofs: [], updates: true, push: true, blobs: false, fence: false, instant: true, single: false },
    ...{ oneServer: false, history: 64 },
  })
  expect(decodeManifest((await app.inject('/v1/manifest')).rawPayload)).toEqual(sharded.newest.manifest)
  const status = async (url: string, method: 'GET' | 'POST' = 'GET') => (await app.inject({ method, url })).statusCode
  expect(await status('/v1/answer', 'POST')).toBe(404)
  expect(await status('/v1/fence', 'POST')).toBe(404)
  expect(await status('/v1/one-server', 'POST')).toBe(404)
  expect(await status(`/v1/blobs/${sharded.newest.manifestHash}`)).toBe(404)
  expect(await status('/readyz')).toBe(200)
})

describe('a shard that lies', () => {
  let shards: Shards
  let coordinator: Awaited<ReturnType<typeof coordinatorOf>>
  const ask = async () => {
    const { manifest } = coordinator.sharded.newest
    const { payload } = await requestFor(manifest, 1)
    return await coordinator.app.inject({ method: 'POST', url: '/v1/instant', payload })
  }
  const begin = async () => {
    shards = await shardsFrom(await shardFolders())
    coordinator = await coordinatorOf([shards.template])
  }

  test.each([
    ['answers another epoch', (body: Buffer) => changed(body, 28)],
    ['answers another database', (body: Buffer) => changed(body, 8)],
    ['answers another suite', (body: Buffer) => changed(body, 6)],
    ['answers less', (body: Buffer) => body.subarray(0, -1)],
    ['answers more', (body: Buffer) => Buffer.concat([body, Buffer.alloc(1)])],
    ['answers nothing', (body: Buffer) => body.subarray(0, 0)],
    ['answers 500', () => undefined],
  ])('%s: the lookup fails, the reply does not say which shard, and /readyz does not turn away', async (_, lie) => {
    await begin()
    shards.proxy.lie = (shard, path, reply) => {
      if (shard !== 2 || !path.endsWith('/v1/instant')) return reply
      const body = lie(reply.body)
      return body === undefined ? { status: 500, body: Buffer.from('') } : { ...reply, body }
    }
    const reply = await ask()
    expect(reply.statusCode).toBe(503)
    expect(parseErrorReply(reply.body)).toEqual({
      code: 'not_ready',
      message: 'a part of this database does not answer now; try again',
    })
    expect(coordinator.fabric.problem).toMatch(/^shard 2 at http/)
    const ready = await coordinator.app.inject('/readyz')
    expect([ready.statusCode, ready.json()]).toEqual([200, { status: 'ready', problems: ['a shard does not answer'] }])
  })

  test('tampers with its answers: the SDK refuses, whatever the key', async () => {
    const folders = await shardFolders()
    const [honest, lying] = [await shardsFrom(folders), await shardsFrom(folders)]
    const [first, second] = [await coordinatorOf([honest.template]), await coordinatorOf([lying.template])]
    lying.proxy.lie = (shard, path, reply) =>
      shard === 1 && path.endsWith('/v1/instant') ? { ...reply, body: changed(reply.body, HEADER_BYTES) } : reply
    for (const key of [KEYS[0]!, KEYS[1]!, 'absent']) {
      const map = await mapOf([first.url, second.url])
      await expect(map.get(key)).rejects.toMatchObject({ code: 'tampered' })
    }
  })
})

function changed(body: Buffer, at: number): Buffer {
  const copy = Buffer.from(body)
  copy[at]! ^= 1
  return copy
}

describe('the epoch before the head', () => {
  /** A coordinator at epoch 2, whose shards all have it. */
  async function advanced() {
    const shards = await shardsFrom(await shardFolders())
    const coordinator = await coordinatorOf([shards.template])
    await advance(shards, coordinator.sharded)
    return { shards, ...coordinator }
  }
  const ask = async ({ app, sharded }: Awaited<ReturnType<typeof advanced>>, epoch: number) => {
    const { manifest } = sharded.find(1, epoch)!
    const { payload } = await requestFor(manifest, 1)
    return await app.inject({ method: 'POST', url: '/v1/instant', payload })
  }

  test('is answered, until a shard has left it: that counts against no replica', async () => {
    const coordinator = await advanced()
    expect((await ask(coordinator, 1)).statusCode).toBe(200)
    // A shard takes the next epoch, which is not the head yet.
    const [, , third] = coordinator.shards.databases
    await third!.publish(batchOn(third!, [{ op: 'renew' }]))
    const before = await ask(coordinator, 1)
    expect([before.statusCode, parseErrorReply(before.body)]).toEqual([
      404,
      { code: 'epoch_unknown', message: expect.any(String), generation: 1, epoch: 2 },
    ])
    expect((await ask(coordinator, 2)).statusCode).toBe(200)
    expect(coordinator.fabric.replicas.map(({ failed, late, problem }) => [failed, late, problem])).toEqual(
      Array(SHARDS).fill([0, 0, undefined]),
    )
  })

  test('of the head itself a shard must not say so', async () => {
    const coordinator = await advanced()
    const [, second] = coordinator.shards.databases
    for (let i = 0; i < 2; i++) await second!.publish(batchOn(second!, [{ op: 'renew' }]))
    expect((await ask(coordinator, 2)).statusCode).toBe(503)
    expect(coordinator.fabric.problem).toMatch(/^shard 1 at/)
  })
})
