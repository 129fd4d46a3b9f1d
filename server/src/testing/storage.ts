// @keyhush/server/testing/storage: what every storage must do, whatever it is made of. The laws of Storage, one case each.
// Needs no test runner.

import { deepEqual, equal, rejects } from 'node:assert/strict'
import type { Storage } from '../storage/storage.js'

export interface Case {
  readonly name: string
  /** on an empty storage, which the caller closes and removes */
  readonly run: (storage: Storage) => Promise<void>
}

const bytes = (...values: number[]) => Uint8Array.from(values)

/** `length` bytes that follow from `seed` and look random. */
function scattered(length: number, seed = 1): Uint8Array {
  let state = seed
  return Uint8Array.from({ length }, () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) | 0
    return state >>> 24
  })
}

/** A copy: what a storage gives may be its own memory. */
async function read(storage: Storage, key: string): Promise<Uint8Array | undefined> {
  const value = await storage.get(key)
  return value && Uint8Array.from(value)
}

async function list(storage: Storage, prefix: string, after?: string): Promise<(readonly [string, Uint8Array])[]> {
  const entries: (readonly [string, Uint8Array])[] = []
  for await (const entry of storage.entries(prefix, after)) entries.push(entry)
  return entries
}

async function put(storage: Storage, key: string, value: Uint8Array): Promise<void> {
  await storage.transact([], transaction => transaction.put(key, value))
}

export const conformance: readonly Case[] = [
  {
    name: 'gives back what was put, of every size, and nothing else',
    async run(storage) {
      const sizes = [0, 1, 4064, 4080, 4096, 100_000]
      await storage.transact([], transaction => {
        for (const size of sizes) transaction.put(`size/${size}`, scattered(size))
      })
      for (const size of sizes) deepEqual(await read(storage, `size/${size}`), scattered(size), `${size} bytes`)
      equal(await storage.get('size/2'), undefined)
      equal(await storage.get('size/'), undefined)
    },
  },
  {
    name: 'lists a prefix in order, and counts it',
    async run(storage) {
      await storage.transact([], transaction => {
        for (const key of ['b/2', 'a/1', 'b/1', 'b', 'b0', 'b/10', 'c/']) transaction.put(key, bytes(key.length))
      })
      const listed = (await list(storage, 'b/')).map(([key, value]) => [key, value[0]])
      deepEqual(listed, [
        ['b/1', 3],
        ['b/10', 4],
        ['b/2', 3],
      ])
      const behind = async (after: string) => (await list(storage, 'b/', after)).map(([key]) => key)
      deepEqual(await behind('b/1'), ['b/10', 'b/2'])
      deepEqual(await behind('b/11'), ['b/2'])
      deepEqual(await behind('b/2'), [])
      equal(await storage.count('b/'), 3)
      equal(await storage.count('d/'), 0)
    },
  },
  {
    name: 'a transaction reads what was there, and then what it wrote',
    async run(storage) {
      await put(storage, 'old', bytes(1))
      const seen = await storage.transact(['old', 'none'], transaction => {
        const before = [transaction.get('old'), transaction.get('none')].map(value => value && Uint8Array.from(value))
        transaction.put('new', bytes(2))
        transaction.remove('old')
        return { before, after: [transaction.get('new'), transaction.get('old')] }
      })
      deepEqual(seen, { before: [bytes(1), undefined], after: [bytes(2), undefined] })
      deepEqual(await read(storage, 'new'), bytes(2))
      equal(await storage.get('old'), undefined)
    },
  },
  {
    name: 'a transaction reads no key that was not named for it',
    async run(storage) {
      await put(storage, 'a', bytes(1))
      const reading = storage.transact(['b'], transaction => {
        transaction.put('b', bytes(2))
        return transaction.get('a')
      })
      await rejects(reading)
      equal(await storage.get('b'), undefined)
    },
  },
  {
    name: 'a transaction that throws has changed nothing, and the next one works',
    async run(storage) {
      await put(storage, 'a', bytes(1))
      const failing = storage.transact([], transaction => {
        transaction.put('a', bytes(2))
        transaction.put('b', bytes(2))
        throw new Error('on purpose')
      })
      await rejects(failing, /on purpose/)
      deepEqual(await read(storage, 'a'), bytes(1))
      equal(await storage.get('b'), undefined)
      await put(storage, 'b', bytes(3))
      deepEqual(await read(storage, 'b'), bytes(3))
    },
  },
  {
    name: 'transactions begun at once happen one after the other',
    async run(storage) {
      const increment = () =>
        storage.transact(['counter'], transaction => {
          const value = transaction.get('counter')?.[0] ?? 0
          transaction.put('counter', bytes(value + 1))
          return value
        })
      const seen = await Promise.all(Array.from({ length: 50 }, increment))
      deepEqual(
        seen.sort((a, b) => a - b),
        Array.from({ length: 50 }, (_, i) => i),
      )
      deepEqual(await read(storage, 'counter'), bytes(50))
    },
  },
  {
    name: 'what it gave is not changed by what comes later',
    async run(storage) {
      await put(storage, 'a', bytes(1, 2, 3))
      const given = (await storage.get('a'))!
      await put(storage, 'a', bytes(4, 5, 6))
      for (let i = 0; i < 100; i++) await put(storage, `${i}`, scattered(500, i))
      deepEqual(Uint8Array.from(given), bytes(1, 2, 3))
    },
  },
]
