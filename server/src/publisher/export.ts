// The newest epoch of a running server as a dataset on disk: what a server that has lost its own begins from. All of it is
// what clients download, so it holds nothing that is not public; and all of it is checked by the hashes of the manifest,
// so that only the manifest has to be trusted.

import {
  contentHash,
  equalBytes,
  fromHex,
  type Manifest,
  POINTPROOFS_KEY_BYTES,
  partitionBytes,
  rowListsBytes,
  signedBytes,
  toHex,
} from '@keyhush/protocol'
import { loadCore } from '@keyhush/wasm'
import { verifies } from '../base/ed25519.js'
import type { Progress } from '../dataset/build.js'
import { writeDataset } from '../dataset/directory.js'
import { PublishError } from './errors.js'
import { type KnownManifest, PublishedServer } from './server.js'

export interface ExportOptions {
  /** base URL */
  readonly server: string
  /** what people are told in its place */
  readonly name?: string | undefined
  /** it is of whoever asks, and is believed */
  readonly own?: boolean | undefined
  /** directory to make */
  readonly out: string
  /** replace another dataset there */
  readonly force?: boolean | undefined
  /** 32 bytes: only a manifest that this key has signed is taken */
  readonly publisherKey?: Uint8Array | undefined
  /** hex: only the manifest with this hash is taken */
  readonly wantedHash?: string | undefined
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
  const server = new PublishedServer(options.server, options.name)
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
    await checkSigned(server, { manifest, bytes }, options.publisherKey)
    checkVouchedFor({ manifest, bytes })
    const blobs = blobsOf(manifest)
    await writeDataset(options.out, bytes, options.force ?? false, async writeBlob => {
      for (const [i, { hash, length }] of blobs.entries()) {
        const blob = await server.blob(toHex(hash), length)
        if (!equalBytes(blake3(blob), hash)) {
          throw new PublishError(`${server.name}: the blob ${toHex(hash)} is not what its name says`)
        }
        writeBlob(hash, blob)
        options.onProgress?.({ stage: 'writing', done: i + 1, total: blobs.length })
      }
    })
  }

  /**
   * What led to an epoch, and what was before it, does not follow from its records, and nobody who serves them could tell that it is
   * false: clients who follow would be led astray at records of the server's choice.
   */
  function checkVouchedFor({ manifest, bytes }: KnownManifest): void {
    const { own, publisherKey, wantedHash } = options
    const hash = toHex(blake3(bytes))
    if (wantedHash !== undefined && hash !== wantedHash) {
      throw new PublishError(
        `${server.name}: the manifest of its epoch ${manifest.epoch} has the hash ${hash}, not ${wantedHash}`,
      )
    }
    if (own || publisherKey !== undefined || wantedHash !== undefined || manifest.updateListBytes === 0) return
    throw new PublishError(
      `${server.name}: a batch made epoch ${manifest.epoch}, and what it changed cannot be checked here. Give --publisher-key, ` +
        `or ask the publisher whether the manifest hash is ${hash}, and give that as --manifest-hash`,
    )
  }
}

/** Throws PublishError unless the server has this key's signature of a manifest; without a key anything will do. */
async function checkSigned(
  server: PublishedServer,
  { manifest, bytes }: KnownManifest,
  publisherKey: Uint8Array | undefined,
): Promise<void> {
  if (publisherKey === undefined) return
  const { generation, epoch } = manifest
  const signatures = await server.signatures()
  const signed = signatures.some(
    entry =>
      entry.publicKey === toHex(publisherKey) &&
      entry.generation === generation &&
      entry.epoch === epoch &&
      verifies(fromHex(entry.signature), signedBytes(bytes), publisherKey),
  )
  if (signed) return
  const { blake3 } = await loadCore()
  throw new PublishError(
    `${server.name}: it has no signature of this publisher for epoch ${epoch} (manifest hash ${toHex(blake3(bytes))})`,
  )
}

/** What clients download of an epoch, besides its manifest. */
function blobsOf(manifest: Manifest): { readonly hash: Uint8Array; readonly length: number }[] {
  const { partitions, keyed, directoryHash, directoryBytes, updateListHash, updateListBytes, pointproofs } = manifest
  const length = partitionBytes(manifest)
  return [
    ...Array.from({ length: partitions }, (_, q) => ({ hash: contentHash(manifest, q), length })),
    ...(keyed ? [{ hash: directoryHash, length: directoryBytes }] : []),
    ...(updateListBytes > 0 ? [{ hash: updateListHash, length: updateListBytes }] : []),
    ...(pointproofs === undefined
      ? []
      : [
          { hash: pointproofs.rowsHash, length: rowListsBytes(manifest) },
          { hash: pointproofs.keyHash, length: POINTPROOFS_KEY_BYTES },
        ]),
  ]
}
