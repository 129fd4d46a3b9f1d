// Hints to store, and a store's state as a caller can see it.

import type { HintRecord, StateStore } from '../../src/store/store.js'

/** `length` bytes that follow from `seed` and look like nothing else here. */
export function bytes(seed: string, length: number): Uint8Array {
  let state = 2166136261
  for (const character of seed) state = Math.imul(state ^ character.charCodeAt(0), 16777619)
  const made = new Uint8Array(length)
  for (let i = 0; i < length; i++) {
    state = (Math.imul(state, 1664525) + 1013904223) | 0
    made[i] = state >>> 24
  }
  return made
}

export function hintId(number: number): Uint8Array {
  return bytes(`hint ${number}`, 16)
}

export function recordOf(number: number): HintRecord {
  return {
    hintId: hintId(number),
    retrieveServer: 'https://a.example',
    refreshServer: 'https://b.example/path',
    manifest: bytes(`manifest ${number}`, 100),
  }
}

/** All that can be read of a store, with how many bytes its journal has on disk left out. */
export async function observe(store: StateStore): Promise<unknown> {
  const head = await store.read()
  if (head === undefined) return undefined
  const { record, stage, version, pending, condemned } = head
  const { hintId, retrieveServer, refreshServer, manifest } = record
  const seen = { hintId, retrieveServer, refreshServer, manifest, stage, version, pending, culprit: condemned?.culprit }
  if (condemned !== undefined) return { ...seen, condemned: true }
  if (stage === 'partial') return { ...seen, ...(await store.readPartial(hintId)) }
  const hint = await store.readHint(hintId)
  const { checkpoint, effects, directory } = hint
  return { ...seen, checkpointVersion: hint.version, checkpoint, effects, directory }
}
