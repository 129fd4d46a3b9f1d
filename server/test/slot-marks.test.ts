// Slot marks (docs/protocol.md): all builders make those of the reference, at every epoch that is answered, and no listed key is excluded.

import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setImmediate as nextTask } from 'node:timers/promises'
import { open } from '@keyhush/client'
import { contentHash, decodeManifest, equalBytes, fromHex, type Manifest, toHex } from '@keyhush/protocol'
import { loadCore } from '@keyhush/wasm'
import { blake3 } from '@noble/hashes/blake3.js'
import fc from 'fast-check'
import { expect, onTestFinished, test } from 'vitest'
import { decodeDirectory, indexOf } from '../../tests/interop/reference/directory.js'
import { isExcluded, slotMarks } from '../../tests/interop/reference/slot-marks.js'
import { THOROUGH } from '../../tests/support/thorough.js'
import { slice } from '../dist/base/pace.js'
import { MisfitError } from '../dist/database/taking.js'
import { slotMarksOf } from '../dist/dataset/slot-marks.js'
import { loadDataset, MemoryStorage, UpdatableDatabase } from '../dist/index.js'
import { writeFolder } from '../dist/publisher/folder.js'
import { startServers } from '../dist/testing/servers.js'
import { builtDataset, builtDirectory, createIn, dataFile, pseudoRandom, temporaryDirectory } from './helpers.js'
import { batchOn, bodyOf, KEYED, keyed, opened, printOf } from './updatable-helpers.js'

const MARKED = { filter: true, maxValueBytes: 20 }
const KEYS = Array.from({ length: 40 }, (_, i) => `key ${i}`)

/** What a client downloads of an epoch. */
async function downloaded(updatable: UpdatableDatabase, manifest: Manifest) {
  const { records, recordBytes, partitions, directoryHash, slotMarksHash } = manifest
  const each = Array.from({ length: partitions }, (_, q) => bodyOf(updatable, contentHash(manifest, q)))
  const all = Buffer.concat(await Promise.all(each)).subarray(0, records * recordBytes)
  const directory = decodeDirectory(await bodyOf(updatable, directoryHash), records)
  return { all, directory, marks: await bodyOf(updatable, slotMarksHash!) }
}

/** Every epoch that is answered has the reference's marks, which exclude no key in it, and most of what is not. */
async function expectMarks(updatable: UpdatableDatabase, listed: ReadonlySet<string>): Promise<void> {
  for (const { manifest } of updatable.answerable()) {
    const { all, marks } = await downloaded(updatable, manifest)
    expect(toHex(marks)).toBe(toHex(slotMarks(all, manifest.recordBytes)))
  }
  const { manifest } = updatable.newest
  const { directory, marks } = await downloaded(updatable, manifest)
  const excluded = (key: string) => {
    const print = fromHex(printOf(key))
    return isExcluded(marks, indexOf(directory, print, manifest.records), print)
  }
  expect([...listed].filter(excluded)).toEqual([])
  const others = Array.from({ length: 300 }, (_, i) => `other ${i}`)
  expect(others.filter(key => !excluded(key)).length).toBeLessThan(12) // 1.2 is the mean
}

type Step = { readonly key: string; readonly op: 'toggle' | 'edit' } | 'generation' | 'reopen'
const batches = fc.array(
  fc.oneof(
    {
      weight: 6,
      arbitrary: fc.array(fc.record({ key: fc.constantFrom(...KEYS), op: fc.constantFrom('toggle', 'edit') }), {
        minLength: 1,
        maxLength: 12,
      }),
    },
    { weight: 1, arbitrary: fc.constantFrom('generation', 'reopen') },
  ),
  { minLength: 1, maxLength: 8 },
) as fc.Arbitrary<(Exclude<Step, string>[] | 'generation' | 'reopen')[]>

