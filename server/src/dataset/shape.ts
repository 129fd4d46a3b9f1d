// The shape of a sharded database (docs/protocol/sharded.md): what all its shards have in common, decided before there are records. Nothing
// here is Node's.

import { FINGERPRINT_BYTES, MAX_RECORD_BYTES, type RecordShape } from '@keyhush/protocol'

/** The least and the most of each number, and whether it is a power of two. */
export const SHAPE_NUMBERS = {
  shards: [2, 256, true],
  partitions: [1, 32_768, true],
  partitionRecords: [128, 2 ** 31, true],
  blockRecords: [1, 256, true],
  valueBytes: [0, MAX_RECORD_BYTES - FINGERPRINT_BYTES, false],
  directoryBlockLog: [7, 16, false],
  directoryBlockBytes: [256, 65_536, false],
  directoryRoom: [0, 65_535, false],
} as const

/** As its file has it. The layout and the directory are those of each shard. */
export interface Shape extends Readonly<Record<keyof typeof SHAPE_NUMBERS, number>> {
  /** values differ in length */
  readonly variable: boolean
  /** hex; decides the shard of each key, too */
  readonly directorySeed: string
}

/** Why a shape has no place for a value of so many bytes; undefined: it has. */
export function faultOfValue({ valueBytes, variable }: Shape, length: number): string | undefined {
  if (variable ? length <= valueBytes : length === valueBytes) return undefined
  const remedy = variable ? 'longer values' : '--variable'
  const expected = `expected a value of ${variable ? 'at most ' : ''}${valueBytes} bytes`
  return `${expected}, got ${length}; ${hexHint(valueBytes, length)}plan a shape with ${remedy}`
}

/** Of a value with too many bytes: hex that was read as text has two for each. */
export function hexHint(valueBytes: number, length: number): string {
  return length === 2 * valueBytes ? 'if it is hex, give --value-encoding hex; otherwise ' : ''
}

/** What all records of a shape have. */
export function recordsOf({ valueBytes, variable }: Pick<Shape, 'valueBytes' | 'variable'>): RecordShape {
  return { recordBytes: FINGERPRINT_BYTES + (variable ? 2 : 0) + valueBytes, valueBytes, keyed: true, variable }
}
