// Reads a CSV file that is in memory as a whole.

import { BuildError, type KeyedRecords, parsing, Rows, Table } from '@keyhush/server/dataset'
import type { Core } from '@keyhush/wasm/server'
import { parse } from 'csv-parse/browser/esm/sync'

const NAME = 'the file'
const REPORT_ROWS = 4096
const EXAMPLE_BYTES = 60

/** Records, with some of their keys. */
export interface CsvRecords extends KeyedRecords {
  /** the first short keys as text, at most two */
  readonly examples: readonly string[]
}

/** Reads UTF-8 values. Calls `onBytes` now and then with the bytes read so far. Throws BuildError with line and reason. */
export function readCsv(core: Core, csv: Uint8Array, onBytes: (bytes: number) => void): CsvRecords {
  const table = new SampledTable(core, NAME)
  const rows = new Rows(table, NAME, ',', { isUtf8, decodeValue: text => text })
  let count = 0
  const onRecord = (fields: Uint8Array[], { bytes }: { readonly bytes: number }): null => {
    rows.add(fields)
    count += 1
    if (count % REPORT_ROWS === 0) onBytes(bytes)
    return null // the parser then keeps no record
  }
  try {
    // Its types want Node's Buffer; it takes any bytes.
    parse(withoutByteOrderMark(csv) as never, { ...parsing(','), encoding: null, on_record: onRecord as never })
  } catch (error) {
    const { code } = error as { code?: unknown }
    throw error instanceof BuildError || typeof code !== 'string' ? error : rows.faultOf(code)
  }
  rows.finish()
  return { ...table.finish(), examples: table.examples }
}

/** Remembers the first keys. */
class SampledTable extends Table {
  readonly examples: string[] = []

  override add(key: Uint8Array, value: Uint8Array, line: number): void {
    super.add(key, value, line)
    if (this.examples.length < 2 && key.length <= EXAMPLE_BYTES) this.examples.push(strict.decode(key))
  }
}

function withoutByteOrderMark(bytes: Uint8Array): Uint8Array {
  return bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf ? bytes.subarray(3) : bytes
}

const strict = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

function isUtf8(bytes: Uint8Array): boolean {
  try {
    strict.decode(bytes)
    return true
  } catch {
    return false
  }
}
