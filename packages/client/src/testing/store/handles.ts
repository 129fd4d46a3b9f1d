// Two handles on one state, as two tabs have.

import { expectEqual, outcome } from '../expect.js'
import { bytes, hintId, recordOf } from '../fixtures.js'
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
  MOVED,
  PARTIAL,
  partialAt,
  pending,
  refused,
  update,
  whole,
} from './bench.js'

export const HANDLES: readonly Case[] = [
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
    name: 'of two handles that put different lookups at once, exactly one wins; of the same lookup, both do',
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
      await refused(other, { 'a lookup of version 1': () => other.putPending(A.hintId, 1, bytes('late', 8)) })
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
      await refused(store, { 'another lookup': () => store.putPending(A.hintId, 3, bytes('other', 50)) })
      expectEqual((await store.read())?.pending, pending(3))
      await other.commit(A.hintId, 3, effect(3))
      await lookUp(store, 4)
      await other.condemn(A.hintId, undefined)
      await refused(store, { 'a lookup for a condemned hint': () => store.putPending(A.hintId, 5, pending(5)) })
      const condemned = await store.read()
      expectEqual([condemned?.condemned, condemned?.pending], [{ culprit: undefined }, undefined])
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
