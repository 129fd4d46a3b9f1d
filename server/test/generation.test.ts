// A new generation (docs/protocol.md): what it is made of, what is answered meanwhile and afterwards, and what is
// refused. That a crash leaves the old generation or the new one is durability.all.test.ts's.

import { setImmediate as nextTask } from 'node:timers/promises'
import { type Batch, type Manifest, toHex, withClaim } from '@keyhush/protocol'
import { decodeManifests } from '@keyhush/protocol/chain'
import { blake3 } from '@noble/hashes/blake3.js'
import { describe, expect, onTestFinished, test, vi } from 'vitest'
import { loadDataset, UpdatableDatabase } from '../dist/index.js'
import { builtDirectory, dataFile, listed, partitionHashes, pseudoRandom, queryAt, running } from './helpers.js'
import {
  batchOn,
  bodyOf,
  contents,
  expectChangesRefused,
  KEYED,
  keyed,
  numbers,
  opened,
  recordAt,
  refusal,
  storageOf,
} from './updatable-helpers.js'

const HOUR = 3600

const begin = (updatable: UpdatableDatabase, headroom?: number, other: Partial<Batch> = {}) =>
  updatable.publish(batchOn(updatable, [{ op: 'generation', ...(headroom !== undefined && { headroom }) }], other))

/** An epoch's records, all or the first ones, each with its proof verified. */
const recordsOf = (updatable: UpdatableDatabase, manifest: Manifest, count = manifest.records) =>
  Array.from({ length: count }, (_, i) => toHex(recordAt(updatable, manifest, i)))

/** A keyed database at epoch 3 with an empty slot and keys in its overlay, as a data file and in the making. */
async function changed(updatable: UpdatableDatabase): Promise<string> {
  const added = Array.from({ length: 40 }, (_, i) => ({ op: 'add', key: `new ${i}`, value: `${i}` }))
  await updatable.publish(batchOn(updatable, [...added, { op: 'delete', key: 'two' }]))
  await updatable.publish(batchOn(updatable, [{ op: 'delete', key: 'new 7' }]))
  const lines = added.filter(({ key }) => key !== 'new 7').map(({ key, value }) => `${key},${value}\n`)
  return `key,value\none,first\nthree,third\n${lines.join('')}`
}

