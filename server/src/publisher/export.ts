// Downloads the newest epoch of a running server as a dataset, for a server that lost its disk.
// The hashes in the manifest verify all of it, so you only need to trust the manifest.

import { equalBytes, toHex } from '@keyhush/protocol'
import { loadCore } from '@keyhush/wasm'
import { PublishError } from '../base/errors.js'
import type { KnownManifest } from '../base/known-manifest.js'
import type { Progress } from '../dataset/build.js'
import { blobsOf, listOf, writeDataset } from '../dataset/directory.js'
import { areLinked } from '../dataset/since-base.js'
import { isSigned, PublishedServer, signedByAnother } from './server.js'

export interface ExportOptions {
  /** base URL */
  readonly server: string
  /** directory to make */
  readonly out: string
  /** replace another dataset there */
  readonly force?: boolean | undefined
  /** 32 bytes. The manifest must be signed: a server could invent the update list, which does not follow from the records. */
  readonly publisherKey: Uint8Array
  readonly onProgress?: ((progress: Progress) => void) | undefined
}

/** How often a download may start again because the server published a new epoch meanwhile. */
const ATTEMPTS = 3

/** Creates `out` whole or not at all. `manifestHash`: hex. Throws PublishError, BuildError. */
export async function exportDataset(options: ExportOptions) {
  const core = await loadCore()
  const { blake3 } = core
  const server = new PublishedServer(options.server)
  for (let attempt = 1; ; attempt++) {
    const newest = await server.newest()
    try {
      await write(newest)
    } catch (error) {
      // Blobs and signatures go two epochs later.
      const mayHaveTurned = error instanceof PublishError && attempt < ATTEMPTS
      if (mayHaveTurned && !equalBytes((await server.newest()).bytes, newest.bytes)) continue
      throw error
    }
    return { manifest: newest.manifest, manifestHash: toHex(blake3(newest.bytes)) }
  }

  async function write({ manifest, bytes }: KnownManifest): Promise<void> {
    if (manifest.pointproofs !== undefined) {
      throw new PublishError(
        `${server.name}: expected a database without Pointproofs, got one whose openings cannot be downloaded; begin from ` +
          'the dataset that was built, and publish its batches again',
      )
    }
    const signatures = await server.signatures()
    if (!isSigned({ manifest, bytes }, signatures, options.publisherKey)) {
      const why =
        signedByAnother(manifest.epoch, signatures, toHex(options.publisherKey)) ??
        "expected this publisher's signature, got none; sign it: `keyhush publish` without a batch"
      throw new PublishError(`${server.name}: epoch ${manifest.epoch} (manifest hash ${toHex(blake3(bytes))}): ${why}`)
    }
    const between = await betweenOf({ manifest, bytes })
    const blobs = [...blobsOf(manifest), ...between.map(known => listOf(known.manifest))]
    await writeDataset(options.out, bytes, options.force ?? false, async (writeBlob, _, writeBetween) => {
      if (between.length > 0) writeBetween(Buffer.concat(between.map(known => known.bytes)))
      for (const [i, { hash, bytes }] of blobs.entries()) {
        const blob = await server.blob(toHex(hash), bytes)
        if (!equalBytes(blake3(blob), hash)) {
          throw new PublishError(`${server.name}: expected blob ${toHex(hash)}, got other bytes; take another server`)
        }
        writeBlob(hash, blob)
        options.onProgress?.({ stage: 'writing', done: i + 1, total: blobs.length })
      }
    })
  }
  /** The manifests between an epoch's base and the epoch: their lists lead back to the base. */
  async function betweenOf(newest: KnownManifest): Promise<readonly KnownManifest[]> {
    const { oneServer, epoch } = newest.manifest
    const between: KnownManifest[] = []
    for (let last = oneServer?.baseEpoch ?? epoch; last < epoch - 1; last = between.at(-1)!.manifest.epoch) {
      const page = (await server.since(last, 'take another server')).filter(({ manifest }) => manifest.epoch < epoch)
      if (page.length === 0)
        throw new PublishError(`${server.name}: expected the manifest of epoch ${last + 1}, got none; run it again`, 3)
      between.push(...page)
    }
    if (areLinked(core, [...between, newest])) return between
    throw new PublishError(
      `${server.name}: expected the manifests before epoch ${epoch}, got others; take another server`,
    )
  }
}
