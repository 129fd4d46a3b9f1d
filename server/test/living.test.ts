// A database that changes, in memory storage: epochs, what is answered at each, their digests, history, refusals.

import { ed25519 } from '@noble/curves/ed25519.js'
import { blake3 } from '@noble/hashes/blake3.js'
import {
  answerBytes,
  decodeAnswer,
  decodeManifest,
  decodeManifests,
  encodeFenceRequest,
  encodeQuery,
  type FenceClaim,
  type FenceRequest,
  type FenceVerdict,
  isZero,
  type Manifest,
  parseErrorReply,
  parseEvent,
  parseInfo,
  signedBytes,
  splitVerdict,
  toHex,
  updateRecordsBytes,
  withClaim,
} from '@pirouette/protocol'
import fc from 'fast-check'
import type { FastifyInstance } from 'fastify'
import { describe, expect, onTestFinished, test } from 'vitest'
import { createServer, LivingDatabase, type LivingOptions, loadDataset, openLmdb } from '../dist/index.js'
import { builtDirectory, dataFile, pseudoRandom, queryAt, temporaryDirectory, vectors } from './helpers.js'
import {
  batchOn,
  bodyOf,
  contents,
  expectChangesRefused,
  expectTwins,
  KEYED,
  keyed,
  opened,
  printOf,
  recordAt,
  refusal,
  storageOf,
} from './living-helpers.js'

const TOKEN = 'a token of sixteen or more characters'
const batchHash = (body: Uint8Array) => toHex(blake3(body))

