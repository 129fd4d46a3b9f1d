// What lookups and epochs do to a whole hint.

import { expectEqual, show } from '../expect.js'
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
  partialAt,
  pending,
  refused,
  update,
  whole,
} from './bench.js'

export const CHANGES: readonly Case[] = [
  {
    name: 'putPending keeps one lookup: the same bytes again are no change, others are refused',
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
    name: 'commit takes the lookup, keeps its effect and moves the version on, all at once',
    async run({ store }) {
      await whole(store)
      await refused(store, { 'without a lookup': () => store.commit(A.hintId, 0, effect(0)) })
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
        // A caller that knows version 6 has seen the store further on: it was set back.
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
        'with a lookup, where none is pending': () => store.advance(A.hintId, 2, advanceTo(2, 2, pending(2))),
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
        'a lookup of the epoch before': () => other.putPending(A.hintId, 2, pending(2)),
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
    name: 'advance replaces a pending lookup by its extension, in the same step',
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
        'the lookup as it was': () => other.putPending(A.hintId, 1, pending(1)),
        'the lookup as it was, at the new version': () => other.putPending(A.hintId, 2, pending(1)),
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
]
