// The values of one identity: each in as many rows as it needs, so that the page has its thread back between two. The
// caller has begun the transaction.

import { toHex } from '@keyhush/protocol'
import { isBytes } from '../head.js'
import { assertRows } from '../rules.js'
import { StateUnreadableError } from '../store.js'
import { queue } from './connection.js'
import {
  AFTER_ROWS,
  type Reading,
  ROW,
  ROW_BYTES,
  rowKey,
  rowsAfter,
  startingWith,
  type ValueKey,
  type ValueKind,
  type Writing,
} from './schema.js'

export class Values {
  readonly #identity: string

  constructor(identity: string) {
    this.#identity = identity
  }

  async get(tx: Reading | Writing, hintId: Uint8Array, kind: ValueKind, version: number): Promise<Uint8Array> {
    const values = tx.objectStore('values')
    const key = this.#key(hintId, kind, version)
    const torn = () => new StateUnreadableError(`the stored ${kind} is missing or torn`)
    const first = await values.get(key)
    if (!isBytes(first)) throw torn()
    if (first.length < ROW_BYTES) return first
    const more = await values.count(rowsAfter(key))
    const value = new Uint8Array((1 + more) * ROW_BYTES)
    let length = 0
    const take = (row: unknown, number: number) => {
      if (!isBytes(row) || row.length > ROW_BYTES || row.length < ROW_BYTES !== (number === more)) throw torn()
      value.set(row, number * ROW_BYTES)
      length += row.length
    }
    take(first, 0)
    const rows = Array.from({ length: more }, async (_, i) => take(await values.get(rowKey(key, 1 + i)), 1 + i))
    await Promise.all(rows)
    return value.subarray(0, length)
  }

  async has(tx: Reading | Writing, hintId: Uint8Array, kind: ValueKind, version: number): Promise<boolean> {
    return (await tx.objectStore('values').getKey(this.#key(hintId, kind, version))) !== undefined
  }

  /** Replaces what is there. */
  async put(tx: Writing, hintId: Uint8Array, kind: ValueKind, version: number, value: Uint8Array): Promise<void> {
    const values = tx.objectStore('values')
    const key = this.#key(hintId, kind, version)
    queue([values.delete(rowsAfter(key))])
    let start = 0
    for (; value.length - start >= ROW_BYTES; start += ROW_BYTES) {
      await values.put(value.slice(start, start + ROW_BYTES), rowKey(key, start / ROW_BYTES))
    }
    queue([values.put(start === 0 ? value : value.slice(start), rowKey(key, start / ROW_BYTES))])
  }

  delete(tx: Writing, hintId: Uint8Array, kind: ValueKind, version: number): void {
    const key = this.#key(hintId, kind, version)
    queue([tx.objectStore('values').delete(IDBKeyRange.bound(key, [...key, []]))])
  }

  /** Removes the values of all hints but this one. */
  eraseOthers(tx: Writing, hintId: Uint8Array | undefined): void {
    const [first, end] = [[this.#identity], [this.#identity, []]]
    const own = hintId && this.#hint(hintId)
    const ranges = own
      ? [IDBKeyRange.bound(first, own), IDBKeyRange.bound([...own, []], end)]
      : [IDBKeyRange.bound(first, end)]
    queue(ranges.map(range => tx.objectStore('values').delete(range)))
  }

  /** Removes the values of this hint, its rows included. */
  eraseOf(tx: Writing, hintId: Uint8Array): void {
    queue([tx.objectStore('values').delete(startingWith(this.#hint(hintId)))])
  }

  /** The names of a hint's rows. */
  async rows(tx: Reading | Writing, hintId: Uint8Array): Promise<Set<string>> {
    const hint = this.#hint(hintId)
    const keys = await tx.objectStore('values').getAllKeys(IDBKeyRange.bound([...hint, ROW], [...hint, AFTER_ROWS]))
    return new Set(keys.map(([, , kind]) => kind.slice(ROW.length)))
  }

  /** Removes those rows of a hint that are not among these. Throws StateUnreadableError if one of these is missing. */
  async keepRows(tx: Writing, hintId: Uint8Array, names: readonly string[]): Promise<void> {
    const there = await this.rows(tx, hintId)
    assertRows(names, there)
    for (const name of names) there.delete(name)
    for (const name of there) this.delete(tx, hintId, `${ROW}${name}`, 0)
  }

  #hint(hintId: Uint8Array): [identity: string, hint: string] {
    return [this.#identity, toHex(hintId)]
  }

  #key(hintId: Uint8Array, kind: ValueKind, version: number): ValueKey {
    return [...this.#hint(hintId), kind, version]
  }
}
