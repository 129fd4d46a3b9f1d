// Every client that opens a map asks what a server offers. Where the store is elsewhere, that must neither end with it, so that nobody
// can open a map although lookups go on, nor cost it something each time.

import { ed25519 } from '@noble/curves/ed25519.js'
import { parseInfo, signedBytes, toHex } from '@pirouette/protocol'
import { expect, onTestFinished, test } from 'vitest'
import { createServer, loadDataset, MemoryStorage, UpdatableDatabase } from '../dist/index.js'
import { StorageError } from '../dist/storage/storage.js'
import { builtDirectory } from './helpers.js'
import { batchOn, KEYED, opened } from './updatable-helpers.js'

const SECRET = new Uint8Array(32).fill(7)

class Away extends MemoryStorage {
  isAway = false
  listed = 0

  override async *entries(prefix: string, after?: string): AsyncIterable<readonly [string, Uint8Array]> {
    this.listed++
    if (this.isAway) throw new StorageError('ECONNREFUSED')
    yield* super.entries(prefix, after)
  }
}

test('what a server offers, signatures included, is said while the store is away, and read once', async () => {
  const dataset = await loadDataset(await builtDirectory('a.csv', KEYED, { maxValueBytes: 20 }))
  const storage = new Away()
  await UpdatableDatabase.create(storage, dataset)
  dataset.close()
  const updatable = await opened(storage)
  const app = await createServer({ datasets: [{ updatable }], instant: false, light: false })
  onTestFinished(() => app.close())
  const signatures = async () => parseInfo((await app.inject('/v1/info')).json()).signatures
  const sign = async () => {
    const { manifest, manifestBytes } = updatable.newest
    const signature = toHex(ed25519.sign(signedBytes(manifestBytes), SECRET))
    const publicKey = toHex(ed25519.getPublicKey(SECRET))
    const { generation, epoch } = manifest
    await updatable.addSignature({ generation, epoch, publicKey, signature })
    return { generation, epoch, publicKey, signature }
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
