// The epochs that a server answers, between a batch and its signature: what can be downloaded, what clients are told, what operators are.

import crypto from 'node:crypto'
import { syncBuiltinESMExports } from 'node:module'
import { setImmediate as nextTask } from 'node:timers/promises'
import { parseEvent, toHex } from '@keyhush/protocol'
import { ed25519 } from '@noble/curves/ed25519.js'
import { blake3 } from '@noble/hashes/blake3.js'
import type { FastifyInstance } from 'fastify'
import { describe, expect, onTestFinished, test, vi } from 'vitest'
import { PUBLISHER, signed } from '../../tests/support/publishing.js'
import { slice } from '../dist/base/pace.js'
import { Room } from '../dist/http/room.js'
import { createServer, Metrics, UpdatableDatabase, type UpdatableOptions } from '../dist/index.js'
import { listening, partitionHashes, post, running, temporaryDirectory } from './helpers.js'
import { batchOn, KEYED, keyed, opened, refusal, signatureOf, storageOf } from './updatable-helpers.js'

const edit = (value: string) => [{ op: 'edit', key: 'one', value }]
const adds = (from: number, to: number) =>
  Array.from({ length: to - from }, (_, i) => ({ op: 'add', key: `new ${from + i}`, value: `value ${i}` }))

async function published(updatable: UpdatableDatabase, operations: readonly object[], isSigned = true): Promise<void> {
  await updatable.publish(batchOn(updatable, operations))
  if (isSigned) await updatable.addSignature(signatureOf(updatable))
}

describe('what a server answers can be downloaded', () => {
  /** The hashes of all blobs of all answered epochs, and how many of them do not come as they should. */
  async function expectWhole(app: FastifyInstance, updatable: UpdatableDatabase): Promise<number> {
    const hashes = updatable.answerable().flatMap(({ manifest }) => {
      return [toHex(manifest.directoryHash), ...partitionHashes(manifest)]
    })
    for (const hash of new Set(hashes)) {
      await nextTask() // the writer's
      const reply = await app.inject(`/v1/blobs/${hash}`)
      // In slices a batch may be written between two requests: then nothing of the older epoch is listed any more.
      const isListed = updatable.answerable().some(({ manifest }) => {
        return [toHex(manifest.directoryHash), ...partitionHashes(manifest)].includes(hash)
      })
      if (isListed || reply.statusCode === 200) expect([hash, toHex(blake3(reply.rawPayload))]).toEqual([hash, hash])
    }
    return hashes.length
  }

  test.each([
    ['edits', edit('x')],
    ['deletes', [{ op: 'delete', key: 'two' }]],
    ['adds partitions', adds(0, 18)],
    ['begins a generation', [{ op: 'generation', headroom: 40 }]],
    ['renews', [{ op: 'renew' }]],
  ])('whole, at both epochs, after a batch that %s; after a restart too', async (_, operations) => {
    const storage = await storageOf('a.csv', KEYED, { maxValueBytes: 20 })
    const updatable = await UpdatableDatabase.open(storage)
    const app = await createServer({ datasets: [{ updatable }] })
    await published(updatable, edit('before'))
    await published(updatable, operations)
    expect(await expectWhole(app, updatable)).toBeGreaterThan(2 * 16)
    await published(updatable, edit('after'), false)
    expect(updatable.list().length).toBeGreaterThan(1)
    await expectWhole(app, updatable)
    await app.close()
    await updatable.close()
    const again = await opened(storage)
    expect(again.list().length).toBeGreaterThan(1)
    await expectWhole(await running({ datasets: [{ updatable: again }] }), again)
  })

  test('also while a batch is being written', async () => {
    const before = slice.milliseconds
    slice.milliseconds = 0 // a pause after every step
    onTestFinished(() => void Object.assign(slice, { milliseconds: before }))
    const updatable = await keyed()
    const app = await running({ datasets: [{ updatable }] })
    await published(updatable, adds(0, 30))
    for (const operations of [edit('x'), adds(30, 60), [{ op: 'delete', key: 'two' }]]) {
      let isDone = false
      const writing = published(updatable, operations).then(() => {
        isDone = true
      })
      while (!isDone) await expectWhole(app, updatable)
      await writing
      await expectWhole(app, updatable)
    }
  })

  test('a download breaks off once no epoch has that partition, and never has wrong bytes', async () => {
    const updatable = await keyed()
    const hashes = partitionHashes(updatable.newest.manifest)
    const blobs = await Promise.all(hashes.map(async hash => (await updatable.findBlob(hash))!))
    const read = async (i: number) => Buffer.concat(await (await blobs[i]!.open(0, blobs[i]!.bytes - 1)).toArray())
    for (let n = 0; n < 2; n++) {
      for (const [i, hash] of hashes.entries()) expect(toHex(blake3(await read(i)))).toBe(hash)
      await published(updatable, edit(`${n}`))
    }
    const now = partitionHashes(updatable.newest.manifest)
    const changed = hashes.flatMap((hash, i) => (now.includes(hash) ? [] : [i]))
    expect(changed.length).toBe(1)
    for (const [i, hash] of hashes.entries()) {
      if (!changed.includes(i)) expect(toHex(blake3(await read(i)))).toBe(hash)
    }
    await expect(read(changed[0]!)).rejects.toThrow('is no longer here')
    expect(await updatable.findBlob(hashes[changed[0]!]!)).toBeUndefined()
  })
})

