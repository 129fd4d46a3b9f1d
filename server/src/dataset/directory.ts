// The files of a dataset: `manifest.bin`; in `blobs/` what clients download, each named by its BLAKE3 (partitions, key directory, update
// list); in `proofs/` what a server proves with, if the database has Pointproofs; in `between.bin` the manifests between base and epoch,
// whose update lists are in `blobs/` too, if the epoch is not its own base.

import { existsSync, mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { mkdir, open, readdir, readFile, rename, rm, rmdir } from 'node:fs/promises'
import { basename, dirname, join, resolve } from 'node:path'
import {
  contentHash,
  type Manifest,
  POINTPROOFS_KEY_BYTES,
  partitionBytes,
  rowListsBytes,
  toHex,
} from '@keyhush/protocol'
import { BuildError } from '../base/errors.js'
import { flushed } from '../base/whole-file.js'

const MANIFEST = 'manifest.bin'
const BLOBS = 'blobs'
const PROOFS = 'proofs'
const BETWEEN = 'between.bin'
const PARTS = new Set([MANIFEST, BLOBS, PROOFS, BETWEEN])
const FLUSHED_TOGETHER = 64

export function manifestPath(dir: string): string {
  return join(dir, MANIFEST)
}

export function betweenPath(dir: string): string {
  return join(dir, BETWEEN)
}

export function blobPath(dir: string, hash: Uint8Array): string {
  return join(dir, BLOBS, toHex(hash))
}

interface NamedBlob {
  readonly hash: Uint8Array
  readonly bytes: number
}

/** What clients download of an epoch besides its manifest, the partitions first. */
export function blobsOf(manifest: Manifest): NamedBlob[] {
  const { records, partitions, keyed, directoryHash, directoryBytes, slotMarksHash } = manifest
  const { updateListBytes, pointproofs } = manifest
  const blobs: NamedBlob[] = Array.from({ length: partitions }, (_, q) => ({
    hash: contentHash(manifest, q),
    bytes: partitionBytes(manifest),
  }))
  if (keyed) blobs.push({ hash: directoryHash, bytes: directoryBytes })
  if (slotMarksHash !== undefined) blobs.push({ hash: slotMarksHash, bytes: records })
  if (updateListBytes > 0) blobs.push(listOf(manifest))
  if (pointproofs !== undefined) {
    blobs.push({ hash: pointproofs.rowsHash, bytes: rowListsBytes(manifest) })
    blobs.push({ hash: pointproofs.keyHash, bytes: POINTPROOFS_KEY_BYTES })
  }
  return blobs
}

/** The update list that led to an epoch. */
export function listOf({ updateListHash, updateListBytes }: Manifest): NamedBlob {
  return { hash: updateListHash, bytes: updateListBytes }
}

/** The transcript of the ceremony, or the openings of a partition. */
export function proofPath(dir: string, what: 'transcript' | number): string {
  return join(dir, PROOFS, typeof what === 'number' ? `openings-${what}` : what)
}

/**
 * Creates the dataset `out` whole or not at all: `fill` writes into a new directory, which is then renamed. Replaces only a dataset with
 * the same manifest; with `force`, any dataset. Throws BuildError, or what `fill` throws.
 */
export async function writeDataset(
  out: string,
  manifest: Uint8Array,
  force: boolean,
  fill: (
    writeBlob: (hash: Uint8Array, bytes: Uint8Array) => void,
    writeProof: (what: Parameters<typeof proofPath>[1], bytes: Uint8Array) => void,
    writeBetween: (manifests: Uint8Array) => void,
  ) => Promise<void>,
): Promise<void> {
  const target = resolve(out)
  await checkReplaceable(target, out, manifest, force)
  const scratch = join(dirname(target), `.${basename(target)}.${process.pid}-${Date.now().toString(36)}`)
  const removeScratch = () => rmSync(scratch, { recursive: true, force: true })
  process.once('exit', removeScratch) // an interrupted build leaves nothing either
  try {
    await mkdir(join(scratch, BLOBS), { recursive: true })
    const files = new Set<string>()
    const writeOnce = (path: string, bytes: Uint8Array) => {
      if (!files.has(path)) writeFileSync(path, bytes)
      files.add(path)
    }
    const proofs = join(scratch, PROOFS)
    await fill(
      (hash, bytes) => writeOnce(blobPath(scratch, hash), bytes),
      (what, bytes) => {
        mkdirSync(proofs, { recursive: true })
        writeOnce(proofPath(scratch, what), bytes)
      },
      manifests => writeOnce(betweenPath(scratch), manifests),
    )
    writeOnce(manifestPath(scratch), manifest)
    await flushFiles([...files])
    await flushDirectory(join(scratch, BLOBS))
    if (existsSync(proofs)) await flushDirectory(proofs)
    await flushDirectory(scratch)
    await moveInto(scratch, target)
    await flushDirectory(dirname(target))
  } finally {
    process.off('exit', removeScratch)
    removeScratch() // there no longer, if all went well
  }
}

async function checkReplaceable(target: string, out: string, manifest: Uint8Array, force: boolean): Promise<void> {
  const entries: string[] = await readdir(target).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return []
    if (error.code === 'ENOTDIR') throw new BuildError('expected a directory, got a file; choose another name', out)
    throw error
  })
  if (entries.length === 0) return
  // Not even --force removes anything but a dataset.
  if (!entries.includes(MANIFEST) || entries.some(entry => !PARTS.has(entry))) {
    throw new BuildError('the directory holds something that is not a dataset; choose another', out)
  }
  if (force) return
  const present = await readFile(manifestPath(target))
  if (!present.equals(manifest)) {
    throw new BuildError('the directory holds another dataset; --force replaces it', out)
  }
}

/** Renames `scratch` to `target`, taking a dataset that stands there out of the way first. */
async function moveInto(scratch: string, target: string): Promise<void> {
  const old = `${scratch}.old`
  await rmdir(target).catch(() => undefined) // an empty directory; anything else stays
  const replaced = await rename(target, old).then(
    () => true,
    (error: NodeJS.ErrnoException) => {
      if (error.code === 'ENOENT') return false
      throw error
    },
  )
  try {
    await rename(scratch, target)
  } catch (error) {
    if (replaced) await rename(old, target)
    throw error
  }
  if (replaced) await rm(old, { recursive: true })
}

/** Several at a time: a disk flushes them together, and there may be thousands. */
export async function flushFiles(paths: readonly string[]): Promise<void> {
  for (let i = 0; i < paths.length; i += FLUSHED_TOGETHER) {
    await Promise.all(paths.slice(i, i + FLUSHED_TOGETHER).map(path => flush(path, 'r+')))
  }
}

/** Makes renames and new files in a directory durable. Windows has no such call and needs none. */
export async function flushDirectory(dir: string): Promise<void> {
  if (process.platform !== 'win32') await flush(dir, 'r')
}

async function flush(path: string, flags: string): Promise<void> {
  const handle = await open(path, flags)
  try {
    await flushed(handle)
  } finally {
    await handle.close()
  }
}
