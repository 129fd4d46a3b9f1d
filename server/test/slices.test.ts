// A batch that takes many slices: between any two of them the epochs that are listed are answered, each by its own manifest's
// commitments, and a process that dies there leaves the old epoch or the new one.

import { setImmediate as nextTask } from 'node:timers/promises'
import { decodeManifest, toHex } from '@keyhush/protocol'
import { loadCore } from '@keyhush/wasm'
import { blake3 } from '@noble/hashes/blake3.js'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { buildInto, temporaryFolder } from '../../tests/support/servers.js'
import { slice } from '../dist/base/pace.js'
import { EpochStore } from '../dist/database/epoch-store.js'
import { readOperations } from '../dist/database/operations.js'
import { type Storage, UpdatableDatabase } from '../dist/index.js'
import { createIn, pseudoRandom } from './helpers.js'
import {
  batchOn,
  bodyOf,
  keyed,
  numbers,
  opened,
  RememberingStorage,
  recordAt,
  refusal,
  storageOf,
} from './updatable-helpers.js'

const usual = slice.milliseconds
beforeAll(() => {
  slice.milliseconds = 0
})
afterAll(() => {
  slice.milliseconds = usual
})

/** Looks at all that is answered until `work` is done; how often the epochs there were changed, and how often it looked. */
async function watched(
  updatable: UpdatableDatabase,
  work: Promise<unknown>,
  look: (generation: number, epoch: number) => void,
): Promise<{ seen: string[]; looks: number }> {
  const seen: string[] = []
  let [isOver, looks] = [false, 0]
  const over = work.finally(() => {
    isOver = true
  })
  while (!isOver) {
    const epochs = updatable.list()
    const now = epochs.map(numbers).join(' ')
    if (now !== seen.at(-1)) seen.push(now)
    for (const { generation, epoch } of epochs) look(generation, epoch)
    looks += 1
    await nextTask()
  }
  await over
  return { seen, looks }
}

const hex = (value: number, bytes: number) => Buffer.alloc(bytes, value).toString('hex')
/** 70 edits of 80 records, and adds that open partitions. */
const operations = (value: number, bytes: number) => [
  ...Array.from({ length: 70 }, (_, i) => ({ op: 'edit', index: i, value: hex(value + (i % 7), bytes) })),
  ...Array.from({ length: 10 }, (_, i) => ({ op: 'add', value: hex(value + 8 + (i % 7), bytes) })),
]

test('others have their turn between any two lines of a batch that is read, if these take long', async () => {
  const lines = 100
  const { manifest } = (await keyed()).newest
  const operations = Buffer.from('{"op":"delete","key":"one"}\n'.repeat(lines))
  let [isRead, turns] = [false, 0]
  const reading = readOperations(await loadCore(), manifest, { encoding: 'utf8', operations }).finally(() => {
    isRead = true
  })
  for (; !isRead; turns++) await nextTask()
  await reading
  expect(turns, 'one to find its end, one to parse it').toBeGreaterThanOrEqual(2 * lines)
})

