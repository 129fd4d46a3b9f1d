// The key directory in a manifest, and its padded blocks, from which instant lookups of blocks are answered.

import { equalBytes, FINGERPRINT_BYTES, HASH_BYTES, hasInstant, type Manifest } from '@keyhush/protocol'
import type { Core, DatabaseHandle, ServerDirectoryHandle } from '@keyhush/wasm'

/** What a manifest says of the directory. */
export type DirectoryFields = Pick<
  Manifest,
  | 'directoryBytes'
  | 'directoryHash'
  | 'directoryBlockLog'
  | 'directoryBlockBytes'
  | 'directorySeed'
  | 'directoryCommitment'
>

const NO_HASH = new Uint8Array(HASH_BYTES)

/** The blocks of a directory, to be freed; undefined without instant lookups of keys. Throws the core's `layout` error. */
export function blocksOf(
  manifest: Pick<Manifest, 'suite'>,
  directory: ServerDirectoryHandle | undefined,
): DatabaseHandle | undefined {
  return hasInstant(manifest) ? directory?.database() : undefined
}

/** `bytes`: the directory's, none without keys; `hash`: their BLAKE3, where it is known. */
export function directoryFields(
  core: Core,
  directory: ServerDirectoryHandle | undefined,
  bytes: Uint8Array,
  blocks: DatabaseHandle | undefined,
  hash?: Uint8Array,
): DirectoryFields {
  return {
    directoryBytes: bytes.length,
    directoryHash: directory === undefined ? NO_HASH : (hash ?? core.blake3(bytes)),
    directoryBlockLog: directory?.blockLog ?? 0,
    directoryBlockBytes: directory?.blockBytes ?? 0,
    directorySeed: directory?.seed ?? new Uint8Array(FINGERPRINT_BYTES),
    directoryCommitment: blocks?.commitment(0) ?? NO_HASH,
  }
}

/** Whether a manifest says this of its directory. */
export function hasFields(manifest: Manifest, fields: DirectoryFields): boolean {
  return (Object.keys(fields) as (keyof DirectoryFields)[]).every(name => {
    const [said, found] = [manifest[name], fields[name]]
    return typeof said === 'number' ? said === found : equalBytes(said, found as Uint8Array)
  })
}
