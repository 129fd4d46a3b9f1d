// What verifies the answers to a hint, where it is more than the hint has, lies in the store beside it, so that the next life of
// the page need not fetch it. It is public and can be had again: whatever the store does with it, nothing fails.

import type { StateStore } from '../store/store.js'
import type { Hint } from './hint.js'

/** Stores it, where it is another than the store has. When it is another has nothing to do with what is asked. */
export async function keepVerifier(store: StateStore, hint: Hint): Promise<void> {
  const verifier = hint.state.kind === 'asked' ? hint.state.verifier : undefined
  if (!store.durable || verifier === undefined || verifier === hint.keptVerifier) return
  hint.keptVerifier = verifier
  await store.putVerifier(hint.record.hintId, verifier).catch(() => {})
}

/** Has a hint that was brought to another version by what is stored take up what verifies there. */
export async function recallVerifier(store: StateStore, hint: Hint): Promise<void> {
  if (hint.state.kind !== 'asked') return
  await hint.state.recall?.(hint.manifest, async () => {
    hint.keptVerifier = await store.readVerifier(hint.record.hintId).catch(() => undefined)
    return hint.keptVerifier
  })
}
