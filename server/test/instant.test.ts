// Instant lookups at a server, with real worker threads: right at both epochs whatever happens meanwhile, bounded, apart
// from everything else, and gone without a trace when the server closes.

import { readdirSync, readFileSync } from 'node:fs'
import { type ClientRequest, request as httpRequest } from 'node:http'
import { getPriority } from 'node:os'
import {
  decodeInstantAnswer,
  encodeInstantQuery,
  encodePartQuery,
  HEADER_BYTES,
  INSTANT_PATH,
  type InstantOf,
  instantCommitments,
  instantLayout,
  MAX_INSTANT_BYTES,
  type Manifest,
  parseErrorReply,
  parseInfo,
  TWO_SERVERS,
} from '@keyhush/protocol'
import { type Core, type LayoutHandle, loadCore } from '@keyhush/wasm'
import type { FastifyInstance } from 'fastify'
import { beforeAll, describe, expect, onTestFinished, test, vi } from 'vitest'
import { NEEDS_LINUX } from '../../tests/support/needs.js'
import { Readers } from '../dist/database/readers.js'
import { Computations, type InstantOptions, type KeyhushOptions, UpdatableDatabase } from '../dist/index.js'
import {
  CONTENT,
  changing,
  entropy,
  fixed,
  held,
  hex,
  queriesFor,
  RECORD_BYTES,
  RECORDS,
  withComputations,
} from './computing.js'
import { builtDataset, changed, faultsOf, post as postTo, pseudoRandom, queryAt, running } from './helpers.js'
import { batchOn, opened, storageOf } from './updatable-helpers.js'

const recordOf = (index: number) => Buffer.from(CONTENT.subarray(index * RECORD_BYTES, (index + 1) * RECORD_BYTES))

let core: Core
beforeAll(async () => {
  core = await loadCore()
})

function layoutOf(manifest: Manifest, of: InstantOf): LayoutHandle {
  const { records, recordBytes, partitions, partitionRecords, blockRecords } = instantLayout(manifest, of)
  return core.layout(records, recordBytes, partitions, partitionRecords, blockRecords)
}

/** All requests of a lookup, and what becomes of the replies. */
function lookup(manifest: Manifest, indices: readonly number[], of: InstantOf = 'records', servers = 2) {
  const layout = layoutOf(manifest, of)
  const query = core.newInstantQuery(layout, Uint32Array.from(indices), entropy(), servers)
  const bodies = Array.from({ length: servers }, (_, server) => {
    const sharing = { servers, vectors: query.isVector(server) }
    return Buffer.from(encodeInstantQuery(manifest, of, indices.length, query.request(server), sharing))
  })
  const answerBytes = layout.instantSizes(servers)[2]!
  const read = (replies: readonly Uint8Array[]) => {
    const sums = replies.map(reply => decodeInstantAnswer(manifest, of, indices.length, answerBytes, reply, servers))
    return query.recon(instantCommitments(manifest, of), Buffer.concat(sums))
  }
  onTestFinished(() => {
    query.free()
    layout.free()
  })
  return { bodies, answerBytes, read }
}

const post = (app: FastifyInstance, payload: Buffer, url: string = INSTANT_PATH) => postTo(app, url, payload)

/** The records at these indices, or the code that one of the replies had. */
async function found(
  app: FastifyInstance,
  manifest: Manifest,
  indices: readonly number[],
  of?: InstantOf,
  servers?: number,
): Promise<string> {
  const { bodies, read } = lookup(manifest, indices, of, servers)
  const replies = await Promise.all(bodies.map(body => post(app, body)))
  const refused = replies.find(({ statusCode }) => statusCode !== 200)
  if (refused !== undefined) return parseErrorReply(refused.body).code
  const records = read(replies.map(({ rawPayload }) => rawPayload))
  return records === undefined ? 'tampered' : hex(records)
}

/** The plugin with a queue that the test can look into. */
async function withQueue(options: KeyhushOptions, instant: InstantOptions = {}) {
  const { app, computations } = await withComputations(options, { instant })
  return { app, computations, lookups: computations.instant! }
}

