// Mode `instant` from end to end: the client's `open()` at two real servers, over HTTP, while the database changes and while
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
async function servers(second: { readonly instant?: false } = {}): Promise<readonly [Running, Running]> {
  const dir = await mkdtemp(join(tmpdir(), 'pirouette-test-'))
  onTestFinished(() => rm(dir, { recursive: true, force: true }))
  const data = join(dir, 'a.csv')
  await writeFile(
    data,
    `key,value\n${Array.from({ length: COUNT }, (_, i) => `${keyOf(i)},${contentOf(i)}\n`).join('')}`,
  )
  await buildDataset({ data, out: join(dir, 'out'), valueEncoding: 'hex', maxValueBytes: 20 })
  const run = async (options: { readonly instant?: false }): Promise<Running> => {
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

async function opened([a, b]: readonly [Running, Running]): Promise<PirouetteMap> {
  const map = await open({ servers: [a.url, b.url], mode: 'instant' })
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

describe('open({ mode: "instant" })', () => {
  test('finds keys, absent ones and batches, side by side', async () => {
    const map = await opened(await servers())
    expect([map.mode, map.size, map.stats.held]).toEqual(['instant', COUNT, {}])
    const chosen = Array.from({ length: 24 }, (_, k) => (k * 977) % COUNT)
    const found = await Promise.all(chosen.map(i => map.get(keyOf(i))))
    expect(found.map(hexOf)).toEqual(chosen.map(i => contentOf(i)))
    expect(await Promise.all(['nobody', keyOf(3)].map(key => map.has(key)))).toEqual([false, true])
    const many = await map.getMany([...chosen.slice(0, 9).map(keyOf), 'nobody'], { padTo: 16 })
    expect(many.map(hexOf)).toEqual([...chosen.slice(0, 9).map(i => contentOf(i)), undefined])
  })

  test('follows the database, with lookups under way at every moment', async () => {
    const both = await servers()
    const map = await opened(both)
    let going = true
    const lookups = (async () => {
      const seen = new Set<string | undefined>()
      for (let i = 0; going; i++) {
        expect(hexOf(await map.get(keyOf(100 + (i % 50))))).toBe(contentOf(100 + (i % 50)))
        seen.add(hexOf(await map.get(keyOf(7))))
      }
      return seen
    })()
    for (let round = 1; round <= 5; round++) {
      await publish(both, [
        { op: 'edit', key: keyOf(7), value: contentOf(7, round) },
        { op: 'delete', key: keyOf(round) },
        ...Array.from({ length: 40 }, (_, i) => ({ op: 'add', key: `new-${round}-${i}`, value: contentOf(i, round) })),
      ])
      if (round % 2 === 0) await map.sync()
    }
    await map.sync()
    going = false
    const allowed = [0, 1, 2, 3, 4, 5].map(round => contentOf(7, round))
    for (const value of await lookups) expect(allowed).toContain(value)
    expect([map.epoch, hexOf(await map.get(keyOf(7)))]).toEqual([6, contentOf(7, 5)])
    for (let round = 1; round <= 5; round++) {
      expect(await map.get(keyOf(round))).toBeUndefined()
      expect(hexOf(await map.get(`new-${round}-39`))).toBe(contentOf(39, round))
    }
  })

  test('names the server that does not offer it', async () => {
    const both = await servers({ instant: false })
    await expect(opened(both)).rejects.toMatchObject({
      name: 'UnsupportedError',
      message: expect.stringContaining(`${both[1].url} does not offer`),
    })
  })
})
