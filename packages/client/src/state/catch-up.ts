// Catches up when another tab has moved the state on (S4): replays the effects and updates that tab has stored, and takes
// over its pending lookup. This undoes nothing that a server has seen: what the store refused was never sent.

import { equalBytes } from '@keyhush/protocol'
import { readManifest } from '../servers/manifests.js'
import { type StateHead, StateMovedError, type StateStore } from '../store/store.js'
import { replay } from './applying.js'
import type { Hint } from './hint.js'
import { recallVerifier } from './verifier.js'

/** The store is behind a version that it has acknowledged: it was rolled back, from a backup or a snapshot (S8). */
export class RolledBackError extends Error {
  override readonly name = 'RolledBackError'
}

/**
 * Brings `hint` to the head's version. False: it cannot be brought there, and the state has to be read anew. Throws StateMovedError if
 * the head is no longer the newest, StateUnreadableError, RolledBackError.
 */
export async function catchUp(store: StateStore, hint: Hint, head: StateHead): Promise<boolean> {
  const { state, version } = hint
  const { hintId, manifest: bytes, signature } = head.record
  if (!equalBytes(hintId, hint.record.hintId) || head.stage !== 'whole') return false
  // Only the store knows whether its lookup was finished meanwhile.
  if (hint.isPending) return false
  if (head.version < version) {
    if (state.kind === 'held') return false // no server has seen anything that an older state could contradict
    throw new RolledBackError('the store has forgotten what it had acknowledged')
  }
  if (head.version > version) {
    const entries = await store.readEntries(hintId, version)
    if (entries === undefined) return false // a checkpoint has replaced them
    if (version + entries.length > head.version) throw new StateMovedError('the journal is newer than its head')
    const manifest = readManifest(bytes)
    if (manifest === undefined || version + entries.length < head.version) return false
    await replay(hint, entries, { manifest, bytes, signature })
    await recallVerifier(store, hint)
  }
  if (hint.version !== head.version || !equalBytes(hint.record.manifest, bytes)) return false
  if (head.pending === undefined) return true
  if (state.kind !== 'asked') return false
  state.resume(head.pending)
  return true
}
