// `pirouette export`: the newest epoch of a running server, or of a publisher's own copy, as a dataset.

import { toHex } from '@pirouette/protocol'
import { PublishError } from '../publisher/errors.js'
import { exportDataset } from '../publisher/export.js'
import { readPublicKey } from '../publisher/files.js'
import { serveOwnCopy } from './own-copy.js'
import { withProgress } from './progress.js'
import { openStore } from './store.js'

/** The options of `export` as commander gives them. */
export interface ExportArguments {
  readonly server?: string
  readonly store?: string
  readonly out: string
  readonly force?: boolean
  readonly publisherKey?: string
}

export async function exportEpoch({ server, store, out, force, publisherKey }: ExportArguments): Promise<void> {
  if ((server === undefined) === (store === undefined)) {
    throw new PublishError('give --server, the URL of a server that runs, or --store, the store of one that does not')
  }
  const key = publisherKey === undefined ? undefined : await readPublicKey(publisherKey)
  const own = store === undefined ? undefined : await serveOwnCopy(await openStore(store, undefined), undefined)
  try {
    const { manifest, manifestHash } = await withProgress(onProgress =>
      exportDataset({ server: own?.url ?? server!, name: own && store, out, force, publisherKey: key, onProgress }),
    )
    const { epoch, generation, records, databaseId } = manifest
    process.stdout.write(
      `records: ${records}\nepoch: ${epoch} of generation ${generation}\nsigned: ${key === undefined ? 'not looked at' : 'yes'}\n` +
        `database id: ${toHex(databaseId)}\nmanifest hash: ${manifestHash}\n`,
    )
  } finally {
    await own?.close()
  }
}
