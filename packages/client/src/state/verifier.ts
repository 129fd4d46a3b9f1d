// What verifies the answers to a hint, where the hint itself does not. It is stored beside the hint, so that the next life of
// the page need not fetch it. It is public and can be fetched again, so a failure of the store is ignored.

import type { StateStore } from '../store/store.js'
import type { Hint } from './hint.js'

/** Stores it if it has changed. When it changes does not depend on what is asked. */
export async function keepVerifier(store: StateStore, hint: Hint): Promise<void> {
  const verifier = hint.state.kind === 'asked' ? hint.state.verifier : undefined
  if (!store.durable || verifier === undefined || verifier === hint.keptVerifier) return
  hint.keptVerifier = verifier
  await store.putVerifier(hint.record.hintId, verifier).catch(() => {})
}

/** Reads it for a hint that was read from the store, or followed it. */
export async function recallVerifier(store: StateStore, hint: Hint): Promise<void> {
  if (hint.state.kind !== 'asked') return
  await hint.state.recall?.(hint.manifest, async () => {
    hint.keptVerifier = await store.readVerifier(hint.record.hintId).catch(() => undefined)
    return hint.keptVerifier
  })
}