/** The same on a database that changes, with its first manifest and readers. */
async function changingWithQueue(instant: InstantOptions = {}) {
  const updatable = await changing()
  const { manifest } = updatable.newest
  return {
    updatable,
    manifest,
    readers: updatable.newest.shared().readers,
    ...(await withQueue({ updatable }, instant)),
  }
}

/** Edits record 9. */
async function editNine(updatable: UpdatableDatabase): Promise<string> {
  const value = hex(pseudoRandom(RECORD_BYTES, 77))
  await updatable.publish(batchOn(updatable, [{ op: 'edit', index: 9, value }], { encoding: 'hex' }))
  return value
}

/** Lookups of a database that changes, and how to have one wait for its pass. */
async function submitting(options: InstantOptions) {
  const updatable = await changing()
  const computations = new Computations({ instant: options })
  const lookups = computations.instant!
  const { queries } = await queriesFor(updatable.newest.manifest, 1)
  const submit = (network: string, count: number) => {
    const request = { queries: Buffer.concat(Array(count).fill(queries)), count, network }
    const at = { epochs: updatable, of: 'records', generation: 1, epoch: 1 } as const
    return lookups.submit({ ...at, ...TWO_SERVERS, ...request }).answers
  }
  return { updatable, computations, lookups, submit }
}

describe('a shard of a sharded database', () => {
  test('answers parts of vectors for the groups that each names, whichever come together', async () => {
    const { manifest } = await fixed()
    const app = await running({ datasets: [{ dataset: await fixed() }], instant: { waiting: 500 } })
    const layout = layoutOf(manifest, 'records')
    onTestFinished(() => layout.free())
    const { partitionRecords } = manifest
    const asked = [0, 1, 2, 0, 2, 1].map(async (groupLog, i) => {
      const index = (i * 37) % RECORDS
      const [bytes, answerBytes] = core.instantPartSizes(layout, 3, groupLog) as unknown as [number, number]
      const [q, m] = [Math.floor(index / partitionRecords), index % partitionRecords]
      const group = q * Math.ceil(partitionRecords / 2 ** groupLog) + (m >> groupLog)
      const part = new Uint8Array(bytes)
      part[group >> 3] = 1 << (group & 7)
      const reply = await post(app, Buffer.from(encodePartQuery(manifest, 'records', 1, part, 3, groupLog)))
      const answer = decodeInstantAnswer(manifest, 'records', 1, answerBytes, reply.rawPayload, 3)
      const at = (m % 2 ** groupLog) * RECORD_BYTES
      expect(hex(answer.subarray(at, at + RECORD_BYTES))).toBe(hex(recordOf(index)))
    })
    await Promise.all(asked)
  })

  test('refuses groups that no partition has, and parts of another length', async () => {
    const { manifest } = await fixed()
    const app = await running({ datasets: [{ dataset: await fixed() }] })
    for (const [groupLog, bytes] of [
      [16, 1],
      [0, 1],
    ] as const) {
      const body = encodePartQuery(manifest, 'records', 1, new Uint8Array(bytes), 3, groupLog)
      const reply = await post(app, Buffer.from(body))
      expect([reply.statusCode, parseErrorReply(reply.body).code]).toEqual([400, 'bad_request'])
    }
  })
})

