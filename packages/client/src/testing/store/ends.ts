// How a state ends: condemned, discarded, erased.

import { expectEqual } from '../expect.js'
import { epochOf, observe } from '../fixtures.js'
import {
  A,
  advanceTo,
  at,
  B,
  type Bench,
  type Case,
  CHECKPOINT,
  DIRECTORY,
  effect,
  effects,
  extended,
  PARTIAL,
  partialAt,
  pending,
  refused,
  whole,
} from './bench.js'

export const ENDS: readonly Case[] = [
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
            'advance with a lookup': () => handle.advance(A.hintId, 2, advanceTo(3, 2, extended(2, 3))),
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
]
