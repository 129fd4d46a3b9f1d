// Makes the public hints of new epochs, for lookups with one server (one-server/prepared.ts). A server makes one of the records in its own
// memory, and so does the publisher's copy. If their manifests differ, the publisher signs nothing.

import { encodeManifest, equalBytes, hasOneServer, type Manifest, ownBase, toHex } from '@keyhush/protocol'
import type { CoreError } from '@keyhush/wasm'
import { DatasetError } from '../base/errors.js'
import type { KnownManifest } from '../base/known-manifest.js'
import { Refusal } from '../base/refusal.js'
import { type DatabaseInMemory, preparedBytes } from '../one-server/contents.js'
import { hintOf, Prepared } from '../one-server/prepared.js'
import type { Blob, Epoch } from './epochs.js'
import { memoryBlob } from './epochs.js'
import type { Generation } from './generation.js'
import { refuse } from './operations.js'

/** The manifest of an epoch that has been made, with its public hint if the epoch before has one; and what answers, if it `keeps` that. */
export async function withHint(
  generation: Generation,
  before: Manifest,
  known: KnownManifest,
  keeps: boolean,
): Promise<{ readonly known: KnownManifest; readonly oneServer: Prepared | undefined }> {
  if (!hasOneServer(before)) return { known, oneServer: undefined }
  const prepared = await Prepared.begin(known.manifest, generation)
  try {
    const manifest = {
      ...known.manifest,
      oneServer: ownBase(known.manifest, generation.core.blake3(await prepared.made)),
    }
    if (!keeps) await prepared.close()
    return { known: { manifest, bytes: encodeManifest(manifest) }, oneServer: keeps ? prepared : undefined }
  } catch (error) {
    await prepared.close()
    throw error
  }
}

/** Throws a `batch_refused` Refusal for a batch after which a hinted database could have no public hint. `added`: most records that it adds. */
export function checkHintable(generation: Generation, manifest: Manifest, expires: number, added: number): void {
  if (!hasOneServer(manifest)) return
  if (expires === 0) refuse(1, 'lookups with one server need an expiry; publish with --valid-days')
  try {
    preparedBytes(generation.core, { ...manifest, records: manifest.records + added })
  } catch (error) {
    if ((error as CoreError).code !== 'layout') throw error
    refuse(1, `too many records for lookups with one server: ${(error as Error).message}`)
  }
}

/** Makes the public hint of an epoch anew, as its builder has to. Whether it is the one that the manifest names, if that names one. */
export async function isHinted({ oneServer, ...manifest }: Manifest, from: DatabaseInMemory): Promise<boolean> {
  return oneServer === undefined || equalBytes(from.core.blake3(await hintOf(manifest, from)), oneServer.hintHash)
}

/** Throws DatasetError if the manifest names another public hint than that of its records. */
export async function checkHint(location: string, manifest: Manifest, from: Generation) {
  const isRight = await isHinted(manifest, from).catch((error: Error) => {
    throw new DatasetError(location, error.message)
  })
  if (isRight) return
  throw new DatasetError(
    location,
    'expected the public hint of these records, got a manifest that names another; sign nothing, and build the dataset yourself',
  )
}

/** The public hint with this hash in hex, of one of these epochs. Throws a `not_ready` Refusal while it is being prepared. */
export function hintBlob(epochs: readonly Epoch[], hash: string): Blob | undefined {
  const of = ({ manifest: { oneServer } }: Epoch) => oneServer !== undefined && toHex(oneServer.hintHash) === hash
  const prepared = epochs.find(of)?.oneServer
  if (prepared?.preparing) throw new Refusal('not_ready', 'lookups with one server are being prepared; try again later')
  return prepared?.hint && memoryBlob(prepared.hint)
}
