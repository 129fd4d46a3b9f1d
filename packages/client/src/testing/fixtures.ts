// Hints to store, and a store's state as a caller can see it.

import type { HintRecord, StateStore, StoredCheckpoint } from '../store/store.js'

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
    scheme: 'full',
    parties: ['https://a.example', 'https://b.example/path'],
    fenced: number === 1 ? ['https://b.example/path'] : [],
    manifest: bytes(`manifest ${number}`, 100),
  }
}

/** The manifest and directory of an epoch; the first is the one that the hint of `recordOf(number)` is made under. */
export function epochOf(number: number, epoch = 1): Omit<StoredCheckpoint, 'checkpoint'> {
  if (epoch === 1) return { manifest: recordOf(number).manifest, directory: bytes('directory', 30) }
  return { manifest: bytes(`manifest ${number} of epoch ${epoch}`, 110), directory: bytes(`directory ${epoch}`, 31) }
}

/** All that can be read of a store, with how many bytes its journal has on disk left out. */
export async function observe(store: StateStore): Promise<unknown> {
  const head = await store.read()
  if (head === undefined) return undefined
  const { record, stage, version, pending, condemned } = head
  const { hintId, scheme, parties, fenced, manifest } = record
  const names = { hintId, scheme, parties, fenced }
  const seen = { ...names, manifest, stage, version, pending, culprit: condemned?.culprit }
  if (condemned !== undefined) return { ...seen, condemned: true }
  if (stage === 'partial') return { ...seen, ...(await store.readPartial(hintId)) }
  const hint = await store.readHint(hintId)
  const { checkpoint, entries, directory } = hint
  const made = { checkpointVersion: hint.version, checkpointManifest: hint.manifest, directory }
  return { ...seen, ...made, checkpoint, entries, verifier: await store.readVerifier(hintId) }
}