test('a new build, updates, what is loaded again, another copy and a folder have the same marks; no listed key is excluded', async () => {
  const dir = await builtDirectory('a.csv', KEYED, MARKED)
  const life = async (steps: (Exclude<Step, string>[] | 'generation' | 'reopen')[]) => {
    const storage = await createIn(new MemoryStorage(), dir)
    let updatable = await UpdatableDatabase.open(storage)
    const copy = await UpdatableDatabase.open(await createIn(new MemoryStorage(), dir))
    const listed = new Set(['one', 'two', 'three'])
    try {
      for (const step of steps) {
        if (step === 'reopen') {
          await updatable.close()
          updatable = await UpdatableDatabase.open(storage)
        } else {
          const operations =
            typeof step === 'string'
              ? [{ op: step }]
              : step.map(({ key, op }) => {
                  const isThere = listed.has(key)
                  if (op === 'edit' && isThere) return { op, key, value: `${listed.size}` }
                  if (isThere) listed.delete(key)
                  else listed.add(key)
                  return isThere ? { op: 'delete', key } : { op: 'add', key, value: 'new' }
                })
          await updatable.publish(batchOn(updatable, operations))
          const { manifest, manifestBytes: bytes } = updatable.newest
          const list = manifest.updateListBytes > 0 ? await bodyOf(updatable, manifest.updateListHash) : undefined
          await copy.take({ manifest, bytes }, list)
        }
        await expectMarks(updatable, listed)
        await expectMarks(copy, listed)
      }
      const folder = await temporaryDirectory()
      await writeFolder(folder, copy)
      for (const { manifest } of updatable.answerable()) {
        const { slotMarksHash } = manifest
        const written = await readFile(join(folder, 'v1', 'blobs', toHex(slotMarksHash!)))
        expect(equalBytes(written, await bodyOf(updatable, slotMarksHash!))).toBe(true)
      }
    } finally {
      await updatable.close()
      await copy.close()
    }
  }
  await fc.assert(fc.asyncProperty(batches, life), { numRuns: THOROUGH ? 30 : 1, endOnFailure: !THOROUGH })
})

test('a list without marks is what it was; with them it differs in a flag and a hash, and in the id made of both', async () => {
  const name = 'a name'
  const [plain, marked] = [{}, { filter: true }].map(choices => builtDirectory('a.csv', KEYED, { ...choices, name }))
  const [before, bytes] = [plain, marked].map(async dir => readFile(join(await dir!, 'manifest.bin')))
  const expected = Buffer.concat([
    await before!,
    blake3(slotMarks(await recordsIn(await plain!), recordBytesIn(await before!))),
  ])
  expected[171] = 1
  expect((await bytes!).equals(expected)).toBe(true)
  expect(await before!).toHaveLength(224 + 64 * decodeManifest(await before!).partitions)
})

const recordBytesIn = (manifest: Uint8Array) => decodeManifest(manifest).recordBytes
async function recordsIn(dir: string): Promise<Uint8Array> {
  const manifest = decodeManifest(await readFile(join(dir, 'manifest.bin')))
  const parts = Array.from({ length: manifest.partitions }, (_, q) =>
    readFile(join(dir, 'blobs', toHex(contentHash(manifest, q)))),
  )
  return Buffer.concat(await Promise.all(parts)).subarray(0, manifest.records * manifest.recordBytes)
}

test('a list gets marks with a generation that is built; one without keys has none', async () => {
  const { newest } = await keyed()
  const succeeds = await dataFile('manifest.bin', newest.manifestBytes)
  const { manifest } = await builtDataset('a.csv', KEYED, { ...MARKED, succeeds })
  expect([newest.manifest.slotMarksHash, manifest.generation]).toEqual([undefined, 2])
  expect(manifest.slotMarksHash).toHaveLength(32)
  const keyless = builtDirectory('a.bin', pseudoRandom(80), { recordBytes: 8, filter: true })
  await expect(keyless).rejects.toThrow('--filter: expected another format, got bin; leave it out')
})

test('test servers have marks, and maps filters of them', async () => {
  const { servers, publisherKey, publish, close } = await startServers({ otter: 'river' })
  onTestFinished(close)
  const map = await open({ servers, publisherKey, mode: 'filter', storage: 'memory' })
  onTestFinished(() => map.close())
  expect(['otter', 'heron'].map(key => map.excludes(key))).toEqual([false, true])
  await publish([{ op: 'add', key: 'heron', value: 'shore' }])
  await map.sync()
  expect([map.excludes('heron'), await map.get('auk')]).toEqual([false, undefined])
  const reply = await fetch(`${servers[0]}/v1/manifest`)
  const { slotMarksHash, records } = decodeManifest(new Uint8Array(await reply.arrayBuffer()))
  const marks = new Uint8Array(await (await fetch(`${servers[1]}/v1/blobs/${toHex(slotMarksHash!)}`)).arrayBuffer())
  expect([marks.length, toHex(blake3(marks))]).toEqual([records, toHex(slotMarksHash!)])
})

