// POST /v1/checks: a batch is checked as POST /v1/epochs would, and nothing changes.

import { parseErrorReply } from '@keyhush/protocol'
import { expect, test } from 'vitest'
import { PUBLISHER, signed } from '../../tests/support/publishing.js'
import { MemoryStorage, type UpdatableDatabase } from '../dist/index.js'
import { builtDirectory, createIn, post, running } from './helpers.js'
import { batchOn, KEYED, keyed, opened } from './updatable-helpers.js'

async function world() {
  const updatable = await keyed()
  const app = await running({ datasets: [{ updatable, publisherKeys: [PUBLISHER.publicKey] }] })
  const send = async (path: string, body: Uint8Array, use: 'batch' | 'check') => {
    const reply = await post(app, path, body, signed(body, PUBLISHER, {}, use))
    if (reply.statusCode === 200) return reply.json() as object
    const { code, line } = parseErrorReply(reply.body)
    return [reply.statusCode, code, line]
  }
  return {
    updatable,
    send,
    check: (body: Uint8Array, query = '') => send(`/v1/checks${query}`, body, 'check'),
    publish: (body: Uint8Array) => send('/v1/epochs', body, 'batch'),
  }
}

const add = (key: string) => ({ op: 'add', key, value: 'x' })
const keys = (count: number) => Array.from({ length: count }, (_, i) => add(`key ${i}`))
const edit = (value: string) => ({ op: 'edit', key: 'one', value })

test('a check changes nothing: what is published after it is what would have been published without', async () => {
  const [checked, unchecked] = [await world(), await world()]
  const operations = [edit('new'), { op: 'delete', key: 'two' }, ...keys(40)]
  const body = batchOn(checked.updatable, operations)
  for (let i = 0; i < 3; i++) {
    expect(await checked.check(body)).toEqual({ generation: 1, epoch: 2, partitions: 43 })
    expect(await checked.check(batchOn(checked.updatable, [edit(`${i}`)]))).toMatchObject({ partitions: 16 })
  }
  expect(checked.updatable.newest.manifest.epoch).toBe(1)
  const status = await checked.publish(body)
  expect(status).toEqual(await unchecked.publish(body))
  expect(checked.updatable.newest.manifest.partitions).toBe(43)
  const next = batchOn(checked.updatable, [edit('newer')])
  expect(await checked.check(next)).toEqual({ generation: 1, epoch: 3, partitions: 43 })
  expect(await checked.publish(next)).toEqual(await unchecked.publish(next))
})

test('a check is refused as the batch would be', async () => {
  const { updatable, check, publish } = await world()
  for (const [operations, other, refusal] of [
    [[edit('x'), add('one')], {}, [422, 'batch_refused', 2]],
    [[edit('x'), { op: 'edit', key: 'nobody', value: 'x' }], {}, [422, 'batch_refused', 2]],
    [[edit('much longer than twenty bytes')], {}, [422, 'batch_refused', 1]],
    ['{"op"}\n', {}, [422, 'batch_refused', 1]],
    ['', {}, [422, 'batch_refused', undefined]],
    [[edit('x')], { expires: 1 }, [422, 'batch_refused', undefined]],
    [[edit('x')], { epoch: 3 }, [409, 'epoch_gap', undefined]],
    [[edit('x')], { previousManifest: new Uint8Array(32).fill(1) }, [409, 'batch_conflict', undefined]],
  ] as const) {
    const body = batchOn(updatable, operations, other)
    expect([await check(body), await publish(body)]).toEqual([refusal, refusal])
  }
  expect(updatable.newest.manifest.epoch).toBe(1)
  const late = batchOn(updatable, [edit('x')], { expires: 1 })
  expect(await check(late, '?late=1')).toEqual({ generation: 1, epoch: 2, partitions: 16 })
  expect(await check(batchOn(updatable, [{ op: 'renew' }]))).toEqual({ generation: 1, epoch: 2, partitions: 16 })
  expect(await check(batchOn(updatable, [{ op: 'generation' }]))).toEqual([422, 'batch_refused', 1])
})

test('a batch that made its epoch passes, and another one for that epoch conflicts', async () => {
  const { updatable, check, publish } = await world()
  const [first, second] = [batchOn(updatable, [edit('first')]), batchOn(updatable, [edit('second')])]
  await publish(first)
  expect(await check(first)).toEqual({ generation: 1, epoch: 2, partitions: 16 })
  expect(await check(second)).toEqual([409, 'batch_conflict', undefined])
})

test('a signature for a check publishes nothing, and one for a batch checks nothing', async () => {
  const { updatable, send } = await world()
  const body = batchOn(updatable, [edit('new')])
  expect(await send('/v1/epochs', body, 'check')).toEqual([401, 'unauthorized', undefined])
  expect(await send('/v1/checks', body, 'batch')).toEqual([401, 'unauthorized', undefined])
  expect(updatable.newest.manifest.epoch).toBe(1)
})

test('replicas check nothing', async () => {
  const storage = await createIn(new MemoryStorage(), await builtDirectory('a.csv', KEYED, { maxValueBytes: 20 }))
  const replica: UpdatableDatabase = await opened(storage, { replica: true })
  await expect(replica.check(batchOn(replica, [edit('x')]))).rejects.toMatchObject({ code: 'not_ready' })
})
