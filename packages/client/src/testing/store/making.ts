// A hint from its beginning until it is whole.

import { expectEqual } from '../expect.js'
import { bytes, epochOf } from '../fixtures.js'
import {
  A,
  advanceTo,
  at,
  B,
  type Case,
  CHECKPOINT,
  DIRECTORY,
  effect,
  effects,
  lookUp,
  PARTIAL,
  partialAt,
  pending,
  refused,
  whole,
} from './bench.js'

export const MAKING: readonly Case[] = [
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
]
