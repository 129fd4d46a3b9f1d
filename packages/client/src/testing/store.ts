// @keyhush/client/testing/store: what every store must do, whatever it is made of. The laws of StateStore, one case each.
// Needs no test runner; runs in Node and in pages.

import type { Advance, HintRecord, PartialUpdate, StateStore, StoredCheckpoint } from '../store/store.js'
import { expectEqual, expectRejection, outcome, show } from './expect.js'
import { bytes, epochOf, hintId, observe, recordOf } from './fixtures.js'

/** A store to be tested, empty at first, and what the test may do to it. */
export interface Bench {
  readonly store: StateStore
  /** a second handle on the same state, such as another tab has; `store` itself where only one can be */
  readonly other: StateStore
  /** kills all handles as they are, without closing them, and opens `store` and `other` anew */
  crash(): Promise<void>
  remove(): Promise<void>
}

export type Setup = () => Promise<Bench>

export interface Case {
  readonly name: string
  readonly run: (bench: Bench) => Promise<void>
}

const MOVED = 'StateMovedError'
const UNREADABLE = 'StateUnreadableError'
const A = recordOf(1)
const B = recordOf(2)
const [PARTIAL, CHECKPOINT, DIRECTORY] = [bytes('partial', 40), bytes('checkpoint', 60), epochOf(1).directory]

/** Hint A, whole, with `versions` effects. */
async function whole(store: StateStore, versions = 0, record: HintRecord = A): Promise<void> {
  await store.begin(record, PARTIAL, DIRECTORY, undefined)
  await store.complete(record.hintId, 0, CHECKPOINT)
  for (let version = 0; version < versions; version++) await lookUp(store, version, record)
}

async function lookUp(store: StateStore, version: number, record: HintRecord = A): Promise<void> {
  await store.putPending(record.hintId, version, pending(version))
  await store.commit(record.hintId, version, effect(version))
}

const pending = (version: number) => bytes(`pending ${version}`, 50)
const effect = (version: number) => bytes(`effect ${version}`, 20 + version)
const effects = (from: number, to: number) => Array.from({ length: to - from }, (_, i) => effect(from + i))
const row = (number: number) => bytes(`row ${number}`, 64)
const update = (version: number) => bytes(`update ${version}`, 25 + version)

/** A checkpoint of hint A, made in an epoch. */
const at = (checkpoint = CHECKPOINT, epoch = 1): StoredCheckpoint => ({ checkpoint, ...epochOf(1, epoch) })

/** What takes hint A, half-made, to an epoch. */
const partialAt = (epoch: number): PartialUpdate => ({
  partial: bytes(`partial in epoch ${epoch}`, 40 + epoch),
  ...epochOf(1, epoch),
})

/** What takes hint A, whole, from `version` to an epoch. */
const advanceTo = (epoch: number, version: number, pending?: Uint8Array): Advance => ({
  entry: update(version),
  manifest: epochOf(1, epoch).manifest,
  pending,
})

/** A batch that was made at `version`, extended for an epoch. */
const extended = (version: number, epoch: number) => bytes(`pending ${version}, extended for epoch ${epoch}`, 55)

/** Every refusal leaves everything as it was. */
async function refused(store: StateStore, calls: Record<string, () => Promise<unknown>>): Promise<void> {
  const before = await observe(store)
  for (const [what, call] of Object.entries(calls)) {
    await expectRejection(call(), MOVED, what)
    expectEqual(await observe(store), before, `the state after a refused call: ${what}`)
  }
}

