// `keyhush publish --list`: what it takes, and what it prints.

import { join } from 'node:path'
import { PublishError } from '../base/errors.js'
import type { Format } from '../dataset/ingest/index.js'
import type { ValueEncoding } from '../dataset/ingest/values.js'
import { publishList } from '../publisher/list.js'
import type { PublishOptions } from '../publisher/publish.js'
import { type Printed, withProgress } from './progress.js'

/** Its options as commander gives them. */
export interface ListArguments {
  /** the file */
  readonly list?: string
  readonly format?: Format
  readonly valueEncoding?: ValueEncoding
  readonly allowDeletes?: number
  readonly dryRun?: boolean
  readonly folder?: string
}

/** `batch`: a file of operations. Throws PublishError for options that do not go together. */
export function checkListOptions(
  batch: string | undefined,
  options: ListArguments & { readonly again?: boolean },
): void {
  const { list, format, allowDeletes, dryRun, again } = options
  if (list !== undefined && (batch !== undefined || again !== undefined)) {
    throw new PublishError(
      `--list: expected no ${batch === undefined ? '--again' : 'batch'}, got one; the list's file alone makes the batches`,
    )
  }
  for (const [option, value] of Object.entries({ format, 'allow-deletes': allowDeletes, 'dry-run': dryRun })) {
    if (list === undefined && value !== undefined) {
      throw new PublishError(`--${option}: expected --list too, got none; give the list's new file, or leave it out`)
    }
  }
}

/** `onWork` is called while nothing is asked of a server. `published`: undefined after a dry run. */
export async function publishNewList(
  data: string,
  common: PublishOptions,
  { format, valueEncoding, allowDeletes, dryRun, folder }: ListArguments,
  onWork: () => void,
) {
  const onCut = () => {
    process.stderr.write(
      `keyhush: warning: ${data}: expected a line end after the last line, got none; is the file whole?\n`,
    )
  }
  const summary = await withProgress(draw => {
    const onProgress: typeof draw = progress => {
      onWork()
      draw(progress)
    }
    const manifestFile = folder && join(folder, 'v1/manifest')
    const list = { data, format, valueEncoding, allowDeletes, dryRun, manifestFile }
    return publishList({ ...common, ...list, onProgress, onCut })
  })
  const { adds, edits, deletes, batches, bytes, published, growth, begins, isRefused } = summary
  const changes: Printed = batches === 0 ? { changes: 'no changes' } : { adds, edits, deletes }
  const batched = batches > 1 || published === undefined ? { batches, 'batch bytes': bytes } : {}
  const foreseen = published === undefined && {
    'clients download': begins ? 'the list again' : 'the changes',
    ...(growth !== undefined && { 'new generation': `${begins ? 'expected' : 'due, but not begun'}: ${growth}` }),
    ...(isRefused && { 'to publish it': `add --allow-deletes ${deletes}` }),
  }
  return { counts: { ...changes, ...batched, ...foreseen }, published }
}
