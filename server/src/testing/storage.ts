// @pirouette/server/testing/storage: what every storage must do, whatever it is made of. The laws of Storage, one case each.
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
function read(storage: Storage, key: string): Uint8Array | undefined {
  const value = storage.get(key)
  return value && Uint8Array.from(value)
}

async function put(storage: Storage, key: string, value: Uint8Array): Promise<void> {
  await storage.transact(transaction => transaction.put(key, value))
}

export const conformance: readonly Case[] = [
  {
    name: 'gives back what was put, of every size, and nothing else',
    async run(storage) {
      const sizes = [0, 1, 4064, 4080, 4096, 100_000]
      await storage.transact(transaction => {
        for (const size of sizes) transaction.put(`size/${size}`, scattered(size))
      })
      for (const size of sizes) deepEqual(read(storage, `size/${size}`), scattered(size), `${size} bytes`)
      equal(storage.get('size/2'), undefined)
      equal(storage.get('size/'), undefined)
    },
  },
  {
    name: 'lists a prefix in order, and counts it',
    async run(storage) {
      await storage.transact(transaction => {
        for (const key of ['b/2', 'a/1', 'b/1', 'b', 'b0', 'b/10', 'c/']) transaction.put(key, bytes(key.length))
      })
      const listed = [...storage.entries('b/')].map(([key, value]) => [key, value[0]])
      deepEqual(listed, [
        ['b/1', 3],
        ['b/10', 4],
        ['b/2', 3],
      ])
      const behind = (after: string) => [...storage.entries('b/', after)].map(([key]) => key)
      deepEqual(behind('b/1'), ['b/10', 'b/2'])
      deepEqual(behind('b/11'), ['b/2'])
      deepEqual(behind('b/2'), [])
      equal(storage.count('b/'), 3)
      equal(storage.count('d/'), 0)
    },
  },
  {
    name: 'a transaction reads what it wrote, and changes nothing before it has ended',
    async run(storage) {
      await put(storage, 'old', bytes(1))
      const seen = await storage.transact(transaction => {
        transaction.put('new', bytes(2))
        transaction.remove('old')
        const outside = [storage.get('new'), read(storage, 'old')]
        return { inside: [transaction.get('new'), transaction.get('old')], outside }
      })
      deepEqual(seen.inside, [bytes(2), undefined])
      deepEqual(seen.outside, [undefined, bytes(1)])
      deepEqual(read(storage, 'new'), bytes(2))
      equal(storage.get('old'), undefined)
    },
  },
  {
    name: 'a transaction that throws has changed nothing, and the next one works',
    async run(storage) {
      await put(storage, 'a', bytes(1))
      const failing = storage.transact(transaction => {
        transaction.put('a', bytes(2))
        transaction.put('b', bytes(2))
        throw new Error('on purpose')
      })
      await rejects(failing, /on purpose/)
      deepEqual(read(storage, 'a'), bytes(1))
      equal(storage.get('b'), undefined)
      await put(storage, 'b', bytes(3))
      deepEqual(read(storage, 'b'), bytes(3))
    },
  },
  {
    name: 'transactions begun at once happen one after the other',
    async run(storage) {
      const increment = () =>
        storage.transact(transaction => {
          const value = transaction.get('counter')?.[0] ?? 0
          transaction.put('counter', bytes(value + 1))
          return value
        })
      const seen = await Promise.all(Array.from({ length: 50 }, increment))
      deepEqual(
        seen.sort((a, b) => a - b),
        Array.from({ length: 50 }, (_, i) => i),
      )
      deepEqual(read(storage, 'counter'), bytes(50))
    },
  },
  {
    name: 'what it gave is not changed by what comes later',
    async run(storage) {
      await put(storage, 'a', bytes(1, 2, 3))
      const given = storage.get('a')!
      await put(storage, 'a', bytes(4, 5, 6))
      for (let i = 0; i < 100; i++) await put(storage, `${i}`, scattered(500, i))
      deepEqual(Uint8Array.from(given), bytes(1, 2, 3))
    },
  },
]