describe('an epoch', () => {
  test('is what its batch makes of the one before, and says so in its manifest', async () => {
    const living = await keyed()
    const first = living.newest
    const body = batchOn(living, [
      { op: 'edit', key: 'two', value: 'changed' },
      { op: 'delete', key: 'three' },
      { op: 'add', key: 'four', value: 'fourth' },
    ])
    const status = await living.publish(body)
    expect(status).toEqual({
      ...{ generation: 1, epoch: 2, manifest: living.newest.manifestHash, batch: batchHash(body), changes: 3 },
    })
    expect(living.status(2)).toEqual(status)
    expect(living.status(1)).toEqual({ ...living.list()[0], batch: '', changes: 0 })
    expect(living.status(3)).toBeUndefined()
    const { manifest, manifestBytes } = living.newest
    expect(toHex(manifest.previousManifest)).toBe(first.manifestHash)
    expect(decodeManifest(manifestBytes)).toEqual(manifest)
    expect([manifest.records, manifest.epoch, manifest.generation]).toEqual([4, 2, 1])
    expect(await contents(living)).toEqual(
      new Map([
        [printOf('one'), 'first'],
        [printOf('two'), 'changed'],
        [printOf('four'), 'fourth'],
      ]),
    )
    // What clients fetch is there under the manifest's hashes.
    const list = await bodyOf(living, manifest.updateListHash)
    expect(toHex(blake3(list))).toBe(toHex(manifest.updateListHash))
    expect(list.length).toBe(40 + 3 * (5 + manifest.recordBytes))
    const recordList = await bodyOf(living, manifest.updateRecordsHash)
    expect(toHex(blake3(recordList))).toBe(toHex(manifest.updateRecordsHash))
    expect(recordList.length).toBe(40 + 3 * (5 + 2 * manifest.recordBytes))
    expect(recordList.length).toBe(updateRecordsBytes(manifest))
    expect(toHex(blake3(await bodyOf(living, manifest.directoryHash)))).toBe(toHex(manifest.directoryHash))
    for (let q = 0; q < manifest.partitions; q++) {
      const hash = manifest.contentHashes.subarray(32 * q, 32 * (q + 1))
      expect(toHex(blake3(await bodyOf(living, hash)))).toBe(toHex(hash))
    }
  })

  test('lists what was and what is, in the one form, and their difference in the other', async () => {
    const living = await keyed({ partitions: 2 })
    const before = living.newest.manifest
    const records = (manifest: Manifest) =>
      Array.from({ length: manifest.partitions * manifest.partitionRecords }, (_, i) => recordAt(living, manifest, i))
    const old = records(before)
    await living.publish(
      batchOn(living, [
        { op: 'edit', key: 'two', value: 'changed' },
        { op: 'delete', key: 'three' },
        ...Array.from({ length: 4 }, (_, i) => ({ op: 'add', key: `new ${i}`, value: `${i}` })),
      ]),
    )
    const { manifest } = living.newest
    const { recordBytes } = manifest
    const now = records(manifest)
    expect(now.length).toBeGreaterThan(old.length)
    const zero = new Uint8Array(recordBytes)
    const changes = now.flatMap((record, index) => {
      const was = old[index] ?? zero
      const kind = isZero(was) ? 1 : isZero(record) ? 3 : 2
      return toHex(was) === toHex(record) ? [] : [{ index, kind, was, record }]
    })
    expect(changes.map(({ kind }) => kind).sort()).toEqual([1, 1, 1, 1, 2, 3])
    // docs/protocol.md, Updates
    const header = (form: number) =>
      Buffer.concat([
        Buffer.from('PIRU'),
        Buffer.from(Uint16Array.of(1, form).buffer),
        Buffer.from(
          Uint32Array.of(
            ...[before.records, before.partitions, manifest.records, manifest.partitions],
            ...[manifest.partitionRecords, recordBytes, changes.length, 0],
          ).buffer,
        ),
      ])
    const entries = (contents: (was: Uint8Array, record: Uint8Array) => Uint8Array[]) =>
      changes.flatMap(({ index, kind, was, record }) => [
        Buffer.from(Uint32Array.of(index).buffer),
        Uint8Array.of(kind),
        ...contents(was, record),
      ])
    const delta = entries((was, record) => [was.map((byte, i) => byte ^ record[i]!)])
    expect(toHex(await bodyOf(living, manifest.updateListHash))).toBe(toHex(Buffer.concat([header(1), ...delta])))
    const both = entries((was, record) => [was, record])
    expect(toHex(await bodyOf(living, manifest.updateRecordsHash))).toBe(toHex(Buffer.concat([header(2), ...both])))
  })

  test('leaves the one before answerable, and no other', async () => {
    const living = await keyed()
    const before = living.newest.manifest
    const records = Array.from({ length: 3 }, (_, i) => toHex(recordAt(living, before, i)))
    await living.publish(batchOn(living, [{ op: 'delete', key: 'one' }]))
    expect(records.map((_, i) => toHex(recordAt(living, before, i)))).toEqual(records)
    expect(living.list().map(({ epoch }) => epoch)).toEqual([1, 2])
    await living.publish(batchOn(living, [{ op: 'delete', key: 'two' }]))
    expect(living.find(1, 1)).toBeUndefined()
    expect(living.list().map(({ epoch }) => epoch)).toEqual([2, 3])
  })

  test('gives operators equal bytes, whether they publish, restart in between, or both', async () => {
    const storages = [
      await storageOf('a.csv', KEYED, { maxValueBytes: 20 }),
      await storageOf('a.csv', KEYED, { maxValueBytes: 20 }),
    ] as const
    const steady = await opened(storages[0])
    for (let epoch = 2; epoch < 9; epoch++) {
      const body = batchOn(steady, [
        { op: 'add', key: `key ${epoch}`, value: `${epoch}` },
        ...(epoch > 3 ? [{ op: 'delete', key: `key ${epoch - 2}` }] : []),
      ])
      const restarted = await LivingDatabase.open(storages[1])
      const statuses = [await steady.publish(body), await restarted.publish(body)]
      expect(statuses[0]).toEqual(statuses[1])
      await restarted.close()
      const again = await LivingDatabase.open(storages[1])
      expect(again.list()).toEqual(steady.list())
      expect(await contents(again)).toEqual(await contents(steady))
      for (const { generation, epoch } of again.list()) {
        const { manifest } = again.find(generation, epoch)!
        for (let i = 0; i < manifest.records; i++) {
          expect(toHex(recordAt(again, manifest, i))).toBe(toHex(recordAt(steady, manifest, i)))
        }
      }
      await again.close()
    }
  })

  test('of a keyless database goes by index, and grows into new partitions', async () => {
    const living = await opened(await storageOf('a.bin', pseudoRandom(32), { recordBytes: 8, partitions: 2 }))
    const values = Array.from({ length: 4 }, (_, i) => toHex(pseudoRandom(32).subarray(8 * i, 8 * i + 8)))
    const change = (operations: object[]) => living.publish(batchOn(living, operations, { encoding: 'hex' }))
    for (let round = 0; round < 6; round++) {
      const added = Array.from({ length: 3 }, (_, i) => toHex(pseudoRandom(8, 10 * round + i + 1)))
      await change([
        ...added.map(value => ({ op: 'add', value })),
        { op: 'edit', index: round, value: added[1] },
        { op: 'delete', index: round + 1 },
      ])
      values.push(...added)
      values[round] = added[1]!
      values[round + 1] = '00'.repeat(8)
      const { manifest } = living.newest
      expect([manifest.records, manifest.partitions]).toEqual([values.length, Math.ceil(values.length / 2)])
      expect(values.map((_, i) => toHex(recordAt(living, manifest, i)))).toEqual(values)
    }
  })

  test('of a database without commitments differs in nothing else, and is answered with records alone', async () => {
    const [storage, other] = await Promise.all(
      (['tags', 'merkle'] as const).map(proofs => storageOf('a.csv', KEYED, { maxValueBytes: 20, name: 'a', proofs })),
    )
    const twin = await opened(other!)
    let living = await LivingDatabase.open(storage!)
    onTestFinished(() => living.close())
    for (let epoch = 2; epoch < 9; epoch++) {
      const changes = [
        { op: 'add', key: `key ${epoch}`, value: `${epoch}` },
        { op: 'edit', key: 'one', value: `${epoch}` },
        ...(epoch > 3 ? [{ op: 'delete', key: `key ${epoch - 2}` }] : []),
      ]
      await twin.publish(batchOn(twin, changes))
      await living.publish(batchOn(living, changes))
      await living.close()
      living = await LivingDatabase.open(storage!)
      expectTwins(living, twin)
    }
  })

  test('uses the room that was built', async () => {
    const tight = await keyed({ partitions: 2 })
    const roomy = await keyed({ partitions: 2, headroom: 5 })
    expect([tight.newest.manifest.partitionRecords, roomy.newest.manifest.partitionRecords]).toEqual([2, 4])
    expect(roomy.newest.manifest.records).toBe(3)
    const add = (living: LivingDatabase) =>
      living.publish(
        batchOn(
          living,
          Array.from({ length: 5 }, (_, i) => ({ op: 'add', key: `new ${i}`, value: 'x' })),
        ),
      )
    await add(tight)
    await add(roomy)
    expect([tight.newest.manifest.partitions, roomy.newest.manifest.partitions]).toEqual([4, 2])
  })

  // The core takes entries in the order of their indices, and lets a delete undo the add of the same key below it.
  test('finds a key that was deleted and added again in one batch, in a lower slot', async () => {
    const living = await keyed()
    const { manifest } = living.newest
    const prints = Array.from({ length: 3 }, (_, i) => toHex(recordAt(living, manifest, i).subarray(0, 16)))
    const [lowest, , highest] = prints.map(print => ['one', 'two', 'three'].find(key => printOf(key) === print)!)
    await living.publish(batchOn(living, [{ op: 'delete', key: lowest }]))
    await living.publish(
      batchOn(living, [
        { op: 'delete', key: highest },
        { op: 'add', key: highest, value: 'again' },
      ]),
    )
    await living.publish(batchOn(living, [{ op: 'edit', key: highest, value: 'found' }]))
  })

  test('may begin a new generation, which goes on counting', async () => {
    const old = await keyed()
    await old.publish(batchOn(old, [{ op: 'delete', key: 'one' }]))
    const succeeds = await dataFile('manifest.bin', old.newest.manifestBytes)
    const living = await opened(await storageOf('a.csv', KEYED, { succeeds, partitions: 2 }))
    const { manifest, manifestBytes } = living.newest
    expect([manifest.generation, manifest.epoch, manifest.updateListBytes]).toEqual([2, 3, 0])
    expect(toHex(manifest.previousManifest)).toBe(old.newest.manifestHash)
    const chain = Buffer.concat([old.newest.manifestBytes, manifestBytes])
    expect(decodeManifests(chain).map(({ manifest: { epoch } }) => epoch)).toEqual([2, 3])
    expect([living.since(1), living.since(2), living.since(3)?.length]).toEqual([
      undefined,
      Buffer.from(manifestBytes),
      0,
    ])
    await living.publish(batchOn(living, [{ op: 'add', key: 'four', value: 'x' }]))
    expect(living.list().map(({ generation, epoch }) => [generation, epoch])).toEqual([
      [2, 3],
      [2, 4],
    ])
  })

  test('carries the expiry of its batch', async () => {
    const living = await keyed({ expires: 5 })
    expect(living.newest.manifest.expires).toBe(5)
    await living.publish(batchOn(living, [{ op: 'delete', key: 'one' }], { expires: 1_900_000_000 }))
    expect(living.newest.manifest.expires).toBe(1_900_000_000)
  })
})

