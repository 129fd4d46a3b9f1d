// csv out of memory, in one go: for a browser, where a file is as large as a person drops.

import { BuildError, type KeyedRecords, parsing, Rows, Table } from '@keyhush/server/dataset'
import type { Core } from '@keyhush/wasm/server'
import { parse } from 'csv-parse/browser/esm/sync'

const NAME = 'the file'
const REPORT_ROWS = 4096
const EXAMPLE_BYTES = 60

/** Records, and some keys of theirs. */
export interface CsvRecords extends KeyedRecords {
  /** the first keys that are short, as text: two at most */
  readonly examples: readonly string[]
}

/** Of UTF-8 values. `onBytes` is told now and then how much was read. Throws BuildError with line and reason. */
export function readCsv(core: Core, csv: Uint8Array, onBytes: (bytes: number) => void): CsvRecords {
  const table = new SampledTable(core, NAME)
  const rows = new Rows(table, NAME, ',', { isUtf8, decodeValue: text => text })
  let count = 0
  const onRecord = (fields: Uint8Array[], { bytes }: { readonly bytes: number }): null => {
    rows.add(fields)
    count += 1
    if (count % REPORT_ROWS === 0) onBytes(bytes)
    return null // the parser keeps none
  }
  try {
    // Its types are Node's: bytes are bytes, here too.
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