describe('a new generation', () => {
  test('of keyed records is what a build of them makes, and everything shows it', async () => {
    const updatable = await keyed()
    const data = await changed(updatable)
    const before = updatable.newest
    const held = await contents(updatable)
    const body = batchOn(updatable, [{ op: 'generation', headroom: 100 }])
    const status = await updatable.publish(body)
    const { manifest, manifestHash } = updatable.newest
    expect(status).toMatchObject({ generation: 2, epoch: 4, manifest: manifestHash, changes: 0 })
    expect([updatable.status(4), await updatable.publish(body)]).toEqual([status, status])
    expect([manifest.records, manifest.partitions, manifest.partitionRecords]).toEqual([41, 16, 9])
    expect(await contents(updatable)).toEqual(held)

    const succeeds = await dataFile('manifest.bin', before.manifestBytes)
    const dir = await builtDirectory('a.csv', data, { maxValueBytes: 20, headroom: 100, succeeds })
    const built = await loadDataset(dir)
    expect(Buffer.from(updatable.newest.manifestBytes).equals(built.manifestBytes)).toBe(true)
    built.close()

    const chain = decodeManifests((await updatable.since(1))!)
    expect(chain.map(({ manifest }) => numbers(manifest))).toEqual(['1.2', '1.3', '2.4'])
    expect(toHex(manifest.previousManifest)).toBe(before.manifestHash)
    await updatable.publish(batchOn(updatable, [{ op: 'add', key: 'more', value: 'x' }], { expires: 4_000_000_000 }))
    expect(updatable.newest.manifest).toMatchObject({ generation: 2, epoch: 5, records: 42, partitions: 16 })
  })

  test('leaves the old one answered until its time is over, in memory and on disk', async () => {
    let seconds = 1_800_000_000
    const options = { lingerHours: 2, history: 2, now: () => seconds }
    const storage = await storageOf('a.csv', KEYED, { maxValueBytes: 20, partitions: 2 })
    let updatable = await UpdatableDatabase.open(storage, options)
    await changed(updatable)
    const old = updatable.newest.manifest
    const records = recordsOf(updatable, old)
    await begin(updatable)
    const epochs = () => updatable.list().map(numbers)
    expect(epochs()).toEqual(['1.3', '2.4'])
    expect(updatable.find(1, 2)).toBeUndefined()
    for (let i = 0; i < 4; i++) await updatable.publish(batchOn(updatable, [{ op: 'edit', key: 'one', value: `${i}` }]))
    seconds += 2 * HOUR - 1
    for (const restarted of [false, true]) {
      if (restarted) {
        await updatable.close()
        updatable = await UpdatableDatabase.open(storage, options)
      }
      expect(epochs()).toEqual(['1.3', '2.7', '2.8'])
      expect(recordsOf(updatable, old)).toEqual(records)
      // Of history only that one manifest is older than the two epochs that were asked for.
      expect(await Promise.all([1, 2].map(epoch => updatable.manifestOf(1, epoch)))).toEqual([undefined, undefined])
      expect(await updatable.manifestOf(1, 3)).toBeDefined()
      expect(await Promise.all([updatable.since(3), updatable.status(5), updatable.manifestOf(2, 5)])).toEqual(
        Array(3).fill(undefined),
      )
      // Partitions and directory are there as long as it is answered.
      for (const hash of [toHex(old.directoryHash), ...partitionHashes(old)]) {
        expect(toHex(blake3(await bodyOf(updatable, hash)))).toBe(hash)
      }
    }
    expect(await storage.count('chunk/00000001/')).toBeGreaterThan(0)
    seconds += 1
    expect(epochs()).toEqual(['2.7', '2.8'])
    expect(updatable.find(1, 3)).toBeUndefined()
    for (const hash of [toHex(old.directoryHash), ...partitionHashes(old)]) {
      expect(await updatable.findBlob(hash)).toBeUndefined()
    }
    await updatable.publish(batchOn(updatable, [{ op: 'edit', key: 'one', value: 'last' }]))
    for (const prefix of ['chunk/00000001/', 'directory/00000001', 'generation/00000001', 'manifest/00000003']) {
      expect([prefix, await storage.count(prefix)]).toEqual([prefix, 0])
    }
    await updatable.close()
  })

  test.each([false, true])(
    'ends the old one in time when the clock is set back by years, restarted %s',
    async restart => {
      let seconds = 1_800_000_000
      const options = { lingerHours: 2, now: () => seconds }
      const storage = await storageOf('a.csv', KEYED, { maxValueBytes: 20 })
      let updatable = await UpdatableDatabase.open(storage, options)
      onTestFinished(() => updatable.close())
      await begin(updatable)
      seconds -= 10 * 365 * 24 * HOUR
      if (restart) {
        await updatable.close()
        updatable = await UpdatableDatabase.open(storage, options)
      }
      expect(updatable.list().length).toBe(2)
      seconds += 2 * HOUR
      expect(updatable.list().length).toBe(1)
    },
  )

  test('ends the old one in time though nobody asks', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
    onTestFinished(() => void vi.useRealTimers())
    let seconds = 1_800_000_000
    const storage = await storageOf('a.csv', KEYED, { maxValueBytes: 20 })
    const updatable = await opened(storage, { lingerHours: 30, now: () => seconds })
    await begin(updatable)
    for (let hour = 1; hour <= 30; hour++) {
      expect(await storage.count('chunk/00000001/')).toBe(1)
      seconds += HOUR
      vi.advanceTimersByTime(1000 * HOUR)
    }
    await refusal(updatable.publish(new Uint8Array())) // after what is under way
    expect(await storage.count('chunk/00000001/')).toBe(0)
  })

  test('is all there is after a restart when the old one has had its time', async () => {
    let seconds = 1_800_000_000
    const storage = await storageOf('a.csv', KEYED, { maxValueBytes: 20 })
    const updatable = await UpdatableDatabase.open(storage, { now: () => seconds })
    await begin(updatable)
    const held = await contents(updatable)
    await updatable.close()
    seconds += 24 * HOUR
    const again = await opened(storage, { now: () => seconds })
    expect(again.list().map(({ epoch }) => epoch)).toEqual([2])
    expect(await storage.count('chunk/00000001/')).toBe(0)
    expect(await contents(again)).toEqual(held)
  })

  test('ends the one that lingers', async () => {
    const storage = await storageOf('a.csv', KEYED, { maxValueBytes: 20 })
    const updatable = await UpdatableDatabase.open(storage)
    for (let i = 0; i < 4; i++) await begin(updatable, i)
    expect(updatable.list().map(numbers)).toEqual(['4.4', '5.5'])
    await updatable.close()
    expect((await listed(storage, 'generation/')).map(([key]) => key)).toEqual([
      'generation/00000004',
      'generation/00000005',
    ])
    expect((await opened(storage)).list().length).toBe(2)
  })

  test('does not keep the event loop: both generations are answered while it is made', async () => {
    const storage = await storageOf('a.bin', pseudoRandom(4 * 300_000), { recordBytes: 4 })
    const updatable = await opened(storage)
    await updatable.publish(batchOn(updatable, [{ op: 'delete', index: 0 }]))
    const [previous, newest] = [updatable.find(1, 1)!.manifest, updatable.newest.manifest]
    const old = [recordAt(updatable, previous, 0), recordAt(updatable, newest, 0)]
    let turns = 0
    const making = begin(updatable).then(() => true)
    while (!(await Promise.race([making, nextTask(false)]))) {
      if (updatable.newest.manifest.epoch === 2) expect(recordAt(updatable, previous, 0)).toEqual(old[0])
      expect(recordAt(updatable, newest, 0)).toEqual(old[1])
      turns++
    }
    expect(turns).toBeGreaterThan(16)
    expect(recordAt(updatable, newest, 0)).toEqual(old[1])
  })

  test('gives operators equal bytes, whether they restart in between or not', async () => {
    const storages = [
      await storageOf('a.csv', KEYED, { maxValueBytes: 20 }),
      await storageOf('a.csv', KEYED, { maxValueBytes: 20 }),
    ] as const
    const steady = await opened(storages[0])
    for (let epoch = 2; epoch < 20; epoch++) {
      const operations =
        epoch % 4 === 0
          ? [{ op: 'generation', headroom: epoch }]
          : [
              { op: 'add', key: `key ${epoch}`, value: `${epoch}` },
              ...(epoch % 4 === 3 ? [{ op: 'delete', key: `key ${epoch - 1}` }] : []),
            ]
      const body = batchOn(steady, operations)
      const restarted = await UpdatableDatabase.open(storages[1])
      expect(await restarted.publish(body)).toEqual(await steady.publish(body))
      await restarted.close()
      const again = await UpdatableDatabase.open(storages[1])
      expect(again.list()).toEqual(steady.list())
      expect(await contents(again)).toEqual(await contents(steady))
      for (const { generation, epoch } of again.list()) {
        const { manifest } = again.find(generation, epoch)!
        expect(recordsOf(again, manifest)).toEqual(recordsOf(steady, manifest))
      }
      await again.close()
    }
  })
})