describe('an instant lookup', () => {
  test.each([1, 3, 8, 20])('finds every record of a database that does not change, %i at a time', async count => {
    const dataset = await fixed()
    const app = await running({ datasets: [{ dataset }], instant: { waiting: 5000 } })
    const all = Array.from({ length: RECORDS }, (_, index) => index)
    const chunks = Array.from({ length: Math.ceil(RECORDS / count) }, (_, i) => all.slice(i * count, (i + 1) * count))
    const records = await Promise.all(chunks.map(chunk => found(app, dataset.manifest, chunk)))
    expect(records).toEqual(chunks.map(chunk => hex(Buffer.concat(chunk.map(recordOf)))))
  })

  test('has a reply of a length that follows from the manifest and its count, sent as answers are', async () => {
    const dataset = await fixed()
    const app = await running({ datasets: [{ dataset }] })
    for (const indices of [[0], [299], [7, 7, 7]]) {
      const { bodies, answerBytes } = lookup(dataset.manifest, indices)
      for (const body of bodies) {
        const reply = await post(app, body)
        expect(reply.headers).toMatchObject({
          'content-length': String(HEADER_BYTES + indices.length * answerBytes),
          'cache-control': 'no-store, no-transform',
          'content-type': 'application/octet-stream',
        })
        expect(reply.headers['content-encoding']).toBeUndefined()
      }
    }
  })

  test('is offered where there are commitments, unless the operator has switched it off', async () => {
    const dataset = await fixed()
    const bare = await builtDataset('a.bin', CONTENT, { recordBytes: RECORD_BYTES, proofs: 'tags' })
    const offers = async (app: FastifyInstance) => parseInfo((await app.inject('/v1/info')).json()).offers.instant
    const on = await running({ datasets: [{ dataset }, { name: 'bare', dataset: bare }] })
    expect(await offers(on)).toBe(true)
    expect(parseInfo((await on.inject('/bare/v1/info')).json()).offers.instant).toBe(false)
    const body = lookup(dataset.manifest, [0]).bodies[0]!
    body.set(bare.manifest.databaseId, 8)
    expect(parseErrorReply((await post(on, body, `/bare${INSTANT_PATH}`)).body).code).toBe('bad_request')
    const off = await running({ datasets: [{ dataset }], instant: false })
    expect(await offers(off)).toBe(false)
    expect(await found(off, dataset.manifest, [0])).toBe('not_found')
  })

  test('that is malformed is refused alone: those it would share a pass with are answered', async () => {
    const dataset = await fixed()
    const app = await running({ datasets: [{ dataset }], instant: { workers: 1 } })
    const [good] = lookup(dataset.manifest, [5]).bodies as [Buffer]
    const faults: [string, Buffer, string][] = [
      ['nothing', Buffer.alloc(0), 'bad_request'],
      ...faultsOf(good),
      ['two queries, of which one is there', changed(good, 36, 2), 'bad_request'],
      ['more queries than any request has', changed(good, 36, 65), 'bad_request'],
      ['a third party', changed(good, good.length - 1, 2), 'bad_request'],
      ['more than anything', Buffer.alloc(MAX_INSTANT_BYTES + 1), 'too_large'],
    ]
    const beside = faults.map((_, i) => found(app, dataset.manifest, [i]))
    const codes = await Promise.all(
      faults.map(async ([name, body]) => [name, parseErrorReply((await post(app, body)).body).code]),
    )
    expect(codes).toEqual(faults.map(([name, , code]) => [name, code]))
    expect(await Promise.all(beside)).toEqual(faults.map((_, i) => hex(recordOf(i))))
  })

  test('counts as twenty queries to a hint', async () => {
    const dataset = await fixed()
    const app = await running({ datasets: [{ dataset }], rateLimit: 40 })
    const [body] = lookup(dataset.manifest, [0]).bodies as [Buffer]
    const statuses = []
    for (let i = 0; i < 3; i++) statuses.push((await post(app, body)).statusCode)
    expect(statuses).toEqual([200, 200, 429])
    expect((await post(app, queryAt(dataset.manifest, 0), '/v1/answer')).statusCode).toBe(429)
    const [two] = lookup(dataset.manifest, [0, 1]).bodies as [Buffer]
    const twice = await running({ datasets: [{ dataset }], rateLimit: 21 })
    expect((await post(twice, two)).statusCode).toBe(200)
    expect((await post(twice, body)).statusCode).toBe(429)
  })
})