export const conformance: readonly Case[] = [
  {
    name: 'an empty store has no head, and refuses what needs one',
    async run({ store }) {
      expectEqual(await store.read(), undefined)
      await refused(store, {
        readPartial: () => store.readPartial(A.hintId),
        readHint: () => store.readHint(A.hintId),
        readEntries: () => store.readEntries(A.hintId, 0),
        'begin in place of another': () => store.begin(A, PARTIAL, DIRECTORY, B.hintId),
        putPartial: () => store.putPartial(A.hintId, 0, PARTIAL),
        updatePartial: () => store.updatePartial(A.hintId, 0, partialAt(2)),
        complete: () => store.complete(A.hintId, 0, CHECKPOINT),
        putPending: () => store.putPending(A.hintId, 0, pending(0)),
        commit: () => store.commit(A.hintId, 0, effect(0)),
        advance: () => store.advance(A.hintId, 0, advanceTo(2, 0)),
        putCheckpoint: () => store.putCheckpoint(A.hintId, 0, at()),
        putVerifier: () => store.putVerifier(A.hintId, CHECKPOINT),
        readVerifier: () => store.readVerifier(A.hintId),
      })
      await store.condemn(A.hintId, 'https://a.example')
      await store.discard(A.hintId)
      await store.discard(undefined)
      expectEqual(await store.read(), undefined)
    },
  },
  {
    name: 'begin makes a partial hint at version 0',
    async run({ store }) {
      await store.begin(A, PARTIAL, DIRECTORY, undefined)
      const expected = { stage: 'partial', version: 0, journalBytes: 0, pending: undefined, condemned: undefined }
      const { record, stage, version, journalBytes, pending, condemned } = (await store.read())!
      expectEqual({ stage, version, journalBytes, pending, condemned }, expected)
      const { hintId, scheme, parties, fenced, manifest } = record
      expectEqual({ hintId, scheme, parties, fenced, manifest }, A)
      expectEqual(await store.readPartial(A.hintId), { version: 0, partial: PARTIAL, directory: DIRECTORY })
    },
  },
  {
    name: 'begin replaces only what it names, and all of that',
    async run({ store }) {
      await whole(store, 3)
      await refused(store, {
        'in place of nothing': () => store.begin(B, PARTIAL, DIRECTORY, undefined),
        'in place of another': () => store.begin(B, PARTIAL, DIRECTORY, B.hintId),
      })
      await store.begin(B, bytes('new partial', 9), bytes('', 0), A.hintId)
      expectEqual(await store.readPartial(B.hintId), {
        version: 0,
        partial: bytes('new partial', 9),
        directory: bytes('', 0),
      })
      await refused(store, {
        readHint: () => store.readHint(A.hintId),
        readEntries: () => store.readEntries(A.hintId, 0),
        putPending: () => store.putPending(A.hintId, 3, pending(3)),
        condemn: async () => {
          await store.condemn(A.hintId, undefined)
          return store.readHint(A.hintId)
        },
        discard: () => store.discard(A.hintId),
      })
      expectEqual((await store.read())?.record.fenced, B.fenced)
    },
  },
  {
    name: 'putPartial replaces the partial hint, until the hint is whole',
    async run({ store }) {
      await store.begin(A, PARTIAL, DIRECTORY, undefined)
      await refused(store, {
        'putPartial of another hint': () => store.putPartial(B.hintId, 0, PARTIAL),
        'putPartial of a newer version': () => store.putPartial(A.hintId, 1, PARTIAL),
        'complete of a newer version': () => store.complete(A.hintId, 1, CHECKPOINT),
        'putPending of a partial hint': () => store.putPending(A.hintId, 0, pending(0)),
        'commit to a partial hint': () => store.commit(A.hintId, 0, effect(0)),
        'advance of a partial hint': () => store.advance(A.hintId, 0, advanceTo(2, 0)),
        'putCheckpoint of a partial hint': () => store.putCheckpoint(A.hintId, 0, at()),
        'readHint of a partial hint': () => store.readHint(A.hintId),
        'readEntries of a partial hint': () => store.readEntries(A.hintId, 0),
      })
      await store.putPartial(A.hintId, 0, bytes('more', 70))
      expectEqual(await store.readPartial(A.hintId), { version: 0, partial: bytes('more', 70), directory: DIRECTORY })
      await store.complete(A.hintId, 0, CHECKPOINT)
      await refused(store, {
        putPartial: () => store.putPartial(A.hintId, 0, PARTIAL),
        updatePartial: () => store.updatePartial(A.hintId, 0, partialAt(2)),
        readPartial: () => store.readPartial(A.hintId),
        complete: () => store.complete(A.hintId, 0, CHECKPOINT),
      })
    },
  },
  {
    name: 'updatePartial takes a half-made hint to the next epoch: manifest, partial, directory and version at once',
    async run({ store, other }) {
      await store.begin(A, PARTIAL, DIRECTORY, undefined)
      await refused(store, {
        'of a newer version': () => store.updatePartial(A.hintId, 1, partialAt(2)),
        'of another hint': () => store.updatePartial(B.hintId, 0, partialAt(2)),
      })
      for (const version of [0, 1]) {
        const epoch = version + 2
        const { manifest, partial, directory } = partialAt(epoch)
        await store.updatePartial(A.hintId, version, partialAt(epoch))
        const head = (await other.read())!
        expectEqual([head.stage, head.version, head.journalBytes, head.pending], ['partial', epoch - 1, 0, undefined])
        expectEqual({ ...head.record, manifest: A.manifest }, A, 'all of the record but the manifest')
        expectEqual(head.record.manifest, manifest)
        expectEqual(await other.readPartial(A.hintId), { version: epoch - 1, partial, directory })
        // From a tab that has stood still meanwhile, and holds parities of the epoch before.
        await refused(other, {
          'updatePartial, late': () => other.updatePartial(A.hintId, version, partialAt(9)),
          'putPartial, late': () => other.putPartial(A.hintId, version, PARTIAL),
          'complete, late': () => other.complete(A.hintId, version, CHECKPOINT),
        })
      }
      await store.putPartial(A.hintId, 2, bytes('more', 70))
      const { directory } = epochOf(1, 3)
      expectEqual(await store.readPartial(A.hintId), { version: 2, partial: bytes('more', 70), directory })
    },
  },
  {
    name: 'complete makes a whole hint of one that was updated: its version stays, with manifest and directory of its epoch',
    async run(bench) {
      await bench.store.begin(A, PARTIAL, DIRECTORY, undefined)
      for (const version of [0, 1]) await bench.store.updatePartial(A.hintId, version, partialAt(version + 2))
      await bench.store.complete(A.hintId, 2, CHECKPOINT)
      await bench.crash()
      const { store } = bench
      const head = (await store.read())!
      expectEqual([head.stage, head.version, head.record.manifest], ['whole', 2, epochOf(1, 3).manifest])
      expectEqual(await store.readHint(A.hintId), { version: 2, ...at(CHECKPOINT, 3), entries: [], rows: [] })
      await refused(store, {
        'updatePartial, late': () => store.updatePartial(A.hintId, 2, partialAt(4)),
        'putPartial, late': () => store.putPartial(A.hintId, 2, PARTIAL),
        'from the beginning again': () => store.putPending(A.hintId, 0, pending(0)),
      })
      await lookUp(store, 2)
      expectEqual(await store.readEntries(A.hintId, 2), effects(2, 3))
    },
  },
  {
    name: 'complete makes a whole hint, without entries',
    async run({ store }) {
      await store.begin(A, PARTIAL, DIRECTORY, undefined)
      await refused(store, { 'complete of another hint': () => store.complete(B.hintId, 0, CHECKPOINT) })
      await store.complete(A.hintId, 0, CHECKPOINT)
      expectEqual((await store.read())?.stage, 'whole')
      const { version, checkpoint, manifest, directory, entries } = await store.readHint(A.hintId)
      expectEqual({ version, checkpoint, manifest, directory, entries }, { version: 0, ...at(), entries: [] })
    },
  },
  {
    name: 'putPending keeps one batch: the same bytes again are no change, others are refused',
    async run({ store, other }) {
      await whole(store, 1)
      await refused(store, {
        'of an older version': () => store.putPending(A.hintId, 0, pending(0)),
        'of a newer version': () => store.putPending(A.hintId, 2, pending(2)),
        'of another hint': () => store.putPending(B.hintId, 1, pending(1)),
      })
      await store.putPending(A.hintId, 1, pending(1))
      const before = await observe(store)
      expectEqual((await store.read())?.pending, pending(1))
      await store.putPending(A.hintId, 1, pending(1))
      await other.putPending(A.hintId, 1, pending(1))
      expectEqual(await observe(store), before)
      await refused(store, {
        'other bytes': () => store.putPending(A.hintId, 1, bytes('other', 50)),
        'other bytes, another handle': () => other.putPending(A.hintId, 1, bytes('other', 50)),
        'the same bytes of another version': () => store.putPending(A.hintId, 2, pending(1)),
      })
    },
  },
  {
    name: 'commit takes the batch, keeps its effect and moves the version on, all at once',
    async run({ store }) {
      await whole(store)
      await refused(store, { 'without a batch': () => store.commit(A.hintId, 0, effect(0)) })
      await store.putPending(A.hintId, 0, pending(0))
      await refused(store, {
        'of a newer version': () => store.commit(A.hintId, 1, effect(0)),
        'of another hint': () => store.commit(B.hintId, 0, effect(0)),
      })
      const { journalBytes } = await store.commit(A.hintId, 0, effect(0))
      const head = (await store.read())!
      expectEqual([head.version, head.pending], [1, undefined])
      expectEqual(head.journalBytes, journalBytes, 'journalBytes')
      if (journalBytes < effect(0).length) throw new Error(`a journal of ${journalBytes} bytes lacks the effect`)
      expectEqual((await store.readHint(A.hintId)).entries, effects(0, 1))
      await refused(store, { again: () => store.commit(A.hintId, 0, effect(0)) })
    },
  },
  {
    name: 'readEntries hands over what follows a version, or says that a checkpoint has replaced it',
    async run({ store }) {
      await whole(store, 5)
      expectEqual(await store.readEntries(A.hintId, 0), effects(0, 5))
      expectEqual(await store.readEntries(A.hintId, 3), effects(3, 5))
      expectEqual(await store.readEntries(A.hintId, 5), [])
      await refused(store, {
        // Whoever knows of version 6 has seen this store further on than it is: it went backwards.
        'beyond the newest': () => store.readEntries(A.hintId, 6),
        'of another hint': () => store.readEntries(B.hintId, 0),
      })
      await store.putCheckpoint(A.hintId, 3, at())
      expectEqual(await store.readEntries(A.hintId, 2), undefined)
      expectEqual(await store.readEntries(A.hintId, 3), effects(3, 5))
    },
  },
  {
    name: 'advance takes a whole hint to the next epoch: entry, manifest and version at once',
    async run({ store, other }) {
      await whole(store, 2)
      await refused(store, {
        'of an older version': () => store.advance(A.hintId, 1, advanceTo(2, 1)),
        'of a newer version': () => store.advance(A.hintId, 3, advanceTo(2, 3)),
        'of another hint': () => store.advance(B.hintId, 2, advanceTo(2, 2)),
        'with a batch, where none is pending': () => store.advance(A.hintId, 2, advanceTo(2, 2, pending(2))),
      })
      const before = (await store.read())!.journalBytes
      const { journalBytes } = await store.advance(A.hintId, 2, advanceTo(2, 2))
      if (journalBytes < before + update(2).length)
        throw new Error(`a journal of ${journalBytes} bytes lacks the update`)
      const head = (await other.read())!
      expectEqual([head.stage, head.version, head.journalBytes, head.pending], ['whole', 3, journalBytes, undefined])
      expectEqual({ ...head.record, manifest: A.manifest }, A, 'all of the record but the manifest')
      expectEqual(head.record.manifest, epochOf(1, 2).manifest)
      const hint = await other.readHint(A.hintId)
      const entries = [...effects(0, 2), update(2)]
      expectEqual([hint.version, hint.entries], [0, entries])
      expectEqual([hint.checkpoint, hint.manifest, hint.directory], [CHECKPOINT, A.manifest, DIRECTORY])
      await refused(other, {
        'advance, late': () => other.advance(A.hintId, 2, advanceTo(9, 2)),
        'a batch of the epoch before': () => other.putPending(A.hintId, 2, pending(2)),
      })
      await lookUp(store, 3)
      await store.advance(A.hintId, 4, advanceTo(3, 4))
      expectEqual(await other.readEntries(A.hintId, 2), [update(2), effect(3), update(4)])
    },
  },
  {
    name: 'a signature is stored with its epoch, and goes with it',
    async run({ store, other }) {
      const signature = (epoch: number) => bytes(`signature ${epoch}`, 64)
      const signed = async () => (await other.read())!.record.signature
      await store.begin({ ...A, signature: signature(1) }, PARTIAL, DIRECTORY, undefined)
      expectEqual(await signed(), signature(1))
      await store.updatePartial(A.hintId, 0, { ...partialAt(2), signature: signature(2) })
      expectEqual(await signed(), signature(2))
      await store.complete(A.hintId, 1, CHECKPOINT)
      expectEqual(await signed(), signature(2))
      await store.advance(A.hintId, 1, advanceTo(3, 1))
      expectEqual(await signed(), undefined)
      await store.advance(A.hintId, 2, { ...advanceTo(4, 2), signature: signature(4) })
      await lookUp(store, 3)
      expectEqual(await signed(), signature(4))
      await store.updatePartial(A.hintId, 4, { ...partialAt(5), signature: signature(5) }).catch(() => {})
      expectEqual(await signed(), signature(4))
    },
  },
  {
    name: 'advance replaces a pending batch by its extension, in the same step',
    async run({ store, other }) {
      await whole(store, 1)
      await store.putPending(A.hintId, 1, pending(1))
      await refused(store, {
        'without its extension': () => store.advance(A.hintId, 1, advanceTo(2, 1)),
        'of an older version': () => store.advance(A.hintId, 0, advanceTo(2, 0, extended(1, 2))),
        'of a newer version': () => store.advance(A.hintId, 2, advanceTo(2, 2, extended(1, 2))),
      })
      await store.advance(A.hintId, 1, advanceTo(2, 1, extended(1, 2)))
      const head = (await other.read())!
      expectEqual([head.version, head.pending], [2, extended(1, 2)])
      const before = await observe(store)
      await store.putPending(A.hintId, 2, extended(1, 2))
      await other.putPending(A.hintId, 2, extended(1, 2))
      expectEqual(await observe(store), before, 'after the same bytes were put again')
      await refused(other, {
        'the batch as it was': () => other.putPending(A.hintId, 1, pending(1)),
        'the batch as it was, at the new version': () => other.putPending(A.hintId, 2, pending(1)),
        'another extension': () => other.putPending(A.hintId, 2, extended(1, 9)),
        'its effect, late': () => other.commit(A.hintId, 1, effect(1)),
      })
      await store.advance(A.hintId, 2, advanceTo(3, 2, extended(1, 3)))
      expectEqual((await other.read())?.pending, extended(1, 3))
      await store.commit(A.hintId, 3, effect(3))
      expectEqual(await other.readEntries(A.hintId, 0), [effect(0), update(1), update(2), effect(3)])
      expectEqual((await other.read())?.pending, undefined)
    },
  },
  {
    name: 'who reads meanwhile sees the epoch before or the epoch after, never parts of both',
    async run({ store, other }) {
      const several = <T>(read: () => Promise<T>) => [read(), read(), read()]
      const assertEither = (found: unknown[], either: unknown[]) => {
        for (const one of found) if (!either.map(show).includes(show(one))) throw new Error(`found ${show(one)}`)
      }
      await store.begin(A, PARTIAL, DIRECTORY, undefined)
      for (let version = 0; version < 5; version++) {
        const halves = () => other.readPartial(A.hintId)
        const before = await halves()
        const { manifest, partial, directory } = partialAt(version + 2)
        const after = { version: version + 1, partial, directory }
        const reads = several(halves)
        const writing = store.updatePartial(A.hintId, version, { manifest, partial, directory })
        reads.push(...several(halves))
        await writing
        assertEither(await Promise.all(reads), [before, after])
        expectEqual((await store.read())?.record.manifest, manifest)
      }
      await store.complete(A.hintId, 5, CHECKPOINT)
      await store.putPending(A.hintId, 5, pending(0))
      for (let version = 5; version < 10; version++) {
        const heads = async () => {
          const { record, version, pending } = (await other.read())!
          return [record.manifest, version, pending]
        }
        const [before, epoch] = [await heads(), version + 2]
        const after = [epochOf(1, epoch).manifest, version + 1, extended(0, epoch)]
        const reads = several(heads)
        const writing = store.advance(A.hintId, version, advanceTo(epoch, version, extended(0, epoch)))
        reads.push(...several(heads))
        await writing
        assertEither(await Promise.all(reads), [before, after])
        expectEqual(await heads(), after)
      }
      for (let version = 6; version <= 10; version++) {
        const hints = () => other.readHint(A.hintId)
        const before = await hints()
        const made = at(bytes(`at ${version}`, 60), version + 1)
        const after = { version, ...made, entries: before.entries.slice(1), rows: [] }
        const reads = several(hints)
        const writing = store.putCheckpoint(A.hintId, version, made)
        reads.push(...several(hints))
        await writing
        assertEither(await Promise.all(reads), [before, after])
        expectEqual(await hints(), after)
      }
    },
  },
  {
    name: 'putCheckpoint replaces the entries before it, and nothing else',
    async run({ store }) {
      await whole(store, 5)
      await store.putPending(A.hintId, 5, pending(5))
      await store.putCheckpoint(A.hintId, 3, at(bytes('at 3', 60)))
      let hint = await store.readHint(A.hintId)
      expectEqual([hint.version, hint.checkpoint, hint.entries], [3, bytes('at 3', 60), effects(3, 5)])
      expectEqual(hint.directory, DIRECTORY)
      expectEqual((await store.read())?.pending, pending(5))
      await refused(store, {
        'older than the newest checkpoint': () => store.putCheckpoint(A.hintId, 2, at()),
        'beyond the newest version': () => store.putCheckpoint(A.hintId, 6, at()),
        'of another hint': () => store.putCheckpoint(B.hintId, 4, at()),
      })
      await store.putCheckpoint(A.hintId, 3, at(bytes('again at 3', 60)))
      await store.commit(A.hintId, 5, effect(5))
      await store.putCheckpoint(A.hintId, 6, at(bytes('at 6', 60)))
      hint = await store.readHint(A.hintId)
      expectEqual([hint.version, hint.checkpoint, hint.entries], [6, bytes('at 6', 60), []])
      expectEqual((await store.read())?.journalBytes, 0)
    },
  },
  {
    name: 'putCheckpoint replaces manifest and directory, too: those of its own version',
    async run({ store }) {
      await whole(store, 2) // in epoch 1
      await store.advance(A.hintId, 2, advanceTo(2, 2))
      await lookUp(store, 3)
      await store.putPending(A.hintId, 4, pending(4))
      await store.advance(A.hintId, 4, advanceTo(3, 4, extended(4, 3)))
      const newest = {
        'of the newest version, and an earlier epoch': () => store.putCheckpoint(A.hintId, 5, at(PARTIAL, 2)),
      }
      await refused(store, newest)
      const entries = [...effects(0, 2), update(2), effect(3), update(4)]
      for (const [version, epoch] of [
        [2, 1],
        [3, 2],
        [4, 2],
        [5, 3],
      ] as const) {
        const made = at(bytes(`at ${version}`, 60), epoch)
        await store.putCheckpoint(A.hintId, version, made)
        const hint = await store.readHint(A.hintId)
        const { checkpoint, manifest, directory } = hint
        expectEqual({ checkpoint, manifest, directory }, made, `the checkpoint of version ${version}`)
        expectEqual([hint.version, hint.entries], [version, entries.slice(version)])
        const { record, pending } = (await store.read())!
        expectEqual([record.manifest, pending], [epochOf(1, 3).manifest, extended(4, 3)], 'the head')
        await refused(store, newest)
      }
      await store.putCheckpoint(A.hintId, 5, at(bytes('again at 5', 60), 3))
      expectEqual((await store.readHint(A.hintId)).checkpoint, bytes('again at 5', 60))
    },
  },
  {
    name: 'putVerifier keeps what verifies a whole hint, until the hint goes',
    async run(bench) {
      const { store, other } = bench
      const [first, second] = [bytes('what verifies', 300), bytes('what verifies, an epoch later', 348)]
      await store.begin(A, PARTIAL, DIRECTORY, undefined)
      await refused(store, {
        'of a half-made hint': () => store.putVerifier(A.hintId, first),
        'read of a half-made hint': () => store.readVerifier(A.hintId),
      })
      await store.complete(A.hintId, 0, CHECKPOINT)
      expectEqual(await store.readVerifier(A.hintId), undefined)
      await store.putVerifier(A.hintId, first)
      expectEqual(await other.readVerifier(A.hintId), first)
      await refused(store, {
        'of another hint': () => store.putVerifier(B.hintId, first),
        'read of another hint': () => store.readVerifier(B.hintId),
      })
      await lookUp(store, 0)
      await store.advance(A.hintId, 1, advanceTo(2, 1))
      await store.putCheckpoint(A.hintId, 2, at(CHECKPOINT, 2))
      const before = (await observe(store)) as object
      await other.putVerifier(A.hintId, second)
      expectEqual(await observe(store), { ...before, verifier: second })
      await bench.crash()
      expectEqual(await bench.store.readVerifier(A.hintId), second)
      await bench.store.begin(B, PARTIAL, DIRECTORY, A.hintId)
      await bench.store.complete(B.hintId, 0, CHECKPOINT)
      expectEqual(await bench.store.readVerifier(B.hintId), undefined)
      await bench.store.putVerifier(B.hintId, first)
      await bench.store.condemn(B.hintId, undefined)
      await refused(bench.store, {
        'of a condemned hint': () => bench.store.putVerifier(B.hintId, first),
        'read of a condemned hint': () => bench.store.readVerifier(B.hintId),
      })
    },
  },
  {
    name: 'journalBytes counts the entries since the newest checkpoint',
    async run({ store }) {
      await whole(store, 2)
      const two = (await store.read())!.journalBytes
      await lookUp(store, 2)
      const three = (await store.read())!.journalBytes
      const { journalBytes: four } = await store.advance(A.hintId, 3, advanceTo(2, 3))
      await store.putCheckpoint(A.hintId, 2, at())
      expectEqual((await store.read())!.journalBytes, four - two)
      await store.putCheckpoint(A.hintId, 3, at())
      expectEqual((await store.read())!.journalBytes, four - three)
    },
  },
  {
    name: 'condemn is for good: its secrets go, nothing is written or read, until another hint takes its place',
    async run(bench) {
      const { store } = bench
      await whole(store, 1)
      await store.advance(A.hintId, 1, advanceTo(2, 1))
      await store.putPending(A.hintId, 2, pending(2))
      const before = await observe(store)
      await store.condemn(B.hintId, 'https://b.example')
      expectEqual(await observe(store), before, 'after condemning another hint')

      await store.condemn(A.hintId, 'https://a.example')
      await store.condemn(A.hintId, 'https://b.example')
      const assertCondemned = async ({ store, other }: Bench) => {
        for (const handle of [store, other]) {
          const { condemned, pending, record, journalBytes } = (await handle.read())!
          expectEqual(
            { condemned, pending, hintId: record.hintId, manifest: record.manifest, journalBytes },
            {
              condemned: { culprit: 'https://a.example' },
              pending: undefined,
              hintId: A.hintId,
              manifest: epochOf(1, 2).manifest,
              journalBytes: 0,
            },
          )
          await refused(handle, {
            readHint: () => handle.readHint(A.hintId),
            readEntries: () => handle.readEntries(A.hintId, 2),
            putPending: () => handle.putPending(A.hintId, 2, pending_),
            commit: () => handle.commit(A.hintId, 2, effect(2)),
            advance: () => handle.advance(A.hintId, 2, advanceTo(3, 2)),
            'advance with a batch': () => handle.advance(A.hintId, 2, advanceTo(3, 2, extended(2, 3))),
            putCheckpoint: () => handle.putCheckpoint(A.hintId, 2, at(CHECKPOINT, 2)),
            discard: () => handle.discard(A.hintId),
            'discard of an unreadable state': () => handle.discard(undefined),
            'begin in place of nothing': () => handle.begin(B, PARTIAL, DIRECTORY, undefined),
          })
        }
      }
      const pending_ = pending(2)
      await assertCondemned(bench)
      await bench.crash()
      await assertCondemned(bench)
      await bench.store.begin(B, PARTIAL, DIRECTORY, A.hintId)
      expectEqual((await bench.store.read())?.condemned, undefined)
    },
  },
  {
    name: "a partial hint can be condemned, for no server's fault",
    async run(bench) {
      await bench.store.begin(A, PARTIAL, DIRECTORY, undefined)
      await bench.store.updatePartial(A.hintId, 0, partialAt(2))
      await bench.store.condemn(A.hintId, undefined)
      await bench.crash()
      const { store } = bench
      const { condemned, record } = (await store.read())!
      expectEqual([condemned !== undefined, condemned?.culprit], [true, undefined])
      expectEqual(record.manifest, epochOf(1, 2).manifest)
      await refused(store, {
        readPartial: () => store.readPartial(A.hintId),
        putPartial: () => store.putPartial(A.hintId, 1, PARTIAL),
        updatePartial: () => store.updatePartial(A.hintId, 1, partialAt(3)),
        complete: () => store.complete(A.hintId, 1, CHECKPOINT),
      })
    },
  },
  {
    name: 'discard removes what it names',
    async run(bench) {
      const { store } = bench
      await whole(store, 2)
      await refused(store, {
        'of another': () => store.discard(B.hintId),
        'of an unreadable one': () => store.discard(undefined),
      })
      await store.discard(A.hintId)
      expectEqual(await store.read(), undefined)
      await bench.crash()
      expectEqual(await bench.store.read(), undefined)
      await whole(bench.store, 1, B)
      expectEqual((await bench.store.readHint(B.hintId)).entries, effects(0, 1))
    },
  },
  {
    name: 'erase removes whatever there is, a condemned state, too, for good',
    async run(bench) {
      await bench.store.erase()
      expectEqual(await bench.store.read(), undefined)
      await bench.store.begin(A, PARTIAL, DIRECTORY, undefined)
      await bench.store.erase()
      expectEqual(await bench.store.read(), undefined)
      await whole(bench.store, 2)
      await bench.store.condemn(A.hintId, 'https://a.example')
      await bench.store.erase()
      expectEqual(await bench.store.read(), undefined)
      await bench.crash()
      const { store } = bench
      expectEqual(await store.read(), undefined)
      await refused(store, { readHint: () => store.readHint(A.hintId) })
      await whole(store, 1, B)
      expectEqual((await store.readHint(B.hintId)).entries, effects(0, 1))
    },
  },
  {
    name: 'what is stored is the same after a crash, at every stage',
    async run(bench) {
      const steps: ((store: StateStore) => Promise<unknown>)[] = [
        store => store.begin(A, PARTIAL, DIRECTORY, undefined),
        store => store.putPartial(A.hintId, 0, bytes('more', 70)),
        store => store.updatePartial(A.hintId, 0, partialAt(2)),
        store => store.putPartial(A.hintId, 1, bytes('still more', 80)),
        store => store.updatePartial(A.hintId, 1, partialAt(3)),
        store => store.complete(A.hintId, 2, CHECKPOINT),
        store => store.putPending(A.hintId, 2, pending(0)),
        store => store.commit(A.hintId, 2, effect(0)),
        store => store.putPending(A.hintId, 3, pending(1)),
        store => store.putCheckpoint(A.hintId, 3, at(bytes('at 1', 60), 3)),
        store => store.commit(A.hintId, 3, effect(1)),
        store => store.advance(A.hintId, 4, advanceTo(4, 4)),
        store => store.putPending(A.hintId, 5, pending(3)),
        store => store.advance(A.hintId, 5, advanceTo(5, 5, extended(3, 5))),
        store => store.putCheckpoint(A.hintId, 5, at(bytes('at 3', 60), 4)),
        store => store.putPending(A.hintId, 6, extended(3, 5)),
        store => store.commit(A.hintId, 6, effect(4)),
        store => store.putCheckpoint(A.hintId, 7, at(bytes('at 5', 60), 5)),
        store => store.begin(B, PARTIAL, DIRECTORY, A.hintId),
      ]
      for (const step of steps) {
        await step(bench.store)
        const before = await observe(bench.store)
        await bench.crash()
        expectEqual(await observe(bench.store), before, String(step))
        expectEqual(await observe(bench.other), before, String(step))
      }
    },
  },
  {
    name: 'a store keeps copies',
    async run({ store }) {
      /** Hands over copies of these values, and overwrites them afterwards. */
      const lend = async <T extends object>(values: T, call: (lent: T) => Promise<unknown>) => {
        const lent = Object.entries(values).map(([name, value]): [string, Uint8Array] => [name, value.slice()])
        await call(Object.fromEntries(lent) as T)
        for (const [, value] of lent) value.fill(0)
      }
      /** Reads twice, and overwrites what the first has read. */
      const borrow = async <T extends object>(read: () => Promise<T>) => {
        for (const value of Object.values(await read()).flat()) if (value instanceof Uint8Array) value.fill(0)
        return await read()
      }
      const pendingNow = async () => ({ pending: (await store.read())?.pending })

      const [first, second] = [{ partial: PARTIAL, directory: DIRECTORY }, partialAt(2)]
      await lend(first, ({ partial, directory }) => store.begin(A, partial, directory, undefined))
      expectEqual(await borrow(() => store.readPartial(A.hintId)), { version: 0, ...first })
      await lend(second, update => store.updatePartial(A.hintId, 0, update))
      const { manifest, ...updated } = second
      expectEqual(await borrow(() => store.readPartial(A.hintId)), { version: 1, ...updated })
      expectEqual((await store.read())?.record.manifest, manifest)

      await lend({ checkpoint: CHECKPOINT }, ({ checkpoint }) => store.complete(A.hintId, 1, checkpoint))
      expectEqual(await borrow(() => store.readHint(A.hintId)), {
        version: 1,
        ...at(CHECKPOINT, 2),
        entries: [],
        rows: [],
      })
      await lend({ batch: pending(0) }, ({ batch }) => store.putPending(A.hintId, 1, batch))
      expectEqual(await borrow(pendingNow), { pending: pending(0) })
      await lend(advanceTo(3, 1, extended(0, 3)), update => store.advance(A.hintId, 1, update))
      expectEqual(await borrow(pendingNow), { pending: extended(0, 3) })
      expectEqual((await store.read())?.record.manifest, epochOf(1, 3).manifest)
      await lend({ effect: effect(2) }, ({ effect }) => store.commit(A.hintId, 2, effect))
      expectEqual((await borrow(() => store.readHint(A.hintId))).entries, [update(1), effect(2)])
      expectEqual(await borrow(async () => (await store.readEntries(A.hintId, 1))!), [update(1), effect(2)])

      await lend(at(PARTIAL, 3), checkpoint => store.putCheckpoint(A.hintId, 3, checkpoint))
      expectEqual(await borrow(() => store.readHint(A.hintId)), {
        version: 3,
        ...at(PARTIAL, 3),
        entries: [],
        rows: [],
      })
    },
  },
  {
    name: 'values of 4 MiB and of no bytes come back whole',
    async run(bench) {
      const large = bytes('large', 4 * 2 ** 20)
      await bench.store.begin(A, large, large, undefined)
      await bench.store.complete(A.hintId, 0, large)
      await bench.crash()
      const { checkpoint, directory } = await bench.store.readHint(A.hintId)
      if (!sameBytes(checkpoint, large) || !sameBytes(directory, large))
        throw new Error('a large value came back changed')
      const none = new Uint8Array()
      await bench.store.putPending(A.hintId, 0, none)
      await bench.store.commit(A.hintId, 0, none)
      await bench.store.putCheckpoint(A.hintId, 0, { checkpoint: none, manifest: none, directory: none })
      await bench.store.advance(A.hintId, 1, { entry: none, manifest: none, pending: undefined })
      await bench.crash()
      const hint = await bench.store.readHint(A.hintId)
      expectEqual([hint.checkpoint, hint.manifest, hint.directory], [none, none, none])
      expectEqual([hint.entries, (await bench.store.read())?.record.manifest], [[none, none], none])
    },
  },
  {
    name: 'a value takes the place of a longer one, whatever their lengths',
    async run({ store }) {
      const large = bytes('large', 2 ** 21 + 1)
      await store.begin(A, large, DIRECTORY, undefined)
      // Around a MiB, in which IndexedDB's rows are, sealed and unsealed.
      for (const length of [2 ** 22, 2 ** 21 + 1, 2 ** 21, 2 ** 21 - 33, 7]) {
        await store.putPartial(A.hintId, 0, large.slice(0, length))
        const { partial } = await store.readPartial(A.hintId)
        if (!sameBytes(partial, large.subarray(0, length))) throw new Error(`${length} bytes came back changed`)
      }
    },
  },
  {
    name: 'of two handles that commit at once, exactly one wins',
    async run({ store, other }) {
      await whole(store)
      for (let version = 0; version < 10; version++) {
        await store.putPending(A.hintId, version, pending(version))
        const contenders = [bytes('mine', 10), bytes('theirs', 10)]
        const outcomes = await Promise.all([
          outcome(store.commit(A.hintId, version, contenders[0]!)),
          outcome(other.commit(A.hintId, version, contenders[1]!)),
        ])
        expectEqual([...outcomes].sort(), [MOVED, 'fine'])
        const winner = contenders[outcomes.indexOf('fine')]
        expectEqual(await other.readEntries(A.hintId, version), [winner])
      }
    },
  },
  {
    name: 'of two handles that take it to the next epoch at once, exactly one wins; so of one that does and one that commits',
    async run({ store, other }) {
      await store.begin(A, PARTIAL, DIRECTORY, undefined)
      for (let version = 0; version < 10; version++) {
        const contenders = [partialAt(2 + 2 * version), partialAt(3 + 2 * version)]
        const outcomes = await Promise.all([
          outcome(store.updatePartial(A.hintId, version, contenders[0]!)),
          outcome(other.updatePartial(A.hintId, version, contenders[1]!)),
        ])
        expectEqual([...outcomes].sort(), [MOVED, 'fine'])
        const { manifest, partial, directory } = contenders[outcomes.indexOf('fine')]!
        expectEqual((await store.read())?.record.manifest, manifest)
        expectEqual(await other.readPartial(A.hintId), { version: version + 1, partial, directory })
      }
      await store.complete(A.hintId, 10, CHECKPOINT)
      for (let version = 10; version < 20; version += 2) {
        await store.putPending(A.hintId, version, pending(version))
        const outcomes = await Promise.all([
          outcome(store.commit(A.hintId, version, effect(version))),
          outcome(
            other.advance(A.hintId, version, advanceTo(100 + version, version, extended(version, 100 + version))),
          ),
        ])
        expectEqual([...outcomes].sort(), [MOVED, 'fine'])
        const advanced = outcomes[1] === 'fine'
        expectEqual(await store.readEntries(A.hintId, version), [advanced ? update(version) : effect(version)])
        expectEqual((await store.read())?.pending, advanced ? extended(version, 100 + version) : undefined)
        if (!advanced) await store.putPending(A.hintId, version + 1, pending(version + 1))
        await store.commit(A.hintId, version + 1, effect(version + 1))
      }
    },
  },
  {
    name: 'of two handles that put different batches at once, exactly one wins; of the same batch, both do',
    async run({ store, other }) {
      await whole(store)
      for (let version = 0; version < 10; version += 2) {
        const contenders = [bytes('mine', 10), bytes('theirs', 10)]
        const outcomes = await Promise.all([
          outcome(store.putPending(A.hintId, version, contenders[0]!)),
          outcome(other.putPending(A.hintId, version, contenders[1]!)),
        ])
        expectEqual([...outcomes].sort(), [MOVED, 'fine'])
        expectEqual((await store.read())?.pending, contenders[outcomes.indexOf('fine')])
        await store.commit(A.hintId, version, effect(version))

        const same = [store, other].map(handle => handle.putPending(A.hintId, version + 1, pending(version + 1)))
        expectEqual(await Promise.all(same.map(outcome)), ['fine', 'fine'])
        await other.commit(A.hintId, version + 1, effect(version + 1))
      }
    },
  },
  {
    name: 'of two handles that begin at once, exactly one wins',
    async run({ store, other }) {
      await store.begin(A, PARTIAL, DIRECTORY, undefined)
      const outcomes = await Promise.all([
        outcome(store.begin(B, PARTIAL, DIRECTORY, A.hintId)),
        outcome(other.begin(recordOf(3), PARTIAL, DIRECTORY, A.hintId)),
      ])
      expectEqual([...outcomes].sort(), [MOVED, 'fine'])
      expectEqual((await store.read())?.record.hintId, hintId(outcomes[0] === 'fine' ? 2 : 3))
    },
  },
  {
    name: 'a handle that lags behind is refused, and catches up from the journal',
    async run({ store, other }) {
      await whole(store, 1)
      expectEqual((await other.read())?.version, 1)
      await lookUp(store, 1)
      await lookUp(store, 2)
      await refused(other, { 'a batch of version 1': () => other.putPending(A.hintId, 1, bytes('late', 8)) })
      expectEqual(await other.readEntries(A.hintId, 1), effects(1, 3))
      await lookUp(other, 3)
      expectEqual(await store.readEntries(A.hintId, 3), effects(3, 4))
    },
  },
  {
    name: 'putPending by a handle that has not seen what another wrote: beside that, or refused, and never over it',
    async run({ store, other }) {
      await whole(store, 2)
      await other.putCheckpoint(A.hintId, 2, at(bytes('at 2', 60)))
      await store.putPending(A.hintId, 2, pending(2))
      const hint = await store.readHint(A.hintId)
      expectEqual([hint.version, hint.checkpoint, hint.entries], [2, bytes('at 2', 60), []])
      const head = await store.read()
      expectEqual([head?.version, head?.journalBytes, head?.pending], [2, 0, pending(2)])
      await store.commit(A.hintId, 2, effect(2))
      await other.putPending(A.hintId, 3, pending(3))
      await refused(store, { 'another batch': () => store.putPending(A.hintId, 3, bytes('other', 50)) })
      expectEqual((await store.read())?.pending, pending(3))
      await other.commit(A.hintId, 3, effect(3))
      await lookUp(store, 4)
      await other.condemn(A.hintId, undefined)
      await refused(store, { 'a batch for a condemned hint': () => store.putPending(A.hintId, 5, pending(5)) })
      const condemned = await store.read()
      expectEqual([condemned?.condemned, condemned?.pending], [{ culprit: undefined }, undefined])
    },
  },
  {
    name: 'rows are there from before their hint begins until no checkpoint names them',
    async run({ store, other }) {
      const read = (name: string, since?: number) => store.readRow(B.hintId, name, since)
      await whole(store, 1)
      await store.putRow(B.hintId, 'r1', row(1))
      await store.putRow(B.hintId, 'r2', row(2))
      await store.putRow(A.hintId, 'r1', row(3))
      expectEqual(await store.readRow(A.hintId, 'r1', 0), row(3))
      await refused(store, { 'of a hint that has not begun': () => read('r1', 0) })
      await store.begin(B, PARTIAL, DIRECTORY, A.hintId)
      await refused(store, { 'of a half-made hint': () => read('r1', 0) })
      await store.putRow(B.hintId, 'r3', row(4))
      await store.putRow(B.hintId, 'r3', row(4))
      await store.complete(B.hintId, 0, CHECKPOINT, ['r1', 'r3'])
      expectEqual([await read('r1'), await other.readRow(B.hintId, 'r3', 0)], [row(1), row(4)])
      await expectRejection(read('r2', 0), UNREADABLE, 'a row that the stored checkpoint may name')
      await refused(store, {
        'a row of which nothing is known': () => read('r2'),
        'a row of another checkpoint': () => read('r2', 1),
        'of another hint': () => store.readRow(A.hintId, 'r1', 0),
      })
      await lookUp(store, 0, B)
      await store.putRow(B.hintId, 'r4', row(5))
      const checkpoint = { checkpoint: CHECKPOINT, ...epochOf(2) }
      await store.putCheckpoint(B.hintId, 1, checkpoint, ['r3', 'r4'])
      expectEqual([...(await other.readHint(B.hintId)).rows].sort(), ['r3', 'r4'])
      expectEqual([await read('r3', 1), await read('r4', 1)], [row(4), row(5)])
      await refused(store, { 'a row that went': () => read('r1', 0) })
      await expectRejection(read('r1', 1), UNREADABLE)
    },
  },
  {
    name: 'a checkpoint whose rows are not all there is refused, and changes nothing',
    async run({ store }) {
      await store.begin(A, PARTIAL, DIRECTORY, undefined)
      await store.putRow(A.hintId, 'r1', row(1))
      const before = await observe(store)
      await expectRejection(store.complete(A.hintId, 0, CHECKPOINT, ['r1', 'r2']), UNREADABLE)
      expectEqual(await observe(store), before)
      await store.putRow(A.hintId, 'r2', row(2))
      await store.complete(A.hintId, 0, CHECKPOINT, ['r1', 'r2'])
      await lookUp(store, 0)
      const whole = await observe(store)
      await expectRejection(store.putCheckpoint(A.hintId, 1, at(), ['r1', 'r3']), UNREADABLE)
      expectEqual(await observe(store), whole)
      expectEqual(await store.readRow(A.hintId, 'r2', 0), row(2))
    },
  },
  {
    name: 'rows of hints beside the stored one are kept until another begins; a hint’s own go when it is condemned or discarded',
    async run({ store }) {
      const [C, D] = [recordOf(3), recordOf(4)]
      const begin = (record: HintRecord, replaces: Uint8Array | undefined, rows?: readonly string[]) =>
        store.begin(record, PARTIAL, DIRECTORY, replaces, rows)
      await whole(store)
      for (const { hintId } of [A, B, C]) await store.putRow(hintId, 'r1', row(1))
      await store.condemn(A.hintId, undefined)
      await refused(store, { 'a row that is not there': () => begin(B, A.hintId, ['r1', 'r2']) })
      await begin(B, A.hintId, ['r1'])
      await refused(store, { 'rows of which went': () => begin(C, B.hintId, ['r1']) })
      await store.putRow(C.hintId, 'r1', row(1))
      await store.discard(B.hintId)
      await refused(store, {
        'a discarded one’s': () => begin(B, undefined, ['r1']),
        'a condemned one’s': () => begin(A, undefined, ['r1']),
      })
      await begin(C, undefined, ['r1'])
      await store.complete(C.hintId, 0, CHECKPOINT, ['r1'])
      await store.putRow(D.hintId, 'r1', row(1))
      await store.erase()
      await refused(store, { 'all of which went': () => begin(D, undefined, ['r1']) })
    },
  },
  {
    name: 'rows of hints beside the stored one go when they are swept up, its own stay, and nothing else changes',
    async run(bench) {
      const [C, D] = [recordOf(3), recordOf(4)]
      const begin = (record: HintRecord, replaces: Uint8Array | undefined, rows: readonly string[]) =>
        bench.store.begin(record, PARTIAL, DIRECTORY, replaces, rows)
      await whole(bench.store, 1)
      for (const { hintId } of [A, B, C]) await bench.store.putRow(hintId, 'r1', row(1))
      const before = await observe(bench.store)
      await bench.other.sweepRows()
      expectEqual(await observe(bench.store), before)
      expectEqual(await bench.store.readRow(A.hintId, 'r1', undefined), row(1))
      await refused(bench.store, {
        'a row that was swept up': () => begin(B, A.hintId, ['r1']),
        'and another hint’s': () => begin(C, A.hintId, ['r1']),
      })
      await bench.store.putRow(B.hintId, 'r1', row(1))
      await bench.store.putRow(C.hintId, 'r1', row(1))
      for (const { hintId } of [A, C, D]) await bench.other.sweepRows(hintId)
      expectEqual(await bench.store.readRow(A.hintId, 'r1', undefined), row(1))
      await refused(bench.store, { 'a row of the one that was swept up': () => begin(C, A.hintId, ['r1']) })
      await begin(B, A.hintId, ['r1'])
      await bench.store.putRow(B.hintId, 'r2', row(2))
      await bench.store.sweepRows()
      await bench.store.complete(B.hintId, 0, CHECKPOINT, ['r1', 'r2'])
      await bench.store.sweepRows()
      await bench.crash()
      expectEqual([...(await bench.store.readHint(B.hintId)).rows].sort(), ['r1', 'r2'])
      await bench.store.condemn(B.hintId, undefined)
      await bench.store.putRow(C.hintId, 'r1', row(1))
      await bench.store.sweepRows()
      await refused(bench.store, { 'beside a condemned one': () => begin(C, B.hintId, ['r1']) })
      await bench.store.erase()
      await bench.store.putRow(D.hintId, 'r1', row(1))
      await bench.store.sweepRows()
      await refused(bench.store, { 'where nothing is stored': () => begin(D, undefined, ['r1']) })
    },
  },
  {
    name: 'rows that a checkpoint names outlive a crash',
    async run(bench) {
      await bench.store.putRow(A.hintId, 'r1', row(1))
      await bench.store.begin(A, PARTIAL, DIRECTORY, undefined)
      await bench.store.putRow(A.hintId, 'r2', row(2))
      await bench.store.complete(A.hintId, 0, CHECKPOINT, ['r1', 'r2'])
      await bench.crash()
      const read = (name: string) => bench.store.readRow(A.hintId, name, 0)
      expectEqual([await read('r1'), await read('r2')], [row(1), row(2)])
    },
  },
  {
    name: 'condemning against a commit: whichever comes first, it is condemned',
    async run({ store, other }) {
      await whole(store)
      await store.putPending(A.hintId, 0, pending(0))
      await Promise.all([outcome(other.condemn(A.hintId, undefined)), outcome(store.commit(A.hintId, 0, effect(0)))])
      expectEqual((await store.read())?.condemned !== undefined, true)
      await refused(store, { readHint: () => store.readHint(A.hintId) })
    },
  },
]

function sameBytes(a: Uint8Array, b: Uint8Array): boolean {
  return a.length === b.length && a.every((byte, i) => byte === b[i])
}
