// Checkpoints, what verifies answers, and the journal between them.

import { expectEqual } from '../expect.js'
import { bytes, epochOf, observe } from '../fixtures.js'
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
  extended,
  lookUp,
  PARTIAL,
  pending,
  refused,
  update,
  whole,
} from './bench.js'

export const CHECKPOINTS: readonly Case[] = [
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
]
