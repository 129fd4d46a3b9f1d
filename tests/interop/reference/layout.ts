// docs/protocol.md, Words and Planning: the layout of a database and the sizes that follow from it.

export interface Layout {
  /** N */
  readonly records: number
  /** ℓ */
  readonly recordBytes: number
  /** Q */
  readonly partitions: number
  /** M */
  readonly partitionRecords: number
}

export function planLayout(records: number, recordBytes: number, partitions?: number): Layout {
  const mostRecords = Math.min(65_536, Math.floor(2 ** 23 / recordBytes))
  const q = partitions ?? Math.max(16, Math.ceil(records / mostRecords))
  return { records, recordBytes, partitions: q, partitionRecords: Math.ceil(records / q) }
}

export function checkLayout({ records, recordBytes, partitions, partitionRecords }: Layout): void {
  const within = (value: number, most: number) => value >= 1 && value <= most
  const possible =
    within(recordBytes, 65_536) &&
    within(partitions, 65_536) &&
    within(partitionRecords, 65_536) &&
    within(records, partitions * partitionRecords)
  if (!possible) throw new Error(`impossible layout (${records}, ${recordBytes}, ${partitions}, ${partitionRecords})`)
}

/** 1: entries carry opening proofs. 2: clients keep tags, and entries are records. */
export type Suite = 1 | 2

/** d */
export const depth = ({ partitionRecords }: Layout) => Math.ceil(Math.log2(partitionRecords))
export const partitionBytes = (layout: Layout) => layout.partitionRecords * layout.recordBytes
export const entryBytes = (layout: Layout, suite: Suite) => layout.recordBytes + (suite === 1 ? 32 * depth(layout) : 0)
export const maxBatch = (layout: Layout, suite: Suite) =>
  Math.max(1, Math.min(64, Math.floor(2 ** 23 / (layout.partitions * entryBytes(layout, suite)))))

/** The pieces of `bytes`, each `size` long. */
export function split(bytes: Uint8Array, size: number): Uint8Array[] {
  return Array.from({ length: bytes.length / size }, (_, i) => bytes.subarray(i * size, (i + 1) * size))
}
