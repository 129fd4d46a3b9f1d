// Bringing a hint to the next epoch (Fig. 6, UpdateHint), in memory and in the store: parities, permutations, directory,
// manifest and the pending batch go together, in one transaction with the journal entry that does the same elsewhere.

import { equalBytes, type Manifest } from '@pirouette/protocol'
import type { Core, DirectoryHandle, LayoutHandle } from '@pirouette/wasm'
import { coreCode, inCore, readBack, release } from './core.js'
import type { Environment } from './environment.js'
import { ProtocolError } from './errors.js'
import { type Hint, withLayout } from './hint.js'
import { isPending } from './lookup.js'
import type { Agreed } from './manifest.js'
import { isDirectoryOf } from './offline.js'
import { type StateStore, StateUnreadableError } from './store/store.js'
import type { Step } from './sync.js'

/**
 * Takes `hint` to `step`, which is the next epoch. Resolves to the journal's length. After a ProtocolError nothing has
 * changed; after any other error memory and store no longer agree.
 */
export async function advance(
  hint: Hint,
  step: Step,
  store: StateStore,
  { random }: Pick<Environment, 'random'>,
): Promise<number> {
  const { core, client, record, version } = hint
  const { manifest, bytes, list } = step
  const [entry, directory] = applied(core, hint, step, after =>
    client.update(list, after, manifest.commitments, random(32)),
  )
  hint.moveTo(step, directory)
  const pending = isPending(hint) ? inCore(core, () => client.pendingBytes()) : undefined
  const kept = store.durable ? entry : new Uint8Array()
  const { journalBytes } = await store.advance(record.hintId, version, { entry: kept, manifest: bytes, pending })
  return journalBytes
}

/** What is brought to the next epoch: a hint, or a half-made one. */
export interface Followed {
  readonly manifest: Manifest
  /** undefined in a keyless database */
  readonly directory: DirectoryHandle | undefined
}

/**
 * Has the core apply a step's list, and gives the directory of the next epoch. Throws ProtocolError, with nothing
 * changed, if what both servers publish cannot be.
 */
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
      return [inCore(core, () => apply(after)), next]
    })
  } catch (error) {
    release(core, next)
    throw coreCode(error) === 'update' ? contradictory('its update list cannot be applied') : error
  }
}

/** Both servers agree, hashes hold, and yet it cannot be: whoever publishes is at fault. */
function contradictory(what: string): ProtocolError {
  return new ProtocolError('both servers', `the newest epoch contradicts itself: ${what}; ask their operators`)
}

function leadsTo(core: Core, directory: DirectoryHandle, manifest: Manifest): boolean {
  const bytes = inCore(core, () => directory.encode())
  return isDirectoryOf(core, manifest, bytes)
}

/**
 * Replays journal entries on a hint that is behind `at`, which they lead to. Throws StateUnreadableError if they do not;
 * the hint is of no use then.
 */
export function replay(hint: Hint, entries: readonly Uint8Array[], at: Agreed): void {
  const { core, client } = hint
  let directory: DirectoryHandle | undefined
  try {
    for (const entry of entries) {
      const before = inCore(core, () => client.layout)
      const known = directory ?? hint.directory
      const next = readBack(core, () => known?.replayed(entry, before))
      release(core, before)
      readBack(core, () => client.replay(entry))
      if (next === undefined) continue
      release(core, directory)
      directory = next
    }
    if (equalBytes(hint.record.manifest, at.bytes)) return
    if (!hasArrived(hint, directory, at.manifest)) {
      throw new StateUnreadableError('the journal does not lead to the manifest on record')
    }
    readBack(core, () => client.rebind(at.manifest.commitments))
    hint.moveTo(at, directory)
    directory = undefined
  } finally {
    release(core, directory)
  }
}

function hasArrived({ core, client }: Hint, directory: DirectoryHandle | undefined, manifest: Manifest): boolean {
  const { records, partitions } = inCore(core, () => client.layout)
  if (records !== manifest.records || partitions !== manifest.partitions) return false
  return !manifest.keyed || (directory !== undefined && leadsTo(core, directory, manifest))
}