// What else is refused are rows in updatable.test.ts.
describe('a generation is refused, and nothing changes,', () => {
  async function refused(updatable: UpdatableDatabase, headroom: number | undefined, reason: RegExp) {
    const before = [updatable.newest, ...updatable.list()]
    const records = recordsOf(updatable, updatable.newest.manifest)
    const { reply, message } = await refusal(begin(updatable, headroom))
    expect([reply.code, reply.line, message]).toEqual(['batch_refused', 1, expect.stringMatching(reason)])
    expect([updatable.newest, ...updatable.list()]).toEqual(before)
    expect(recordsOf(updatable, updatable.newest.manifest)).toEqual(records)
  }

  test('without keys', async () => {
    const updatable = await keyed()
    const deletes = ['one', 'two', 'three'].map(key => ({ op: 'delete', key }))
    await updatable.publish(batchOn(updatable, deletes))
    await refused(updatable, undefined, /no keys/)
    await updatable.publish(batchOn(updatable, [{ op: 'add', key: 'one', value: 'again' }]))
    await begin(updatable)
  })

  // Records of 2 GB can be addressed; with their trees they do not fit into the 4 GiB of WebAssembly.
  test('for want of memory', async () => {
    const updatable = await opened(await storageOf('a.bin', pseudoRandom(400), { recordBytes: 40 }))
    await refused(updatable, 52_000_000, /memory/)
    await begin(updatable, 1000)
    expect(updatable.newest.manifest.partitionRecords).toBe(64)
  })
})

