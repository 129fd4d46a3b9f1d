// `keyhush export`: the newest epoch of a running server, or of a publisher's own copy, as a dataset; or what clients download of it, for a static
// host.

import { toHex } from '@keyhush/protocol'
import { exportBlobs } from '../publisher/blobs.js'
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
  readonly out?: string
  readonly blobs?: string
  readonly prune?: boolean
  readonly force?: boolean
  readonly publisherKey?: string
  readonly manifestHash?: string
}

export async function exportEpoch(options: ExportArguments): Promise<void> {
  const { server, store, out, blobs, prune, force, publisherKey } = options
  const wantedHash = options.manifestHash?.toLowerCase()
  if (
    (out === undefined) === (blobs === undefined) ||
    (out === undefined ? (force ?? wantedHash) : prune) !== undefined
  ) {
    throw new PublishError(
      'give --out, for a dataset (with --force, --manifest-hash), or --blobs, for a static host (with --prune)',
    )
  }
  if ((server === undefined) === (store === undefined)) {
    throw new PublishError('give --server, the URL of a server that runs, or --store, the store of one that does not')
  }
  const key = publisherKey === undefined ? undefined : await readPublicKey(publisherKey)
  const own = store === undefined ? undefined : await serveOwnCopy(await openStore(store, undefined))
  try {
    const from = { server: own?.url ?? server!, name: own && store, publisherKey: key }
    if (out === undefined) {
      const { written, kept, removed } = await withProgress(onProgress =>
        exportBlobs({ ...from, out: blobs!, prune, onProgress }),
      )
      process.stdout.write(`written: ${written}\nthere already: ${kept}\nremoved: ${removed}\n`)
      return
    }
    const { manifest, manifestHash } = await withProgress(onProgress =>
      exportDataset({ ...from, own: own !== undefined, out, force, wantedHash, onProgress }),
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
