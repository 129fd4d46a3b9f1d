// What the cases are given, and the hints that they store.

import type { Advance, HintRecord, PartialUpdate, StateStore, StoredCheckpoint } from '../../store/store.js'
import { expectEqual, expectRejection } from '../expect.js'
import { bytes, epochOf, observe, recordOf } from '../fixtures.js'

/** A store to test, and what the test may do to it. */
export interface Bench {
  /** The store. It is empty at first. */
  readonly store: StateStore
  /** A second handle on the same state, as another tab has. `store` itself, if there can be only one. */
  readonly other: StateStore
  /** Kills all handles without closing them, and opens `store` and `other` anew. */
  crash(): Promise<void>
  /** Removes the store and its files. */
  remove(): Promise<void>
}

/** Opens a bench with an empty store. */
export type Setup = () => Promise<Bench>

/** One case of the suite. */
export interface Case {
  readonly name: string
  /** Rejects if the store breaks a law. */
  readonly run: (bench: Bench) => Promise<void>
}

export const MOVED = 'StateMovedError'
export const UNREADABLE = 'StateUnreadableError'
export const A = recordOf(1)
export const B = recordOf(2)
export const [PARTIAL, CHECKPOINT, DIRECTORY] = [bytes('partial', 40), bytes('checkpoint', 60), epochOf(1).directory]

/** Hint A, whole, with `versions` effects. */
export async function whole(store: StateStore, versions = 0, record: HintRecord = A): Promise<void> {
  await store.begin(record, PARTIAL, DIRECTORY, undefined)
  await store.complete(record.hintId, 0, CHECKPOINT)
  for (let version = 0; version < versions; version++) await lookUp(store, version, record)
}

export async function lookUp(store: StateStore, version: number, record: HintRecord = A): Promise<void> {
  await store.putPending(record.hintId, version, pending(version))
  await store.commit(record.hintId, version, effect(version))
}

export const pending = (version: number) => bytes(`pending ${version}`, 50)
export const effect = (version: number) => bytes(`effect ${version}`, 20 + version)
export const effects = (from: number, to: number) => Array.from({ length: to - from }, (_, i) => effect(from + i))
export const row = (number: number) => bytes(`row ${number}`, 64)
export const update = (version: number) => bytes(`update ${version}`, 25 + version)

/** A checkpoint of hint A, made in an epoch. */
export const at = (checkpoint = CHECKPOINT, epoch = 1): StoredCheckpoint => ({ checkpoint, ...epochOf(1, epoch) })

/** What takes hint A, half-made, to an epoch. */
export const partialAt = (epoch: number): PartialUpdate => ({
  partial: bytes(`partial in epoch ${epoch}`, 40 + epoch),
  ...epochOf(1, epoch),
})

/** What takes hint A, whole, from `version` to an epoch. */
export const advanceTo = (epoch: number, version: number, pending?: Uint8Array): Advance => ({
  entry: update(version),
  manifest: epochOf(1, epoch).manifest,
  pending,
})

/** A lookup that was made at `version`, extended for an epoch. */
export const extended = (version: number, epoch: number) => bytes(`pending ${version}, extended for epoch ${epoch}`, 55)

/** Every refusal leaves everything as it was. */
export async function refused(store: StateStore, calls: Record<string, () => Promise<unknown>>): Promise<void> {
  const before = await observe(store)
  for (const [what, call] of Object.entries(calls)) {
    await expectRejection(call(), MOVED, what)
    expectEqual(await observe(store), before, `the state after a refused call: ${what}`)
  }
}
