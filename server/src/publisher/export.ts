// Downloads the newest epoch of a running server as a dataset, for a server that has lost its own. It is what clients download, so all
// of it is public; it is checked by the hashes in the manifest, so only the manifest has to be trusted.

import { equalBytes, type Manifest, toHex } from '@keyhush/protocol'
import { loadCore } from '@keyhush/wasm'
import { PublishError } from '../base/errors.js'
import type { Progress } from '../dataset/build.js'
import { blobsOf, writeDataset } from '../dataset/directory.js'
import { type KnownManifest, PublishedServer } from './server.js'

export interface ExportOptions {
  /** base URL */
  readonly server: string
  /** directory to make */
  readonly out: string
  /** replace another dataset there */
  readonly force?: boolean | undefined
  /**
   * 32 bytes: only a manifest that this key has signed is taken. Its update list does not follow from its records, so that a server
   * could make one up.
   */
  readonly publisherKey: Uint8Array
  readonly onProgress?: ((progress: Progress) => void) | undefined
}

export interface ExportSummary {
  readonly manifest: Manifest
  /** hex */
  readonly manifestHash: string
}

/** So often it begins anew because the server has turned to another epoch meanwhile. */
const ATTEMPTS = 3

/** `out` appears whole or not at all. Throws PublishError, BuildError. */
export async function exportDataset(options: ExportOptions): Promise<ExportSummary> {
  const { blake3 } = await loadCore()
  const server = new PublishedServer(options.server)
  for (let attempt = 1; ; attempt++) {
    const newest = await server.newest()
    try {
      await write(newest)
    } catch (error) {
      const turned = (error as PublishError).code === 'not_found' && attempt < ATTEMPTS
      if (turned && !equalBytes((await server.newest()).bytes, newest.bytes)) continue
      throw error
    }
    return { manifest: newest.manifest, manifestHash: toHex(blake3(newest.bytes)) }
  }

  async function write({ manifest, bytes }: KnownManifest): Promise<void> {
    if (manifest.pointproofs !== undefined) {
      throw new PublishError(
        `${server.name}: what a database with Pointproofs is proved with cannot be downloaded; begin from the dataset it was ` +
          'built as, and have its batches published again (publish --catch-up)',
      )
    }
    if (!(await server.hasSigned({ manifest, bytes }, options.publisherKey))) {
      throw new PublishError(
        `${server.name}: it has no signature of this publisher for epoch ${manifest.epoch} (manifest hash ${toHex(blake3(bytes))})`,
      )
    }
    const blobs = blobsOf(manifest)
    await writeDataset(options.out, bytes, options.force ?? false, async writeBlob => {
      for (const [i, { hash, bytes }] of blobs.entries()) {
        const blob = await server.blob(toHex(hash), bytes)
        if (!equalBytes(blake3(blob), hash)) {
          throw new PublishError(`${server.name}: the blob ${toHex(hash)} is not what its name says`)
        }
        writeBlob(hash, blob)
        options.onProgress?.({ stage: 'writing', done: i + 1, total: blobs.length })
      }
    })
  }
}
