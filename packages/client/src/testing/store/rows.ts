// Rows of the stored hint, and of hints that are prepared beside it.

import type { HintRecord } from '../../store/store.js'
import { expectEqual, expectRejection } from '../expect.js'
import { epochOf, observe, recordOf } from '../fixtures.js'
import {
  A,
  at,
  B,
  type Case,
  CHECKPOINT,
  DIRECTORY,
  lookUp,
  PARTIAL,
  refused,
  row,
  UNREADABLE,
  whole,
} from './bench.js'

export const ROWS: readonly Case[] = [
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
]
