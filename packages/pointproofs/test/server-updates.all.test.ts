// A database with Pointproofs that changes: after every batch both epochs are answered, and an independent verifier takes the
// proofs, before edits are folded into openings, meanwhile and afterwards, after restarts, and from every state a crash can leave.

import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { encodeQuery, HEADER_BYTES } from '@keyhush/protocol'
import { splitUpdateList } from '@keyhush/protocol/chain'
import { beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { buildDataset, createServer, loadDataset, UpdatableDatabase } from '../../../server/dist/index.js'
import { listed, pseudoRandom, vectors } from '../../../server/test/helpers.js'
import { batchOn, bodyOf, opened, RememberingStorage, refusal } from '../../../server/test/updatable-helpers.js'
import { THOROUGH } from '../../../tests/support/thorough.js'
import { ProverThread } from '../dist/server/prover-threads.js'
import { ceremonyIn, isGenuine, keyAndRowsOf, numbers, replyTo } from './support/proved.js'

const RECORDS = 520
const BYTES = 8
/** in two partitions of 270, a row and a short one each: 20 more until a third is opened */
const HEADROOM = 20
const records = pseudoRandom(RECORDS * BYTES, 3)

let first: RememberingStorage

beforeAll(async () => {
  const folder = await mkdtemp(join(tmpdir(), 'keyhush-test-'))
  try {
    const { transcript: ceremony, mine: receipt } = await ceremonyIn(folder)
    const data = join(folder, 'records.bin')
    await writeFile(data, records)
    const out = join(folder, 'dataset')
    const proofs = { proofs: 'pointproofs', ceremony, receipt } as const
    await buildDataset({ data, out, recordBytes: BYTES, partitions: 2, headroom: HEADROOM, ...proofs })
    const dataset = await loadDataset(out)
    first = new RememberingStorage()
    await UpdatableDatabase.create(first, dataset)
    dataset.close()
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
})

/** What the records should be, by epoch. */
type Model = Map<number, Uint8Array[]>

const initial = (): Model =>
  new Map([[1, Array.from({ length: RECORDS }, (_, i) => records.subarray(i * BYTES, (i + 1) * BYTES))]])

interface Change {
  readonly op: 'edit' | 'add' | 'delete'
  readonly index?: number
  readonly value?: Uint8Array
}

async function change(updatable: UpdatableDatabase, model: Model, changes: readonly Change[]): Promise<void> {
  const { epoch } = updatable.newest.manifest
  const now = [...model.get(epoch)!]
  const operations = changes.map(({ op, index, value }) => {
    if (op === 'add') now.push(value!)
    else now[index!] = value ?? new Uint8Array(BYTES)
    return { op, index, ...(value && { value: Buffer.from(value).toString('hex') }) }
  })
  await updatable.publish(batchOn(updatable, operations, { encoding: 'hex' }))
  model.set(epoch + 1, now)
}

/** Every epoch that is answered says what it should of these offsets, and proves it. */
async function expectAnswered(
  updatable: UpdatableDatabase,
  model: Model,
  draw: (bound: number) => number,
  ask = async (query: Buffer): Promise<Uint8Array> => await replyTo(updatable, query),
) {
  for (const { generation, epoch: number } of updatable.list()) {
    const { manifest } = updatable.find(generation, number)!
    const known = await keyAndRowsOf(manifest, hash => bodyOf(updatable, hash))
    const { partitions, partitionRecords } = manifest
    const offsets = Array.from({ length: 2 * partitions }, () => draw(partitionRecords))
    const query = Buffer.from(encodeQuery(manifest, 2, vectors(offsets), 'pointproofs'))
    const answer = await ask(query)
    const indices = offsets.map((offset, n) => (n % partitions) * partitionRecords + offset)
    const expected = indices.map(index => model.get(number)![index] ?? new Uint8Array(BYTES))
    const at = [HEADER_BYTES, HEADER_BYTES + offsets.length * BYTES]
    expect(Buffer.from(answer.subarray(...at)), `epoch ${number}`).toEqual(Buffer.concat(expected))
    expect(isGenuine(manifest, known, answer, offsets), `epoch ${number}, offsets ${offsets}`).toBe(true)
  }
}

/** Edits, most of them in one row; now and then a delete or an add. */
function someChanges(draw: (bound: number) => number, count: number, size: number): Change[] {
  const value = () => pseudoRandom(BYTES, draw(255))
  const edits = Array.from({ length: count }, (): Change => {
    const index = draw(4) === 0 ? draw(size) : draw(200)
    return draw(6) === 0 ? { op: 'delete', index } : { op: 'edit', index, value: value() }
  })
  return draw(2) === 0 ? edits : [...edits, { op: 'add', value: value() }]
}

const foldings = (storage: RememberingStorage) =>
  Array.from({ length: storage.transactions }, (_, n) => n).filter(n =>
    storage.keys(n).some(key => key.startsWith('openings/')),
  )

async function copyOf(storage: RememberingStorage): Promise<RememberingStorage> {
  const [whole, copy] = [await storage.asOf(storage.transactions), new RememberingStorage()]
  const entries = await listed(whole, '')
  await copy.transact([], transaction => {
    for (const [key, value] of entries) transaction.put(key, value)
  })
  return copy
}

test('as a map does under any batches, at both epochs, lagging and folded, before and after a restart', async () => {
  for (const seed of THOROUGH ? [1, 2] : [1]) {
    const draw = numbers(seed)
    const storage = await copyOf(first)
    const model = initial()
    let updatable = await UpdatableDatabase.open(storage)
    await expectAnswered(updatable, model, draw)
    for (let batch = 0; batch < (THOROUGH ? 6 : 4); batch++) {
      await change(updatable, model, someChanges(draw, 1 + draw(20), model.get(batch + 1)!.length))
      await expectAnswered(updatable, model, draw)
      if (draw(2) === 0) await updatable.folding!.settled()
      if (batch % 3 !== 2) continue
      await expectAnswered(updatable, model, draw)
      await updatable.close()
      updatable = await UpdatableDatabase.open(storage)
      await expectAnswered(updatable, model, draw)
    }
    await updatable.folding!.settled()
    await expectAnswered(updatable, model, draw)
    await updatable.close()
    expect(foldings(storage).length, `seed ${seed}`).toBeGreaterThan(1)
  }
})

test('a batch is its list, the commitments of the rows it touches, and nothing of any opening', async () => {
  const storage = await copyOf(first)
  const updatable = await opened(storage)
  const before = storage.transactions
  const model = initial()
  await change(updatable, model, [{ op: 'edit', index: 0, value: pseudoRandom(BYTES, 9) }])
  expect(storage.keys(before).filter(key => /^(openings|rows|chunk)/.test(key))).toEqual([])
  const { manifest } = updatable.newest
  const { list, rows } = splitUpdateList(await bodyOf(updatable, manifest.updateListHash))
  expect([list.length, rows.length]).toEqual([40 + 5 + BYTES, 48])
  const rowLists = await bodyOf(updatable, manifest.pointproofs!.rowsHash)
  expect(Buffer.from(rowLists.subarray(32, 80))).toEqual(Buffer.from(rows))
})

test('a partition that is opened is proved', async () => {
  const updatable = await opened(await copyOf(first))
  const model = initial()
  const adds = Array.from({ length: HEADROOM + 2 }, (_, n): Change => ({ op: 'add', value: pseudoRandom(BYTES, n) }))
  await change(updatable, model, adds)
  expect(updatable.newest.manifest.partitions).toBe(3)
  await expectAnswered(updatable, model, numbers(1))
  const offsets = [0, 1, 1]
  const { manifest } = updatable.newest
  const query = Buffer.from(encodeQuery(manifest, 1, vectors(offsets), 'pointproofs'))
  const known = await keyAndRowsOf(manifest, hash => bodyOf(updatable, hash))
  expect(isGenuine(manifest, known, await replyTo(updatable, query), offsets)).toBe(true)
})

test('from every state that a crash leaves, also in the middle of folding, the next start answers', async () => {
  const draw = numbers(7)
  const storage = await copyOf(first)
  const updatable = await opened(storage)
  const model = initial()
  const begun = storage.transactions
  for (let batch = 0; batch < 3; batch++) {
    await change(updatable, model, someChanges(draw, 24, RECORDS))
    if (batch === 1) await updatable.folding!.settled()
  }
  await updatable.folding!.settled()
  const folded = foldings(storage).filter(n => n >= begun)
  expect(folded.length).toBeGreaterThan(0)
  const states = Array.from({ length: storage.transactions - begun + 1 }, (_, n) => begun + n)
  for (const count of THOROUGH ? states.filter((n, i) => i % 3 === 0 || folded.includes(n)) : [folded[0]!]) {
    const after = await UpdatableDatabase.open(await storage.asOf(count))
    await expectAnswered(after, model, draw)
    await after.close()
  }
})

test('what cannot be written is neither told of nor used', async () => {
  const draw = numbers(8)
  const storage = await copyOf(first)
  const updatable = await opened(storage)
  const model = initial()
  storage.fails = key => key.startsWith('openings/')
  for (let batch = 0; batch < 2; batch++) await change(updatable, model, someChanges(draw, 24, 200))
  await updatable.folding!.settled()
  expect(foldings(storage).filter(n => n > 0)).toEqual([])
  await expectAnswered(updatable, model, draw)
  // Whoever runs it hears so.
  const app = await createServer({ datasets: [{ updatable }] })
  onTestFinished(() => app.close())
  const problems = async () => (await app.inject('/readyz')).json().problems
  expect(await problems()).toEqual(['edits are not folded into openings'])
  // A whole batch, then: the epoch is the old one until it comes again.
  storage.fails = key => key.startsWith('list/')
  const body = batchOn(updatable, [{ op: 'edit', index: 3, value: 'ab'.repeat(BYTES) }], { encoding: 'hex' })
  await expect(updatable.publish(body)).rejects.toMatchObject({ name: 'StorageError' })
  expect(updatable.newest.manifest.epoch).toBe(3)
  await expectAnswered(updatable, model, draw)
  storage.fails = () => false
  await updatable.publish(body)
  const edited = [...model.get(3)!]
  edited[3] = new Uint8Array(BYTES).fill(0xab)
  model.set(4, edited)
  await expectAnswered(updatable, model, draw)
  await updatable.folding!.settled()
  expect(foldings(storage).filter(n => n > 0).length).toBeGreaterThan(0)
  expect(await problems()).toBeUndefined()
  await expectAnswered(updatable, model, draw)
})

test('once a batch is folded, the newest epoch is answered without correcting for it, and the one before without it', async () => {
  const corrected: number[] = []
  const { do: does } = ProverThread.prototype
  ProverThread.prototype.do = function (this: ProverThread, task) {
    if ('entries' in task) corrected.push(task.entries.length)
    return does.call(this, task)
  }
  onTestFinished(() => {
    ProverThread.prototype.do = does
  })
  const updatable = await opened(await copyOf(first))
  const model = initial()
  const edits = (epoch: number) =>
    Array.from(
      { length: 150 },
      (_, index): Change => ({ op: 'edit', index, value: pseudoRandom(BYTES, epoch + index) }),
    )
  // More than are followed at a time, of one row; the epoch before the second batch is out of what the first was folded to.
  for (const epoch of [2, 3]) {
    await change(updatable, model, edits(epoch))
    await updatable.folding!.settled()
    corrected.length = 0
    await expectAnswered(updatable, model, numbers(epoch))
    expect(corrected).toEqual([0, 0])
  }
})

test('the next generation is built, not made of a batch', async () => {
  const updatable = await opened(await copyOf(first))
  const { code, message } = await refusal(updatable.publish(batchOn(updatable, [{ op: 'generation' }])))
  expect([code, message]).toEqual(['batch_refused', expect.stringMatching(/build --succeeds/)])
  expect(updatable.newest.manifest.epoch).toBe(1)
})

describe('a store that is damaged is not served', () => {
  test.each<[string, RegExp, (bytes: Uint8Array) => Uint8Array | undefined, RegExp]>([
    ['no transcript', /^transcript/, () => undefined, /expected a transcript, got none/],
    ['a damaged transcript', /^transcript/, bytes => bytes.fill(1, 100, 101), /damaged/],
    ['no row lists', /^rows/, () => undefined, /expected the row lists, got none/],
    ['damaged row lists', /^rows/, bytes => bytes.fill(1, 60, 61), /damaged/],
    ['damaged openings', /^openings/, bytes => bytes.fill(1, 60, 61), /damaged/],
  ])('%s', async (_what, wanted, damage, reason) => {
    const storage = await copyOf(first)
    const [key, bytes] = (await listed(storage, '')).find(([key]) => wanted.test(key))!
    await storage.transact([], transaction => {
      const damaged = damage(bytes)
      if (damaged === undefined) transaction.remove(key)
      else transaction.put(key, damaged)
    })
    await expect(UpdatableDatabase.open(storage)).rejects.toMatchObject({
      name: 'DatasetError',
      message: expect.stringMatching(reason),
    })
  })
})
