// Servers check all records when they load a dataset. A malformed one, with right digests, would end the hint of whoever looks it up: its
// maker, who may run one of the servers, would see which clients stop asking.

import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { contentHash, decodeManifest, encodeManifest, toHex } from '@keyhush/protocol'
import { loadCore } from '@keyhush/wasm'
import { describe, expect, test } from 'vitest'
import { loadDataset } from '../dist/index.js'
import { builtDirectory } from './helpers.js'

const CSV = 'key,value\none,first\ntwo,second\nthree,third\nfour,\n'

/** The dataset with another byte at `at` of a record, and digests of that. */
async function planted(index: number, at: number, value: number): Promise<string> {
  const core = await loadCore()
  const dir = await builtDirectory('a.csv', CSV, { maxValueBytes: 20, partitions: 1 })
  const manifest = decodeManifest(await readFile(join(dir, 'manifest.bin')))
  const { records, recordBytes, partitions, partitionRecords } = manifest
  const bytes = await readFile(join(dir, 'blobs', toHex(contentHash(manifest, 0))))
  bytes[index * recordBytes + at] = value
  const layout = core.layout(records, recordBytes, partitions, partitionRecords)
  const database = core.newDatabase(layout)
  layout.free()
  new Uint8Array(core.memory.buffer, database.recordsPointer(), bytes.length).set(bytes)
  database.commit(0)
  const [commitments, contentHashes] = [database.commitments(), database.contentHashes()]
  database.free()
  await writeFile(join(dir, 'blobs', toHex(contentHashes)), bytes)
  await writeFile(join(dir, 'manifest.bin'), encodeManifest({ ...manifest, commitments, contentHashes }))
  return dir
}

describe.each([0, 1, 2, 3])('record %i', index => {
  test.each([
    ['a value longer than any', 17, 1],
    ['bytes behind its value', 37, 1],
  ])('with %s is refused', async (_what, at, value) => {
    await expect(planted(index, at, value).then(dir => loadDataset(dir))).rejects.toMatchObject({
      name: 'DatasetError',
      message: expect.stringContaining(`record ${index}`),
    })
  })

  test('the dataset as it was built is not refused', async () => {
    const dataset = await loadDataset(await planted(index, 37, 0))
    dataset.close()
  })
})
