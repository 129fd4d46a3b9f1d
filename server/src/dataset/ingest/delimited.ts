// Reads csv and tsv files as a stream. csv.ts says what they contain.

import { isUtf8 } from 'node:buffer'
import { pipeline } from 'node:stream/promises'
import { CsvError, parse } from 'csv-parse'
import { CsvRows, type Delimiter, parsing } from './csv.js'
import { nameOf, readText, type TextSource } from './lines.js'
import type { Records } from './table.js'
import { decodeValue, type ValueEncoding } from './values.js'

export async function readDelimited(
  source: TextSource,
  delimiter: Delimiter,
  encoding: ValueEncoding,
  table: Records,
  onChunk?: (chunk: Uint8Array) => void,
): Promise<void> {
  const rows = new CsvRows(table, nameOf(source), delimiter, {
    isUtf8,
    decodeValue: text => decodeValue(text, encoding),
  })
  const onRecord = (fields: Uint8Array[]): null => {
    rows.add(fields)
    return null // the parser must queue nothing
  }
  // The type of on_record has strings; ours are bytes.
  const parser = parse({ ...parsing(delimiter), encoding: null, on_record: onRecord as never })
  try {
    parser.resume()
    await pipeline(readText(source, onChunk), parser)
  } catch (error) {
    throw error instanceof CsvError ? rows.faultOf(error.code) : error
  }
  rows.finish()
}
