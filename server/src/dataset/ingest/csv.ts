// Reads the rows of csv and tsv files (RFC 4180), in Node and in browsers. The header has `key` and `value`, in either order.
// Quoted fields may hold delimiters, line ends and doubled quotes. Lines end with LF or CRLF.

import { BuildError } from '../../base/errors.js'
import type { Records } from './table.js'

/** Longest line or csv record, in bytes. Any legal one is far shorter. */
export const MAX_LINE_BYTES = 1024 * 1024

export const NOT_UTF8 = 'expected UTF-8, but the line is not UTF-8; convert the file, or unpack it'

const LF = 0x0a

export type Delimiter = ',' | '\t'

/** Options of csv-parse. Fields are bytes, because keys are the file's exact bytes. */
export function parsing(delimiter: Delimiter) {
  return { delimiter, encoding: null, record_delimiter: ['\r\n', '\n'], max_record_size: MAX_LINE_BYTES }
}

/** How this platform reads bytes. */
export interface Reading {
  readonly isUtf8: (bytes: Uint8Array) => boolean
  /** the value's bytes, or why its text is refused */
  readonly decodeValue: (text: Uint8Array) => Uint8Array | string
}

/** Adds rows to a table; the first row is the header. Throws BuildError with file, line and reason. */
export class CsvRows {
  readonly #table: Records
  readonly #file: string
  readonly #delimiter: Delimiter
  readonly #reading: Reading
  // We count lines ourselves: the parser miscounts each CRLF inside quotes, and names the end of the file for an open quote.
  #line = 1
  #columns: Columns | undefined

  constructor(table: Records, file: string, delimiter: Delimiter, reading: Reading) {
    this.#table = table
    this.#file = file
    this.#delimiter = delimiter
    this.#reading = reading
  }

  /** csv-parse's `on_record`. */
  add(fields: readonly Uint8Array[]): void {
    if (!fields.every(this.#reading.isUtf8)) throw this.#fault(NOT_UTF8)
    if (this.#columns === undefined) {
      this.#columns = findColumns(fields)
      // What UTF-16 has between letters, and no name of a column.
      if (this.#columns === undefined && fields.some(field => field.includes(0))) throw this.#fault(NOT_UTF8)
      if (this.#columns === undefined) throw this.#fault(headerFault(this.#delimiter))
    } else {
      const value = this.#reading.decodeValue(fields[this.#columns.value]!)
      if (typeof value === 'string') throw this.#fault(value)
      this.#table.add(fields[this.#columns.key]!, value, this.#line)
    }
    this.#line += 1
    for (const field of fields) this.#line += countLineEnds(field)
  }

  /** Throws BuildError if there was no header. */
  finish(): void {
    if (this.#columns === undefined)
      throw new BuildError('expected a header and records, got a file that is empty; name another', this.#file)
  }

  /** The error for a code of csv-parse. */
  faultOf(code: string): BuildError {
    if (this.#columns === undefined) return this.#fault(headerFault(this.#delimiter)) // whatever it is: not a table, perhaps
    return this.#fault(REASONS[code] ?? `expected a line of two fields, got another (${code}); RFC 4180 has the format`)
  }

  #fault(reason: string): BuildError {
    return new BuildError(reason, this.#file, this.#line)
  }
}

/** The place of each field in a row. */
interface Columns {
  readonly key: number
  readonly value: number
}

function findColumns(header: readonly Uint8Array[]): Columns | undefined {
  const decoder = new TextDecoder('utf-8', { ignoreBOM: true })
  const names = header.map(name => decoder.decode(name))
  const columns = { key: names.indexOf('key'), value: names.indexOf('value') }
  return names.length === 2 && columns.key !== -1 && columns.value !== -1 ? columns : undefined
}

function headerFault(delimiter: Delimiter): string {
  const separator = delimiter === ',' ? 'comma' : 'tab'
  return `expected a header of exactly the columns key and value, separated by a ${separator}, got another first line; rename its columns, or add the header if there is none`
}

function countLineEnds(field: Uint8Array): number {
  let count = 0
  for (let at = field.indexOf(LF); at !== -1; at = field.indexOf(LF, at + 1)) count++
  return count
}

/** Reasons by csv-parse's codes. */
const REASONS: Readonly<Record<string, string>> = {
  CSV_QUOTE_NOT_CLOSED: 'expected a closing quote, got the end of the file: a quote opens here that is never closed',
  INVALID_OPENING_QUOTE:
    'expected quotes around the whole field, got one inside it; quote the field, and write its own quotes twice',
  CSV_INVALID_CLOSING_QUOTE:
    'expected the end of the field, but it goes on after its closing quote; write quotes inside it twice',
  CSV_RECORD_INCONSISTENT_FIELDS_LENGTH:
    'expected two fields, got another number; quote a field that holds a comma or a tab, and remove empty lines',
  CSV_MAX_RECORD_SIZE: `expected a record of at most ${MAX_LINE_BYTES} bytes, got a longer one; a quote before it may not be closed`,
}
