// csv and tsv by RFC 4180, with a header of `key` and `value` in either order. Quoted fields may hold delimiters, line
// ends and doubled quotes; lines end with LF or CRLF.

import { isUtf8 } from 'node:buffer'
import { pipeline } from 'node:stream/promises'
import { CsvError, parse } from 'csv-parse'
import { BuildError } from '../errors.js'
import { MAX_LINE_BYTES, readText } from './lines.js'
import type { Table } from './table.js'
import { decodeValue, type ValueEncoding } from './values.js'

const LF = 0x0a

export async function readDelimited(
  file: string,
  delimiter: ',' | '\t',
  encoding: ValueEncoding,
  table: Table,
  onBytes?: (bytes: number) => void,
): Promise<void> {
  // The parser's own count is off by one for every CRLF inside quotes, and for a quote that is never closed it names
  // the end of the file; so lines are counted here, and `line` is the one on which the record at hand begins.
  let line = 1
  let columns: Columns | undefined

  const onRecord = (fields: Uint8Array[]): null => {
    const refuse = (reason: string): never => {
      throw new BuildError(reason, file, line)
    }
    if (!fields.every(field => isUtf8(field))) refuse('the line is not UTF-8')
    if (columns === undefined) {
      columns = findColumns(fields) ?? refuse(headerFault(delimiter))
    } else {
      const value = decodeValue(fields[columns.value]!, encoding)
      if (typeof value === 'string') return refuse(value)
      table.add(fields[columns.key]!, value, line)
    }
    line += 1
    for (const field of fields) line += countLineEnds(field)
    return null // nothing for the parser's readable side to queue
  }

  const parser = parse({
    delimiter,
    encoding: null, // fields as bytes: keys are the file's exact bytes
    record_delimiter: ['\r\n', '\n'],
    max_record_size: MAX_LINE_BYTES,
    on_record: onRecord as never, // its type does not know that fields are bytes
  })
  try {
    parser.resume()
    await pipeline(readText(file, onBytes), parser)
  } catch (error) {
    throw error instanceof CsvError ? new BuildError(reasonOf(error), file, line) : error
  }
  if (columns === undefined) throw new BuildError('the file is empty', file)
}

/** Which field is which. */
interface Columns {
  readonly key: number
  readonly value: number
}

function findColumns(header: Uint8Array[]): Columns | undefined {
  const names = header.map(name => Buffer.from(name).toString())
  const columns = { key: names.indexOf('key'), value: names.indexOf('value') }
  return names.length === 2 && columns.key !== -1 && columns.value !== -1 ? columns : undefined
}

function headerFault(delimiter: string): string {
  return `the header must be exactly the columns key and value, separated by a ${delimiter === ',' ? 'comma' : 'tab'}`
}

function countLineEnds(field: Uint8Array): number {
  let count = 0
  for (let at = field.indexOf(LF); at !== -1; at = field.indexOf(LF, at + 1)) count++
  return count
}

function reasonOf(error: CsvError): string {
  switch (error.code) {
    case 'CSV_QUOTE_NOT_CLOSED':
      return 'a quote opens here that is never closed'
    case 'INVALID_OPENING_QUOTE':
      return 'a quote stands inside a field that does not begin with one'
    case 'CSV_INVALID_CLOSING_QUOTE':
      return 'a quoted field goes on after its closing quote; quotes inside it are written twice'
    case 'CSV_RECORD_INCONSISTENT_FIELDS_LENGTH':
      return 'the line does not have two fields'
    case 'CSV_MAX_RECORD_SIZE':
      return `the record is longer than ${MAX_LINE_BYTES} bytes, or a quote before it was not closed`
    default:
      return `the line is malformed (${error.code})`
  }
}
