// Draws a publisher's batches: valid ones for the database at that time, and some invalid ones.

import type { Chance } from '../chance.js'
import { bytesOf } from './databases.js'
import { type Operation, Version } from './model.js'

/** Draws batches, and remembers recent changes, which lookups ask for most. */
export class Batches {
  readonly #chance: Chance
  readonly #mostRecords: number
  #made = 0
  #recent: (string | number)[] = []
  readonly #deleted: string[] = []

  constructor(chance: Chance, first: Version) {
    this.#chance = chance
    this.#mostRecords = 3 * first.size
  }

  /** Keys or indices of the last few batches, changed, added or gone. */
  get recent(): readonly (string | number)[] {
    return this.#recent
  }

  /** Keys that were there once. */
  get deleted(): readonly string[] {
    return this.#deleted
  }

  /** A valid batch. It adds, changes, moves or deletes `keys` first. */
  next(version: Version, keys: readonly string[] = []): readonly Operation[] {
    const operations: Operation[] = []
    let now = version
    const add = (operation: Operation) => {
      const next = now.after([operation])
      if (!(next instanceof Version)) return
      now = next
      operations.push(operation)
      this.#note(operation, now)
    }
    for (const key of keys) for (const operation of this.#turnOf(key, now)) add(operation)
    const many = now.size < this.#mostRecords && this.#chance.happens(0.2)
    if (many) {
      // More than the last partition has room for: the batch opens one or more.
      const { partitionRecords } = version.shape
      const count = this.#chance.between(partitionRecords, 3 * partitionRecords)
      for (let i = 0; i < count; i++) add(this.#add(version))
    }
    const count = this.#chance.pick([1, 2, 4, 12])
    while (operations.length < count) for (const operation of this.#some(now)) add(operation)
    return operations
  }

  /** A batch whose last operation is invalid. */
  refused(version: Version): readonly Operation[] {
    const good = this.#chance.happens(0.5) ? [this.#add(version)] : []
    const { keyed, valueBytes } = version.shape
    const tooLong = new Uint8Array(valueBytes + 1).fill(0x78)
    if (!keyed) {
      const index = version.size + good.length + this.#chance.below(3)
      const wrong = [
        { op: 'edit', index, value: this.#value(version) },
        { op: 'delete', index },
        { op: 'edit', index: 0, value: tooLong },
      ] as const
      return [...good, this.#chance.pick(wrong)]
    }
    const there = this.#chance.pick(version.keys)
    const wrong = [
      { op: 'add', key: there, value: this.#value(version) },
      { op: 'edit', key: 'nobody', value: this.#value(version) },
      { op: 'delete', key: 'nobody' },
      { op: 'edit', key: there, value: tooLong },
    ] as const
    return [...good, this.#chance.pick(wrong)]
  }

  /** One change, or two of the same record. */
  #some(now: Version): Operation[] {
    if (!now.shape.keyed) {
      const index = this.#chance.below(now.size)
      if (this.#chance.happens(0.15)) return [this.#add(now)]
      return [this.#chance.happens(0.2) ? { op: 'delete', index } : { op: 'edit', index, value: this.#value(now) }]
    }
    const key = this.#anyKey(now)
    const value = this.#value(now)
    const fresh = this.#add(now)
    switch (this.#chance.below(10)) {
      case 0:
        return [
          { op: 'delete', key },
          { op: 'add', key, value },
        ]
      case 1:
        return [fresh, { op: 'edit', key: fresh.key!, value }]
      case 2:
        return [fresh, { op: 'delete', key: fresh.key! }]
      case 3:
        return [
          { op: 'edit', key, value },
          { op: 'delete', key },
        ]
      case 4:
      case 5:
        return [{ op: 'delete', key }]
      case 6:
        return [fresh]
      default:
        return [{ op: 'edit', key, value }]
    }
  }

  #turnOf(key: string, now: Version): Operation[] {
    const value = this.#value(now)
    if (now.get(key) === undefined) return [{ op: 'add', key, value }]
    const moved = { op: 'add', key, value } as const
    const gone = { op: 'delete', key } as const
    return this.#chance.pick([[gone], [gone, moved], [{ op: 'edit', key, value }]] as const).slice()
  }

  /** A key that was deleted before, or a new one. */
  #add(now: Version): Operation {
    if (!now.shape.keyed) return { op: 'add', value: this.#value(now) }
    const gone = this.#deleted.filter(key => now.get(key) === undefined)
    const again = gone.length > 0 && this.#chance.happens(0.4)
    const key = again ? this.#chance.pick(gone) : `new ${this.#made++}`
    return { op: 'add', key, value: this.#value(now) }
  }

  #anyKey(now: Version): string {
    const recent = this.#recent.filter((key): key is string => typeof key === 'string' && now.get(key) !== undefined)
    return recent.length > 0 && this.#chance.happens(0.4) ? this.#chance.pick(recent) : this.#chance.pick(now.keys)
  }

  #value({ shape }: Version): Uint8Array {
    const text = `v ${this.#made++}`
    if (!shape.keyed) return bytesOf(text.padEnd(shape.valueBytes).slice(0, shape.valueBytes))
    return bytesOf(this.#chance.happens(0.05) ? '' : text.padEnd(this.#chance.below(shape.valueBytes + 1)))
  }

  #note({ op, key, index }: Operation, now: Version): void {
    this.#recent.push(key ?? index ?? now.size - 1)
    this.#recent = this.#recent.slice(-40)
    if (key === undefined) return
    if (op === 'delete') this.#deleted.push(key)
    if (this.#deleted.length > 30) this.#deleted.shift()
  }
}