describe('clients are told of an epoch', () => {
  async function told(options: UpdatableOptions = {}) {
    const updatable = await keyed({}, options)
    const events: number[] = []
    updatable.signed.listen(({ epoch }) => void events.push(epoch))
    return { updatable, events, newest: () => updatable.signed.told.manifest.epoch }
  }

  test('once it is signed, and again at a further signature', async () => {
    const { updatable, events, newest } = await told()
    await updatable.addSignature(signatureOf(updatable))
    await published(updatable, edit('x'), false)
    expect([events, newest(), updatable.newest.manifest.epoch]).toEqual([[1], 1, 2])
    await updatable.addSignature(signatureOf(updatable))
    expect([events, newest()]).toEqual([[1, 2], 2])
    await updatable.addSignature(signatureOf(updatable, ed25519.keygen(new Uint8Array(32).fill(8))))
    expect(events).toEqual([1, 2, 2])
    // Over a generation alike.
    await published(updatable, [{ op: 'generation' }], false)
    expect([events, newest()]).toEqual([[1, 2, 2], 2])
    await updatable.addSignature(signatureOf(updatable))
    expect([events, newest()]).toEqual([[1, 2, 2, 3], 3])
  })

  test('at once, if the one before it is not signed', async () => {
    const { updatable, events, newest } = await told()
    await published(updatable, edit('x'), false)
    await published(updatable, edit('y'), false)
    expect([events, newest()]).toEqual([[2, 3], 3])
  })

  test('by streams that open in between, which name the epoch that can be used', async () => {
    const { updatable } = await told()
    const { url } = await listening({ datasets: [{ updatable }] })
    await updatable.addSignature(signatureOf(updatable))
    await published(updatable, edit('x'), false)
    const { body } = await fetch(`${url}/v1/events`)
    const reader = body!.pipeThrough(new TextDecoderStream()).getReader()
    expect(parseEvent((await reader.read()).value!).epoch).toBe(1)
    await updatable.addSignature(signatureOf(updatable))
    expect(parseEvent((await reader.read()).value!).epoch).toBe(2)
    await reader.cancel()
  })

  test('by a server that restarts in between as before', async () => {
    const storage = await storageOf('a.csv', KEYED, { maxValueBytes: 20 })
    const before = await UpdatableDatabase.open(storage)
    await before.addSignature(signatureOf(before))
    await published(before, edit('x'), false)
    await before.close()
    const updatable = await opened(storage)
    expect(updatable.signed.told.manifest.epoch).toBe(1)
    await updatable.addSignature(signatureOf(updatable))
    expect(updatable.signed.told.manifest.epoch).toBe(2)
  })
})

describe('operators are told', () => {
  test('that an epoch is not signed, after a minute, as a problem and as a figure', async () => {
    let seconds = 1_800_000_000
    const updatable = await keyed({}, { now: () => seconds })
    const metrics = new Metrics()
    const publisherKeys = [PUBLISHER.publicKey]
    const app = await running({ datasets: [{ updatable, publisherKeys }], metrics })
    const figures = await metrics.server(app.readiness)
    onTestFinished(() => figures.close())
    const seen = async () => {
      const text = (await figures.inject('/metrics')).body
      const value = (name: string) => Number(new RegExp(`^keyhush_${name}\\{.*\\} (.*)$`, 'm').exec(text)![1])
      const { problems } = app.readiness
      return [value('signed_epoch'), value('unsigned_seconds'), problems]
    }
    await updatable.addSignature(signatureOf(updatable))
    seconds += 100
    expect(await seen()).toEqual([1, 0, []])
    await published(updatable, edit('x'), false)
    seconds += 60
    expect(await seen()).toEqual([1, 60, []])
    seconds += 1
    expect(await seen()).toEqual([1, 61, [expect.stringContaining('epoch 2 is not signed')]])
    await updatable.addSignature(signatureOf(updatable))
    expect(await seen()).toEqual([2, 0, []])
  })

  test('that the disk has less room than the database has bytes', async () => {
    const folder = await temporaryDirectory()
    const small = new Room(folder, () => Number.MAX_SAFE_INTEGER)
    const large = new Room(folder, () => 1)
    expect([small.problem, large.problem]).toEqual([undefined, undefined]) // nobody has looked
    await expect.poll(() => small.problem).toContain('make room')
    expect(large.problem).toBeUndefined()
    expect(new Room('postgres://nowhere', () => Number.MAX_SAFE_INTEGER).problem).toBeUndefined()
  })
})