describe('a lookup with three servers or more', () => {
  test.each([3, 5, 8])('finds records while lookups with two are answered, with %i servers', async servers => {
    const dataset = await fixed()
    const app = await running({ datasets: [{ dataset }], instant: { workers: 1 } })
    const asked = [[0], [299, 7], [5, 5, 5, 4, 3, 2, 1, 0, 9]]
    const records = asked.flatMap(indices => [
      found(app, dataset.manifest, indices, 'records', servers),
      found(app, dataset.manifest, indices),
    ])
    const expected = asked.map(indices => hex(Buffer.concat(indices.map(recordOf))))
    expect(await Promise.all(records)).toEqual(expected.flatMap(each => [each, each]))
  })

  test('that is malformed is refused alone', async () => {
    const dataset = await fixed()
    const app = await running({ datasets: [{ dataset }], instant: { workers: 1 } })
    const { bodies, read } = lookup(dataset.manifest, [5], 'records', 3)
    const formOf = (body: Buffer) => body[HEADER_BYTES + 1]
    const [seed, vector] = [0, 1].map(form => bodies.find(body => formOf(body) === form)!) as [Buffer, Buffer]
    const faults: [string, Buffer][] = [
      ['no form', seed.subarray(0, HEADER_BYTES + 1)],
      ['two servers', changed(seed, HEADER_BYTES, 2)],
      ['nine servers', changed(seed, HEADER_BYTES, 9)],
      ['another form', changed(seed, HEADER_BYTES + 1, 2)],
      ['a seed as a vector', changed(seed, HEADER_BYTES + 1, 1)],
      ['a vector as a seed', changed(vector, HEADER_BYTES + 1, 0)],
      ['a byte too few', seed.subarray(0, -1)],
      ['a byte too many', Buffer.concat([vector, Buffer.alloc(1)])],
      ['two queries, of which one is there', changed(seed, 36, 2)],
    ]
    const replies = bodies.map(body => post(app, body))
    for (const [name, body] of faults) {
      expect(parseErrorReply((await post(app, body)).body).code, name).toBe('bad_request')
    }
    expect(hex(read((await Promise.all(replies)).map(({ rawPayload }) => rawPayload))!)).toBe(hex(recordOf(5)))
  })
})

describe('while the database changes', () => {
  test.each([1, 4])(
    'lookups at the newest epoch and the one before find what it had then, with %i records a block and partitions added',
    async pack => {
      const updatable = await changing({ pack })
      const { app } = await withQueue({ updatable }, { workers: 2, waiting: 5000 })
      const model = Array.from({ length: RECORDS }, (_, i) => hex(recordOf(i)))
      const history: { manifest: Manifest; model: string[] }[] = [
        { manifest: updatable.newest.manifest, model: [...model] },
      ]
      const asked: Promise<void>[] = []
      const ask = (at: number) => {
        const { manifest, model } = history[at]!
        for (let k = 0; k < 12; k++) {
          const index = (k * 29 + 13 * at) % model.length
          const servers = k % 4 === 0 ? 3 : 2
          asked.push(
            found(app, manifest, [index, (index + 1) % model.length], 'records', servers).then(record => {
              // Two epochs further on it is no longer answered.
              if (record === 'epoch_unknown')
                return void expect(updatable.newest.manifest.epoch).toBeGreaterThan(at + 2)
              expect(record, `record ${index} at epoch ${at + 1}`).toBe(
                model[index]! + model[(index + 1) % model.length]!,
              )
            }),
          )
        }
      }
      ask(0)
      for (let epoch = 2; epoch <= 6; epoch++) {
        const edits = [3, 100 + epoch, 299].map(index => {
          model[index] = hex(pseudoRandom(RECORD_BYTES, 10 * epoch + (index % 10)))
          return { op: 'edit', index, value: model[index] }
        })
        const added = Array.from({ length: 12 }, (_, i) => {
          model.push(hex(pseudoRandom(RECORD_BYTES, 100 + epoch + i)))
          return { op: 'add', value: model.at(-1) }
        })
        const publishing = updatable.publish(batchOn(updatable, [...edits, ...added], { encoding: 'hex' }))
        ask(epoch - 2)
        await publishing
        history.push({ manifest: updatable.newest.manifest, model: [...model] })
        ask(epoch - 1)
        ask(epoch - 2)
        await Promise.all(asked.splice(0))
      }
      expect(updatable.newest.manifest.partitions).toBeGreaterThan(history[0]!.manifest.partitions)
    },
  )

  test.each([
    ['one batch: a lookup that waits behind it is answered at its epoch', 0],
    ['two batches: a lookup that waits behind the second learns that its epoch is gone', 1],
  ])('a batch waits for passes under way; %s', async (_, before) => {
    const { updatable, app, lookups, manifest, readers } = await changingWithQueue()
    for (let i = 0; i < before; i++) await editNine(updatable)
    const end = readers.begin() // as a pass does
    const publishing = editNine(updatable)
    await expect.poll(() => readers.open).toBe(false)
    const late = found(app, manifest, [9])
    await expect.poll(() => lookups.waiting).toBe(2)
    expect([updatable.newest.manifest.epoch, lookups.passes]).toEqual([1 + before, 0])
    end()
    const value = await publishing
    expect(await late).toBe(before === 0 ? hex(recordOf(9)) : 'epoch_unknown')
    expect(await found(app, updatable.newest.manifest, [9])).toBe(value)
  })

  test('a generation that has ended is answered, and its memory goes only after the passes on it', async () => {
    const { updatable, app, manifest } = await changingWithQueue()
    const begin = () => updatable.publish(batchOn(updatable, [{ op: 'generation', headroom: 10 }], { encoding: 'hex' }))
    await begin()
    expect(await found(app, manifest, [11])).toBe(hex(recordOf(11)))
    const { readers } = updatable.find(1, 1)!.shared()
    const end = readers.begin()
    await begin()
    expect(await found(app, manifest, [11])).toBe('epoch_unknown')
    expect(readers.open).toBe(false) // the memory is still there, for whoever reads it
    end()
    await expect.poll(() => readers.open).toBe(true)
    expect(await found(app, updatable.newest.manifest, [11])).toBe(hex(recordOf(11)))
  })
})

