// What turns the list of an epoch into that of a new file: they are compared by fingerprint, in flat memory. The old file is not
// needed: a key that goes is named by its fingerprint.

import {
  type BatchEncoding,
  equalBytes,
  FINGERPRINT_BYTES,
  isZero,
  type RecordShape,
  toHex,
  writeRecord,
} from '@keyhush/protocol'
import { Growing } from '../dataset/ingest/growing.js'
import { FingerprintIndex } from '../dataset/ingest/prints.js'
import type { KeyedRecords } from '../dataset/ingest/table.js'

/** Always the same for the same epoch and file. */
export interface Difference {
  /** keys in the epoch */
  readonly before: number
  /** rows of the file, ascending */
  readonly adds: Uint32Array
  readonly edits: Uint32Array
  /** fingerprints, 16 bytes each, in the order of their records */
  readonly deletes: Uint8Array
}

/** A file may delete one part in so many of the keys: a download that was cut off must not empty the list. */
const DELETED_PART = 10

/** Why a file that deletes so many of `before` keys is refused; undefined: it is not. */
export function tooManyDeletes(deletes: number, before: number, allowed: number): string | undefined {
  if (deletes * DELETED_PART <= before || deletes <= allowed) return undefined
  return (
    `expected a file that deletes at most a tenth of the ${before} keys, got one that deletes ${deletes}. ` +
    `No change was sent. Is the file whole? If you mean it, add --allow-deletes ${deletes}`
  )
}

/** Operations of a difference, as many as a batch takes. */
export interface Portion {
  /** a JSON object a line */
  readonly operations: Uint8Array
  /** how many of them add a record */
  readonly adds: number
  /** whether all are done after it */
  readonly isLast: boolean
}

/** What a batch takes. */
export interface Most {
  /** of text; an operation that is longer stands alone */
  readonly bytes: number
  readonly operations: number
}

/** Compares all records of an epoch, which come in parts of whole records, with rows that fit its shape. */
export async function differenceOf(
  shape: RecordShape,
  parts: AsyncIterable<Uint8Array> | Iterable<Uint8Array>,
  rows: KeyedRecords,
): Promise<Difference> {
  const index = new FingerprintIndex(rows.fingerprints)
  for (let row = 0; row < rows.records; row++) index.add(row)
  const [isKept, isEdited] = [new Uint8Array(rows.records), new Uint8Array(rows.records)]
  const deletes = new Growing(Uint8Array)
  const { recordBytes } = shape
  const [fingerprint, wanted] = [new Uint8Array(FINGERPRINT_BYTES), new Uint8Array(recordBytes)]
  let before = 0
  for await (const part of parts) {
    for (let at = 0; at < part.length; at += recordBytes) {
      if (isZero(part, at, at + FINGERPRINT_BYTES)) continue
      before += 1
      fingerprint.set(part.subarray(at, at + FINGERPRINT_BYTES))
      const row = index.find(fingerprint)
      if (row === undefined) {
        deletes.append(fingerprint)
        continue
      }
      isKept[row] = 1
      writeRecord(shape, wanted.fill(0), 0, fingerprint, valueIn(rows, row))
      if (!equalBytes(wanted, part.subarray(at, at + recordBytes))) isEdited[row] = 1
    }
  }
  return { before, adds: rowsThat(isKept, 0), edits: rowsThat(isEdited, 1), deletes: deletes.view() }
}

/** The first row whose value has no room in the records of a list; undefined: all have. */
export function misfit({ valueBytes, variable }: RecordShape, rows: KeyedRecords): number | undefined {
  for (let row = 0; row < rows.records; row++) {
    const { length } = valueIn(rows, row)
    if (length > valueBytes || (!variable && length < valueBytes)) return row
  }
  return undefined
}

/** Adds first, then edits, then deletes: what both lists have is in every epoch on the way. */
export function* portionsOf(
  { adds, edits, deletes }: Difference,
  rows: KeyedRecords,
  encoding: BatchEncoding,
  most: Most,
): Generator<Portion> {
  let text = new Growing(Uint8Array)
  let [count, added] = [0, 0]
  const portion = (isLast: boolean): Portion => ({ operations: text.view(), adds: added, isLast })
  for (const [op, line] of linesOf()) {
    if (count > 0 && (count === most.operations || text.length + line.length > most.bytes)) {
      yield portion(false)
      text = new Growing(Uint8Array)
      count = added = 0
    }
    text.append(line)
    count += 1
    if (op === 'add') added += 1
  }
  if (count > 0) yield portion(true)

  function* linesOf(): Generator<readonly [op: string, line: Uint8Array]> {
    for (const row of adds) yield ['add', writing('add', row)]
    for (const row of edits) yield ['edit', writing('edit', row)]
    for (let at = 0; at < deletes.length; at += FINGERPRINT_BYTES) {
      const fingerprint = toHex(deletes.subarray(at, at + FINGERPRINT_BYTES))
      yield ['delete', lineOf({ op: 'delete', fingerprint })]
    }
  }

  function writing(op: 'add' | 'edit', row: number): Uint8Array {
    const key = part(rows.keys, rows.keyEnds, row)
    return lineOf({ op, key: textOf(key, 'utf8'), value: textOf(valueIn(rows, row), encoding) })
  }
}

export function valueIn({ values, valueEnds }: KeyedRecords, row: number): Uint8Array {
  return part(values, valueEnds, row)
}

function part(all: Uint8Array, ends: Uint32Array, i: number): Uint8Array {
  return all.subarray(i === 0 ? 0 : ends[i - 1], ends[i])
}

function textOf(bytes: Uint8Array, encoding: BatchEncoding): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString(encoding)
}

function lineOf(operation: object): Uint8Array {
  return Buffer.from(`${JSON.stringify(operation)}\n`)
}

/** The numbers of all flags of this value. */
function rowsThat(flags: Uint8Array, value: number): Uint32Array {
  const rows = new Growing(Uint32Array)
  for (let row = flags.indexOf(value); row !== -1; row = flags.indexOf(value, row + 1)) rows.append([row])
  return rows.view()
}