describe('a failure to write', () => {
  async function failing() {
    const storage = await storageOf('a.bin', pseudoRandom(100_000), { recordBytes: 5 })
    return { storage, updatable: await UpdatableDatabase.open(storage) }
  }

  test('beside the old generation leaves that as it is, also for another attempt and a restart', async () => {
    const { storage, updatable } = await failing()
    await updatable.publish(batchOn(updatable, [{ op: 'delete', index: 7 }]))
    storage.fails = key => key === 'chunk/00000002/00000082'
    await expect(begin(updatable, 1_000_000)).rejects.toThrow('ENOSPC')
    expect(await storage.count('chunk/00000002/')).toBe(128)
    await updatable.publish(batchOn(updatable, [{ op: 'delete', index: 8 }]))
    storage.fails = () => false
    await begin(updatable)
    const records = recordsOf(updatable, updatable.newest.manifest, 10)
    await updatable.close()
    const again = await opened(storage)
    expect(recordsOf(again, again.newest.manifest, 10)).toEqual(records)
  })

  test.each([
    ['beside it', 'chunk/00000002/00000082'],
    ['of the epoch itself', 'manifest/00000002'],
  ])('%s is cleared away by a restart, and it is made again', async (_, failed) => {
    const { storage, updatable } = await failing()
    const told: Error[] = []
    updatable.onFailure = error => told.push(error)
    storage.fails = key => key === failed
    await expect(begin(updatable, 1_000_000)).rejects.toThrow('ENOSPC')
    expect([told, updatable.newest.manifest.generation]).toEqual([[], 1])
    await updatable.close()
    storage.fails = () => false
    const again = await opened(storage)
    expect(again.list().map(numbers)).toEqual(['1.1'])
    expect([await storage.count('chunk/00000002/'), await storage.count('generation/')]).toEqual([0, 1])
    await begin(again)
  })

  test('because another process has opened the store meanwhile leaves it whole', async () => {
    const { storage, updatable } = await failing()
    const transact = storage.transact.bind(storage)
    let other: UpdatableDatabase | undefined
    storage.transact = async (keys, work) => {
      const result = await transact(keys, work)
      // What is staged is left over from an attempt that ended early, as the other process sees it.
      if (other === undefined && (await storage.count('chunk/00000002/')) > 0) {
        storage.transact = transact
        other = await UpdatableDatabase.open(storage)
      }
      return result as never
    }
    await expect(begin(updatable)).rejects.toThrow('another process')
    await updatable.close()
    await other!.close()
    const again = await opened(storage)
    expect(again.newest.manifest.epoch).toBe(1)
    await begin(again)
  })
})

test('a stored database with an old generation in which anything was changed is refused, naming its storage', async () => {
  const storage = await storageOf('a.csv', KEYED, { maxValueBytes: 20 })
  const updatable = await UpdatableDatabase.open(storage)
  await begin(updatable)
  await updatable.publish(batchOn(updatable, [{ op: 'edit', key: 'one', value: 'x' }]))
  await updatable.close()
  await expectChangesRefused(storage)
  expect((await opened(storage)).list().length).toBe(3)
})

test('a full batch is taken by a generation that has grown, though the first one of this process had none so long', async () => {
  const storage = await storageOf('a.bin', pseudoRandom(16 * 8), { recordBytes: 8, partitions: 2 })
  const updatable = await opened(storage)
  const app = await running({ datasets: [{ updatable }] })
  await begin(updatable)
  const value = '00'.repeat(8)
  const added = Array(3000).fill({ op: 'add', value })
  await updatable.publish(batchOn(updatable, added, { encoding: 'hex' }))
  const { manifest } = updatable.newest
  expect([manifest.partitions, manifest.partitionRecords, manifest.maxQueries]).toEqual([3016, 1, 64])
  const payload = withClaim(queryAt(manifest, 0, 64), {
    ...{ databaseId: manifest.databaseId, hintId: pseudoRandom(16), version: 1, requestHash: pseudoRandom(32) },
  })
  // What the layout of the first generation bounds: 32 bytes for each of three levels.
  expect(payload.length).toBeGreaterThan(120 + 2 * Math.floor(2 ** 24 / (8 + 3 * 32)))
  const reply = await app.inject({ method: 'POST', url: '/v1/answer', payload: Buffer.from(payload) })
  expect([reply.statusCode, reply.rawPayload.length]).toEqual([200, 40 + 64 * 3016 * 8 + 8])
})
