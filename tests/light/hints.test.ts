// Mode `light` from end to end: the client's `open()` at two real servers, over HTTP, while the database changes and while
// one of them does not offer it.

import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { blake3 } from '@noble/hashes/blake3.js'
import { bytesToHex, hexToBytes, utf8ToBytes } from '@noble/hashes/utils.js'
import { open, type PirouetteMap } from '@pirouette/client'
import { encodeBatch } from '@pirouette/protocol'
import { buildDataset, createServer, loadDataset, MemoryStorage, UpdatableDatabase } from '@pirouette/server'
import { describe, expect, onTestFinished, test } from 'vitest'

const COUNT = 2000
const keyOf = (i: number) => `key-${i}`
const contentOf = (i: number, round = 0) => bytesToHex(blake3(utf8ToBytes(`${i} ${round}`), { dkLen: 1 + (i % 20) }))

interface Running {
  readonly url: string
  readonly updatable: UpdatableDatabase
}

/** Two operators with the same file. */
async function servers(
  second: { readonly light?: false } = {},
  pack: 'auto' | 1 = 1,
): Promise<readonly [Running, Running]> {
  const dir = await mkdtemp(join(tmpdir(), 'pirouette-test-'))
  onTestFinished(() => rm(dir, { recursive: true, force: true }))
  const data = join(dir, 'a.csv')
  await writeFile(
    data,
    `key,value\n${Array.from({ length: COUNT }, (_, i) => `${keyOf(i)},${contentOf(i)}\n`).join('')}`,
  )
  await buildDataset({ data, out: join(dir, 'out'), valueEncoding: 'hex', maxValueBytes: 20, pack })
  const run = async (options: { readonly light?: false }): Promise<Running> => {
    const dataset = await loadDataset(join(dir, 'out'))
    const storage = new MemoryStorage()
    await UpdatableDatabase.create(storage, dataset)
    dataset.close()
    const updatable = await UpdatableDatabase.open(storage)
    const app = await createServer({ datasets: [{ updatable }], ...options })
    onTestFinished(async () => {
      await app.close()
      await updatable.close()
    })
    return { url: await app.listen({ port: 0, host: '127.0.0.1' }), updatable }
  }
  return [await run({}), await run(second)]
}

async function opened([a, b]: readonly [Running, Running], proofs?: 'merkle' | 'tags'): Promise<PirouetteMap> {
  const map = await open({ servers: [a.url, b.url], mode: 'light', proofs })
  onTestFinished(() => map.close())
  return map
}

async function publish(both: readonly Running[], operations: readonly object[]): Promise<void> {
  const { manifest, manifestHash } = both[0]!.updatable.newest
  const batch = encodeBatch({
    encoding: 'hex',
    databaseId: manifest.databaseId,
    generation: manifest.generation,
    epoch: manifest.epoch + 1,
    expires: 0,
    previousManifest: hexToBytes(manifestHash),
    operations: utf8ToBytes(operations.map(operation => `${JSON.stringify(operation)}\n`).join('')),
  })
  await Promise.all(both.map(({ updatable }) => updatable.publish(batch)))
}

const hexOf = (value: Uint8Array | undefined) => value && bytesToHex(value)

describe('open({ mode: "light" })', () => {
  test.each([
    [1, 'merkle'],
    [1, 'tags'],
    ['auto', 'merkle'],
    ['auto', 'tags'],
  ] as const)('makes a hint of what two servers send, pack: %s, %s, and finds keys', async (pack, proofs) => {
    const both = await servers({}, pack)
    expect(both[0].updatable.newest.manifest.blockRecords > 1).toBe(pack === 'auto')
    const map = await opened(both, proofs)
    const { partitions, partitionRecords, blockRecords } = both[0].updatable.newest.manifest
    const tags = proofs === 'tags' ? (8 * partitions * partitionRecords) / blockRecords : 0
    expect([map.mode, map.size, map.stats.held['tags'], map.stats.incidents]).toEqual(['light', COUNT, tags, []])
    const chosen = Array.from({ length: 24 }, (_, k) => (k * 977) % COUNT)
    const found = await Promise.all(chosen.map(i => map.get(keyOf(i))))
    expect(found.map(hexOf)).toEqual(chosen.map(i => contentOf(i)))
    expect(await Promise.all(['nobody', keyOf(3)].map(key => map.has(key)))).toEqual([false, true])
    const many = await map.getMany([...chosen.slice(0, 9).map(keyOf), 'nobody'], { padTo: 16 })
    expect(many.map(hexOf)).toEqual([...chosen.slice(0, 9).map(i => contentOf(i)), undefined])
    await map.reset()
    expect([map.mode, hexOf(await map.get(keyOf(5)))]).toEqual(['light', contentOf(5)])
  })

  test('while epochs are published, many at a time: every hint is of one epoch, and follows', async () => {
    const both = await servers()
    let going = true
    const opening = (async () => {
      let made = 0
      for (; going || made === 0; made++) {
        const map = await open({ servers: [both[0].url, both[1].url], mode: 'light' })
        expect(hexOf(await map.get(keyOf(100 + made)))).toBe(contentOf(100 + made))
        // That a server has moved on is no failure of its own.
        const failures = map.stats.incidents.filter(({ code }) => code !== 'version')
        expect([map.mode, failures]).toEqual(['light', []])
        await map.close()
      }
    })()
    const map = await open({ servers: [both[0].url, both[1].url], mode: 'light', rollback: 'strict' })
    onTestFinished(() => map.close())
    for (let round = 1; round <= 5; round++) {
      await publish(both, [
        { op: 'edit', key: keyOf(7), value: contentOf(7, round) },
        { op: 'delete', key: keyOf(round) },
        ...Array.from({ length: 40 }, (_, i) => ({ op: 'add', key: `new-${round}-${i}`, value: contentOf(i, round) })),
      ])
      if (round % 2 === 0) await map.sync()
    }
    going = false
    await opening
    await map.sync()
    expect([map.epoch, hexOf(await map.get(keyOf(7)))]).toEqual([6, contentOf(7, 5)])
    for (let round = 1; round <= 5; round++) {
      expect(await map.get(keyOf(round))).toBeUndefined()
      expect(hexOf(await map.get(`new-${round}-39`))).toBe(contentOf(39, round))
    }
  })

  test('downloads where one server does not offer it, and tries that one again after reset() alone', async () => {
    const both = await servers({ light: false })
    const map = await opened(both)
    expect(map.mode).toBe('full')
    expect(map.stats.incidents).toEqual([{ server: both[1].url, code: 'protocol' }])
    expect(hexOf(await map.get(keyOf(1)))).toBe(contentOf(1))
    await map.reset()
    expect([map.mode, map.stats.incidents.length]).toEqual(['full', 2])
  })
})
