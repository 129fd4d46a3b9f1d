// Chooses the reader for a data file by its format.

import { isUtf8 } from 'node:buffer'
import { extname } from 'node:path'
import type { Core } from '@keyhush/wasm'
import { BuildError } from '../../base/errors.js'
import { NOT_UTF8 } from './csv.js'
import { readDelimited } from './delimited.js'
import { readJsonLines } from './jsonl.js'
import { readLines } from './lines.js'
import { type KeyedRecords, Table } from './table.js'
import type { ValueEncoding } from './values.js'

export const FORMATS = ['csv', 'tsv', 'jsonl', 'txt', 'bin'] as const
export type Format = (typeof FORMATS)[number]
export type KeyedFormat = Exclude<Format, 'bin'>

/** The format by the file's extension. Throws BuildError for an unknown extension. */
export function formatOf(file: string): Format {
  const extension = extname(file).slice(1).toLowerCase()
  const format = FORMATS.find(name => name === extension)
  if (format === undefined)
    throw new BuildError(`expected a name in ${FORMATS.join(', ')}, got another; give --format`, file)
  return format
}

/** Reads a whole keyed file. `longestValue` is in bytes. Throws BuildError with file, line and reason. */
export async function readKeyed(
  core: Core,
  file: string,
  format: KeyedFormat,
  encoding: ValueEncoding,
  longestValue?: number,
  onBytes?: (bytes: number) => void,
): Promise<KeyedRecords> {
  const table = new Table(core, file, longestValue)
  // In txt a line is a key, spaces included. Empty lines are skipped.
  const addKey = (key: Uint8Array, line: number) => {
    if (key.length === 0) return
    if (!isUtf8(key)) throw new BuildError(NOT_UTF8, file, line)
    table.add(key, new Uint8Array(), line)
  }
  if (format === 'txt') await readLines(file, addKey, onBytes)
  else if (format === 'jsonl') await readJsonLines(file, encoding, table, onBytes)
  else await readDelimited(file, format === 'csv' ? ',' : '\t', encoding, table, onBytes)
  return table.finish()
}