describe('a keyed database', () => {
  const keysFile = (count: number) =>
    `key,value\n${Array.from({ length: count }, (_, i) => `key ${i},value ${i}\n`).join('')}`

  /** The value of a key as a client without a directory finds it at an epoch, or the code of a reply. */
  async function valueFor(app: FastifyInstance, manifest: Manifest, key: string): Promise<string> {
    const shape = core.directoryShape(manifest.directoryBlockLog, manifest.directoryBlockBytes, manifest.directorySeed)
    const print = core.fingerprint(Buffer.from(key))
    const block = await found(app, manifest, [shape.number(print)], 'directory')
    if (!/^[0-9a-f]{64}/.test(block)) return block
    const index = shape.index(Buffer.from(block, 'hex'), print, manifest.records)
    shape.free()
    const record = await found(app, manifest, [index])
    const bytes = Buffer.from(record, 'hex')
    if (!bytes.subarray(0, 16).equals(print)) return 'absent'
    return bytes.subarray(18, 18 + bytes.readUInt16LE(16)).toString()
  }

  test('is found block by block, fixed or changing, at both epochs and in the generation before, also after a restart', async () => {
    const options = { maxValueBytes: 20 }
    const dataset = await builtDataset('a.csv', keysFile(60), options)
    const app = await running({ datasets: [{ dataset }] })
    expect(await valueFor(app, dataset.manifest, 'key 59')).toBe('value 59')
    expect(await valueFor(app, dataset.manifest, 'key 60')).toBe('absent')

    const storage = await storageOf('a.csv', keysFile(60), options)
    let updatable = await UpdatableDatabase.open(storage)
    onTestFinished(() => updatable.close())
    const first = updatable.newest.manifest
    const added = Array.from({ length: 30 }, (_, i) => ({ op: 'add', key: `new ${i}`, value: `first ${i}` }))
    await updatable.publish(
      batchOn(updatable, [...added, { op: 'delete', key: 'key 3' }, { op: 'delete', key: 'key 4' }]),
    )
    const second = updatable.newest.manifest
    const again = [
      { op: 'add', key: 'key 3', value: 'again' },
      { op: 'delete', key: 'new 5' },
    ]
    const expectBoth = async (server: FastifyInstance, before: Manifest, newest: Manifest) => {
      const now = await Promise.all(
        ['key 3', 'key 4', 'key 5', 'new 5', 'new 6'].map(key => valueFor(server, newest, key)),
      )
      expect(now).toEqual(['again', 'absent', 'value 5', 'absent', 'first 6'])
      const then = await Promise.all(['key 3', 'key 4', 'key 5', 'new 5'].map(key => valueFor(server, before, key)))
      expect(then).toEqual(['absent', 'absent', 'value 5', 'first 5'])
    }
    const serving = await running({ datasets: [{ updatable }] })
    expect(await valueFor(serving, first, 'key 3')).toBe('value 3')
    await updatable.publish(batchOn(updatable, again))
    const third = updatable.newest.manifest
    await expectBoth(serving, second, third)
    expect(await valueFor(serving, first, 'key 3')).toBe('epoch_unknown')
    await serving.close()
    await updatable.close()

    updatable = await UpdatableDatabase.open(storage)
    const restarted = await running({ datasets: [{ updatable }] })
    await expectBoth(restarted, second, third)
    await updatable.publish(batchOn(updatable, [{ op: 'generation' }]))
    const fourth = updatable.newest.manifest
    expect(fourth.directorySeed).not.toEqual(third.directorySeed)
    for (const manifest of [third, fourth]) {
      expect(await valueFor(restarted, manifest, 'key 3')).toBe('again')
      expect(await valueFor(restarted, manifest, 'new 5')).toBe('absent')
    }
    await restarted.close()
    await updatable.close()
    updatable = await UpdatableDatabase.open(storage)
    const reborn = await running({ datasets: [{ updatable }] })
    for (const manifest of [third, fourth]) expect(await valueFor(reborn, manifest, 'key 3')).toBe('again')
  })

  test('a batch whose keys do not fit into a block is refused at the last key, and changes nothing', async () => {
    const updatable = await opened(await storageOf('a.csv', keysFile(60), { maxValueBytes: 20 }))
    const { directoryBlockLog: log, directoryBlockBytes: bytes, directorySeed: seed } = updatable.newest.manifest
    const shape = core.directoryShape(log, bytes, seed)
    const intoOne: string[] = []
    for (let i = 0; intoOne.length < bytes / 20; i++) {
      if (shape.number(core.fingerprint(Buffer.from(`aimed ${i}`))) === 3) intoOne.push(`aimed ${i}`)
    }
    shape.free()
    const { manifestHash } = updatable.newest
    const batch = [...intoOne, 'elsewhere'].map(key => ({ op: 'add', key, value: 'x' }))
    await expect(updatable.publish(batchOn(updatable, batch))).rejects.toMatchObject({
      code: 'batch_refused',
      message: expect.stringContaining(`line ${intoOne.length}: the generation is full`),
    })
    expect(updatable.newest.manifestHash).toBe(manifestHash)
    // Another generation of other keys has another seed, under which these are spread as any.
    await updatable.publish(batchOn(updatable, [{ op: 'add', key: 'another', value: 'x' }]))
    await updatable.publish(batchOn(updatable, [{ op: 'generation' }]))
    await updatable.publish(batchOn(updatable, batch))
  })

  test('without keys, or without commitments, answers no query for a block', async () => {
    const dataset = await fixed()
    const keys = await builtDataset('a.csv', keysFile(9), { proofs: 'tags' })
    const app = await running({ datasets: [{ dataset }, { name: 'b', dataset: keys }] })
    const blocks = { directoryBlockLog: 1, directoryBlockBytes: 32 }
    for (const [path, { manifest }] of [
      ['', dataset],
      ['/b', keys],
    ] as const) {
      const { bodies } = lookup({ ...manifest, ...blocks }, [0], 'directory')
      const reply = await post(app, bodies[0]!, `${path}${INSTANT_PATH}`)
      expect([reply.statusCode, parseErrorReply(reply.body).code]).toEqual([400, 'bad_request'])
    }
  })
})