describe('between any two slices of a batch', () => {
  test.each(['merkle', 'tags'] as const)('every epoch that is listed has the records it had (%s)', async proofs => {
    const bytes = 500
    const records = pseudoRandom(80 * bytes)
    const updatable = await opened(await storageOf('a.bin', records, { recordBytes: bytes, proofs }))
    const first = Array.from({ length: 80 }, (_, i) => toHex(records.subarray(i * bytes, (i + 1) * bytes)))
    const plain = new Map([[1, first]])
    for (const epoch of [2, 3]) {
      const changes = operations(0x10 * epoch, bytes)
      const after = [...plain.get(epoch - 1)!]
      for (const { index, value } of changes as { index?: number; value: string }[]) {
        if (index === undefined) after.push(value)
        else after[index] = value
      }
      plain.set(epoch, after)
      let looked = 0
      const before = updatable.newest.manifest.contentHashes.slice(0, 32)
      const work = updatable.publish(batchOn(updatable, changes, { encoding: 'hex' }))
      // Whoever downloads need not wait for what is only drafted.
      const partition = bodyOf(updatable, before).then(bytes => toHex(blake3(bytes)))
      const { seen, looks } = await watched(updatable, work, (generation, number) => {
        const { manifest } = updatable.find(generation, number)!
        const index = (looked++ * 37) % manifest.records
        expect(toHex(recordAt(updatable, manifest, index)), `record ${index} of epoch ${number}`).toBe(
          plain.get(number)![index],
        )
      })
      expect(looks).toBeGreaterThan(20)
      expect(await partition, `until epoch ${epoch} was begun`).toBe(toHex(before))
      // The one before is given up when the next one is begun, and nothing else ever is.
      expect(seen.join('; ')).toMatch(epoch === 2 ? /^1\.1(; 1\.1 1\.2)?$/ : /^1\.1 1\.2; 1\.2(; 1\.2 1\.3)?$/)
      expect(updatable.list().map(numbers)).toEqual([`1.${epoch - 1}`, `1.${epoch}`])
      for (const number of [epoch - 1, epoch]) {
        const { manifest } = updatable.find(1, number)!
        for (let index = 0; index < manifest.records; index += 11) {
          expect(toHex(recordAt(updatable, manifest, index))).toBe(plain.get(number)![index])
        }
      }
    }
  })

  test('a keyed database, its directory and its blocks are those that a batch makes at one go', async () => {
    const changes = (value: string) => [
      { op: 'delete', key: 'two' },
      { op: 'edit', key: 'one', value },
      ...Array.from({ length: 600 }, (_, i) => ({ op: 'add', key: `${value} ${i}`, value: `${i}` })),
    ]
    const made: UpdatableDatabase[] = []
    for (const milliseconds of [0, usual * 1000]) {
      slice.milliseconds = milliseconds
      const updatable = await keyed({ headroom: 1000 })
      await updatable.publish(batchOn(updatable, changes('a')))
      made.push(updatable)
    }
    slice.milliseconds = 0
    const [sliced, whole] = made.map(({ newest }) => newest.manifest)
    expect({ ...sliced, databaseId: 0, previousManifest: 0 }).toEqual({ ...whole, databaseId: 0, previousManifest: 0 })
    expect(toHex(await bodyOf(made[0]!, sliced!.directoryHash))).toBe(
      toHex(await bodyOf(made[1]!, whole!.directoryHash)),
    )
  })

  test('whoever publishes next waits for it, and what was refused has changed nothing', async () => {
    const updatable = await opened(await storageOf('a.bin', pseudoRandom(80 * 500), { recordBytes: 500 }))
    const first = batchOn(updatable, operations(1, 500), { encoding: 'hex' })
    const bad = [...operations(2, 500), { op: 'edit', index: 100_000, value: hex(1, 500) }]
    const publishing = [updatable.publish(first), updatable.publish(first)]
    const refused = refusal(updatable.publish(batchOn(updatable, bad, { encoding: 'hex' })))
    const [one, other] = await Promise.all(publishing)
    expect(other).toEqual(one)
    expect((await refused).message).toMatch(/epoch 2 was made from another batch/)
    const { manifestHash } = updatable.newest
    const late = refusal(updatable.publish(batchOn(updatable, bad, { encoding: 'hex' })))
    await watched(updatable, late, () => expect(updatable.newest.manifestHash).toBe(manifestHash))
    expect((await late).message).toMatch(/^line 81: there is no such record/)
    expect(updatable.list().map(numbers)).toEqual(['1.1', '1.2'])
  })

  test('closing waits for the batch under way', async () => {
    const storage = await storageOf('a.bin', pseudoRandom(80 * 500), { recordBytes: 500 })
    const updatable = await UpdatableDatabase.open(storage)
    const publishing = updatable.publish(batchOn(updatable, operations(3, 500), { encoding: 'hex' }))
    await nextTask()
    await updatable.close()
    const { manifest } = await publishing
    expect((await opened(storage)).newest.manifestHash).toBe(manifest)
  })
})

