// Bringing a hint to the next epoch (Fig. 6, UpdateHint), in memory and in the store: parities, permutations, directory,
// manifest and the pending batch go together, in one transaction with the journal entry that does the same elsewhere.

import { equalBytes } from '@pirouette/protocol'
import type { DirectoryHandle } from '@pirouette/wasm'
import { coreCode, inCore, readBack, release } from './core.js'
import type { Environment } from './environment.js'
import { ProtocolError } from './errors.js'
import { type Hint, withLayout } from './hint.js'
import { isPending } from './lookup.js'
import { type StateStore, StateUnreadableError } from './store/store.js'
import type { Step } from './sync.js'

/**
 * Takes `hint` to `step`, which is the next. Resolves to the journal's length. A ProtocolError means that nothing has
 * changed; after any other error memory and store no longer agree.
 */
export async function advance(
  hint: Hint,
  step: Step,
  store: StateStore,
  { random }: Pick<Environment, 'random'>,
): Promise<number> {
  const { core, client, record } = hint
  const version = hint.version
  const { manifest, bytes, list } = step
  let directory: DirectoryHandle | undefined
  let entry: Uint8Array
  try {
    entry = withLayout(core, manifest, after => {
      directory = directoryAfter(hint, step, after)
      return inCore(core, () => client.update(list, after, manifest.commitments, random(32)))
    })
  } catch (error) {
    release(core, directory)
    throw coreCode(error) === 'update' ? contradictory(hint, 'its update list is malformed') : error
  }
  hint.moveTo(step, directory)
  const pending = isPending(hint) ? inCore(core, () => client.pendingBytes()) : undefined
  const kept = store.durable ? entry : new Uint8Array()
  const { journalBytes } = await store.advance(record.hintId, version, { entry: kept, manifest: bytes, pending })
  return journalBytes
}

/**
 * Replays journal entries on a hint that is older than the manifest `at`, which they lead to. Throws
 * StateUnreadableError if they do not; the hint is then of no use.
 */
export function replay(hint: Hint, entries: readonly Uint8Array[], at: Pick<Step, 'manifest' | 'bytes'>): void {
  const { core, client } = hint
  let directory: DirectoryHandle | undefined
  try {
    for (const entry of entries) {
      const before = inCore(core, () => client.layout)
      try {
        const next = readBack(core, () => (directory ?? hint.directory)?.replayed(entry, before))
        if (next !== undefined) {
          release(core, directory)
          directory = next
        }
      } finally {
        release(core, before)
      }
      readBack(core, () => client.replay(entry))
    }
    if (equalBytes(hint.record.manifest, at.bytes)) return
    checkArrival(hint, directory, at.manifest)
    readBack(core, () => client.rebind(at.manifest.commitments))
    hint.moveTo(at, directory)
    directory = undefined
  } finally {
    release(core, directory)
  }
}

/** The journal must have led to the manifest on record, layout and directory and all. */
function checkArrival(hint: Hint, directory: DirectoryHandle | undefined, manifest: Step['manifest']): void {
  const { core, client } = hint
  const layout = inCore(core, () => client.layout)
  const arrived = layout.records === manifest.records && layout.partitions === manifest.partitions
  release(core, layout)
  const leads = directory === undefined || leadsTo(hint, directory, manifest)
  // An update of a keyed database always leaves a directory, if only the same again.
  const missing = manifest.keyed && directory === undefined
  if (!arrived || !leads || missing) throw new StateUnreadableError('the journal does not lead to the manifest on record')
}

/** The directory of the next epoch, which must be the one that both servers publish. */
function directoryAfter(
  hint: Hint,
  { manifest, list }: Step,
  after: Parameters<DirectoryHandle['updated']>[2],
): DirectoryHandle | undefined {
  const { core } = hint
  if (hint.directory === undefined) return undefined
  const { directory } = hint
  const updated = withLayout(core, hint.manifest, before => inCore(core, () => directory.updated(list, before, after)))
  if (leadsTo(hint, updated, manifest)) return updated
  release(core, updated)
  throw contradictory(hint, 'its directory does not follow from its update list')
}

function leadsTo({ core }: Hint, directory: DirectoryHandle, manifest: Step['manifest']): boolean {
  const hash = inCore(core, () => core.blake3(directory.encode()))
  return equalBytes(hash, manifest.directoryHash)
}

/** Both servers agree, hashes hold, and yet it cannot be: whoever publishes is at fault. */
function contradictory({ record }: Hint, what: string): ProtocolError {
  const both = `${record.retrieveServer} and ${record.refreshServer}`
  return new ProtocolError(both, `the epoch both publish contradicts itself: ${what}; ask their operators`)
}