describe('a batch', () => {
  test('that was made into an epoch before gets the same status again', async () => {
    const living = await keyed()
    const body = batchOn(living, [{ op: 'delete', key: 'one' }])
    const statuses = await Promise.all([living.publish(body), living.publish(body)])
    expect(statuses[0]).toEqual(statuses[1])
    await living.publish(batchOn(living, [{ op: 'delete', key: 'two' }]))
    expect(await living.publish(body)).toEqual(statuses[0])
    expect(living.newest.manifest.epoch).toBe(3)
  })

  test('of a number that is taken, not yet due, or on another manifest, is refused', async () => {
    const living = await keyed()
    const operations = [{ op: 'delete', key: 'one' }]
    const other = batchOn(living, [{ op: 'delete', key: 'two' }])
    await living.publish(batchOn(living, operations))
    const codes: string[] = []
    for (const body of [
      other,
      batchOn(living, operations, { epoch: 4 }),
      batchOn(living, operations, { previousManifest: pseudoRandom(32) }),
      batchOn(living, operations, { generation: 2 }),
      batchOn(living, operations, { databaseId: pseudoRandom(16) }),
      new Uint8Array(72),
    ]) {
      codes.push((await refusal(living.publish(body))).code)
    }
    expect(codes).toEqual([
      'batch_conflict',
      'epoch_gap',
      'batch_conflict',
      'batch_conflict',
      'wrong_database',
      'bad_request',
    ])
    expect(living.newest.manifest.epoch).toBe(2)
  })

  test.each<[string, string, number, RegExp]>([
    ['adds a key that exists', '{"op":"add","key":"one","value":"x"}', 1, /exists/],
    ['edits a key that does not exist', '{"op":"edit","key":"none","value":"x"}', 1, /no such/],
    ['deletes a key twice', '{"op":"delete","key":"one"}\n{"op":"delete","key":"one"}', 2, /no such/],
    [
      'has a value that is too long',
      '{"op":"delete","key":"one"}\n{"op":"edit","key":"two","value":"123456789012345678901"}',
      2,
      /21 bytes; at most 20/,
    ],
    ['has a line that is not JSON', '{"op":"delete","key":"one"}\nnonsense\n', 2, /not JSON/],
    ['has an empty line', '{"op":"delete","key":"one"}\n\n{"op":"delete","key":"two"}', 2, /not JSON/],
    ['has an unknown operation', '{"op":"upsert","key":"one","value":"x"}', 1, /"op"/],
    ['has a member too many', '{"op":"delete","key":"one","value":"x"}', 1, /"value"/],
    ['has an index in a keyed database', '{"op":"delete","index":1}', 1, /"index"/],
    ['has an empty key', '{"op":"delete","key":""}', 1, /empty/],
    ['has no value', '{"op":"edit","key":"one"}', 1, /"value"/],
    ['has a lone surrogate', '{"op":"delete","key":"\\ud800"}', 1, /surrogate/],
  ])('that %s is refused whole, with its line', async (_, operations, line, reason) => {
    const living = await keyed()
    const before = living.newest
    const refused = await refusal(living.publish(batchOn(living, operations)))
    expect(refused.reply).toMatchObject({ code: 'batch_refused', line })
    expect(refused.message).toMatch(reason)
    expect(living.newest).toBe(before)
    expect((await contents(living)).size).toBe(3)
    await living.publish(batchOn(living, [{ op: 'delete', key: 'one' }]))
  })

  test('without operations is refused', async () => {
    const living = await keyed()
    expect((await refusal(living.publish(batchOn(living, '')))).code).toBe('batch_refused')
  })
})

test('random batches and restarts make what a plain map makes', async () => {
  const random = pseudoRandom(20_000, 7)
  let at = 0
  const below = (bound: number) => ((random[at++]! << 8) | random[at++]!) % bound
  const storage = await storageOf('a.csv', KEYED, { maxValueBytes: 20, partitions: 3 })
  let living = await LivingDatabase.open(storage, { history: 3 })
  const model = new Map([
    ['one', 'first'],
    ['two', 'second'],
    ['three', 'third'],
  ])
  for (let epoch = 2; epoch < 60; epoch++) {
    const operations: object[] = []
    const touched = new Set<string>()
    for (let i = 1 + below(8); i > 0; i--) {
      const key = `key ${below(40)}`
      // (A key deleted and added again in one batch is a case of its own.)
      if (touched.has(key)) continue
      touched.add(key)
      const value = `${below(1000)}`
      const op = !model.has(key) ? 'add' : below(2) === 0 ? 'edit' : 'delete'
      operations.push(op === 'delete' ? { op, key } : { op, key, value })
      if (op === 'delete') model.delete(key)
      else model.set(key, value)
    }
    await living.publish(batchOn(living, operations))
    if (model.size > 0 && below(8) === 0) {
      await living.publish(batchOn(living, [{ op: 'generation', headroom: below(50) }]))
      epoch++
    }
    if (below(4) === 0) {
      await living.close()
      living = await LivingDatabase.open(storage, { history: 3 })
    }
    expect(await contents(living)).toEqual(new Map([...model].map(([key, value]) => [printOf(key), value])))
  }
  await living.close()
}, 60_000)

describe('history', () => {
  test('is kept as far as was said: manifests, lists and statuses, and no further', async () => {
    const storage = await storageOf('a.csv', KEYED, { maxValueBytes: 20 })
    const living = await opened(storage, { history: 3 })
    const manifests = [living.newest]
    for (let epoch = 2; epoch <= 8; epoch++) {
      await living.publish(batchOn(living, [{ op: 'edit', key: 'one', value: `${epoch}` }]))
      manifests.push(living.newest)
    }
    expect([1, 2, 3, 4, 5, 6, 7, 8, 9].map(epoch => living.since(epoch) !== undefined)).toEqual([
      false,
      false,
      false,
      true,
      true,
      true,
      true,
      true,
      false,
    ])
    expect(decodeManifests(living.since(5)!).map(({ manifest }) => manifest.epoch)).toEqual([6, 7, 8])
    expect(living.since(8)!.length).toBe(0)
    expect(living.manifestOf(1, 5)).toEqual(manifests[4]!.manifestBytes)
    expect(living.manifestOf(1, 4)).toBeUndefined()
    expect(living.manifestOf(2, 8)).toBeUndefined()
    expect(living.status(4)).toBeUndefined()
    for (const form of ['updateListHash', 'updateRecordsHash'] as const) {
      expect(await living.findBlob(toHex(manifests[4]!.manifest[form]))).toBeDefined()
      expect(await living.findBlob(toHex(manifests[3]!.manifest[form]))).toBeUndefined()
    }
    // Chunks need the lists in delta form for longer.
    for (const kept of ['manifest/', 'batch/', 'record-list/']) expect(storage.count(kept)).toBe(4)
  })
})