describe('a list that takes several transactions', () => {
  /** A storage that remembers, with an epoch stored in several transactions, and what made it. */
  let stored: Awaited<ReturnType<typeof made>>
  beforeAll(async () => {
    stored = await made()
  })

  async function made() {
    const bytes = 32_768
    const folder = await temporaryFolder()
    const data = { format: 'bin', content: pseudoRandom(80 * bytes), recordBytes: bytes } as const
    const storage = await createIn(new RememberingStorage(), await buildInto(folder.path, data))
    await folder.remove()
    const updatable = await UpdatableDatabase.open(storage)
    const [old, before] = [updatable.newest.manifestHash, storage.transactions]
    const body = batchOn(updatable, operations(4, bytes), { encoding: 'hex' })
    const { manifest } = await updatable.publish(body)
    const after = storage.transactions
    await updatable.close()
    return { storage, old, made: manifest, body, before, after }
  }

  test('is read in slices, too', async () => {
    const store = new EpochStore(stored.storage)
    const { epoch } = (await store.head())!
    const { updateListHash, updateListBytes } = decodeManifest((await store.manifest(epoch))!)
    let turns = 0
    let isOver = false
    const counting = (async () => {
      for (; !isOver; turns++) await nextTask()
    })()
    const list = await store.lists.read(epoch)
    isOver = true
    await counting
    expect(toHex(blake3(list!))).toBe(toHex(updateListHash))
    expect(turns).toBeGreaterThan(updateListBytes / 65_536)
  })

  test('is whole or not there, whenever the process dies, and what was begun of it goes', async () => {
    const { storage, old, made, body, before, after } = stored
    expect(after - before).toBeGreaterThan(3)
    for (let count = before; count <= after; count++) {
      const left = await storage.asOf(count)
      const isMade = count === after
      const again = await opened(left)
      expect(again.newest.manifestHash, `after ${count - before} transactions`).toBe(isMade ? made : old)
      expect([await left.get('staged'), await left.count('list/00000002/')]).toEqual([
        undefined,
        isMade ? expect.any(Number) : 0,
      ])
      expect((await again.publish(body)).manifest).toBe(made)
      const { manifest } = again.newest
      expect((await bodyOf(again, manifest.updateListHash)).length).toBe(manifest.updateListBytes)
    }
  })

  test('comes again when the disk was full in the middle of it', async () => {
    const { storage, made, body, before } = stored
    const full = await storage.asOf(before)
    const updatable = await opened(full)
    let writes = 0
    full.fails = key => key.startsWith('list/') && ++writes > 40
    await expect(updatable.publish(body)).rejects.toThrow(/ENOSPC/)
    full.fails = () => false
    expect((await updatable.publish(body)).manifest).toBe(made)
    expect((await opened(full)).newest.manifestHash).toBe(made)
  })

  test('of another process, which is quicker, is left alone', async () => {
    const { storage, made, body, before } = stored
    const shared = await storage.asOf(before)
    const quick = await opened(shared)
    let other: Promise<unknown> | undefined
    const slow = await opened(
      around(shared, async (keys, work) => {
        const result = await shared.transact(keys, work)
        if ((await shared.count('list/')) > 0) other ??= quick.publish(body)
        await other
        return result
      }),
    )
    await expect(slow.publish(body)).rejects.toThrow(/another process has published/)
    await other
    expect((await opened(shared)).newest.manifestHash).toBe(made)
  })

  // A process that stood still, and in whose place another began and died, writes again.
  test('of which another process has swept a part before it died is not taken for whole', async () => {
    const { storage, old, made, body, before } = stored
    const shared = await storage.asOf(before)
    let steps = 0
    const dying = around(shared, async (keys, work) => {
      if (++steps > 2) throw new Error('it died')
      return shared.transact(keys, work)
    })
    let swept = false
    const slow = await opened(
      around(shared, async (keys, work) => {
        const result = await shared.transact(keys, work)
        if (!swept && (await shared.count('list/')) > 32) {
          swept = true // all of the list is staged
          await expect(new EpochStore(dying).lists.sweep()).rejects.toThrow('it died')
        }
        return result
      }),
    )
    await expect(slow.publish(body)).rejects.toThrow(/another process has published/)
    expect(swept).toBe(true)
    const again = await opened(shared)
    expect(again.newest.manifestHash).toBe(old)
    expect((await again.publish(body)).manifest).toBe(made)
  })
})

/** The same storage for another process, with transactions of its own. */
const around = (shared: Storage, transact: Storage['transact']): Storage => ({
  ...{ location: shared.location, failure: undefined, transact },
  get: key => shared.get(key),
  entries: (prefix, after) => shared.entries(prefix, after),
  count: prefix => shared.count(prefix),
  close: async () => {},
})
