// A storage that is gone with the process: for tests, and for trying updates out.

import { Draft, type Storage, type Transaction } from './storage.js'

export class MemoryStorage implements Storage {
  readonly location = 'memory'
  readonly failure: string | undefined = undefined
  readonly #values = new Map<string, Uint8Array>()

  get(key: string): Uint8Array | undefined {
    const value = this.#values.get(key)
    return value === undefined ? undefined : new Uint8Array(value)
  }

  *entries(prefix: string, after = ''): Iterable<readonly [string, Uint8Array]> {
    for (const key of [...this.#values.keys()].filter(key => key.startsWith(prefix) && key > after).sort()) {
      yield [key, this.get(key)!]
    }
  }

  count(prefix: string): number {
    let count = 0
    for (const key of this.#values.keys()) if (key.startsWith(prefix)) count++
    return count
  }

  async transact<T>(work: (transaction: Transaction) => T): Promise<T> {
    const draft = new Draft(key => this.get(key))
    const result = work(draft)
    for (const [key, value] of draft.writes) {
      if (value === undefined) this.#values.delete(key)
      else this.#values.set(key, new Uint8Array(value))
    }
    return result
  }

  async close(): Promise<void> {}
}
