// `keyhush build`: the summary on stdout is what two operators compare.

import { constants } from 'node:os'
import { answerBytes, HEADER_BYTES, proofsOf, toHex } from '@keyhush/protocol'
import { type BuildSummary, buildDataset } from '../dataset/build.js'
import { PublisherRecord } from '../publisher/record.js'
import { printSummary, withProgress } from './progress.js'

/** The options of `build` as commander gives them. */
export type BuildArguments = Omit<Parameters<typeof buildDataset>[0], 'onProgress'> & {
  /** a publisher's record that learns of it */
  readonly record?: string
}

export async function build(options: BuildArguments): Promise<void> {
  const { record: recordFile, ...choices } = options
  const record = recordFile === undefined ? undefined : await PublisherRecord.open(recordFile)
  // Through process.exit, so that what was begun is removed.
  const interrupted = (signal: 'SIGINT' | 'SIGTERM') => process.exit(128 + constants.signals[signal])
  process.on('SIGINT', interrupted).on('SIGTERM', interrupted)
  const summary = await withProgress(onProgress => buildDataset({ ...choices, onProgress })).finally(() =>
    process.off('SIGINT', interrupted).off('SIGTERM', interrupted),
  )
  const { databaseId, manifest, manifestHash: hash } = summary
  await record?.addManifest({ databaseId, epoch: manifest.epoch, hash })
  printSummary(described(summary))
}

/** Stable: scripts read it. */
function described({ manifest, manifestHash, databaseId, keys }: BuildSummary): Record<string, string | number> {
  const { records, recordBytes, partitions, partitionRecords, blockRecords } = manifest
  const { valueBytes, keyed, variable, directoryBytes, slotMarksHash, pointproofs } = manifest
  const ceremony = pointproofs && {
    ceremony: `${toHex(pointproofs.transcriptHash)}${pointproofs.development ? ', for development' : ''}`,
  }
  return {
    records: `${records} ${keyed ? 'keyed' : 'keyless'}`,
    ...(keys < records && { keys }),
    values: `${variable ? 'up to ' : ''}${valueBytes} bytes`,
    layout: `${partitions} partitions of ${partitionRecords} records of ${recordBytes} bytes, ${blockRecords} a block`,
    'database bytes': partitions * partitionRecords * recordBytes,
    'directory bytes': directoryBytes,
    ...(slotMarksHash && { 'slot marks bytes': records }),
    proofs: proofsOf(manifest).join(', '),
    'answer bytes': proofsOf(manifest)
      .map(proofs => answerBytes(manifest, 1, proofs) - HEADER_BYTES)
      .join(', '),
    ...ceremony,
    'database id': databaseId,
    'manifest hash': manifestHash,
  }
}
