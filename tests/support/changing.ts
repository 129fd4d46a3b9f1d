// Two operators over HTTP with one keyed database that changes, and maps opened at them.

import { type KeyhushMap, type OpenOptions, open } from '@keyhush/client'
import { encodeBatch } from '@keyhush/protocol'
import { createServer, loadDataset, MemoryStorage, type ServerOptions, UpdatableDatabase } from '@keyhush/server'
import { blake3 } from '@noble/hashes/blake3.js'
import { bytesToHex, hexToBytes, utf8ToBytes } from '@noble/hashes/utils.js'
import { expect, onTestFinished } from 'vitest'
import { buildInto, type Data, temporaryFolder } from './servers.js'

export const COUNT = 2000
export const keyOf = (i: number) => `key-${i}`
export const hexOf = (value: Uint8Array | undefined) => value && bytesToHex(value)

/** A key's value in hexadecimal digits, after it has been edited `round` times. */
export const contentOf = (i: number, round = 0) =>
  bytesToHex(blake3(utf8ToBytes(`${i} ${round}`), { dkLen: 1 + (i % 20) }))

export interface Operator {
  readonly url: string
  readonly updatable: UpdatableDatabase
}

/** Two operators with the same file; until the test has ended. `second`: what the other one does not offer. */
export async function changingServers(
  second: Partial<ServerOptions> = {},
  pack?: Data['pack'],
): Promise<readonly [Operator, Operator]> {
  const folder = await temporaryFolder()
  onTestFinished(() => folder.remove())
  const dir = await buildInto(folder.path, {
    format: 'csv',
    content: `key,value\n${Array.from({ length: COUNT }, (_, i) => `${keyOf(i)},${contentOf(i)}\n`).join('')}`,
    valueEncoding: 'hex',
    maxValueBytes: 20,
    pack,
  })
  const run = async (options: Partial<ServerOptions>): Promise<Operator> => {
    const dataset = await loadDataset(dir)
    const storage = new MemoryStorage()
    await UpdatableDatabase.create(storage, dataset)
    dataset.close()
    const updatable = await UpdatableDatabase.open(storage)
    const app = await createServer({ ...options, datasets: [{ updatable }] })
    onTestFinished(async () => {
      await app.close()
      await updatable.close()
    })
    return { url: await app.listen({ port: 0, host: '127.0.0.1' }), updatable }
  }
  return [await run({}), await run(second)]
}

/** Until the test has ended. */
export async function openedAt(
  [a, b]: readonly [Operator, Operator],
  options: Omit<OpenOptions, 'servers'>,
): Promise<KeyhushMap> {
  const map = await open({ servers: [a.url, b.url], ...options })
  onTestFinished(() => map.close())
  return map
}

/** Round `round`: key 7 is edited, key `round` goes, and 40 come. */
export async function publishRound(both: readonly Operator[], round: number): Promise<void> {
  const operations = [
    { op: 'edit', key: keyOf(7), value: contentOf(7, round) },
    { op: 'delete', key: keyOf(round) },
    ...Array.from({ length: 40 }, (_, i) => ({ op: 'add', key: `new-${round}-${i}`, value: contentOf(i, round) })),
  ]
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

/** The map finds keys, absent ones and batches, side by side. */
export async function expectContent(map: KeyhushMap): Promise<void> {
  const chosen = Array.from({ length: 24 }, (_, k) => (k * 977) % COUNT)
  const found = await Promise.all(chosen.map(i => map.get(keyOf(i))))
  expect(found.map(hexOf)).toEqual(chosen.map(i => contentOf(i)))
  expect(await Promise.all(['nobody', keyOf(3)].map(key => map.has(key)))).toEqual([false, true])
  const many = await map.getMany([...chosen.slice(0, 9).map(keyOf), 'nobody'], { padTo: 16 })
  expect(many.map(hexOf)).toEqual([...chosen.slice(0, 9).map(i => contentOf(i)), undefined])
}

/** The map finds what five rounds have left. */
export async function expectFiveRounds(map: KeyhushMap): Promise<void> {
  expect([map.epoch, hexOf(await map.get(keyOf(7)))]).toEqual([6, contentOf(7, 5)])
  for (let round = 1; round <= 5; round++) {
    expect(await map.get(keyOf(round))).toBeUndefined()
    expect(hexOf(await map.get(`new-${round}-39`))).toBe(contentOf(39, round))
  }
}
