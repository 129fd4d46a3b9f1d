import { crc32 } from 'node:zlib'
import {
  answerBytes,
  decodeAnswer,
  decodeManifest,
  EVENT_BYTES,
  encodeFenceRequest,
  encodeQuery,
  type FenceClaim,
  type FenceRequest,
  type FenceVerdict,
  parseErrorReply,
  parseEvent,
  parseInfo,
  signedBytes,
  splitVerdict,
  toHex,
  withClaim,
} from '@keyhush/protocol'
import { decodeManifests } from '@keyhush/protocol/chain'
import { ed25519 } from '@noble/curves/ed25519.js'
import { blake3 } from '@noble/hashes/blake3.js'
import fc from 'fast-check'
import type { FastifyInstance } from 'fastify'
import { describe, expect, onTestFinished, test, vi } from 'vitest'
import { PUBLISHER, signed } from '../../tests/support/publishing.js'
import { networkOf } from '../dist/base/address.js'
import type { Fence } from '../dist/database/fence.js'
import { StoredFence } from '../dist/database/stored-fence.js'
import { MemoryStorage, type Transaction, UpdatableDatabase, type UpdatableOptions } from '../dist/index.js'
import { Draft, StorageError } from '../dist/storage/storage.js'
import { asking } from './fence-laws.js'
import {
  changed,
  dataFile,
  fenceRequest,
  listed,
  listening,
  partitionHashes,
  post,
  pseudoRandom,
  queryAt,
  running,
  vectors,
} from './helpers.js'
import { exchanged } from './sockets.js'
import {
  batchOn,
  bodyOf,
  contents,
  FailingStorage,
  KEYED,
  keyed,
  numbers,
  opened,
  printOf,
  recordAt,
  refusal,
  storageOf,
} from './updatable-helpers.js'

const DELETE = '{"op":"delete","key":"one"}\n'
/** `value`: as it stands in JSON */
const editOf = (value: string) => `{"op":"edit","key":"one","value":"${value}"}\n`
const deleteOf = (members: object) => `${JSON.stringify({ op: 'delete', ...members })}\n`
const batchHash = (body: Uint8Array) => toHex(blake3(body))

describe('an epoch', () => {
  test.each(['merkle', 'tags'] as const)(
    'that opens a partition answers every batch its generation allowed, here and after a restart (%s)',
    async proofs => {
      const records = Buffer.concat(Array.from({ length: 16 }, (_, i) => Buffer.alloc(65_536, i + 1)))
      const storage = await storageOf('a.bin', records, { recordBytes: 65_536, proofs })
      const updatable = await opened(storage)
      const before = updatable.newest.manifest
      expect([before.recordBytes, before.partitions, before.maxQueries]).toEqual([65_536, 16, 8])
      const added = { op: 'add', value: 'ab'.repeat(65_536) }
      await updatable.publish(batchOn(updatable, [added], { encoding: 'hex' }))
      const { manifest } = updatable.newest
      expect([manifest.partitions, manifest.maxQueries]).toEqual([17, 8])
      for (const each of [updatable, await opened(storage)]) {
        const app = await running({ datasets: [{ updatable: each }] })
        for (const at of [manifest, before]) {
          const reply = await post(app, '/v1/answer', queryAt(at, 0, 8, proofs))
          expect(reply.statusCode, `epoch ${at.epoch}`).toBe(200)
          const entries = decodeAnswer(at, 8, reply.rawPayload, proofs)
          expect(entries.length).toBe(8 * at.partitions * 65_536)
          expect(entries.at(-1)).toBe(at === before ? 16 : 0xab)
          const nine = await post(app, '/v1/answer', queryAt({ ...at, maxQueries: 9 }, 0, 9, proofs))
          expect(parseErrorReply(nine.body).message).toMatch(/count: expected at most 8/)
        }
      }
      // Up to twice the partitions, and then a new generation has a limit of its own.
      const more = (howMany: number) => batchOn(updatable, Array(howMany).fill(added), { encoding: 'hex' })
      await expect(updatable.publish(more(16))).rejects.toThrow(/line 16: the generation is full; begin a new one/)
      expect(updatable.newest.manifest).toEqual(manifest)
    },
  )

  test('of a store in another format is not served: both formats are named, and nothing is changed', async () => {
    const storage = await storageOf('list.csv', KEYED)
    const text = Buffer.from((await storage.get('head'))!)
      .toString()
      .slice(0, -8)
    const older = text.replace(/"format":(\d+)/, (_, format) => `"format":${format - 1}`)
    const checked = older + crc32(older).toString(16).padStart(8, '0')
    await storage.transact([], transaction => transaction.put('head', Buffer.from(checked)))
    await expect(opened(storage)).rejects.toThrow(/expected format \d+, but the store has format \d+/)
    expect(Buffer.from((await storage.get('head'))!).toString()).toBe(checked)
  })

  test('is what its batch makes of the one before, and says so in its manifest', async () => {
    const updatable = await keyed()
    const first = updatable.newest
    const body = batchOn(updatable, [
      { op: 'edit', key: 'two', value: 'changed' },
      { op: 'delete', key: 'three' },
      { op: 'add', key: 'four', value: 'fourth' },
    ])
    const status = await updatable.publish(body)
    expect(status).toEqual({
      ...{ generation: 1, epoch: 2, manifest: updatable.newest.manifestHash, batch: batchHash(body), changes: 3 },
    })
    expect(updatable.status(2)).toEqual(status)
    expect(updatable.status(1)).toEqual({ ...updatable.list()[0], batch: '', changes: 0 })
    expect(updatable.status(3)).toBeUndefined()
    const { manifest, manifestBytes } = updatable.newest
    expect(toHex(manifest.previousManifest)).toBe(first.manifestHash)
    expect(decodeManifest(manifestBytes)).toEqual(manifest)
    expect([manifest.records, manifest.epoch, manifest.generation]).toEqual([4, 2, 1])
    expect(await contents(updatable)).toEqual(
      new Map([
        [printOf('one'), 'first'],
        [printOf('two'), 'changed'],
        [printOf('four'), 'fourth'],
      ]),
    )
    // What clients fetch is there under the manifest's hashes.
    const list = await bodyOf(updatable, manifest.updateListHash)
    expect(toHex(blake3(list))).toBe(toHex(manifest.updateListHash))
    expect(list.length).toBe(40 + 3 * (5 + manifest.recordBytes))
    expect(toHex(blake3(await bodyOf(updatable, manifest.directoryHash)))).toBe(toHex(manifest.directoryHash))
    for (const hash of partitionHashes(manifest)) expect(toHex(blake3(await bodyOf(updatable, hash)))).toBe(hash)
  })

  test('may begin a new generation, which goes on counting', async () => {
    const old = await keyed()
    await old.publish(batchOn(old, [{ op: 'delete', key: 'one' }]))
    const succeeds = await dataFile('manifest.bin', old.newest.manifestBytes)
    const updatable = await opened(await storageOf('a.csv', KEYED, { succeeds, partitions: 2 }))
    const { manifest, manifestBytes } = updatable.newest
    expect([manifest.generation, manifest.epoch, manifest.updateListBytes]).toEqual([2, 3, 0])
    expect(toHex(manifest.previousManifest)).toBe(old.newest.manifestHash)
    const chain = Buffer.concat([old.newest.manifestBytes, manifestBytes])
    expect(decodeManifests(chain).map(({ manifest: { epoch } }) => epoch)).toEqual([2, 3])
    expect([await updatable.since(1), await updatable.since(2), (await updatable.since(3))?.length]).toEqual([
      undefined,
      Buffer.from(manifestBytes),
      0,
    ])
    await updatable.publish(batchOn(updatable, [{ op: 'add', key: 'four', value: 'x' }]))
    expect(updatable.list().map(numbers)).toEqual(['2.3', '2.4'])
  })
})

