// Pointproofs of a database of blocks over so many epochs that chunks, row lists and lists are written behind and forgotten while
// openings lag: from whatever a process leaves when it ends, an independent verifier takes the proofs at both epochs.

import { join } from 'node:path'
import { encodeQuery, HEADER_BYTES } from '@keyhush/protocol'
import { expect, test } from 'vitest'
import { buildDataset, loadDataset, UpdatableDatabase } from '../../../server/dist/index.js'
import { dataFile, pseudoRandom, temporaryDirectory, vectors } from '../../../server/test/helpers.js'
import { batchOn, bodyOf, RememberingStorage } from '../../../server/test/updatable-helpers.js'
import { THOROUGH } from '../../../tests/support/thorough.js'
import { ceremonyIn, isGenuine, keyAndRowsOf, numbers, replyTo } from './support/proved.js'

const BYTES = 8
const RECORDS = 40
/** Two of a block. */
const PACK = 2
/** in two partitions of twelve blocks; the 49th record opens a third */
const HEADROOM = 8
/** More than chunks may fall behind by (64). */
const EPOCHS = THOROUGH ? 400 : 76

/** Records by epoch. */
type Model = Map<number, readonly Uint8Array[]>

async function expectAnswered(updatable: UpdatableDatabase, model: Model, draw: (bound: number) => number) {
  for (const { generation, epoch } of updatable.list()) {
    const { manifest } = updatable.find(generation, epoch)!
    const { partitions, partitionRecords } = manifest
    const known = await keyAndRowsOf(manifest, hash => bodyOf(updatable, hash))
    const blocks = partitionRecords / PACK
    const offsets = Array.from({ length: 2 * partitions }, () => draw(blocks))
    const query = Buffer.from(encodeQuery(manifest, 2, vectors(offsets), 'pointproofs'))
    const answer = await replyTo(updatable, query)
    const expected = offsets.flatMap((offset, n) =>
      Array.from({ length: PACK }, (_, k) => {
        const index = (n % partitions) * partitionRecords + offset * PACK + k
        return model.get(epoch)![index] ?? new Uint8Array(BYTES)
      }),
    )
    const at = [HEADER_BYTES, HEADER_BYTES + expected.length * BYTES]
    expect(Buffer.from(answer.subarray(...at)), `epoch ${epoch}`).toEqual(Buffer.concat(expected))
    expect(isGenuine(manifest, known, answer, offsets), `epoch ${epoch}, offsets ${offsets}`).toBe(true)
  }
}

test('proofs hold, however far openings, chunks and row lists are behind one another', async () => {
  const dir = await temporaryDirectory()
  const { transcript: ceremony, mine: receipt } = await ceremonyIn(dir)
  const records = pseudoRandom(RECORDS * BYTES, 5)
  const out = join(dir, 'dataset')
  await buildDataset({
    ...{ data: await dataFile('records.bin', records), out, recordBytes: BYTES, partitions: 2 },
    ...{ headroom: HEADROOM, pack: PACK, proofs: 'pointproofs', ceremony, receipt },
  })
  const dataset = await loadDataset(out)
  const storage = new RememberingStorage()
  await UpdatableDatabase.create(storage, dataset)
  dataset.close()

  const seed = 11
  const draw = numbers(seed)
  const model: Model = new Map([
    [1, Array.from({ length: RECORDS }, (_, i) => records.subarray(i * BYTES, (i + 1) * BYTES))],
  ])
  const value = () => Buffer.from(pseudoRandom(BYTES, draw(255)))
  let updatable = await UpdatableDatabase.open(storage, { history: 1 })
  const rebased: number[] = []
  const folded: number[] = []
  for (let epoch = 1; epoch < EPOCHS; epoch++) {
    const before = storage.transactions
    const now = [...model.get(epoch)!]
    // Mostly one partition; the other's openings lag until they are old. Sometimes nothing changes.
    const operations = Array.from({ length: draw(4) }, () => {
      if (draw(6) === 0 && now.length < 60) {
        const added = value()
        now.push(added)
        return { op: 'add', value: added.toString('hex') }
      }
      const index = draw(9) === 0 ? draw(now.length) : draw(24)
      const edited = draw(6) === 0 ? Buffer.alloc(BYTES) : value()
      now[index] = edited
      return { op: 'edit', index, value: edited.toString('hex') }
    })
    if (operations.length === 0) operations.push({ op: 'edit', index: 1, value: Buffer.from(now[1]!).toString('hex') })
    await updatable.publish(batchOn(updatable, operations, { encoding: 'hex' }))
    model.set(epoch + 1, now)
    if (draw(8) === 0) await updatable.folding!.settled()
    if (draw(THOROUGH ? 25 : 50) === 0) {
      await expectAnswered(updatable, model, draw)
      await updatable.close()
      updatable = await UpdatableDatabase.open(storage, { history: 1 })
      await expectAnswered(updatable, model, draw)
    }
    for (let n = before; n < storage.transactions; n++) {
      if (storage.keys(n).some(key => key.startsWith('rows/'))) rebased.push(n)
      if (storage.keys(n).some(key => key.startsWith('openings/'))) folded.push(n)
    }
  }
  await updatable.folding!.settled()
  await expectAnswered(updatable, model, draw)
  await updatable.close()
  expect(updatable.newest.manifest.partitions, `seed ${seed}`).toBe(3)
  expect(rebased.length, `seed ${seed}`).toBeGreaterThan(0)
  expect(folded.length, `seed ${seed}`).toBeGreaterThan(4)

  // As after a crash: before and after what was written behind, and somewhere.
  const crashes = new Set([
    ...rebased,
    ...folded.slice(THOROUGH ? -2 : -1),
    ...Array.from({ length: THOROUGH ? 3 : 0 }, () => 10 + draw(storage.transactions - 10)),
  ])
  for (const count of [...crashes].flatMap(n => [n, n + 1])) {
    const after = await UpdatableDatabase.open(await storage.asOf(count), { history: 1 })
    await expectAnswered(after, model, draw)
    await after.close()
  }
})
