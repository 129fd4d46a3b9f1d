// Chooses the reader for a data file by its format.

import { extname } from 'node:path'
import { MAX_KEY_BYTES } from '@keyhush/protocol'
import { BuildError } from '../../base/errors.js'
import { readDelimited } from './delimited.js'
import { readJsonLines } from './jsonl.js'
import { nameOf, readLines, type TextLine, type TextSource } from './lines.js'
import { type Records, tooLong } from './table.js'
import type { ValueEncoding } from './values.js'

export const FORMATS = ['csv', 'tsv', 'jsonl', 'txt', 'bin'] as const
export type Format = (typeof FORMATS)[number]
export type KeyedFormat = Exclude<Format, 'bin'>

/** The format by the file's extension. Throws BuildError for an unknown extension. */
export function formatOf(file: string): Format {
  const extension = extname(file).slice(1).toLowerCase()
  const format = FORMATS.find(name => name === extension)
  if (format === undefined) {
    const advice = extension === 'parquet' ? 'have DuckDB write CSV (docs/operations/build.md)' : 'give --format'
    throw new BuildError(`expected a name in ${FORMATS.join(', ')}, got another; ${advice}`, file)
  }
  return format
}

const NO_VALUE = new Uint8Array()

/** In txt a line is a key, spaces included. Empty lines are skipped. Throws BuildError. */
export function* keysOf(lines: Iterable<TextLine>, source: TextSource): Generator<TextLine> {
  for (const line of lines) {
    const [{ length }, number] = line
    if (length > MAX_KEY_BYTES) throw new BuildError(tooLong('key', MAX_KEY_BYTES, length), nameOf(source), number)
    if (length > 0) yield line
  }
}

/** Gives `records` all that a source has. Throws BuildError with file, line and reason. */
export async function readKeyed(
  source: TextSource,
  format: KeyedFormat,
  encoding: ValueEncoding,
  records: Records,
  onChunk?: (chunk: Uint8Array) => void,
): Promise<void> {
  if (format === 'txt') {
    for await (const lines of readLines(source, onChunk)) {
      for (const [key, line] of keysOf(lines, source)) records.add(key, NO_VALUE, line)
    }
  } else if (format === 'jsonl') await readJsonLines(source, encoding, records, onChunk)
  else await readDelimited(source, format === 'csv' ? ',' : '\t', encoding, records, onChunk)
}
