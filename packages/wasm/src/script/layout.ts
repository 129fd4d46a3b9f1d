// The layout (N, ℓ, Q, M, g), with the checks of rust-core/core/src/layout.rs. A block is g stored records. ℓ′ and M′ count blocks.

import type { LayoutHandle } from '../core/base.js'
import type { InstantCore } from '../core/instant.js'
import { expectBelow, layoutError } from './failure.js'
import { keyShape, shapeFor } from './shape.js'

const MAX_RECORD_BYTES = 65_536
const MAX_PARTITION_RECORDS = 65_536
const MAX_PARTITIONS = 65_536
const MAX_COUNT = 2 ** 32 - 1
/** What the WebAssembly core can address. A larger database is refused here too, so that all clients accept the same ones. */
const MAX_BYTES = 2 ** 31 - 1

type OfInstant =
  | 'records'
  | 'recordBytes'
  | 'partitions'
  | 'partitionRecords'
  | 'blockRecords'
  | 'partitionBytes'
  | 'instantRequestBytes'
  | 'instantAnswerBytes'
  | 'instantMaxQueries'
  | 'instantSizes'
  | 'free'

export class Layout implements Pick<LayoutHandle, OfInstant> {
  readonly records: number
  readonly recordBytes: number
  readonly partitions: number
  readonly partitionRecords: number
  readonly blockRecords: number

  /** Throws `layout`. */
  constructor(...numbers: Parameters<InstantCore['layout']>) {
    const [records, recordBytes, partitions, partitionRecords] = numbers.map(whole) as [number, number, number, number]
    const blockRecords = whole(numbers[4] ?? 1)
    expectWithin('bytes a record (ℓ)', recordBytes, MAX_RECORD_BYTES)
    expectWithin('partitions (Q)', partitions, MAX_PARTITIONS)
    expectWithin('records a block (g)', blockRecords, Math.floor(MAX_RECORD_BYTES / recordBytes))
    // What lookups in a sharded database see, all its partitions as one, may be more than anybody holds.
    const isPower = records > 0 && 2 ** Math.round(Math.log2(records)) === records
    const isJoined = partitions === 1 && partitionRecords === records && isPower
    const most = isJoined ? MAX_COUNT : Math.min(MAX_PARTITION_RECORDS * blockRecords, MAX_COUNT)
    expectWithin('records a partition (M)', partitionRecords, most)
    expectWithin('records (N)', records, Math.min(partitions * partitionRecords, MAX_COUNT))
    if ((blockRecords & (blockRecords - 1)) !== 0 || partitionRecords % blockRecords !== 0) {
      const expected = `a power of two that divides ${partitionRecords}`
      throw layoutError(`records a block (g) must be ${expected}, got ${blockRecords}`)
    }
    const bytes = partitions * partitionRecords * recordBytes
    if (bytes > MAX_BYTES && !isJoined)
      throw layoutError(`a database of ${bytes} bytes cannot be addressed on this machine`)
    this.records = records
    this.recordBytes = recordBytes
    this.partitions = partitions
    this.partitionRecords = partitionRecords
    this.blockRecords = blockRecords
  }

  get partitionBytes(): number {
    return Math.min(this.partitionRecords * this.recordBytes, MAX_COUNT)
  }

  /** ℓ′ */
  get blockBytes(): number {
    return this.recordBytes * this.blockRecords
  }

  /** M′ */
  get partitionBlocks(): number {
    return this.partitionRecords / this.blockRecords
  }

  /** d = ⌈log₂ M′⌉ */
  get depth(): number {
    return 32 - Math.clz32(this.partitionBlocks - 1)
  }

  get instantRequestBytes(): number {
    return keyShape(this).queryBytes
  }

  get instantAnswerBytes(): number {
    return keyShape(this).answerBytes
  }

  get instantMaxQueries(): number {
    return keyShape(this).maxQueries
  }

  instantSizes(servers: number): Uint32Array {
    const { seedBytes, queryBytes, answerBytes, maxQueries } = shapeFor(this, servers >>> 0)
    return Uint32Array.of(seedBytes, queryBytes, answerBytes, maxQueries)
  }

  /** The stored record's partition, and the offset of its block in the partition. Throws `index`. */
  locate(index: number): { readonly q: number; readonly m: number } {
    expectBelow('record index', index, this.records)
    const block = Math.floor(index / this.blockRecords)
    const q = Math.floor(block / this.partitionBlocks)
    return { q, m: block - q * this.partitionBlocks }
  }

  free(): void {}
}

/** Our interface has the layouts of all builds, with sizes that only hints need. */
export function own(layout: LayoutHandle): Layout {
  return layout as unknown as Layout
}

/** A number that is not whole, or outside u32's range, becomes 0, which every bound refuses. */
function whole(number: number | undefined): number {
  return number !== undefined && Number.isInteger(number) && number >= 0 && number <= MAX_COUNT ? number : 0
}

function expectWithin(name: string, value: number, most: number): void {
  if (value < 1 || value > most) throw layoutError(`${name} must be 1 to ${most}, got ${value}`)
}
