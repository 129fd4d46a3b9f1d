// docs/protocol.md, Updates: an epoch made of a batch, its list, and lists that are read and followed.

import { bytesToHex as hex } from '@noble/hashes/utils.js'
import { isZero, Reader, Writer } from './bytes.js'
import { blockOf, type Directory, Overfull, withOverlay } from './directory.js'
import { type Layout, split } from './layout.js'

/** `place`: a fingerprint, or in keyless databases an index, which an add has not. Records are whole. */
export type Operation =
  | { readonly op: 'add'; readonly record: Uint8Array }
  | { readonly op: 'edit'; readonly place: Uint8Array | number; readonly record: Uint8Array }
  | { readonly op: 'delete'; readonly place: Uint8Array | number }

export interface Entry {
  readonly index: number
  readonly kind: number
  readonly old: Uint8Array
  readonly new: Uint8Array
}

/** As a list has it: old ⊕ new. */
export interface Change {
  readonly index: number
  readonly kind: number
  readonly delta: Uint8Array
}

const [ADD, EDIT, DELETE] = [1, 2, 3]

/** A batch that is refused, at the operation of this number, from 0. */
export class Refused extends Error {
  constructor(
    readonly operation: number,
    why: string,
  ) {
    super(why)
  }
}

/** Steps 1 to 3. `records`: N·ℓ bytes; `directory`: of a keyed database. Throws Refused. */
export function applyBatch(
  before: Layout,
  records: Uint8Array,
  directory: Directory | undefined,
  operations: readonly Operation[],
): { layout: Layout; records: Uint8Array; entries: Entry[] } {
  const { recordBytes } = before
  const keyed = directory !== undefined
  const zero = new Uint8Array(recordBytes)
  const old = split(records, recordBytes)
  const now = [...old]
  const places = new Map<string, number>()
  for (const [i, record] of old.entries()) if (keyed && !isZero(record)) places.set(hex(record.subarray(0, 16)), i)
  const free = keyed ? [...old.keys()].filter(i => isZero(old[i]!)) : []
  const placeOf = (place: Uint8Array | number) => {
    const index = typeof place === 'number' ? place : places.get(hex(place))
    if (index === undefined || index >= now.length) throw new Error('there is no such record')
    if (typeof place !== 'number' && places.get(hex(place)) === undefined) throw new Error('there is no such key')
    return index
  }
  const perform = (operation: Operation) => {
    if (operation.op === 'add') {
      const print = hex(operation.record.subarray(0, 16))
      if (keyed && places.has(print)) throw new Error('the key exists')
      const index = free.shift() ?? now.length
      now[index] = operation.record
      if (keyed) places.set(print, index)
    } else {
      const index = placeOf(operation.place)
      now[index] = operation.op === 'edit' ? operation.record : zero
      if (keyed && operation.op === 'delete') places.delete(hex(operation.place as Uint8Array))
    }
  }
  for (const [number, operation] of operations.entries()) {
    try {
      perform(operation)
    } catch (error) {
      throw new Refused(number, (error as Error).message)
    }
  }
  const entries = now.flatMap((record, index) => {
    const was = old[index] ?? zero
    if (hex(record) === hex(was)) return []
    const added = index >= old.length || (keyed && isZero(was))
    return [{ index, kind: added ? ADD! : keyed && isZero(record) ? DELETE! : EDIT!, old: was, new: record }]
  })
  const content = new Uint8Array(now.length * recordBytes)
  now.forEach((record, i) => void content.set(record, i * recordBytes))
  const partitions = Math.max(before.partitions, Math.ceil(now.length / before.partitionRecords))
  return { layout: { ...before, records: now.length, partitions }, records: content, entries }
}

export function encodeList(before: Layout, after: Layout, entries: readonly Entry[]): Uint8Array {
  const writer = header(before, after, entries.length)
  for (const { index, kind, old, new: record } of entries) {
    writer.u32(index).put(Uint8Array.of(kind))
    writer.put(xor(old, record))
  }
  return writer.bytes()
}

function header(before: Layout, after: Layout, count: number): Writer {
  const writer = new Writer().put('PIRU').u16(1).u16(0)
  writer.u32(before.records).u32(before.partitions).u32(after.records).u32(after.partitions)
  return writer
    .u32(after.partitionRecords)
    .u32(after.recordBytes)
    .u32(count)
    .u32(Math.log2(after.blockRecords ?? 1))
}

/** A list from one layout to another. */
export function decodeList(bytes: Uint8Array, before: Layout, after: Layout): Change[] {
  if (after.records < before.records || after.partitions < before.partitions) throw new Error('N or Q shrinks')
  const { recordBytes } = after
  const count = (bytes.length - 40) / (5 + recordBytes)
  if (!Number.isInteger(count) || count < 0) throw new Error('broken entries')
  const reader = new Reader(bytes)
  reader.expect('header', header(before, after, count).bytes())
  let next = 0
  return Array.from({ length: count }, () => {
    const index = reader.u32()
    const [kind] = reader.take(1)
    if (index < next || index >= after.records) throw new Error('entries out of order, or beyond N')
    next = index + 1
    if (kind !== ADD && kind !== EDIT && kind !== DELETE) throw new Error('an unknown kind')
    if (index >= before.records && kind !== ADD) throw new Error('what was not there is edited or deleted')
    const delta = reader.take(recordBytes)
    if (isZero(delta)) throw new Error('an entry that changes nothing')
    return { index, kind, delta }
  })
}

/** The records of the next epoch. */
export function followRecords(after: Layout, records: Uint8Array, changes: readonly Change[]): Uint8Array {
  const { recordBytes } = after
  const followed = new Uint8Array(after.records * recordBytes)
  followed.set(records)
  for (const { index, delta } of changes) {
    const at = index * recordBytes
    followed.set(xor(followed.subarray(at, at + recordBytes), delta), at)
  }
  return followed
}

/** Step 4 of a batch. Throws Refused if there is no room. */
export function nextDirectory(
  directory: Directory,
  changes: readonly Change[],
  operations: readonly Operation[],
): Directory {
  try {
    return followDirectory(directory, changes)
  } catch (error) {
    if (!(error instanceof Overfull)) throw error
    const { block, message } = error
    const isOfIt = (operation: Operation) =>
      operation.op === 'add' && blockOf(directory, operation.record.subarray(0, 16)) === block
    throw new Refused(operations.findLastIndex(isOfIt), message)
  }
}

/** Step 4 for whoever follows a list. */
export function followDirectory(directory: Directory, changes: readonly Change[]): Directory {
  const of = (wanted: number) => changes.filter(({ kind }) => kind === wanted)
  return withOverlay(directory, [
    ...of(DELETE!).map(({ delta }) => [delta.subarray(0, 16), undefined] as const),
    ...of(ADD!).map(({ index, delta }) => [delta.subarray(0, 16), index] as const),
  ])
}

function xor(a: Uint8Array, b: Uint8Array): Uint8Array {
  return a.map((byte, i) => byte ^ b[i]!)
}
