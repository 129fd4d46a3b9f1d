// A storage in memory, for tests and for trying updates out.

import { Draft, type Storage, type Transaction } from './storage.js'

/** A storage that ends with the process. */
export class MemoryStorage implements Storage {
  readonly location = 'memory'
  readonly failure: string | undefined = undefined
  readonly #values = new Map<string, Uint8Array>()

  async get(key: string): Promise<Uint8Array | undefined> {
    return this.#read(key)
  }

  #read(key: string): Uint8Array | undefined {
    const value = this.#values.get(key)
    return value === undefined ? undefined : new Uint8Array(value)
  }

  async *entries(prefix: string, after = ''): AsyncIterable<readonly [string, Uint8Array]> {
    for (const key of [...this.#values.keys()].filter(key => key.startsWith(prefix) && key > after).sort()) {
      yield [key, this.#read(key)!]
    }
  }

  async count(prefix: string): Promise<number> {
    let count = 0
    for (const key of this.#values.keys()) if (key.startsWith(prefix)) count++
    return count
  }

  async transact<T>(keys: readonly string[], work: (transaction: Transaction) => T): Promise<T> {
    const draft = new Draft(keys, key => this.#read(key))
    const result = work(draft)
    for (const [key, value] of draft.writes) {
      if (value === undefined) this.#values.delete(key)
      else this.#values.set(key, new Uint8Array(value))
    }
    return result
  }

  async close(): Promise<void> {}
}
