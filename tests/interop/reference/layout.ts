// docs/protocol.md, Words, Blocks and Planning: the layout of a database and the sizes that follow from it.

export interface Layout {
  /** N */
  readonly records: number
  /** ℓ */
  readonly recordBytes: number
  /** Q */
  readonly partitions: number
  /** M */
  readonly partitionRecords: number
  /** g; without it, 1 */
  readonly blockRecords?: number | undefined
}

/** The database of blocks: N, ℓ and M as all that looks up has them. */
export function blocksOf({ records, recordBytes, partitions, partitionRecords, blockRecords: g = 1 }: Layout): Layout {
  return {
    records: Math.ceil(records / g),
    recordBytes: recordBytes * g,
    partitions,
    partitionRecords: partitionRecords / g,
  }
}

/** Where a record is. */
export function placeOf({ recordBytes, partitionRecords, blockRecords: g = 1 }: Layout, index: number) {
  return {
    q: Math.floor(index / partitionRecords),
    m: Math.floor((index % partitionRecords) / g),
    /** the record out of its block */
    cut: (block: Uint8Array) => block.slice((index % g) * recordBytes, ((index % g) + 1) * recordBytes),
  }
}

export function planLayout(records: number, recordBytes: number, partitions?: number, blockRecords?: number): Layout {
  const g = blockRecords ?? 1
  const mostBlocks = Math.min(65_536, Math.floor(2 ** 23 / (recordBytes * g)))
  const blocks = Math.ceil(records / g)
  const q = partitions ?? Math.max(16, Math.ceil(blocks / mostBlocks))
  return { records, recordBytes, partitions: q, partitionRecords: Math.ceil(blocks / q) * g, blockRecords }
}

export function checkLayout({ records, recordBytes, partitions, partitionRecords, blockRecords: g = 1 }: Layout): void {
  const within = (value: number, most: number) => value >= 1 && value <= most
  const possible =
    within(recordBytes, 65_536) &&
    within(recordBytes * g, 65_536) &&
    within(partitions, 65_536) &&
    within(partitionRecords / g, 65_536) &&
    Number.isInteger(Math.log2(g)) &&
    Number.isInteger(partitionRecords / g) &&
    within(records, Math.min(2 ** 32 - 1, partitions * partitionRecords))
  if (!possible) throw new Error(`impossible layout (${records}, ${recordBytes}, ${partitions}, ${partitionRecords})`)
}

/** 1: entries carry opening proofs. 2: clients keep tags, and entries are records. 6: entries are records, and one proof follows. */
export type Suite = 1 | 2 | 6

/** d */
export const depth = (layout: Layout) => Math.ceil(Math.log2(blocksOf(layout).partitionRecords))
export const partitionBytes = (layout: Layout) => layout.partitionRecords * layout.recordBytes
export const entryBytes = (layout: Layout, suite: Suite) =>
  blocksOf(layout).recordBytes + (suite === 1 ? 32 * depth(layout) : 0)
export const maxQueries = (layout: Layout, suite: Suite) =>
  Math.max(1, Math.min(64, Math.floor(2 ** 23 / (layout.partitions * entryBytes(layout, suite)))))

/** The pieces of `bytes`, each `size` long. */
export function split(bytes: Uint8Array, size: number): Uint8Array[] {
  return Array.from({ length: bytes.length / size }, (_, i) => bytes.subarray(i * size, (i + 1) * size))
}