describe('stored records, which are written behind the epochs,', () => {
  const RECORD_BYTES = 8
  const random = pseudoRandom(200_000, 3)
  let at = 0
  const below = (bound: number) => ((random[at++]! << 8) | random[at++]!) % bound
  const bytes = () => {
    at += RECORD_BYTES
    return random.slice(at - RECORD_BYTES, at)
  }

  /** Some records of a keyless database change; `model` with them. */
  async function change(living: LivingDatabase, model: Uint8Array[], among = model.length): Promise<void> {
    const operations: object[] = []
    for (let i = 0; i < 5; i++) {
      const value = bytes()
      const index = below(among)
      operations.push({ op: 'edit', index, value: toHex(value) })
      model[index] = value
    }
    if (below(3) === 0) {
      model.push(bytes())
      operations.push({ op: 'add', value: toHex(model.at(-1)!) })
    }
    await living.publish(batchOn(living, operations, { encoding: 'hex' }))
  }

  async function records(living: LivingDatabase): Promise<string> {
    const { manifest } = living.newest
    const partitions: Uint8Array[] = []
    for (let q = 0; q < manifest.partitions; q++) {
      partitions.push(await bodyOf(living, manifest.contentHashes.subarray(32 * q, 32 * (q + 1))))
    }
    return toHex(Buffer.concat(partitions).subarray(0, manifest.records * RECORD_BYTES))
  }

  const manyRecords = (count: number) => Array.from({ length: count }, bytes)

  test('are those of the newest epoch after a restart at any of them', async () => {
    const model = manyRecords(10_000)
    const storage = await storageOf('a.bin', Buffer.concat(model), { recordBytes: RECORD_BYTES, partitions: 10 })
    const chunks = storage.count('chunk/')
    expect(chunks).toBeGreaterThan(2)
    let living = await LivingDatabase.open(storage)
    let written = false
    for (let epoch = 2; epoch < 200; epoch++) {
      // At first some chunks never change, and stay those of epoch 1.
      await change(living, model, epoch < 150 ? 100 : model.length)
      if (below(10) === 0) {
        await living.close()
        living = await LivingDatabase.open(storage)
        expect(await records(living)).toBe(toHex(Buffer.concat(model)))
        expect(living.list().length).toBe(2)
      }
      // Lists go once no chunk needs them any more and history ends; it ends 64 epochs back.
      written ||= storage.count('list/') < epoch - 1
    }
    expect(written).toBe(true)
    await living.close()
  })

  test('may fail to be written: nothing is lost, and it is tried again', async () => {
    const model = manyRecords(6000)
    const storage = await storageOf('a.bin', Buffer.concat(model), { recordBytes: RECORD_BYTES, partitions: 3 })
    let failures = 0
    let failing = true
    storage.fails = key => {
      const fails = failing && key.startsWith('chunk/')
      if (fails) failures++
      return fails
    }
    const living = await LivingDatabase.open(storage, { history: 1 })
    for (let i = 0; i < 70; i++) await change(living, model)
    await living.findBlob('') // after what is under way
    expect(failures).toBeGreaterThan(0)
    expect(storage.count('list/')).toBe(70)
    failing = false
    await change(living, model)
    for (let i = 0; i < 3; i++) await living.findBlob('')
    await living.close()
    // Chunks are of the newest epoch now, and the one before is answered all the same.
    const again = await opened(storage, { history: 1 })
    expect(await records(again)).toBe(toHex(Buffer.concat(model)))
    expect(again.list().map(({ epoch }) => epoch)).toEqual([71, 72])
    await change(again, model)
    expect(storage.count('list/')).toBe(2)
  })
})

test('a stored database in which anything was changed is refused, naming its storage', async () => {
  const storage = await storageOf('a.csv', KEYED, { maxValueBytes: 20 })
  const living = await LivingDatabase.open(storage)
  await living.publish(batchOn(living, [{ op: 'edit', key: 'one', value: 'x' }]))
  await living.close()
  await expectChangesRefused(storage)
  await (await LivingDatabase.open(storage)).close()
})

describe('a failure to write', () => {
  test('leaves the known epoch answered, publishes nothing more, and is told', async () => {
    const storage = await storageOf('a.csv', KEYED)
    const living = await opened(storage)
    const { manifest } = living.newest
    const records = [0, 1, 2].map(i => toHex(recordAt(living, manifest, i)))
    const told: Error[] = []
    living.onFailure = error => told.push(error)
    storage.fails = () => true
    await expect(living.publish(batchOn(living, [{ op: 'delete', key: 'one' }]))).rejects.toThrow('no space')
    expect(told.length).toBe(1)
    expect(living.newest.manifest).toBe(manifest)
    expect([0, 1, 2].map(i => toHex(recordAt(living, manifest, i)))).toEqual(records)
    storage.fails = () => false
    expect((await refusal(living.publish(batchOn(living, [{ op: 'delete', key: 'two' }])))).code).toBe('not_ready')
  })

  // In memory is then an epoch that is not on disk.
  test('stops writing chunks behind', async () => {
    const twin = await keyed()
    const storage = await storageOf('a.csv', KEYED, { maxValueBytes: 20 })
    const living = await LivingDatabase.open(storage)
    const next = async (value: string) => {
      const body = batchOn(twin, [{ op: 'edit', key: 'one', value }])
      await twin.publish(body)
      return body
    }
    for (let epoch = 2; epoch <= 65; epoch++) await living.publish(await next(`${epoch}`))
    // The first makes chunks be written, after the second, which fails.
    const bodies = [await next('written'), await next('failed')] as const
    storage.fails = key => key === 'manifest/00000043'
    const outcomes = await Promise.allSettled(bodies.map(body => living.publish(body)))
    expect(outcomes.map(({ status }) => status)).toEqual(['fulfilled', 'rejected'])
    await living.close()
    const again = await opened(storage)
    expect(again.newest.manifest.epoch).toBe(66)
    expect(again.find(1, 65)).toBeDefined()
  })
})

