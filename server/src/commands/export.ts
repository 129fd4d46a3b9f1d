// `keyhush export`: the newest epoch of a running server, or of a store, as a dataset.

import { toHex } from '@keyhush/protocol'
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
  readonly manifestHash?: string
}

export async function exportEpoch(options: ExportArguments): Promise<void> {
  const { server, store, out, force, publisherKey, manifestHash: wantedHash } = options
  if ((server === undefined) === (store === undefined)) {
    throw new PublishError('give --server, the URL of a server that runs, or --store, the store of one that does not')
  }
  const key = publisherKey === undefined ? undefined : await readPublicKey(publisherKey)
  const own = store === undefined ? undefined : await serveOwnCopy(await openStore(store, undefined))
  try {
    const from = { server: own?.url ?? server!, name: own && store, own: own !== undefined, publisherKey: key }
    const { manifest, manifestHash } = await withProgress(onProgress =>
      exportDataset({ ...from, out, force, wantedHash, onProgress }),
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