describe('a batch', () => {
  async function server(options: UpdatableOptions = {}) {
    const updatable = await keyed({}, options)
    const app = await running({ datasets: [{ updatable, publisherKeys: [PUBLISHER.publicKey] }] })
    const send = (body: Uint8Array, path = '/v1/epochs') => post(app, path, body, signed(body))
    return { updatable, app, send }
  }

  test('is verified once a request', async () => {
    const { updatable, send } = await server()
    const verify = vi.spyOn(crypto, 'verify')
    syncBuiltinESMExports()
    onTestFinished(() => {
      verify.mockRestore()
      syncBuiltinESMExports()
    })
    expect((await send(batchOn(updatable, edit('x')))).statusCode).toBe(200)
    expect(verify).toHaveBeenCalledTimes(1)
  })

  test('whose expiry has passed is refused, unless another server has its epoch', async () => {
    const now = 1_800_000_000
    const { updatable, send } = await server({ now: () => now })
    const body = batchOn(updatable, edit('x'), { expires: now })
    const refused = await send(body)
    expect([refused.statusCode, refused.json()]).toEqual([
      422,
      { code: 'batch_refused', message: expect.stringContaining('the clock here says 2027-01-15T08:00:00.000Z') },
    ])
    for (const path of ['/v1/epochs?late=0', '/v1/epochs?late']) expect((await send(body, path)).statusCode).toBe(422)
    expect((await send(body, '/v1/epochs?late=1')).statusCode).toBe(200)
    // It is there: it may come again.
    expect((await send(body)).statusCode).toBe(200)
    expect((await send(batchOn(updatable, edit('y'), { expires: now + 1 }))).statusCode).toBe(200)
  })

  test('that renews changes the expiry and nothing else, and has no members and no company', async () => {
    const { updatable } = await server()
    const before = updatable.newest.manifest
    const status = await updatable.publish(batchOn(updatable, [{ op: 'renew' }], { expires: 4_000_000_000 }))
    expect(status).toMatchObject({ epoch: 2, changes: 0 })
    const { epoch, expires, previousManifest, updateListBytes, updateListHash, ...same } = updatable.newest.manifest
    expect([epoch, expires]).toEqual([2, 4_000_000_000])
    expect({ ...before, ...same }).toEqual({ ...before, oneServer: undefined, pointproofs: undefined })
    const list = (await updatable.findBlob(toHex(updateListHash)))!
    expect([list.bytes, updateListBytes]).toEqual([40, 40])
    for (const operations of [[{ op: 'renew', headroom: 1 }], [{ op: 'renew' }, ...edit('x')]]) {
      const { code, message } = await refusal(updatable.publish(batchOn(updatable, operations)))
      expect([code, message]).toEqual(['batch_refused', expect.stringMatching(/^line 1: .*renew/)])
    }
  })
})

test('a client is told when to come again, whenever that helps', async () => {
  const updatable = await keyed()
  const app = await running({ datasets: [{ updatable }], rateLimit: 1 })
  const answer = () => app.inject({ method: 'POST', url: '/v1/answer', payload: Buffer.alloc(40) })
  const replies = [await answer(), await answer()]
  expect(replies.map(({ statusCode }) => statusCode)).toEqual([400, 429])
  expect(replies[0]!.headers['retry-after']).toBeUndefined()
  expect(Number(replies[1]!.headers['retry-after'])).toBeGreaterThan(1)
  for (let i = 0; i < 256; i++) app.inject({ url: '/v1/events', payloadAsStream: true }).catch(() => {})
  expect((await app.inject('/v1/events')).headers['retry-after']).toBe('1')
  app.readiness.stop('for this test')
  const stopped = await app.inject('/readyz')
  expect([stopped.statusCode, stopped.headers['retry-after']]).toEqual([503, '1'])
})
