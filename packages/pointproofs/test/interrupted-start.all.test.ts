// A store that was being begun from a dataset with Pointproofs when the process ended, and is begun from another one after that: nothing
// of the first is left that the second would be taken for.

import { join } from 'node:path'
import { encodeQuery } from '@keyhush/protocol'
import { expect, test } from 'vitest'
import { buildDataset, loadDataset, UpdatableDatabase } from '../../../server/dist/index.js'
import { dataFile, pseudoRandom, temporaryDirectory, vectors } from '../../../server/test/helpers.js'
import { bodyOf, FailingStorage, opened } from '../../../server/test/updatable-helpers.js'
import { ceremonyIn, isGenuine, keyAndRowsOf, replyTo } from './support/proved.js'

const BYTES = 8

test('openings that an interrupted beginning has left are no other dataset’s', async () => {
  const dir = await temporaryDirectory()
  const { transcript: ceremony, mine: receipt } = await ceremonyIn(dir)
  const storage = new FailingStorage()
  const begin = async (partitions: number) => {
    const data = await dataFile('records.bin', pseudoRandom(4 * partitions * BYTES, partitions))
    const out = join(dir, `${partitions}`)
    const proofs = { proofs: 'pointproofs', ceremony, receipt } as const
    await buildDataset({ data, out, recordBytes: BYTES, partitions, ...proofs })
    const dataset = await loadDataset(out)
    await UpdatableDatabase.create(storage, dataset).finally(() => dataset.close())
  }
  storage.fails = key => key === 'head'
  await expect(begin(3)).rejects.toMatchObject({ name: 'StorageError' })
  storage.fails = () => false
  await begin(2)
  const updatable = await opened(storage)
  const { manifest } = updatable.newest
  const offsets = [3, 1]
  const known = await keyAndRowsOf(manifest, hash => bodyOf(updatable, hash))
  const query = Buffer.from(encodeQuery(manifest, 1, vectors(offsets), 'pointproofs'))
  expect(isGenuine(manifest, known, await replyTo(updatable, query), offsets)).toBe(true)
})