describe('over HTTP', () => {
  async function server(options: { token?: string; living?: LivingOptions } = {}) {
    const living = await keyed({}, options.living)
    const app = await createServer({ datasets: [{ living }], publisherToken: options.token })
    onTestFinished(() => app.close())
    return { living, app }
  }
  const authorization = `Bearer ${TOKEN}`
  const post = (app: FastifyInstance, url: string, payload: Uint8Array | string, headers = {}) =>
    app.inject({ method: 'POST', url, payload: typeof payload === 'string' ? payload : Buffer.from(payload), headers })

  test('a batch makes an epoch, which everything then shows', async () => {
    const { living, app } = await server({ token: TOKEN })
    const body = batchOn(living, [{ op: 'edit', key: 'one', value: 'x' }])
    const reply = await post(app, '/v1/epochs', body, { authorization })
    expect(reply.statusCode).toBe(200)
    expect(reply.json()).toEqual({ ...living.list()[1], batch: batchHash(body), changes: 1 })
    expect((await app.inject('/v1/epochs/2')).json()).toEqual(reply.json())
    const info = parseInfo((await app.inject('/v1/info')).json())
    expect(info.epochs).toEqual(living.list())
    expect(info.offers).toEqual({
      ...{ proofs: ['merkle', 'tags'], updates: ['delta', 'record'], push: true, fence: true, history: 64 },
    })
    const chain = await app.inject('/v1/manifests?since=1')
    expect(decodeManifests(chain.rawPayload).map(({ manifest }) => manifest.epoch)).toEqual([2])
    const { manifest } = living.newest
    const list = await app.inject(`/v1/blobs/${toHex(manifest.updateListHash)}`)
    expect([list.statusCode, list.rawPayload.length]).toEqual([200, manifest.updateListBytes])
    const recordList = await app.inject(`/v1/blobs/${toHex(manifest.updateRecordsHash)}`)
    expect([recordList.statusCode, recordList.rawPayload.length]).toEqual([200, updateRecordsBytes(manifest)])
    for (const epoch of [1, 2]) {
      const known = living.find(1, epoch)!.manifest
      for (const proofs of ['merkle', 'tags'] as const) {
        const query = encodeQuery(known, 1, vectors(Array(known.partitions).fill(0)), proofs)
        const answer = await post(app, '/v1/answer', query)
        expect(decodeAnswer(known, 1, answer.rawPayload, proofs).length).toBe(answerBytes(known, 1, proofs) - 40)
      }
    }
  })

  test('who is behind, or ahead, is told the newest epoch', async () => {
    const { living, app } = await server()
    const old = living.newest.manifest
    for (let i = 0; i < 2; i++) await living.publish(batchOn(living, [{ op: 'edit', key: 'one', value: `${i}` }]))
    const query = encodeQuery(old, 1, vectors(Array(old.partitions).fill(0)))
    for (const reply of [
      await post(app, '/v1/answer', query),
      await app.inject('/v1/manifests?since=4'),
      await app.inject('/v1/manifest?generation=1&epoch=4'),
      await app.inject('/v1/epochs/4'),
    ]) {
      expect(reply.statusCode).toBe(404)
      expect(parseErrorReply(reply.body)).toMatchObject({ code: 'epoch_unknown', generation: 1, epoch: 3 })
    }
  })

  test.each([false, true])(
    'history that is over is gone, restarted %s, and the reply names the newest epoch',
    async restart => {
      const storage = await storageOf('a.csv', KEYED, { maxValueBytes: 20 })
      let living = await LivingDatabase.open(storage, { history: 2 })
      const lists: string[] = []
      for (let epoch = 2; epoch <= 8; epoch++) {
        // Generations do not interrupt it.
        await living.publish(
          batchOn(living, [epoch === 7 ? { op: 'generation' } : { op: 'edit', key: 'one', value: `${epoch}` }]),
        )
        lists[epoch] = toHex(living.newest.manifest.updateListHash)
      }
      if (restart) {
        await living.close()
        living = await LivingDatabase.open(storage, { history: 2 })
      }
      const app = await createServer({ datasets: [{ living }] })
      onTestFinished(async () => {
        await app.close()
        await living.close()
      })
      const expectUnknown = async (url: string) => {
        const reply = await app.inject(url)
        const { code, generation, epoch } = parseErrorReply(reply.body)
        expect([url, reply.statusCode, code, generation, epoch]).toEqual([url, 404, 'epoch_unknown', 2, 8])
      }
      for (const epoch of [1, 2, 3, 4, 9, 10, 4_294_967_295]) {
        await expectUnknown(`/v1/manifests?since=${epoch}`)
      }
      for (const epoch of [1, 2, 3, 4, 5, 9]) {
        await expectUnknown(`/v1/manifest?generation=1&epoch=${epoch}`)
        await expectUnknown(`/v1/epochs/${epoch}`)
      }
      await expectUnknown('/v1/manifest?generation=2&epoch=6')
      for (const epoch of [2, 3, 4, 5]) expect((await app.inject(`/v1/blobs/${lists[epoch]}`)).statusCode).toBe(404)
      for (const [epoch, generation] of [
        [6, 1],
        [7, 2],
        [8, 2],
      ] as const) {
        const manifest = decodeManifest(
          (await app.inject(`/v1/manifest?generation=${generation}&epoch=${epoch}`)).rawPayload,
        )
        expect([manifest.generation, manifest.epoch]).toEqual([generation, epoch])
        const status = (await app.inject(`/v1/epochs/${epoch}`)).json()
        expect(status).toMatchObject({ generation, epoch, changes: epoch === 7 ? 0 : 1 })
        if (epoch !== 7) expect((await app.inject(`/v1/blobs/${lists[epoch]}`)).statusCode).toBe(200)
      }
      const chain = await app.inject('/v1/manifests?since=5')
      expect(decodeManifests(chain.rawPayload).map(({ manifest: { epoch } }) => epoch)).toEqual([6, 7, 8])
      for (const url of ['/v1/epochs/0', '/v1/epochs/-1', '/v1/epochs/x', '/v1/epochs/4294967296', '/v1/manifests']) {
        expect([url, (await app.inject(url)).json().code]).toEqual([url, 'bad_request'])
      }
    },
  )

  test('nobody writes without the token, and there is nothing to write to without one configured', async () => {
    const { living, app } = await server({ token: TOKEN })
    const body = batchOn(living, [{ op: 'delete', key: 'one' }])
    for (const headers of [
      {},
      { authorization: TOKEN },
      { authorization: `${authorization} ` },
      { authorization: `Bearer ${TOKEN.slice(1)}x` },
    ]) {
      for (const url of ['/v1/epochs', '/v1/signatures']) {
        const reply = await post(app, url, body, headers)
        expect([reply.statusCode, reply.json().code]).toEqual([401, 'unauthorized'])
      }
    }
    const closed = (await server()).app
    for (const url of ['/v1/epochs', '/v1/signatures']) {
      expect((await post(closed, url, body, { authorization })).statusCode).toBe(404)
    }
    expect(living.newest.manifest.epoch).toBe(1)
  })

  test('web pages may send a token where a publisher writes, and nowhere else', async () => {
    const preflight = async (app: FastifyInstance, url: string) => {
      const headers = {
        origin: 'https://app.example',
        'access-control-request-method': 'POST',
        'access-control-request-headers': 'authorization, content-type',
      }
      const reply = await app.inject({ method: 'OPTIONS', url, headers })
      expect([reply.statusCode, reply.headers['access-control-allow-origin']]).toEqual([204, '*'])
      expect(reply.headers['access-control-allow-credentials']).toBeUndefined()
      const allowed = String(reply.headers['access-control-allow-headers']).toLowerCase().split(', ')
      expect(allowed).toContain('content-type')
      return allowed.includes('authorization')
    }
    const { living, app } = await server({ token: TOKEN })
    const named = await createServer({ datasets: [{ name: 'list', living }], publisherToken: TOKEN })
    onTestFinished(() => named.close())
    const readOnly = (await server()).app
    for (const route of ['/v1/epochs', '/v1/signatures', '/v1/epochs?x=1']) {
      expect(await preflight(app, route)).toBe(true)
      expect(await preflight(named, `/list${route}`)).toBe(true)
      expect(await preflight(named, route)).toBe(false)
      expect(await preflight(readOnly, route)).toBe(false)
    }
    for (const route of ['/v1/answer', '/v1/fence', '/v1/manifest', '/v1/epochs/1', '/v1/events', '/']) {
      expect(await preflight(app, route)).toBe(false)
    }
    const headers = { origin: 'https://app.example', authorization, 'content-type': 'application/octet-stream' }
    const body = batchOn(living, [{ op: 'delete', key: 'one' }])
    const reply = await post(app, '/v1/epochs', body, headers)
    expect([reply.statusCode, reply.headers['access-control-allow-origin']]).toEqual([200, '*'])
    // A page must be able to read why it was refused.
    const refused = await post(app, '/v1/epochs', body, { ...headers, authorization: 'Bearer wrong' })
    expect([refused.statusCode, refused.headers['access-control-allow-origin']]).toEqual([401, '*'])
  })

  test('a refused batch names its line', async () => {
    const { living, app } = await server({ token: TOKEN })
    const reply = await post(app, '/v1/epochs', batchOn(living, [{ op: 'delete', key: 'none' }]), { authorization })
    expect(reply.statusCode).toBe(422)
    expect(parseErrorReply(reply.body)).toMatchObject({ code: 'batch_refused', line: 1 })
  })

  test('a signature that verifies is handed on, any other refused', async () => {
    const { living, app } = await server({ token: TOKEN })
    const { secretKey, publicKey } = ed25519.keygen(pseudoRandom(32))
    const signature = toHex(ed25519.sign(signedBytes(living.newest.manifestBytes), secretKey))
    const entry = { publicKey: toHex(publicKey), generation: 1, epoch: 1, signature }
    const send = (change: object) =>
      post(app, '/v1/signatures', JSON.stringify({ ...entry, ...change }), { authorization })
    expect((await send({})).statusCode).toBe(200)
    expect(parseInfo((await app.inject('/v1/info')).json()).signatures).toEqual([entry])
    for (const change of [
      { signature: `00${signature.slice(2)}` },
      { publicKey: '00'.repeat(32) },
      { publicKey: 'zz' },
    ]) {
      expect((await send(change)).statusCode).toBe(400)
    }
    expect((await send({ epoch: 2 })).json()).toMatchObject({ code: 'epoch_unknown', epoch: 1 })
    expect(parseInfo((await app.inject('/v1/info')).json()).signatures).toEqual([entry])
  })

  test('a stream tells of every epoch, and of its signature, in lines of one length, and ends with the server', async () => {
    const { living, app } = await server()
    const url = await app.listen({ host: '127.0.0.1', port: 0 })
    const response = await fetch(`${url}/v1/events`)
    expect(response.headers.get('content-type')).toBe('application/x-ndjson')
    const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader()
    expect(parseEvent((await reader.read()).value!)).toEqual({ generation: 1, epoch: 1 })
    await living.publish(batchOn(living, [{ op: 'delete', key: 'one' }]))
    const { value } = await reader.read()
    expect(value!.length).toBe(48)
    expect(parseEvent(value!)).toEqual({ generation: 1, epoch: 2 })
    const { secretKey, publicKey } = ed25519.keygen(pseudoRandom(32))
    const signature = toHex(ed25519.sign(signedBytes(living.newest.manifestBytes), secretKey))
    await living.addSignature({ publicKey: toHex(publicKey), generation: 1, epoch: 2, signature })
    expect((await reader.read()).value).toBe(value)
    const closing = app.close()
    expect((await reader.read()).done).toBe(true)
    await closing
  })

  test('the fence keeps to the table of docs/protocol.md', async () => {
    let seconds = 1_800_000_000
    const { living, app } = await server({ living: { fence: { days: 10, entries: 2, now: () => seconds } } })
    const zero = new Uint8Array(32)
    const [h, g] = [pseudoRandom(32, 1), pseudoRandom(32, 2)]
    const ask = async (kind: FenceRequest['kind'], id: number, version = 0, requestHash: Uint8Array = zero) => {
      const { databaseId } = living
      const hintId = new Uint8Array(16).fill(id)
      const reply = await post(app, '/v1/fence', encodeFenceRequest({ kind, databaseId, hintId, version, requestHash }))
      if (reply.statusCode !== 200) return reply.json().code as string
      expect(reply.rawPayload.length).toBe(8)
      return reply.rawPayload[6] === 1 ? 'granted' : 'refused'
    }
    const steps: [...Parameters<typeof ask>, string][] = [
      ['confirm', 1, 0, zero, 'refused'], // unknown
      ['confirm', 1, 5, h, 'refused'],
      ['register', 1, 0, zero, 'granted'],
      ['register', 1, 0, zero, 'granted'], // its reply was lost
      ['confirm', 1, 0, zero, 'granted'],
      ['confirm', 1, 0, h, 'granted'],
      ['confirm', 1, 0, h, 'granted'], // the same bytes again
      ['confirm', 1, 0, g, 'refused'], // a clone's other bytes
      ['confirm', 1, 0, zero, 'refused'], // a state from before the request
      ['register', 1, 0, zero, 'refused'],
      ['confirm', 1, 7, zero, 'granted'], // and nothing is kept
      ['confirm', 1, 6, h, 'granted'],
      ['confirm', 1, 5, zero, 'refused'],
      ['confirm', 1, 7, g, 'granted'],
      ['confirm', 1, 7, zero, 'refused'],
      ['confirm', 1, 7, h, 'refused'],
      ['confirm', 1, Number.MAX_SAFE_INTEGER, h, 'granted'],
      ['register', 2, 0, zero, 'granted'],
      ['register', 3, 0, zero, 'fence_full'],
      ['register', 2, 0, zero, 'granted'],
    ]
    for (const [kind, id, version, hash, verdict] of steps) {
      expect([kind, id, version, await ask(kind, id, version, hash)]).toEqual([kind, id, version, verdict])
    }
    seconds += 8 * 86_400
    expect(await ask('confirm', 2, 1, h)).toBe('granted')
    seconds += 5 * 86_400
    expect(await ask('confirm', 1, Number.MAX_SAFE_INTEGER, h)).toBe('refused') // expired
    expect(await ask('register', 3)).toBe('granted') // in its place
    expect(await ask('confirm', 2, 1, h)).toBe('granted')
    expect((await post(app, '/v1/fence', new Uint8Array(79))).statusCode).toBe(400)
    expect((await post(app, '/v1/fence', new Uint8Array(81))).statusCode).toBe(413)
  })

  describe('a claim behind a query', () => {
    const zero = new Uint8Array(32)
    const [h, g] = [pseudoRandom(32, 1), pseudoRandom(32, 2)]

    /** What can be asked of a fence, by itself and with queries. Every answer is held against that to the bare query. */
    function asking(living: LivingDatabase, app: FastifyInstance) {
      const { databaseId } = living
      const hint = (id: number, version: number, requestHash: Uint8Array): FenceClaim => ({
        ...{ databaseId, hintId: new Uint8Array(16).fill(id), version, requestHash },
      })
      const alone = async (kind: FenceRequest['kind'], ...claim: Parameters<typeof hint>): Promise<FenceVerdict> => {
        const reply = await post(app, '/v1/fence', encodeFenceRequest({ kind, ...hint(...claim) }))
        expect(reply.statusCode).toBe(200)
        return reply.rawPayload[6] === 1 ? 'granted' : 'refused'
      }
      const query = (manifest = living.newest.manifest) => queryAt(manifest, 0, 2)
      const send = (claim: FenceClaim, body: Uint8Array = query()) => post(app, '/v1/answer', withClaim(body, claim))
      const behind = async (...claim: Parameters<typeof hint>): Promise<FenceVerdict> => {
        const { manifest } = living.newest
        const reply = await send(hint(...claim))
        expect([reply.statusCode, reply.rawPayload.length]).toEqual([200, answerBytes(manifest, 2) + 8])
        const { answer, verdict } = splitVerdict(reply.rawPayload)
        expect(decodeAnswer(manifest, 2, answer).length).toBe(answerBytes(manifest, 2) - 40)
        const bare = await post(app, '/v1/answer', query())
        expect(Buffer.from(answer).equals(bare.rawPayload)).toBe(true)
        return verdict
      }
      return { hint, alone, query, send, behind }
    }

    test('is judged by the same table, with the answer whatever the verdict', async () => {
      const { living, app } = await server()
      const { alone, behind } = asking(living, app)
      expect(await behind(1, 5, h)).toBe('refused') // unknown
      expect(await alone('register', 1, 0, zero)).toBe('granted') // and not kept
      const steps: [...Parameters<typeof behind>, FenceVerdict][] = [
        [1, 0, h, 'granted'],
        [1, 0, h, 'granted'], // the same bytes again
        [1, 0, g, 'refused'], // a clone's
        [1, 7, g, 'granted'],
        [1, 7, h, 'refused'],
        [1, 6, h, 'refused'],
        [1, 7, g, 'granted'],
        [1, Number.MAX_SAFE_INTEGER, h, 'granted'],
        [2, 0, h, 'refused'],
      ]
      for (const [id, version, hash, verdict] of steps) {
        expect([id, version, await behind(id, version, hash)]).toEqual([id, version, verdict])
      }
    })

    test('moves the one fence on that is asked by itself, too', async () => {
      const { living, app } = await server()
      const { alone, behind } = asking(living, app)
      await alone('register', 1, 0, zero)
      expect(await behind(1, 3, h)).toBe('granted')
      expect(await alone('confirm', 1, 3, h)).toBe('granted')
      expect(await alone('confirm', 1, 3, g)).toBe('refused')
      expect(await alone('confirm', 1, 3, zero)).toBe('refused')
      expect(await alone('confirm', 1, 2, h)).toBe('refused')
      expect(await alone('register', 1, 0, zero)).toBe('refused')
      expect(await alone('confirm', 1, 4, g)).toBe('granted')
      expect(await behind(1, 3, h)).toBe('refused')
      expect(await behind(1, 4, h)).toBe('refused')
      expect(await behind(1, 4, g)).toBe('granted')
    })

    test.each(['merkle', 'tags'] as const)(
      'is answered in one length, which is announced and never another (%s)',
      async kind => {
        const { living, app } = await server()
        const { hint, alone, send } = asking(living, app)
        await alone('register', 1, 0, zero)
        const { manifest } = living.newest
        for (const [count, version, hash] of [
          [1, 5, h], // granted
          [1, 4, h], // refused
          [64, 5, h],
          [64, 5, g],
        ] as const) {
          const query = queryAt(manifest, 0, count, kind)
          const claimed = Buffer.from(withClaim(query, hint(1, version, hash)))
          const headers = { 'accept-encoding': 'gzip, br' }
          const reply = await app.inject({ method: 'POST', url: '/v1/answer', payload: claimed, headers })
          const bytes = answerBytes(manifest, count, kind) + 8
          expect(reply.rawPayload.length).toBe(bytes)
          expect(reply.headers).toMatchObject({
            ...{ 'content-type': 'application/octet-stream', 'content-length': `${bytes}` },
            'cache-control': 'no-store, no-transform',
          })
          expect(reply.headers).not.toHaveProperty('content-encoding')
          expect(reply.headers).not.toHaveProperty('transfer-encoding')
        }
        expect((await send(hint(1, 5, h))).headers['content-length']).toBe(`${answerBytes(manifest, 2) + 8}`)
      },
    )

    test('is not judged where the query is refused', async () => {
      const { living, app } = await server()
      const { hint, alone, query, send } = asking(living, app)
      await alone('register', 1, 0, zero)
      const old = living.newest.manifest
      for (let i = 0; i < 2; i++) await living.publish(batchOn(living, [{ op: 'edit', key: 'one', value: `${i}` }]))
      const { manifest } = living.newest
      const changed = (at: number, value: number) => {
        const bytes = query()
        bytes[at] = value
        return bytes
      }
      const otherDatabase = { databaseId: pseudoRandom(16) }
      for (const [code, reply] of [
        ['epoch_unknown', await send(hint(1, 7, h), query(old))],
        ['epoch_unknown', await send(hint(1, 7, h), changed(28, 9))],
        ['bad_request', await send(hint(1, 7, h), changed(6, 3))], // suite
        ['bad_request', await send(hint(1, 7, h), queryAt(manifest, manifest.partitionRecords))],
        [
          'wrong_database',
          await send({ ...hint(1, 7, h), ...otherDatabase }, query({ ...manifest, ...otherDatabase })),
        ],
      ] as const) {
        expect(parseErrorReply(reply.body).code).toBe(code)
      }
      expect(await alone('confirm', 1, 0, zero)).toBe('granted')
      expect(await alone('register', 1, 0, zero)).toBe('granted')
    })

    test('is refused with its query where it is malformed, or of another database', async () => {
      const { living, app } = await server()
      const { hint, alone, query, send } = asking(living, app)
      await alone('register', 1, 0, zero)
      const claim = hint(1, 7, h)
      const body = withClaim(query(), claim)
      const start = query().length
      const changed = (at: number, value: number) => {
        const bytes = Uint8Array.from(body)
        bytes[start + at] = value
        return bytes
      }
      const registration = { ...hint(1, 0, zero), kind: 'register' } as const
      for (const malformed of [
        changed(0, 0x51), // magic
        changed(4, 2), // format
        changed(6, 1), // a registration with a version
        Buffer.concat([query(), encodeFenceRequest(registration)]),
        changed(6, 3), // kind
        changed(8, body[start + 8]! ^ 1), // database
        changed(46, 0x20), // a version of 2⁵³ and more
        withClaim(query(), hint(1, 7, zero)),
        Buffer.concat([query(), Buffer.alloc(80)]),
        body.subarray(0, -1),
        body.subarray(1),
        Buffer.concat([body, Buffer.alloc(1)]),
        Buffer.concat([body, encodeFenceRequest({ kind: 'confirm', ...claim })]),
        encodeFenceRequest({ kind: 'confirm', ...claim }),
      ]) {
        const reply = await post(app, '/v1/answer', malformed)
        expect(parseErrorReply(reply.body).code, toHex(malformed.subarray(start))).toBe('bad_request')
        expect(reply.statusCode).toBe(400)
      }
      expect(await alone('confirm', 1, 0, zero)).toBe('granted')
      expect((await send(claim)).statusCode).toBe(200)
    })

    test('the longest query may have one, and nothing is longer', async () => {
      // 1024 partitions of 128 bytes: 64 queries without proofs are as many offsets as there can be.
      const storage = await storageOf('a.bin', pseudoRandom(1024 * 128), { recordBytes: 128, partitions: 1024 })
      const living = await opened(storage)
      const app = await createServer({ datasets: [{ living }] })
      onTestFinished(() => app.close())
      const { hint, alone } = asking(living, app)
      await alone('register', 1, 0, zero)
      const query = queryAt(living.newest.manifest, 0, 64, 'tags')
      const longest = withClaim(query, hint(1, 1, h))
      const reply = await post(app, '/v1/answer', longest)
      expect([reply.statusCode, reply.rawPayload.length]).toEqual([200, 40 + 64 * 1024 * 128 + 8])
      expect(splitVerdict(reply.rawPayload).verdict).toBe('granted')
      for (const more of [1, 80]) {
        const refused = await post(app, '/v1/answer', Buffer.concat([longest, Buffer.alloc(more)]))
        expect([refused.statusCode, parseErrorReply(refused.body).code]).toEqual([413, 'too_large'])
      }
    })

    test('is on disk before it is answered', async () => {
      const dataset = await loadDataset(await builtDirectory('a.csv', KEYED))
      const dir = await temporaryDirectory()
      const storage = openLmdb(dir)
      await LivingDatabase.create(storage, dataset)
      dataset.close()
      await storage.close()
      const life = async (use: (asked: ReturnType<typeof asking>) => Promise<void>) => {
        const living = await LivingDatabase.open(openLmdb(dir))
        const app = await createServer({ datasets: [{ living }] })
        await use(asking(living, app))
        await app.close()
        await living.close()
      }
      await life(async ({ alone, behind }) => {
        await alone('register', 1, 0, zero)
        expect(await behind(1, 3, h)).toBe('granted')
        expect(await behind(1, 2, g)).toBe('refused')
      })
      await life(async ({ alone, behind }) => {
        expect(await behind(1, 2, h)).toBe('refused')
        expect(await behind(1, 3, g)).toBe('refused')
        expect(await alone('confirm', 1, 3, zero)).toBe('refused')
        expect(await behind(1, 3, h)).toBe('granted')
        expect(await behind(1, 4, g)).toBe('granted')
      })
    })

    test('is not granted where it cannot be kept, and leaves no trace', async () => {
      const storage = await storageOf('a.csv', KEYED)
      const living = await opened(storage)
      const app = await createServer({ datasets: [{ living }] })
      onTestFinished(() => app.close())
      const { hint, alone, behind, send } = asking(living, app)
      await alone('register', 1, 0, zero)
      storage.fails = key => key.startsWith('fence/')
      const reply = await send(hint(1, 3, h))
      expect([reply.statusCode, parseErrorReply(reply.body).code]).toEqual([500, 'internal'])
      storage.fails = () => false
      expect(await alone('confirm', 1, 0, zero)).toBe('granted')
      expect(await behind(1, 3, g)).toBe('granted')
    })

    test('any bytes are answered or refused, never with a 5xx', async () => {
      const { living, app } = await server()
      const { hint, alone, query } = asking(living, app)
      await alone('register', 1, 0, zero)
      const body = Buffer.from(withClaim(query(), hint(1, 3, h)))
      const damaged = fc
        .array(fc.tuple(fc.nat({ max: body.length - 1 }), fc.nat({ max: 255 })), { maxLength: 4 })
        .map(changes => {
          const bytes = Buffer.from(body)
          for (const [at, value] of changes) bytes[at] = value
          return bytes
        })
      const bodies = fc.oneof(
        damaged,
        damaged.chain(bytes => fc.nat({ max: bytes.length }).map(length => bytes.subarray(0, length))),
      )
      await fc.assert(
        fc.asyncProperty(bodies, async bytes => {
          const reply = await post(app, '/v1/answer', bytes)
          expect([200, 400, 404]).toContain(reply.statusCode)
          if (reply.statusCode !== 200) parseErrorReply(reply.body)
        }),
        { numRuns: 500 },
      )
    })
  })
})
