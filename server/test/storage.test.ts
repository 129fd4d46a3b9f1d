// What every storage must do, for each that there is.

import { appendFileSync, openSync, readFileSync, truncateSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, onTestFinished, test } from 'vitest'
import { DatasetError } from '../dist/index.js'
import { openLmdb } from '../dist/storage/lmdb.js'
import { MemoryStorage } from '../dist/storage/memory.js'
import type { Storage } from '../dist/storage/storage.js'
import { pseudoRandom, temporaryDirectory } from './helpers.js'

const bytes = (...values: number[]) => Uint8Array.from(values)
const read = (storage: Storage, key: string) => {
  const value = storage.get(key)
  return value === undefined ? undefined : Uint8Array.from(value)
}
const keysOf = (storage: Storage, prefix: string) => [...storage.entries(prefix)].map(([key]) => key)

async function put(storage: Storage, key: string, value: Uint8Array): Promise<void> {
  await storage.transact(transaction => transaction.put(key, value))
}

describe.each<[string, () => Promise<Storage>]>([
  ['in memory', async () => new MemoryStorage()],
  ['in LMDB', async () => openLmdb(await temporaryDirectory())],
])('a storage %s', (_, openStorage) => {
  async function opened(): Promise<Storage> {
    const storage = await openStorage()
    onTestFinished(() => storage.close())
    return storage
  }

  test('gives back what was put, of every size, and nothing else', async () => {
    const storage = await opened()
    const sizes = [0, 1, 4064, 4080, 4096, 100_000]
    await storage.transact(transaction => {
      for (const size of sizes) transaction.put(`size/${size}`, pseudoRandom(size))
    })
    for (const size of sizes) expect(read(storage, `size/${size}`)).toEqual(Uint8Array.from(pseudoRandom(size)))
    expect(storage.get('size/2')).toBeUndefined()
    expect(storage.get('size/')).toBeUndefined()
  })

  test('lists a prefix in order, and counts it', async () => {
    const storage = await opened()
    await storage.transact(transaction => {
      for (const key of ['b/2', 'a/1', 'b/1', 'b', 'b0', 'b/10', 'c/']) transaction.put(key, bytes(key.length))
    })
    expect(keysOf(storage, 'b/')).toEqual(['b/1', 'b/10', 'b/2'])
    expect([...storage.entries('b/')].map(([, value]) => value[0])).toEqual([3, 4, 3])
    expect(storage.count('b/')).toBe(3)
    expect(storage.count('d/')).toBe(0)
  })

  test('a transaction reads what it wrote, and changes nothing before it has ended', async () => {
    const storage = await opened()
    await put(storage, 'old', bytes(1))
    const seen = await storage.transact(transaction => {
      transaction.put('new', bytes(2))
      transaction.remove('old')
      expect(storage.get('new')).toBeUndefined()
      expect(read(storage, 'old')).toEqual(bytes(1))
      return [transaction.get('new'), transaction.get('old')]
    })
    expect(seen).toEqual([bytes(2), undefined])
    expect(read(storage, 'new')).toEqual(bytes(2))
    expect(storage.get('old')).toBeUndefined()
  })

  test('a transaction that throws has changed nothing, and the next one works', async () => {
    const storage = await opened()
    await put(storage, 'a', bytes(1))
    const failing = storage.transact(transaction => {
      transaction.put('a', bytes(2))
      transaction.put('b', bytes(2))
      throw new Error('on purpose')
    })
    await expect(failing).rejects.toThrow('on purpose')
    expect(read(storage, 'a')).toEqual(bytes(1))
    expect(storage.get('b')).toBeUndefined()
    await put(storage, 'b', bytes(3))
    expect(read(storage, 'b')).toEqual(bytes(3))
  })

  test('transactions begun at once happen one after the other', async () => {
    const storage = await opened()
    const increment = () =>
      storage.transact(transaction => {
        const value = transaction.get('counter')?.[0] ?? 0
        transaction.put('counter', bytes(value + 1))
        return value
      })
    const seen = await Promise.all(Array.from({ length: 50 }, increment))
    expect(seen.sort((a, b) => a - b)).toEqual(Array.from({ length: 50 }, (_, i) => i))
    expect(read(storage, 'counter')).toEqual(bytes(50))
  })

  test('what it gave is not changed by what comes later', async () => {
    const storage = await opened()
    await put(storage, 'a', bytes(1, 2, 3))
    const given = storage.get('a')!
    await put(storage, 'a', bytes(4, 5, 6))
    for (let i = 0; i < 100; i++) await put(storage, `${i}`, pseudoRandom(500, i))
    expect(Uint8Array.from(given)).toEqual(bytes(1, 2, 3))
  })
})

describe('LMDB', () => {
  async function closedStore(): Promise<string> {
    const dir = await temporaryDirectory()
    const storage = openLmdb(dir)
    for (let i = 0; i < 20; i++) await put(storage, `key/${i}`, pseudoRandom(10_000, i))
    await storage.close()
    return dir
  }

  test('keeps what was put', async () => {
    const storage = openLmdb(await closedStore())
    onTestFinished(() => storage.close())
    expect(storage.count('key/')).toBe(20)
    expect(read(storage, 'key/19')).toEqual(Uint8Array.from(pseudoRandom(10_000, 19)))
  })

  test('a file that was cut off anywhere is refused by name', async () => {
    const dir = await closedStore()
    const file = join(dir, 'data.mdb')
    const whole = readFileSync(file)
    for (const length of [1, 4096, 8191, 8192, whole.length >> 1, whole.length - 4096]) {
      writeFileSync(file, whole)
      truncateSync(file, length)
      expect(() => openLmdb(dir), `${length} bytes`).toThrow(DatasetError)
      expect(() => openLmdb(dir)).toThrow(file)
    }
    writeFileSync(file, whole)
    await openLmdb(dir).close()
  })

  test('a file that is something else is refused by name', async () => {
    const dir = await temporaryDirectory()
    const file = join(dir, 'data.mdb')
    appendFileSync(openSync(file, 'w'), pseudoRandom(20_000))
    expect(() => openLmdb(dir)).toThrow(DatasetError)
    expect(() => openLmdb(dir)).toThrow(file)
  })
})