describe('a batch', () => {
  test('that was made into an epoch before gets the same status again', async () => {
    const updatable = await keyed()
    const body = batchOn(updatable, [{ op: 'delete', key: 'one' }])
    const statuses = await Promise.all([updatable.publish(body), updatable.publish(body)])
    expect(statuses[0]).toEqual(statuses[1])
    await updatable.publish(batchOn(updatable, [{ op: 'delete', key: 'two' }]))
    expect(await updatable.publish(body)).toEqual(statuses[0])
    expect(updatable.newest.manifest.epoch).toBe(3)
  })

  test.each<[string, string, number, RegExp]>([
    ['adds a key that exists', '{"op":"add","key":"one","value":"x"}\n', 1, /exists/],
    ['edits a key that does not exist', '{"op":"edit","key":"none","value":"x"}\n', 1, /no such/],
    ['deletes a key twice', '{"op":"delete","key":"one"}\n{"op":"delete","key":"one"}\n', 2, /no such/],
    [
      'has a value that is too long',
      '{"op":"delete","key":"one"}\n{"op":"edit","key":"two","value":"123456789012345678901"}\n',
      2,
      /at most 20 bytes, got 21/,
    ],
    ['has a line that is not JSON', '{"op":"delete","key":"one"}\nnonsense\n', 2, /expected one JSON object/],
    ['has an empty line', '{"op":"delete","key":"one"}\n\n{"op":"delete","key":"two"}\n', 2, /an empty line/],
    ['has a line that is not JSON in braces', '{op:"delete"}\n', 1, /not JSON/],
    ['has no last line feed', '{"op":"delete","key":"one"}', 1, /line feed/],
    ['has no last line feed, of two', '{"op":"delete","key":"one"}\n{"op":"delete","key":"two"}', 2, /line feed/],
    ['has carriage returns', '{"op":"delete","key":"one"}\r\n', 1, /carriage return/],
    ['has a carriage return between members', '{"op":"delete",\r"key":"one"}\n', 1, /carriage return/],
    ['has a byte order mark', '\ufeff{"op":"delete","key":"one"}\n', 1, /a byte order mark/],
    ['has UTF-16', [...DELETE].join('\0'), 1, /UTF-16/],
    ['has a space before', ' {"op":"delete","key":"one"}\n', 1, /expected one JSON object/],
    ['has a space behind', '{"op":"delete","key":"one"} \n', 1, /expected one JSON object/],
    ['has a blank line at its end', '{"op":"delete","key":"one"}\n\n', 2, /an empty line/],
    ['has a member twice', '{"op":"delete","key":"one","key":"two"}\n', 1, /twice/],
    ['has a member twice, written otherwise', '{"op":"delete","key":"one","\\u006bey":"two"}\n', 1, /twice/],
    [
      'has a member twice, with braces and quotes',
      '{"op":"edit","key":"one","value":"\\":{","value":"x"}\n',
      1,
      /twice/,
    ],
    ['has an object as a member', '{"op":"delete","key":{"key":"one"}}\n', 1, /"key" is not text or a number/],
    ['has nothing for a value', '{"op":"edit","key":"one","value":null}\n', 1, /"value" is not text/],
    ['has an unknown operation', '{"op":"upsert","key":"one","value":"x"}\n', 1, /"op"/],
    ['has a member too many', '{"op":"delete","key":"one","value":"x"}\n', 1, /"value"/],
    ['has an index in a keyed database', '{"op":"delete","index":1}\n', 1, /"index"/],
    ['has a key and a fingerprint', deleteOf({ key: 'one', fingerprint: printOf('one') }), 1, /"fingerprint"/],
    ['has a fingerprint that is too short', deleteOf({ fingerprint: printOf('one').slice(1) }), 1, /32 lower-case hex/],
    ['has a fingerprint that is too long', deleteOf({ fingerprint: `${printOf('one')}0` }), 1, /32 lower-case hex/],
    ['has a fingerprint in capitals', deleteOf({ fingerprint: 'ABCDEF0123456789'.repeat(2) }), 1, /32 lower-case hex/],
    ['has a fingerprint of zeros', `${DELETE}${deleteOf({ fingerprint: '0'.repeat(32) })}`, 2, /not all zero/],
    ['has the fingerprint of no key', deleteOf({ fingerprint: printOf('none') }), 1, /no such/],
    ['has an edit by fingerprint', `{"op":"edit","fingerprint":"${printOf('one')}","value":"x"}\n`, 1, /"fingerprint"/],
    ['has an empty key', '{"op":"delete","key":""}\n', 1, /empty/],
    ['has no value', '{"op":"edit","key":"one"}\n', 1, /"value"/],
    ['has a lone surrogate', '{"op":"delete","key":"\\ud800"}\n', 1, /surrogate/],
    ['has a line longer than any operation', `${DELETE}${editOf('x'.repeat(2 ** 20))}`, 2, /at most 1048576 bytes/],
    ['has only a line longer than any operation', editOf('x'.repeat(2 ** 21)), 1, /at most 1048576 bytes/],
    ['has a long line without an end', '{'.repeat(2 ** 21), 1, /at most 1048576 bytes/],
    ['has a long value of escapes', editOf('\\u0061'.repeat(170_000)), 1, /at most 20 bytes, got 170000/],
    ['has a string of escapes that does not end', `{"op":"${'\\"'.repeat(500_000)}}\n`, 1, /not JSON/],
    ['has more spaces than any operation', `{"op":"delete",${' '.repeat(1024)}"key":"one"}\n`, 1, /1024 characters/],
    ['begins a generation before others', '{"op":"generation"}\n{"op":"delete","key":"one"}\n', 1, /only line/],
    ['begins a generation after others', '{"op":"delete","key":"one"}\n{"op":"generation"}\n', 2, /only line/],
    ['begins two generations', '{"op":"generation"}\n{"op":"generation"}\n', 1, /only line of its batch/],
    ['has a member too many for a generation', '{"op":"generation","key":"one"}\n', 1, /"key"/],
    ['has words for headroom', '{"op":"generation","headroom":"7"}\n', 1, /"headroom"/],
    ['has more headroom than any layout', `{"op":"generation","headroom":${2 ** 32 - 1}}\n`, 1, /layout/],
  ])('that %s is refused whole, with its line', async (_, operations, line, reason) => {
    const updatable = await keyed()
    const [before, held] = [updatable.newest, await contents(updatable)]
    const refused = await refusal(updatable.publish(batchOn(updatable, operations)))
    expect(refused.reply).toMatchObject({ code: 'batch_refused', line })
    expect(refused.message).toMatch(reason)
    expect([updatable.newest, updatable.list().length]).toEqual([before, 1])
    expect(await contents(updatable)).toEqual(held)
    await updatable.publish(batchOn(updatable, [{ op: 'delete', key: 'one' }]))
  })

  test('deletes by fingerprint what another deletes by key, and makes the same epoch', async () => {
    const makes = async (members: object) => {
      const updatable = await keyed({ name: 'same' })
      const others = [
        { op: 'add', key: 'four', value: 'x' },
        { op: 'delete', key: 'three' },
      ] // read together with it
      await updatable.publish(batchOn(updatable, [others[0]!, { op: 'delete', ...members }, others[1]!]))
      return toHex(updatable.newest.manifestBytes)
    }
    expect(await makes({ fingerprint: printOf('one') })).toBe(await makes({ key: 'one' }))
  })

  test('by fingerprint is refused without keys, with its line', async () => {
    const updatable = await opened(await storageOf('a.bin', pseudoRandom(64), { recordBytes: 8 }))
    const { reply, message } = await refusal(
      updatable.publish(batchOn(updatable, deleteOf({ fingerprint: printOf('a') }))),
    )
    expect([reply.line, message]).toEqual([
      1,
      expect.stringMatching(/"fingerprint" does not belong to delete in a keyless/),
    ])
  })

  test('with a line longer than any operation, or of more members, is refused before it is parsed', async () => {
    const updatable = await keyed()
    const parse = vi.spyOn(JSON, 'parse')
    onTestFinished(() => parse.mockRestore())
    const members = Array.from({ length: 50_000 }, (_, i) => `"${i}":1`).join()
    for (const line of [editOf('x'.repeat(2 ** 20)), `{${members}}\n`, `{"op":[${'1,'.repeat(400_000)}1]}\n`]) {
      expect((await refusal(updatable.publish(batchOn(updatable, line)))).code).toBe('batch_refused')
    }
    expect(parse).not.toHaveBeenCalled()
  })

  test('with more operations than their records have room for is refused before a line is parsed', async () => {
    const recordBytes = 65_536
    const updatable = await opened(await storageOf('a.bin', pseudoRandom(2 * recordBytes), { recordBytes }))
    const parse = vi.spyOn(JSON, 'parse')
    onTestFinished(() => parse.mockRestore())
    const lines = '{"op":"delete","index":0}\n'.repeat(8193)
    const { reply, message } = await refusal(updatable.publish(batchOn(updatable, lines)))
    expect([reply.line, message]).toEqual([8193, expect.stringMatching(/at most 8192 operations, got 8193/)])
    expect(parse).not.toHaveBeenCalled()
  })

  test.each([
    '1.0',
    '1e0',
    '1E0',
    '10e-1',
    '-0',
    '-1',
    '0.5',
    '2.0000000000000000001',
    '4294967296',
    `1${'0'.repeat(400)}`,
    '01',
  ])('with the number %s is refused: digits alone, below 2^32', async number => {
    const updatable = await opened(await storageOf('a.bin', pseudoRandom(32), { recordBytes: 8 }))
    const index = await refusal(updatable.publish(batchOn(updatable, `{"op":"delete","index":${number}}\n`)))
    expect(index.reply).toMatchObject({ code: 'batch_refused', line: 1 })
    const headroom = batchOn(updatable, `{"op":"generation","headroom":${number}}\n`)
    expect((await refusal(updatable.publish(headroom))).reply).toMatchObject({ code: 'batch_refused', line: 1 })
    for (const digits of ['0', '3']) await updatable.publish(batchOn(updatable, `{"op":"delete","index":${digits}}\n`))
  })

  test.each(['hex', 'base64'] as const)('has values in %s of one reading', async encoding => {
    const updatable = await keyed()
    const edit = (value: string) =>
      updatable.publish(batchOn(updatable, [{ op: 'edit', key: 'one', value }], { encoding }))
    const [taken, refused] = {
      hex: [
        ['6162', '6A6b', ''],
        ['616', '61 62', '0x61'],
      ],
      base64: [
        ['YWI=', 'YQ==', ''],
        ['YR==', 'YQ', 'YQ=', 'Y Q==', 'YQ==\n'],
      ],
    }[encoding]
    for (const value of taken!) {
      await edit(value)
      const expected = Buffer.from(value, encoding).toString()
      expect((await contents(updatable)).get(printOf('one'))).toBe(expected)
    }
    for (const value of refused!) expect((await refusal(edit(value))).code).toBe('batch_refused')
  })

  test.each([
    ['other numbers', '{"op":"edit","key":"one","value":"\\"-1.0e0"}\n', '"-1.0e0'],
    ['other members', '{ "op" : "edit",\t"key":"one", "value":":\\"{}:\\\\" }\n', ':"{}:\\'],
  ])('may have what looks like %s in its strings, and spaces between members', async (_, line, value) => {
    const updatable = await keyed()
    await updatable.publish(batchOn(updatable, line))
    expect((await contents(updatable)).get(printOf('one'))).toBe(value)
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
  async function change(updatable: UpdatableDatabase, model: Uint8Array[], among = model.length): Promise<void> {
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
    await updatable.publish(batchOn(updatable, operations, { encoding: 'hex' }))
  }

  async function records(updatable: UpdatableDatabase): Promise<string> {
    const { manifest } = updatable.newest
    const partitions = await Promise.all(partitionHashes(manifest).map(hash => bodyOf(updatable, hash)))
    return toHex(Buffer.concat(partitions).subarray(0, manifest.records * RECORD_BYTES))
  }

  const manyRecords = (count: number) => Array.from({ length: count }, bytes)

  test('are those of the newest epoch after a restart at any of them', async () => {
    const model = manyRecords(10_000)
    const storage = await storageOf('a.bin', Buffer.concat(model), { recordBytes: RECORD_BYTES, partitions: 10 })
    const chunks = await storage.count('chunk/')
    expect(chunks).toBeGreaterThan(2)
    let updatable = await UpdatableDatabase.open(storage)
    let written = false
    for (let epoch = 2; epoch < 200; epoch++) {
      // At first some chunks never change, and stay those of epoch 1.
      await change(updatable, model, epoch < 150 ? 100 : model.length)
      if (below(10) === 0) {
        await updatable.close()
        updatable = await UpdatableDatabase.open(storage)
        expect(await records(updatable)).toBe(toHex(Buffer.concat(model)))
        expect(updatable.list().length).toBe(2)
      }
      // Lists go once no chunk needs them any more and history ends; it ends 64 epochs back.
      written ||= (await storage.count('list/')) < epoch - 1
    }
    expect(written).toBe(true)
    await updatable.close()
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
    const updatable = await UpdatableDatabase.open(storage, { history: 1 })
    for (let i = 0; i < 70; i++) await change(updatable, model)
    await updatable.findBlob('') // after what is under way
    expect(failures).toBeGreaterThan(0)
    expect(await storage.count('list/')).toBe(70)
    failing = false
    await change(updatable, model)
    for (let i = 0; i < 3; i++) await updatable.findBlob('')
    await updatable.close()
    // Chunks are of the newest epoch now, and the one before is answered all the same.
    const again = await opened(storage, { history: 1 })
    expect(await records(again)).toBe(toHex(Buffer.concat(model)))
    expect(again.list().map(({ epoch }) => epoch)).toEqual([71, 72])
    await change(again, model)
    expect(await storage.count('list/')).toBe(2)
  })
})

describe('a failure to write', () => {
  test('leaves the known epoch answered; the same batch again is written when that is possible', async () => {
    const storage = await storageOf('a.csv', KEYED)
    const updatable = await opened(storage)
    const { manifest } = updatable.newest
    const records = [0, 1, 2].map(i => toHex(recordAt(updatable, manifest, i)))
    const told: Error[] = []
    updatable.onFailure = error => told.push(error)
    storage.fails = () => true
    const body = batchOn(updatable, [{ op: 'delete', key: 'one' }])
    for (let i = 0; i < 2; i++) await expect(updatable.publish(body)).rejects.toThrow('ENOSPC')
    expect(told).toEqual([])
    expect(updatable.newest.manifest).toBe(manifest)
    expect([0, 1, 2].map(i => toHex(recordAt(updatable, manifest, i)))).toEqual(records)
    storage.fails = () => false
    expect((await refusal(updatable.publish(batchOn(updatable, [{ op: 'delete', key: 'two' }])))).code).toBe(
      'not_ready',
    )
    const twin = await keyed({ maxValueBytes: undefined })
    expect(await updatable.publish(body)).toEqual(await twin.publish(body))
    expect(await contents(updatable)).toEqual(await contents(twin))
    const next = batchOn(updatable, [{ op: 'delete', key: 'two' }])
    expect(await updatable.publish(next)).toEqual(await twin.publish(next))
    const again = await UpdatableDatabase.open(storage)
    expect(await contents(again)).toEqual(await contents(twin))
  })

  test('takes nothing of the epoch that is there, and is a problem until the batch comes again', async () => {
    const storage = await storageOf('a.csv', KEYED)
    const updatable = await opened(storage)
    const app = await running({ datasets: [{ updatable }] })
    const { directoryHash } = updatable.newest.manifest
    const expectWhole = async () => {
      for (const hash of [...partitionHashes(updatable.newest.manifest), toHex(directoryHash)]) {
        expect(toHex(blake3((await app.inject(`/v1/blobs/${hash}`)).rawPayload))).toBe(hash)
      }
    }
    const problems = async () => (await app.inject('/readyz')).json().problems
    storage.fails = () => true
    const body = batchOn(updatable, [{ op: 'delete', key: 'one' }])
    await expect(updatable.publish(body)).rejects.toThrow('ENOSPC')
    await expectWhole()
    expect(await problems()).toEqual(['the store cannot be written'])
    expect(app.readiness.problems).toEqual(['a batch could not be written; publish it again'])
    storage.fails = () => false
    await updatable.publish(body)
    expect(await problems()).toBeUndefined()
    await expectWhole()
  })

  // In memory is then an epoch that is not on disk.
  test('stops writing chunks behind', async () => {
    const twin = await keyed()
    const storage = await storageOf('a.csv', KEYED, { maxValueBytes: 20 })
    const updatable = await UpdatableDatabase.open(storage)
    const next = async (value: string) => {
      const body = batchOn(twin, [{ op: 'edit', key: 'one', value }])
      await twin.publish(body)
      return body
    }
    for (let epoch = 2; epoch <= 65; epoch++) await updatable.publish(await next(`${epoch}`))
    // The first makes chunks be written, after the second, which fails.
    const bodies = [await next('written'), await next('failed')] as const
    storage.fails = key => key === 'manifest/00000043'
    const outcomes = await Promise.allSettled(bodies.map(body => updatable.publish(body)))
    expect(outcomes.map(({ status }) => status)).toEqual(['fulfilled', 'rejected'])
    await updatable.close()
    const again = await opened(storage)
    expect(again.newest.manifest.epoch).toBe(66)
    expect(again.find(1, 65)).toBeDefined()
  })
})

describe('over HTTP', () => {
  const publisherKeys = [PUBLISHER.publicKey]
  async function server(options: { publisherKeys?: Uint8Array[]; updatable?: UpdatableOptions } = {}) {
    const updatable = await keyed({}, options.updatable)
    const app = await running({ datasets: [{ updatable, publisherKeys: options.publisherKeys }] })
    return { updatable, app }
  }
  test('a batch makes an epoch, which everything then shows', async () => {
    const { updatable, app } = await server({ publisherKeys })
    const body = batchOn(updatable, [{ op: 'edit', key: 'one', value: 'x' }])
    const reply = await post(app, '/v1/epochs', body, signed(body))
    expect(reply.statusCode).toBe(200)
    expect(reply.json()).toEqual({ ...updatable.list()[1], batch: batchHash(body), changes: 1 })
    expect((await app.inject('/v1/epochs/2')).json()).toEqual(reply.json())
    const info = parseInfo((await app.inject('/v1/info')).json())
    expect(info.epochs).toEqual(updatable.list())
    expect(info.offers).toEqual({
      ...{
        proofs: ['merkle', 'tags'],
        updates: true,
        push: true,
        blobs: true,
        fence: true,
        instant: true,
        single: true,
        oneServer: false,
        history: 64,
      },
    })
    const chain = await app.inject('/v1/manifests?since=1')
    expect(decodeManifests(chain.rawPayload).map(({ manifest }) => manifest.epoch)).toEqual([2])
    const { manifest } = updatable.newest
    const list = await app.inject(`/v1/blobs/${toHex(manifest.updateListHash)}`)
    expect([list.statusCode, list.rawPayload.length]).toEqual([200, manifest.updateListBytes])
    for (const epoch of [1, 2]) {
      const known = updatable.find(1, epoch)!.manifest
      for (const proofs of ['merkle', 'tags'] as const) {
        const query = encodeQuery(known, 1, vectors(Array(known.partitions).fill(0)), proofs)
        const answer = await post(app, '/v1/answer', query)
        expect(decodeAnswer(known, 1, answer.rawPayload, proofs).length).toBe(answerBytes(known, 1, proofs) - 40)
      }
    }
  })

  test.each([false, true])(
    'history that is over is gone, restarted %s, and the reply names the newest epoch',
    async restart => {
      const storage = await storageOf('a.csv', KEYED, { maxValueBytes: 20 })
      let updatable = await UpdatableDatabase.open(storage, { history: 2 })
      const query = queryAt(updatable.newest.manifest, 0)
      const lists: string[] = []
      for (let epoch = 2; epoch <= 8; epoch++) {
        // Generations do not interrupt it.
        await updatable.publish(
          batchOn(updatable, [epoch === 7 ? { op: 'generation' } : { op: 'edit', key: 'one', value: `${epoch}` }]),
        )
        lists[epoch] = toHex(updatable.newest.manifest.updateListHash)
      }
      if (restart) {
        await updatable.close()
        await updatable.close() // again, which does nothing
        updatable = await UpdatableDatabase.open(storage, { history: 2 })
      }
      onTestFinished(() => updatable.close())
      const app = await running({ datasets: [{ updatable }] })
      const expectUnknown = async (url: string, payload?: Buffer) => {
        const reply = await (payload === undefined ? app.inject(url) : post(app, url, payload))
        const { code, generation, epoch } = parseErrorReply(reply.body)
        expect([url, reply.statusCode, code, generation, epoch]).toEqual([url, 404, 'epoch_unknown', 2, 8])
      }
      await expectUnknown('/v1/answer', query)
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
      for (const url of ['/v1/epochs/0', '/v1/manifest?generation=0&epoch=0', '/v1/manifests?since=0']) {
        await expectUnknown(url)
      }
      expect((await app.inject('/v1/manifests')).json().code).toBe('bad_request')
    },
  )

  test('web pages may send a batch’s signature where a publisher writes, and nowhere else', async () => {
    const preflight = async (app: FastifyInstance, url: string) => {
      const headers = {
        origin: 'https://app.example',
        'access-control-request-method': 'POST',
        'access-control-request-headers': 'keyhush-batch-signature, content-type',
      }
      const reply = await app.inject({ method: 'OPTIONS', url, headers })
      expect([reply.statusCode, reply.headers['access-control-allow-origin']]).toEqual([204, '*'])
      expect(reply.headers['access-control-allow-credentials']).toBeUndefined()
      const allowed = String(reply.headers['access-control-allow-headers']).toLowerCase().split(', ')
      expect(allowed).toContain('content-type')
      expect(allowed).not.toContain('authorization')
      return allowed.includes('keyhush-batch-signature')
    }
    const { updatable, app } = await server({ publisherKeys })
    const named = await running({ datasets: [{ name: 'list', updatable, publisherKeys }] })
    const readOnly = (await server()).app
    for (const route of ['/v1/epochs', '/v1/checks', '/v1/signatures', '/v1/epochs?x=1']) {
      expect(await preflight(app, route)).toBe(true)
      expect(await preflight(named, `/list${route}`)).toBe(true)
      for (const other of [named, readOnly]) {
        expect((await other.inject({ method: 'OPTIONS', url: route })).statusCode).toBe(404)
      }
    }
    for (const route of ['/v1/answer', '/v1/fence', '/v1/manifest', '/v1/epochs/1', '/v1/events', '/healthz']) {
      expect(await preflight(app, route)).toBe(false)
    }
    const headers = { origin: 'https://app.example', 'content-type': 'application/octet-stream' }
    const body = batchOn(updatable, [{ op: 'delete', key: 'one' }])
    const reply = await post(app, '/v1/epochs', body, { ...headers, ...signed(body) })
    expect([reply.statusCode, reply.headers['access-control-allow-origin']]).toEqual([200, '*'])
    // A page must be able to read why it was refused.
    const refused = await post(app, '/v1/epochs', body, headers)
    expect([refused.statusCode, refused.headers['access-control-allow-origin']]).toEqual([401, '*'])
  })

  test('an unsigned body is not read', async () => {
    const { port } = await listening({ datasets: [{ updatable: await keyed(), publisherKeys }] })
    // The body never comes; the refusal does.
    const head = 'POST /v1/epochs HTTP/1.1\r\nHost: x\r\nContent-Length: 60000000\r\n\r\n'
    expect(await exchanged(port, head, /\r\n\r\n/)).toMatch(/^HTTP\/1.1 401 /)
  })

  test('a stream tells of every epoch, and of its signature, in lines of one length, and ends with the server', async () => {
    const { updatable, app } = await server()
    const url = await app.listen({ host: '127.0.0.1', port: 0 })
    const response = await fetch(`${url}/v1/events`)
    expect(response.headers.get('content-type')).toBe('application/x-ndjson')
    const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader()
    expect(parseEvent((await reader.read()).value!)).toMatchObject({ generation: 1, epoch: 1 })
    await updatable.publish(batchOn(updatable, [{ op: 'delete', key: 'one' }]))
    const { value } = await reader.read()
    expect(value!.length).toBe(EVENT_BYTES)
    const { databaseId } = updatable
    expect(parseEvent(value!)).toEqual({ databaseId, generation: 1, epoch: 2 })
    const { secretKey, publicKey } = ed25519.keygen(pseudoRandom(32))
    const signature = toHex(ed25519.sign(signedBytes(updatable.newest.manifestBytes), secretKey))
    await updatable.addSignature({ publicKey: toHex(publicKey), generation: 1, epoch: 2, signature })
    expect((await reader.read()).value).toBe(value)
    const closing = app.close()
    expect((await reader.read()).done).toBe(true)
    await closing
  })

  // The rest of the table is in the suite of fences (fence-laws.ts).
  test('the fence says its verdicts, and in /readyz that it is full', async () => {
    const { updatable, app } = await server({ updatable: { fence: { entries: 2, elapsed: () => 0 } } })
    const ask = async (kind: FenceRequest['kind'], id: number) => {
      const reply = await post(app, '/v1/fence', fenceRequest(updatable.databaseId, kind, id))
      if (reply.statusCode !== 200) return reply.json().code as string
      expect(reply.rawPayload.length).toBe(8)
      return reply.rawPayload[6] === 1 ? 'granted' : 'refused'
    }
    for (const [kind, id, verdict] of [
      ['confirm', 1, 'refused'], // unknown
      ['register', 1, 'granted'],
      ['confirm', 1, 'granted'],
      ['register', 2, 'granted'],
      ['confirm', 2, 'granted'], // from now on it is there to stay
      ['register', 3, 'fence_full'],
      ['register', 2, 'granted'],
    ] as const) {
      expect([kind, id, await ask(kind, id)]).toEqual([kind, id, verdict])
    }
    expect((await app.inject('/readyz')).json().problems).toEqual(['the fence is full'])
  })

  describe('the fence, which anyone may fill,', () => {
    const asker = (fence: Fence) => {
      const ask = asking(fence)
      return (kind: FenceRequest['kind'], id: number, network?: string, version?: number, requestHash?: Uint8Array) =>
        ask(kind, id, version, requestHash, network)
    }

    test('takes from one network a thousandth of its entries in a day, where that is more than 64', async () => {
      const ask = asker(await StoredFence.open(new MemoryStorage(), { entries: 100_000, elapsed: () => 0 }))
      const verdicts: string[] = []
      for (let id = 0; id < 101; id++) verdicts.push(await ask('register', id, 'a'))
      expect(verdicts).toEqual([...Array(100).fill('granted'), 'fence_full'])
    })

    test.each([false, true])('forgets in hours what was never confirmed, restarted %s', async restart => {
      let seconds = 0
      const storage = new MemoryStorage()
      const options = { entries: 100, elapsed: () => seconds, now: () => 1_800_000_000 }
      let fence = await StoredFence.open(storage, options)
      for (const id of [1, 2]) await asker(fence)('register', id)
      await asker(fence)('confirm', 1)
      if (restart) fence = await StoredFence.open(storage, { ...options, now: () => 1_800_000_000 + seconds })
      seconds += 7 * 3600 + 1
      const ask = asker(fence)
      expect([await ask('confirm', 1), await ask('confirm', 2)]).toEqual(['granted', 'refused'])
      expect((await listed(storage, 'fence')).filter(([key]) => key.includes('/')).length).toBe(1)
    })

    test('has room for the latest registrations of a flood, also after a restart, and leaves nothing of the others', async () => {
      const storage = new MemoryStorage()
      const options = { entries: 400, elapsed: () => 0, now: () => 1_800_000_000 }
      const first = asker(await StoredFence.open(storage, options))
      for (let id = 0; id < 100; id++) expect(await first('register', id, `network ${id % 20}`)).toBe('granted')
      const fence = await StoredFence.open(storage, options)
      expect(fence.hints).toBe(100)
      const ask = asker(fence)
      for (let id = 100; id < 250; id++) expect(await ask('register', id, `network ${id % 20}`)).toBe('granted')
      expect(fence.hints).toBeGreaterThan(87)
      expect(fence.hints).toBeLessThanOrEqual(100)
      for (let id = 163; id < 250; id++) expect(await ask('confirm', id), `${id}`).toBe('granted')
      for (let id = 0; id < 150; id++) expect(await ask('confirm', id), `${id}`).toBe('refused')
      expect((await listed(storage, 'fence')).filter(([key]) => key.includes('/')).length).toBe(fence.hints)
    })

    test('gives a network its share back where nothing could be written', async () => {
      const storage = new FailingStorage()
      const ask = asker(await StoredFence.open(storage, { entries: 1000, elapsed: () => 0 }))
      storage.fails = () => true
      for (let id = 0; id < 100; id++) expect(await ask('register', id, 'network')).not.toBe('granted')
      storage.fails = () => false
      for (let id = 0; id < 64; id++) expect(await ask('register', id, 'network')).toBe('granted')
      expect(await ask('register', 64, 'network')).toBe('fence_full')
    })

    test('is moved on by a calendar that has jumped once, however often it starts', async () => {
      const storage = new MemoryStorage()
      let now = 1_800_000_000
      const options = { days: 400, now: () => now, elapsed: () => 0 }
      const first = asker(await StoredFence.open(storage, options))
      for (const kind of ['register', 'confirm'] as const) expect(await first(kind, 1)).toBe('granted')
      now += 401 * 86_400
      for (let start = 2; start < 30; start++) {
        const ask = asker(await StoredFence.open(storage, options))
        for (const kind of ['register', 'confirm'] as const) expect(await ask(kind, start)).toBe('granted')
      }
      expect(await asker(await StoredFence.open(storage, options))('confirm', 1)).toBe('granted')
      // Days between starts are days, where the calendar has them.
      for (let days = 0; days <= 400; days += 20) {
        now += 20 * 86_400
        expect(await asker(await StoredFence.open(storage, options))('confirm', 2)).toBe('granted')
      }
      expect(await asker(await StoredFence.open(storage, options))('confirm', 1)).toBe('refused')
    })

    test('is swept in steps, between which others have their turn, and says that it is full', async () => {
      let longest = 0
      class Counting extends MemoryStorage {
        override async *entries(prefix: string, after?: string) {
          let read = 0
          for await (const entry of super.entries(prefix, after)) {
            longest = Math.max(longest, ++read)
            yield entry
          }
        }
      }
      let seconds = 0
      const most = 2500
      const fence = await StoredFence.open(new Counting(), { days: 10, entries: most, elapsed: () => seconds })
      const ask = asker(fence)
      for (let id = 0; id < most; id++) {
        expect([await ask('register', id, `network ${id}`), await ask('confirm', id)]).toEqual(['granted', 'granted'])
      }
      expect([fence.hints, fence.turnedAway]).toEqual([most, 0])
      expect(fence.problem).toMatch(/^the fence is full/)
      expect(await ask('register', most)).toBe('fence_full')
      expect(fence.turnedAway).toBe(1)

      seconds += 11 * 86_400
      longest = 0
      expect(await ask('register', most)).toBe('granted')
      expect(fence.problem).toBe(undefined)
      // Every request looks at some, until all were seen; and then none does until the next day.
      for (let requests = 0; requests < most / 250; requests++) expect(await ask('confirm', most)).toBe('granted')
      expect([longest, fence.hints]).toEqual([250, 1])
      longest = 0
      expect([await ask('confirm', most), longest]).toEqual(['granted', 0])
      seconds += 86_400
      expect([await ask('confirm', most), longest]).toEqual(['granted', 1])
    })

    test('knows what it had when nothing can be written, without counting it again', async () => {
      let [isFull, counted] = [false, 0]
      class Failing extends MemoryStorage {
        override async count(prefix: string) {
          counted++
          return super.count(prefix)
        }
        override async transact<T>(keys: readonly string[], work: (transaction: Transaction) => T): Promise<T> {
          if (!isFull) return await super.transact(keys, work)
          const kept = new Map(await Promise.all(keys.map(async key => [key, await this.get(key)] as const)))
          work(new Draft(keys, key => kept.get(key)))
          throw new StorageError('ENOSPC')
        }
      }
      const fence = await StoredFence.open(new Failing(), { entries: 12, elapsed: () => 0 })
      const ask = asker(fence)
      expect([await ask('register', 1), await ask('confirm', 1)]).toEqual(['granted', 'granted'])
      for (const id of [2, 3, 4]) expect(await ask('register', id)).toBe('granted')
      counted = 0
      isFull = true
      // One that would be confirmed, and one that another would have to go for.
      expect([await ask('confirm', 2), await ask('register', 9)]).toEqual(['ENOSPC', 'ENOSPC'])
      expect([fence.hints, counted]).toEqual([4, 0])
      isFull = false
      for (const id of [1, 2, 3, 4]) expect(await ask('confirm', id)).toBe('granted')
      expect(await ask('confirm', 9)).toBe('refused')
      expect(fence.hints).toBe(4)
    })

    test('refuses a hint whose entry is damaged in any bit, cut off or that of another, and does not register it again', async () => {
      const storage = new MemoryStorage()
      let seconds = 0
      const options = { entries: 100, now: () => 1_800_000_000, elapsed: () => seconds }
      for (const id of [1, 2, 3]) await asker(await StoredFence.open(storage, options))('register', id)
      for (const id of [1, 2])
        await asker(await StoredFence.open(storage, options))('confirm', id, 'x', id, new Uint8Array(32).fill(id))
      const [[key, entry], [, other]] = (await listed(storage, 'fence/')) as [
        [string, Uint8Array],
        [string, Uint8Array],
      ]
      const damaged = Array.from({ length: 8 * entry.length }, (_, bit) =>
        entry.with(bit >> 3, entry[bit >> 3]! ^ (1 << (bit & 7))),
      )
      const ask = asker(await StoredFence.open(storage, options))
      for (const bytes of [...damaged, other, entry.subarray(0, -1), new Uint8Array()]) {
        await storage.transact([], transaction => transaction.put(key, bytes))
        const shown = toHex(bytes)
        expect(await ask('confirm', 1, 'x', 9, new Uint8Array(32).fill(9)), shown).toBe('refused')
        expect(await ask('register', 1), shown).toBe('refused')
      }
      expect(await ask('confirm', 2, 'x', 2, new Uint8Array(32).fill(2))).toBe('granted')
      // A start takes it as it is, a new one's among them, which goes when its time is over.
      const [[newKey, registered]] = (await listed(storage, 'fence-new/')) as [[string, Uint8Array]]
      await storage.transact([], transaction => transaction.put(newKey, registered.with(0, 1)))
      const restarted = asker(await StoredFence.open(storage, options))
      expect([await restarted('confirm', 1), await restarted('confirm', 3)]).toEqual(['refused', 'refused'])
      // Nor does a sweep make room for the same hint once more.
      const small = asker(await StoredFence.open(storage, { ...options, entries: 2 }))
      seconds += 401 * 86_400
      expect(await small('register', 4)).toBe('granted')
      expect(await small('register', 1)).toBe('refused')
      expect((await listed(storage, 'fence/')).map(([kept]) => kept)).toEqual([key])
    })

    test('counts what could not be written as not written', async () => {
      const storage = new FailingStorage()
      const ask = asker(await StoredFence.open(storage, { entries: 4, elapsed: () => 0 }))
      storage.fails = () => true
      for (let id = 0; id < 20; id++) await ask('register', id)
      storage.fails = () => false
      expect([await ask('register', 30), await ask('confirm', 30)]).toEqual(['granted', 'granted'])
      storage.fails = () => true
      expect(await ask('confirm', 30, 'x', 5, new Uint8Array(32).fill(1))).not.toBe('granted')
      storage.fails = () => false
      expect(await ask('confirm', 30, 'x', 4)).toBe('granted')
    })

    test('knows networks by /24 and /48', () => {
      for (const [address, network] of [
        ['192.0.2.7', '192.0.2'],
        ['192.0.2.255', '192.0.2'],
        ['::ffff:192.0.2.9', '192.0.2'],
        ['2001:db8:1:2:3:4:5:6', '2001:db8:1'],
        ['2001:0db8:0001::1', '2001:db8:1'],
        ['2001:db8::1', '2001:db8:0'],
        ['2001::1', '2001:0:0'],
        ['::1', '0:0:0'],
        ['::', '0:0:0'],
        ['fe80::1%eth0', 'fe80:0:0'],
        ['', 'unknown'],
        ['x', 'unknown'],
      ]) {
        expect([address, networkOf(address!)]).toEqual([address, network])
      }
    })
  })

  describe('a claim behind a query', () => {
    const zero = new Uint8Array(32)
    const [h, g] = [pseudoRandom(32, 1), pseudoRandom(32, 2)]

    /** What can be asked of a fence, by itself and with queries. Every answer is held against that to the bare query. */
    function asking(updatable: UpdatableDatabase, app: FastifyInstance) {
      const { databaseId } = updatable
      const hint = (id: number, version: number, requestHash: Uint8Array): FenceClaim => ({
        ...{ databaseId, hintId: new Uint8Array(16).fill(id), version, requestHash },
      })
      const alone = async (kind: FenceRequest['kind'], ...claim: Parameters<typeof hint>): Promise<FenceVerdict> => {
        const reply = await post(app, '/v1/fence', encodeFenceRequest({ kind, ...hint(...claim) }))
        expect(reply.statusCode).toBe(200)
        return reply.rawPayload[6] === 1 ? 'granted' : 'refused'
      }
      const query = (manifest = updatable.newest.manifest) => queryAt(manifest, 0, 2)
      const send = (claim: FenceClaim, body: Uint8Array = query()) => post(app, '/v1/answer', withClaim(body, claim))
      const behind = async (...claim: Parameters<typeof hint>): Promise<FenceVerdict> => {
        const { manifest } = updatable.newest
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

    test('moves the one fence on that is asked by itself, too', async () => {
      const { updatable, app } = await server()
      const { alone, behind } = asking(updatable, app)
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
        const { updatable, app } = await server()
        const { hint, alone, send } = asking(updatable, app)
        await alone('register', 1, 0, zero)
        const { manifest } = updatable.newest
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
      const { updatable, app } = await server()
      const { hint, alone, query, send } = asking(updatable, app)
      await alone('register', 1, 0, zero)
      const old = updatable.newest.manifest
      for (let i = 0; i < 2; i++)
        await updatable.publish(batchOn(updatable, [{ op: 'edit', key: 'one', value: `${i}` }]))
      const { manifest } = updatable.newest
      const otherDatabase = { databaseId: pseudoRandom(16) }
      for (const [code, reply] of [
        ['epoch_unknown', await send(hint(1, 7, h), query(old))],
        ['epoch_unknown', await send(hint(1, 7, h), changed(query(), 28, 9))],
        ['bad_request', await send(hint(1, 7, h), changed(query(), 6, 3))], // suite
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

    test('the longest query may have one, and nothing is longer', async () => {
      // 1024 partitions of 256 bytes, and as many more: 32 queries are then as many offsets as there can be.
      const storage = await storageOf('a.bin', pseudoRandom(1024 * 256), { recordBytes: 256, partitions: 1024 })
      const updatable = await opened(storage)
      const added = Array(1024).fill({ op: 'add', value: 'cd'.repeat(256) })
      await updatable.publish(batchOn(updatable, added, { encoding: 'hex' }))
      const app = await running({ datasets: [{ updatable }] })
      const { hint, alone } = asking(updatable, app)
      await alone('register', 1, 0, zero)
      const query = queryAt(updatable.newest.manifest, 0, 32, 'tags')
      const longest = withClaim(query, hint(1, 1, h))
      const reply = await post(app, '/v1/answer', longest)
      expect([reply.statusCode, reply.rawPayload.length]).toEqual([200, 40 + 32 * 2048 * 256 + 8])
      expect(splitVerdict(reply.rawPayload).verdict).toBe('granted')
      for (const more of [1, 80]) {
        const refused = await post(app, '/v1/answer', Buffer.concat([longest, Buffer.alloc(more)]))
        expect([refused.statusCode, parseErrorReply(refused.body).code]).toEqual([413, 'too_large'])
      }
    })

    test('any bytes are answered or refused, never with a 5xx', async () => {
      const { updatable, app } = await server()
      const { hint, alone, query } = asking(updatable, app)
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
        fc.uint8Array({ maxLength: 200 }).map(bytes => Buffer.from(bytes)),
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