describe('the queue', () => {
  test('is bounded: beyond it there is 503 with a constant Retry-After, and answers go on', async () => {
    const { app, lookups, manifest, readers } = await changingWithQueue({ waiting: 8 })
    const release = held(readers)
    const answered: string[] = []
    const inside = [0, 1, 2, 3].map(async index => {
      const record = await found(app, manifest, [index])
      answered.push('instant')
      return record
    })
    await expect.poll(() => lookups.waiting).toBe(8)
    for (let i = 0; i < 3; i++) {
      const reply = await post(app, lookup(manifest, [i]).bodies[0]!)
      expect([reply.statusCode, parseErrorReply(reply.body).code]).toEqual([503, 'instant_full'])
      expect(reply.headers['retry-after']).toBe('1')
      expect((await post(app, queryAt(manifest, i), '/v1/answer')).statusCode).toBe(200)
      answered.push('answer')
    }
    await release()
    expect(await Promise.all(inside)).toEqual([0, 1, 2, 3].map(index => hex(recordOf(index))))
    expect(answered).toEqual([...Array(3).fill('answer'), ...Array(4).fill('instant')])
    expect(await found(app, manifest, [2])).toBe(hex(recordOf(2)))
    expect(lookups.waiting).toBe(0)
  })

  test('is shared by networks: where it is full, who has less gets in for the newest of who has most', async () => {
    const { updatable, computations, submit } = await submitting({ workers: 1, waiting: 8 })
    const release = held(updatable.newest.shared().readers)
    const inside = [submit('a', 3), submit('b', 4)]
    const newest = submit('a', 1)
    expect(() => submit('a', 1)).toThrow(expect.objectContaining({ code: 'instant_full' }))
    inside.push(submit('c', 1))
    await expect(newest).rejects.toMatchObject({ code: 'instant_full' })
    expect(() => submit('c', 5)).toThrow(expect.objectContaining({ code: 'instant_full' }))
    await release()
    await Promise.all(inside)
    expect((await submit('a', 8)).length % 8).toBe(0) // whoever is alone gets one request of any size
    await computations.close()
  })

  test('has a pass wait for as many queries as the last one served, half as long as that one took', async () => {
    const { computations, lookups, submit } = await submitting({ workers: 1 })
    await submit('a', 1) // by now there is a thread
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] })
    onTestFinished(() => void vi.useRealTimers())
    const passOf = async (count: number, milliseconds: number) => {
      const answers = submit('a', count)
      expect([lookups.passes, lookups.waiting]).toEqual([1, 0])
      vi.advanceTimersByTime(milliseconds)
      await answers
    }
    await passOf(8, 40)
    const seven = [submit('a', 1), submit('b', 6)]
    expect([lookups.passes, lookups.waiting]).toEqual([0, 7])
    const eighth = submit('c', 1)
    expect([lookups.passes, lookups.waiting]).toEqual([1, 0])
    await Promise.all([...seven, eighth])

    await passOf(8, 40)
    const alone = submit('a', 1)
    vi.advanceTimersByTime(19)
    expect(lookups.passes).toBe(0)
    vi.advanceTimersByTime(1)
    expect(lookups.passes).toBe(1)
    await alone
    // Who asks alone, one after the other, never waits.
    for (let i = 0; i < 3; i++) await passOf(1, 40)

    await passOf(8, 40)
    const last = submit('a', 1)
    const closing = computations.close()
    vi.advanceTimersByTime(20)
    await Promise.all([last, closing])
    expect(vi.getTimerCount()).toBe(0)
  })

  test('is left by clients that have gone', async () => {
    const { app, lookups, manifest, readers } = await changingWithQueue()
    const url = await app.listen({ port: 0, host: '127.0.0.1' })
    const release = held(readers)
    const { bodies } = lookup(manifest, [1])
    const request: ClientRequest = httpRequest(`${url}${INSTANT_PATH}`, { method: 'POST' })
    request.on('error', () => {})
    request.end(bodies[0])
    await expect.poll(() => lookups.waiting).toBe(1)
    request.destroy()
    await expect.poll(() => lookups.waiting).toBe(0)
    await release()
    expect(await found(app, manifest, [1])).toBe(hex(recordOf(1)))
  })

  test('closing answers what waits, takes nothing on, and leaves no thread', async () => {
    const threads = () => process.getActiveResourcesInfo().filter(name => name === 'Worker' || name === 'MessagePort')
    const before = threads().length
    const { app, computations, lookups, manifest, readers } = await changingWithQueue({ workers: 2 })
    const release = held(readers)
    const indices = Array.from({ length: 60 }, (_, k) => (k * 19) % RECORDS)
    const replies = lookup(manifest, indices).bodies.map(body => post(app, body))
    await expect.poll(() => lookups.waiting).toBe(120)
    const closing = computations.close()
    expect(await found(app, manifest, [0])).toBe('not_ready')
    await release()
    await closing
    expect([lookups.passes, lookups.waiting]).toEqual([0, 0])
    expect((await Promise.all(replies)).map(({ statusCode }) => statusCode)).toEqual([200, 200])
    expect(await found(app, manifest, [0])).toBe('not_ready')
    expect(threads().length).toBe(before)
  })
})

