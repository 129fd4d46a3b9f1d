// The bases and patches of new epochs, for lookups with one server (one-server/base.ts). A server makes them of the records in its own
// memory, and so does the publisher's copy. If their manifests differ, the publisher signs nothing.

import { encodeManifest, equalBytes, hasOneServer, MAX_BASE_AGE, type Manifest, toHex } from '@keyhush/protocol'
import type { CoreError } from '@keyhush/wasm'
import { DatasetError } from '../base/errors.js'
import type { KnownManifest } from '../base/known-manifest.js'
import { notPreparedYet } from '../base/refusal.js'
import { recordBytesView } from '../dataset/view.js'
import { Base } from '../one-server/base.js'
import { type DatabaseInMemory, preparedBytes } from '../one-server/contents.js'
import { type Blob, memoryBlob } from './epochs.js'
import type { Generation } from './generation.js'
import { refuse } from './operations.js'
import type { Preparing } from './preparing.js'
import { MisfitError } from './taking.js'

/** An epoch that has been made in memory. */
export interface MadeOf {
  readonly manifest: Manifest
  readonly directoryBytes: Uint8Array
  /** which led there, of records alone; undefined: it is the first of its generation */
  readonly list: Uint8Array | undefined
}

/**
 * Gives a generation the base of its newest epoch. It keeps the base of the epoch before while that is young and its patch has room for the
 * list. Otherwise the epoch is its own base.
 */
export function advanceBase(generation: Generation, { manifest, directoryBytes, list }: MadeOf): Base {
  const { core, database, base } = generation
  const { recordBytes } = manifest
  const recordAt = (index: number) => recordBytesView(core, database, index * recordBytes, recordBytes)
  const isYoung = base !== undefined && manifest.epoch - base.manifest.epoch <= MAX_BASE_AGE
  if (isYoung && list !== undefined && base.grow(list, recordAt)) return base
  generation.base = new Base(core, { ...manifest, oneServer: undefined }, directoryBytes)
  return generation.base
}

/** Gives a generation the base of an epoch that others have made, whose hint they have made. Throws MisfitError as `expectBase`. */
export function followBase(generation: Generation, made: MadeOf): void {
  const { oneServer } = made.manifest
  if (oneServer === undefined) return
  const base = advanceBase(generation, made)
  base.hintHash ??= oneServer.hintHash
  expectBase(base, made.manifest)
}

/** Throws MisfitError unless a manifest says this of its base and patch. */
export function expectBase(base: Base, manifest: Manifest): void {
  if (base.isOf(manifest)) return
  throw new MisfitError('expected the base, public hint and patch of these records, got a manifest that names others')
}

/** The manifest of an epoch that has been made, with its base and patch. A base that is new is prepared. */
export async function withBase(generation: Generation, made: MadeOf, preparing: Preparing): Promise<KnownManifest> {
  const base = advanceBase(generation, made)
  if (base.hintHash === undefined) await preparing.make(base, generation)
  const manifest = { ...made.manifest, oneServer: base.fields }
  return { manifest, bytes: encodeManifest(manifest) }
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

/** Makes the public hint of a base anew, as its builder has to. Whether it is the one that the manifest names, if that names one. */
export async function isHinted(base: Base | undefined, from: DatabaseInMemory): Promise<boolean> {
  return base === undefined || equalBytes(from.core.blake3(await base.hint(from)), base.fields.hintHash)
}

/** Throws DatasetError if the manifest names another public hint than that of its base. */
export async function checkHint(location: string, from: Generation) {
  const isRight = await isHinted(from.base, from).catch((error: Error) => {
    throw new DatasetError(location, error.message)
  })
  if (isRight) return
  throw new DatasetError(
    location,
    'expected the public hint of these records, got a manifest that names another; sign nothing, and build the dataset yourself',
  )
}

/** The public hint or patch with this hash in hex, of one of these bases. Throws a `not_ready` Refusal while the hint is being prepared. */
export function baseBlob(bases: readonly Base[], hash: string): Blob | undefined {
  for (const base of bases) {
    const patch = base.patch(hash)
    if (patch !== undefined) return memoryBlob(patch)
    if (base.hintHash === undefined || toHex(base.hintHash) !== hash) continue
    if (base.prepared?.preparing) throw notPreparedYet()
    return base.prepared?.hint && memoryBlob(base.prepared.hint)
  }
  return undefined
}
