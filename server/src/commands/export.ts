// `keyhush export`: the newest epoch of a running server as a dataset.

import { toHex } from '@keyhush/protocol'
import { type ExportOptions, exportDataset } from '../publisher/export.js'
import { readPublicKey } from '../publisher/files.js'
import { printSummary, withProgress } from './progress.js'

/** The options of `export` as commander gives them. */
export type ExportArguments = Omit<ExportOptions, 'publisherKey' | 'onProgress'> & { readonly publisherKey: string }

export async function exportEpoch({ publisherKey: key, ...options }: ExportArguments): Promise<void> {
  const publisherKey = await readPublicKey(key)
  const { manifest, manifestHash } = await withProgress(onProgress =>
    exportDataset({ ...options, publisherKey, onProgress }),
  )
  const { epoch, generation, records, databaseId } = manifest
  printSummary({
    records,
    epoch: `${epoch} of generation ${generation}`,
    'database id': toHex(databaseId),
    'manifest hash': manifestHash,
  })
}