test.each([1, 2, 3])('instant lookups behind a filter, of %s servers', async count => {
  const { servers, publisherKey, publish, close } = await startServers({ otter: 'river', heron: 'shore' }, { count })
  onTestFinished(close)
  const wishes = { filter: { cover: 0, meanwhile: 'wait' }, ...(count === 1 && { experimental: true }) } as const
  const map = await open({ servers, publisherKey, mode: 'instant', storage: 'memory', ...wishes })
  onTestFinished(() => map.close())
  const sent = () => map.stats.servers.reduce((sum, { lookups }) => sum + lookups.bytesUp, 0)
  expect([await map.getText('otter'), sent() > 0]).toEqual(['river', true])
  const before = sent()
  expect([await map.get('auk'), sent()]).toEqual([undefined, before])
  await publish([{ op: 'add', key: 'auk', value: 'cliff' }])
  await map.sync()
  expect([await map.getText('auk'), map.filter?.epoch]).toEqual(['cliff', 2])
})

test('other marks than those of the records are refused: of a dataset, of a store, of an epoch that is taken', async () => {
  const dir = await builtDirectory('a.csv', KEYED, MARKED)
  const file = join(dir, 'manifest.bin')
  const right = await readFile(file)
  const { slotMarksHash, records } = decodeManifest(right)
  const blob = join(dir, 'blobs', toHex(slotMarksHash!))
  const marks = await readFile(blob)

  await writeFile(
    blob,
    marks.map((mark, i) => (i === 1 ? 0 : mark)),
  )
  await expect(loadDataset(dir)).rejects.toThrow('expected the slot marks that the manifest names, got other bytes')
  await writeFile(blob, marks)

  const others = new Uint8Array(records)
  await writeFile(join(dir, 'blobs', toHex(blake3(others))), others)
  const wrong = Buffer.from(right)
  wrong.set(blake3(others), wrong.length - 32)
  await writeFile(file, wrong)
  await expect(loadDataset(dir)).rejects.toThrow('expected the slot marks of these records, got others')
  await writeFile(file, right)

  const dataset = await loadDataset(dir)
  const storage = new MemoryStorage()
  await UpdatableDatabase.create(storage, { ...dataset, manifest: decodeManifest(wrong), manifestBytes: wrong })
  dataset.close()
  await expect(UpdatableDatabase.open(storage)).rejects.toThrow(
    'memory: expected the slot marks of epoch 1, got others',
  )

  const [maker, taker] = [
    await opened(await createIn(new MemoryStorage(), dir)),
    await opened(await createIn(new MemoryStorage(), dir)),
  ]
  await maker.publish(batchOn(maker, [{ op: 'delete', key: 'two' }]))
  const { manifestBytes, manifest } = maker.newest
  const list = await bodyOf(maker, manifest.updateListHash)
  for (const length of [manifestBytes.length, manifestBytes.length - 32]) {
    const bytes = manifestBytes.slice(0, length)
    if (length === manifestBytes.length) bytes[length - 1]! ^= 1
    else bytes[171] = 0
    const copy = await opened(await createIn(new MemoryStorage(), dir))
    copy.onFailure = () => {}
    await expect(copy.take({ manifest: decodeManifest(bytes), bytes }, list)).rejects.toThrow(MisfitError)
  }
  await taker.take({ manifest, bytes: manifestBytes }, list)
})

test('others have their turn while marks are made', async () => {
  const usual = slice.milliseconds
  slice.milliseconds = 0
  onTestFinished(() => {
    slice.milliseconds = usual
  })
  const lines = Array.from({ length: 10_000 }, (_, i) => `${i}\n`).join('')
  const { database, manifest } = await builtDataset('a.txt', lines, { filter: true })
  let [isMade, turns] = [false, 0]
  const made = slotMarksOf({ core: await loadCore(), database }).finally(() => {
    isMade = true
  })
  for (; !isMade; turns++) await nextTask()
  expect(toHex(blake3(await made))).toBe(toHex(manifest.slotMarksHash!))
  expect(turns).toBeGreaterThanOrEqual(3)
})
