// `keyhush split`: a list becomes parts, which `keyhush build --shard` reads.

import { loadCore } from '@keyhush/wasm'
import { BuildError } from '../base/errors.js'
import { type Format, formatOf } from '../dataset/ingest/index.js'
import type { ValueEncoding } from '../dataset/ingest/values.js'
import { readShape } from '../dataset/shape-file.js'
import { splitSource } from '../dataset/split.js'
import { printSummary } from './progress.js'

/** The options of `split` as commander gives them. */
export interface SplitArguments {
  readonly shape: string
  readonly out: string
  readonly format?: Format
  readonly valueEncoding?: ValueEncoding
}

export async function split(files: readonly string[], options: SplitArguments): Promise<void> {
  const { out, valueEncoding = 'utf8' } = options
  const core = await loadCore()
  const shape = await readShape(options.shape)
  let records = 0
  for (const source of files.length === 0 ? [process.stdin] : files) {
    const format = options.format ?? (typeof source === 'string' ? formatOf(source) : 'csv')
    if (format === 'bin') throw new BuildError('expected a format with keys, got bin, which has none')
    records += await splitSource(core, source, { shape, out, format, valueEncoding })
  }
  printSummary({ records, shards: shape.shards })
}
