// The database as a plain map from keys to values, or a list of values, for every epoch. Lookups are checked against this alone.
// Records have their places by docs/protocol.md, Updates, point 1.

export interface Operation {
  readonly op: 'add' | 'edit' | 'delete'
  /** keyed databases */
  readonly key?: string
  /** keyless ones, but for an add */
  readonly index?: number
  /** none in a delete */
  readonly value?: Uint8Array
}

/** A record: what a key has, or what stands at an index. */
export interface Slot {
  /** undefined in a keyless database */
  readonly key: string | undefined
  readonly value: Uint8Array
}

/** An invalid batch: the number of its first wrong operation, from 0. */
export interface Refused {
  readonly operation: number
}

export interface Shape {
  readonly keyed: boolean
  /** of the longest value, or of every one */
  readonly valueBytes: number
  /** M */
  readonly partitionRecords: number
  /** g */
  readonly blockRecords: number
  readonly generation: number
}

/** One epoch. Immutable. */
export class Version {
  readonly #byKey: ReadonlyMap<string, number>

  /** `slots`: by index; undefined: empty. */
  constructor(
    readonly shape: Shape,
    readonly epoch: number,
    readonly slots: readonly (Slot | undefined)[],
  ) {
    const keys = slots.flatMap((slot, index) => (slot?.key === undefined ? [] : [[slot.key, index] as const]))
    this.#byKey = new Map(keys)
  }

  get size(): number {
    return this.slots.length
  }

  get keys(): string[] {
    return [...this.#byKey.keys()]
  }

  get(key: string): Uint8Array | undefined {
    return this.slots[this.#byKey.get(key) ?? -1]?.value
  }

  at(index: number): Uint8Array | undefined {
    return this.slots[index]?.value
  }

  /** The next epoch, or why there is none. */
  after(operations: readonly Operation[]): Version | Refused {
    const slots = [...this.slots]
    const byKey = new Map(this.#byKey)
    const { keyed, valueBytes } = this.shape
    const free = keyed ? slots.flatMap((slot, index) => (slot === undefined ? [index] : [])) : []
    for (const [operation, { op, key, index: named, value }] of operations.entries()) {
      const fits = op === 'delete' || (keyed ? value!.length <= valueBytes : value!.length === valueBytes)
      const known = key === undefined ? named! < slots.length : byKey.has(key)
      if (!fits || (op === 'add' ? keyed && known : !known)) return { operation }
      const index = op === 'add' ? (free.shift() ?? slots.length) : key === undefined ? named! : byKey.get(key)!
      if (op !== 'delete') slots[index] = { key, value: value! }
      else slots[index] = keyed ? undefined : { key, value: new Uint8Array(valueBytes) }
      if (key === undefined) continue
      if (op === 'delete') byKey.delete(key)
      else byKey.set(key, index)
    }
    return new Version(this.shape, this.epoch + 1, slots)
  }
}
