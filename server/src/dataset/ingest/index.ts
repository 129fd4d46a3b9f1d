// The data files an operator can build from, and the reader for each.

import { extname } from 'node:path'
import type { Core } from '@keyhush/wasm'
import { BuildError } from '../../base/errors.js'
import { readDelimited } from './delimited.js'
import { readJsonLines } from './jsonl.js'
import { type KeyedRecords, Table } from './table.js'
import { readKeyList } from './text.js'
import type { ValueEncoding } from './values.js'

export const FORMATS = ['csv', 'tsv', 'jsonl', 'txt', 'bin'] as const
export type Format = (typeof FORMATS)[number]
export type KeyedFormat = Exclude<Format, 'bin'>

/** The format that a file's name promises. Throws BuildError if it promises none of ours. */
export function formatOf(file: string): Format {
  const extension = extname(file).slice(1).toLowerCase()
  const format = FORMATS.find(name => name === extension)
  if (format === undefined)
    throw new BuildError(`the name does not tell the format; give one of ${FORMATS.join(', ')}`, file)
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
  if (format === 'txt') await readKeyList(file, table, onBytes)
  else if (format === 'jsonl') await readJsonLines(file, encoding, table, onBytes)
  else await readDelimited(file, format === 'csv' ? ',' : '\t', encoding, table, onBytes)
  return table.finish()
}
