// Applies an update, or a journal's entries, to a hint in memory. Stores nothing.

import { equalBytes, type Manifest } from '@keyhush/protocol'
import type { Core, DirectoryHandle, LayoutHandle } from '@keyhush/wasm/client'
import { ProtocolError } from '../base/errors.js'
import { coreCode, inCore, readBack, release } from '../platform/core.js'
import { withLayout } from '../platform/layout.js'
import { isDirectoryOf } from '../scheme/download.js'
import type { Agreed } from '../servers/manifests.js'
import type { Step } from '../servers/update-lists.js'
import { StateUnreadableError } from '../store/store.js'
import type { Hint } from './hint.js'

/** A hint, or a half-made one. */
export interface Followed {
  readonly manifest: Manifest
  /** undefined in a keyless database */
  readonly directory: DirectoryHandle | undefined
}

/** Has a step's list applied, and returns the next epoch's directory. Throws ProtocolError, with nothing changed, if they contradict each other. */
export function applied<T>(
  core: Core,
  { manifest: before, directory }: Followed,
  { manifest, list }: Step,
  apply: (after: LayoutHandle) => T,
): [T, DirectoryHandle | undefined] {
  let next: DirectoryHandle | undefined
  try {
    return withLayout(core, manifest, after => {
      next = withLayout(core, before, before => inCore(core, () => directory?.updated(list, before, after)))
      if (next !== undefined && !leadsTo(core, next, manifest)) {
        throw contradictory('its directory does not follow from its update list')
      }
      return [apply(after), next]
    })
  } catch (error) {
    release(core, next)
    throw coreCode(error) === 'update' ? contradictory('its update list cannot be applied') : error
  }
}

/** Both servers agree and the hashes match, so the publisher is at fault. */
function contradictory(what: string): ProtocolError {
  return new ProtocolError('the servers', `the newest epoch contradicts itself: ${what}; ask their operators`)
}

function leadsTo(core: Core, directory: DirectoryHandle, manifest: Manifest): boolean {
  const bytes = inCore(core, () => directory.encode())
  return isDirectoryOf(core, manifest, bytes)
}

/** Replays the journal entries that lead to `at`. Throws StateUnreadableError if they do not; the hint must not be used then. */
export async function replay(hint: Hint, entries: readonly Uint8Array[], at: Agreed): Promise<void> {
  const { core, state } = hint
  let directory: DirectoryHandle | undefined
  try {
    for (const entry of entries) {
      const known = directory ?? hint.directory
      const next =
        known &&
        withLayout(core, { ...hint.manifest, ...state.reach }, before =>
          readBack(core, () => known.replayed(entry, before)),
        )
      state.replay(entry)
      if (next === undefined) continue
      release(core, directory)
      directory = next
    }
    if (!equalBytes(hint.record.manifest, at.bytes)) {
      if (!hasArrived(hint, directory, at.manifest)) {
        throw new StateUnreadableError('the journal does not lead to the manifest on record')
      }
      hint.moveTo(at, directory)
      directory = undefined
    }
    await state.arrive(at.manifest)
  } finally {
    release(core, directory)
  }
}

function hasArrived({ core, state }: Hint, directory: DirectoryHandle | undefined, manifest: Manifest): boolean {
  const { records, partitions } = state.reach
  if (records !== manifest.records || partitions !== manifest.partitions) return false
  return !manifest.keyed || (directory !== undefined && leadsTo(core, directory, manifest))
}
