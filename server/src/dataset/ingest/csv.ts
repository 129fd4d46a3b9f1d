// The rows of csv and tsv, as csv-parse gives them, wherever that runs: by RFC 4180, with a header of `key` and `value` in
// either order. Quoted fields may hold delimiters, line ends and doubled quotes; lines end with LF or CRLF.

import { BuildError } from '../../base/errors.js'
import type { Table } from './table.js'

/** Longest line, or record of a csv file, in bytes: any legal one is far shorter. */
export const MAX_LINE_BYTES = 1024 * 1024

const LF = 0x0a

export type Delimiter = ',' | '\t'

/** Options of csv-parse. Fields are bytes: keys are the file's exact bytes. */
export function parsing(delimiter: Delimiter) {
  return { delimiter, encoding: null, record_delimiter: ['\r\n', '\n'], max_record_size: MAX_LINE_BYTES }
}

/** How bytes are read where this runs. */
export interface Reading {
  readonly isUtf8: (bytes: Uint8Array) => boolean
  /** a value's bytes, or what is wrong with its text */
  readonly decodeValue: (text: Uint8Array) => Uint8Array | string
}

/** Takes rows into a table, the header first. Throws BuildError with file, line and reason. */
export class Rows {
  readonly #table: Table
  readonly #file: string
  readonly #delimiter: Delimiter
  readonly #reading: Reading
  // The parser's own count is off by one for every CRLF inside quotes, and for a quote that is never closed it names
  // the end of the file; so lines are counted here.
  #line = 1
  #columns: Columns | undefined

  constructor(table: Table, file: string, delimiter: Delimiter, reading: Reading) {
    this.#table = table
    this.#file = file
    this.#delimiter = delimiter
    this.#reading = reading
  }

  /** For csv-parse's `on_record`. */
  add(fields: readonly Uint8Array[]): void {
    if (!fields.every(this.#reading.isUtf8)) throw this.#fault('the line is not UTF-8')
    if (this.#columns === undefined) {
      this.#columns = findColumns(fields)
      if (this.#columns === undefined) throw this.#fault(headerFault(this.#delimiter))
    } else {
      const value = this.#reading.decodeValue(fields[this.#columns.value]!)
      if (typeof value === 'string') throw this.#fault(value)
      this.#table.add(fields[this.#columns.key]!, value, this.#line)
    }
    this.#line += 1
    for (const field of fields) this.#line += countLineEnds(field)
  }

  /** Throws BuildError if there was not even a header. */
  finish(): void {
    if (this.#columns === undefined) throw new BuildError('the file is empty', this.#file)
  }

  /** What csv-parse has refused, by its code. */
  faultOf(code: string): BuildError {
    return this.#fault(REASONS[code] ?? `the line is malformed (${code})`)
  }

  #fault(reason: string): BuildError {
    return new BuildError(reason, this.#file, this.#line)
  }
}

/** Which field is which. */
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
  return `the header must be exactly the columns key and value, separated by a ${delimiter === ',' ? 'comma' : 'tab'}`
}

function countLineEnds(field: Uint8Array): number {
  let count = 0
  for (let at = field.indexOf(LF); at !== -1; at = field.indexOf(LF, at + 1)) count++
  return count
}

/** By csv-parse's codes. */
const REASONS: Readonly<Record<string, string>> = {
  CSV_QUOTE_NOT_CLOSED: 'a quote opens here that is never closed',
  INVALID_OPENING_QUOTE: 'a quote stands inside a field that does not begin with one',
  CSV_INVALID_CLOSING_QUOTE: 'a quoted field goes on after its closing quote; quotes inside it are written twice',
  CSV_RECORD_INCONSISTENT_FIELDS_LENGTH: 'the line does not have two fields',
  CSV_MAX_RECORD_SIZE: `the record is longer than ${MAX_LINE_BYTES} bytes, or a quote before it was not closed`,
}
