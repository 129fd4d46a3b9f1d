// A remote store may be unreachable or slow. /v1/info, which every client asks for at open(), still answers, and does not read the
// store each time. A client that catches up does not wait for an epoch that is being stored.

import { parseInfo, toHex } from '@keyhush/protocol'
import { expect, test } from 'vitest'
import { MemoryStorage, type Transaction } from '../dist/index.js'
import { StorageError } from '../dist/storage/storage.js'
import { builtDirectory, createIn, latch, running } from './helpers.js'
import { batchOn, bodyOf, KEYED, opened, signatureOf } from './updatable-helpers.js'

class Away extends MemoryStorage {
  isAway = false
  listed = 0
  manifestsRead = 0
  stored: Promise<void> | undefined
  /** settles when the store answers again */
  answers: Promise<void> | undefined

  override async transact<T>(keys: readonly string[], work: (transaction: Transaction) => T): Promise<T> {
    await this.stored
    return super.transact(keys, work)
  }

  override async get(key: string): Promise<Uint8Array | undefined> {
    if (key.startsWith('manifest/')) this.manifestsRead++
    return super.get(key)
  }

  override async *entries(prefix: string, after?: string): AsyncIterable<readonly [string, Uint8Array]> {
    this.listed++
    await this.answers
    if (this.isAway) throw new StorageError('ECONNREFUSED')
    yield* super.entries(prefix, after)
  }
}

async function begun() {
  const storage = await createIn(new Away(), await builtDirectory('a.csv', KEYED, { maxValueBytes: 20 }))
  return { storage, updatable: await opened(storage) }
}

test('/v1/info answers while the store is away, with signatures, and reads them once', async () => {
  const { storage, updatable } = await begun()
  const app = await running({ datasets: [{ updatable }], instant: false })
  const signatures = async () => parseInfo((await app.inject('/v1/info')).json()).signatures
  const sign = async () => {
    const signature = signatureOf(updatable)
    await updatable.addSignature(signature)
    return signature
  }

  expect(await signatures()).toEqual([])
  const first = await sign()
  expect(await signatures()).toEqual([first])
  const before = storage.listed
  for (let i = 0; i < 5; i++) expect(await signatures()).toEqual([first])
  expect(storage.listed).toBe(before)
  storage.isAway = true
  expect(await signatures()).toEqual([first])
  storage.isAway = false
  await updatable.publish(batchOn(updatable, '{"op":"edit","key":"one","value":"x"}\n'))
  expect(await signatures()).toEqual([first])
  const second = await sign()
  expect(await signatures()).toEqual([first, second])
})

test('/v1/info answers at once while the store hangs, with the last known signatures', async () => {
  const { storage, updatable } = await begun()
  const signed = signatureOf(updatable)
  await updatable.addSignature(signed)
  await updatable.publish(batchOn(updatable, '{"op":"edit","key":"one","value":"x"}\n'))
  const answer = latch()
  storage.answers = answer.opened
  expect(updatable.signed.list()).toEqual([signed])
  answer.open()
})

test('each manifest of the history is read from the store once, however many clients are behind', async () => {
  const { storage, updatable: before } = await begun()
  for (let i = 0; i < 20; i++) {
    await before.publish(batchOn(before, `{"op":"edit","key":"one","value":"${i}"}\n`))
  }
  storage.manifestsRead = 0
  expect(await before.since(1)).toBeDefined()
  expect(storage.manifestsRead).toBe(0) // it made them
  const updatable = await opened(storage)
  storage.manifestsRead = 0
  const chains = await Promise.all(Array.from({ length: 100 }, () => updatable.since(1)))
  expect(new Set(chains.map(chain => chain!.length)).size).toBe(1)
  expect(storage.manifestsRead).toBe(20)
  expect(await updatable.since(1)).toEqual(chains[0])
  expect(storage.manifestsRead).toBe(20)
})

test('update lists and directory are served while an epoch is being stored, however long that takes', async () => {
  const { storage, updatable } = await begun()
  await updatable.publish(batchOn(updatable, '{"op":"edit","key":"one","value":"x"}\n'))
  const { updateListHash, updateListBytes, directoryHash } = updatable.newest.manifest
  const store = latch()
  storage.stored = store.opened
  const published = updatable.publish(batchOn(updatable, '{"op":"add","key":"four","value":"y"}\n'))
  expect((await updatable.findBlob(toHex(updateListHash)))?.bytes).toBe(updateListBytes)
  expect(await bodyOf(updatable, directoryHash)).toBeDefined()
  let isStored = false
  const later = updatable.findBlob(toHex(updatable.newest.manifest.contentHashes.slice(0, 32))).then(blob => {
    expect(isStored).toBe(true)
    return blob
  })
  isStored = true
  store.open()
  expect((await published).epoch).toBe(3)
  await later
  expect(await updatable.findBlob(toHex(updatable.newest.manifest.updateListHash))).toBeDefined()
})
