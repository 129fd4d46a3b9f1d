// Leads an epoch in memory back to its base, for lookups with one server.

import { equalBytes, type Manifest, updateEntries } from '@keyhush/protocol'
import type { Core } from '@keyhush/wasm'
import type { KnownManifest } from '../base/known-manifest.js'
import { Pace } from '../base/pace.js'
import { Base } from '../one-server/base.js'
import { type DatabaseInMemory, xor } from '../one-server/contents.js'
import { along, recordBytesView } from './view.js'

/** Whether each of these manifests names the one before. */
export function areLinked({ blake3 }: Core, chain: readonly KnownManifest[]): boolean {
  return chain.every((next, i) => i === 0 || equalBytes(next.manifest.previousManifest, blake3(chain[i - 1]!.bytes)))
}

/**
 * The base of an epoch, from which these lists lead there; undefined: they do not make the patch that its manifest names. `after`: what has
 * changed in memory since that epoch.
 */
export async function baseBefore(
  { core, database }: Pick<DatabaseInMemory, 'core' | 'database'>,
  manifest: Manifest,
  directoryBytes: Uint8Array,
  lists: readonly Uint8Array[],
  after?: Uint8Array,
): Promise<Base | undefined> {
  const { recordBytes, keyed } = manifest
  const before = keyed ? await directoryBefore(core, manifest, directoryBytes, lists) : directoryBytes
  const base = new Base(core, manifest, before)
  const later = new Map<number, Uint8Array>()
  const note = (list: Uint8Array) => {
    for (const { index, delta } of updateEntries(list, recordBytes)) later.set(index, xor(delta, later.get(index)))
  }
  const recordAt = (index: number) => {
    return xor(recordBytesView(core, database, index * recordBytes, recordBytes), later.get(index))
  }
  for (const list of after === undefined ? lists : [...lists, after]) note(list)
  const pace = new Pace()
  for (const list of lists) {
    note(list)
    if (!base.grow(list, recordAt)) return undefined
    await pace.yield()
  }
  if (after !== undefined) base.leave(after)
  return base.isOf(manifest) ? base : undefined
}

/** The bytes of the directory from which these lists lead to another. */
async function directoryBefore(
  core: Core,
  { records }: Manifest,
  bytes: Uint8Array,
  lists: readonly Uint8Array[],
): Promise<Uint8Array> {
  if (lists.length === 0) return bytes
  const pace = new Pace()
  let directory = core.decodeDirectory(bytes, records)
  try {
    for (const list of lists.toReversed()) {
      const now = directory
      directory = along(core, list, (from, to) => now.undone(list, from, to))
      now.free()
      await pace.yield()
    }
    return directory.encode()
  } finally {
    directory.free()
  }
}