/** The niceness of each thread of this process, by its number. */
function niceness(): Map<number, number> {
  const threads = readdirSync('/proc/self/task').map(thread => {
    const stat = readFileSync(`/proc/self/task/${thread}/stat`, 'utf8')
    // After the name, which may have anything in it: state is the 3rd field, nice the 19th.
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
    return [Number(thread), Number(fields[16])] as const
  })
  return new Map(threads)
}

test('a worker thread gives way to all others, which stay as they are', NEEDS_LINUX, async () => {
  const before = niceness()
  const { computations, submit } = await submitting({ workers: 1 })
  await submit('a', 1)
  const after = niceness()
  const own = getPriority()
  for (const [thread, nice] of before) if (after.has(thread)) expect(after.get(thread)).toBe(nice)
  expect([...after].filter(([thread]) => !before.has(thread)).map(([, nice]) => nice)).toContain(Math.max(own, 5))
  await computations.close()
})

describe('a larger database', () => {
  const records = 120_000
  const content = pseudoRandom(records * 48, 9)
  const large = () => builtDataset('large.bin', content, { recordBytes: 48 })

  test('answers go on while passes run, and come between them', async () => {
    const dataset = await large()
    const { manifest } = dataset
    const app = await running({ datasets: [{ dataset }], instant: { workers: 1 } })
    const order: string[] = []
    const instant = Array.from({ length: 3 }, async (_, i) => {
      const indices = Array.from({ length: 20 }, (_, k) => (i * 31_337 + k * 997) % records)
      const { bodies, read } = lookup(manifest, indices)
      const replies = await Promise.all(bodies.map(body => post(app, body)))
      order.push('instant')
      const asked = indices.map(index => content.subarray(index * 48, (index + 1) * 48))
      expect(hex(read(replies.map(({ rawPayload }) => rawPayload))!)).toBe(hex(Buffer.concat(asked)))
    })
    for (let i = 0; i < 5; i++) {
      expect((await post(app, queryAt(manifest, i), '/v1/answer')).statusCode).toBe(200)
      order.push('answer')
    }
    await Promise.all(instant)
    expect(order.indexOf('answer')).toBeLessThan(order.lastIndexOf('instant'))
  })
})

test('a writer waits for readers, goes before readers to come, and they hear when it is done', async () => {
  const readers = new Readers()
  const order: string[] = []
  const ends = [readers.begin(), readers.begin()]
  const writing = ['one', 'two'].map(name => readers.exclusively(() => order.push(name)))
  readers.onceOpen(order, () => order.push('open'))
  ends[0]!()
  await Promise.resolve()
  expect([order, readers.open]).toEqual([[], false])
  ends[1]!()
  await Promise.all(writing)
  expect([order, readers.open]).toEqual([['one', 'two', 'open'], true])
  await expect(readers.exclusively(() => Promise.reject(new Error('it failed')))).rejects.toThrow('it failed')
  expect(readers.open).toBe(true)
})
