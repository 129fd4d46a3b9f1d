// What was stored comes back as it was.

import { equalBytes } from '@keyhush/protocol'
import type { StateStore } from '../../store/store.js'
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
  extended,
  PARTIAL,
  partialAt,
  pending,
  update,
} from './bench.js'

export const KEEPING: readonly Case[] = [
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
      await lend({ lookup: pending(0) }, ({ lookup }) => store.putPending(A.hintId, 1, lookup))
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
      if (!equalBytes(checkpoint, large) || !equalBytes(directory, large))
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
      const large = bytes('large', 2 ** 19 + 1)
      await store.begin(A, large, DIRECTORY, undefined)
      // Around 512 KiB, in which IndexedDB's rows are, sealed and unsealed.
      for (const length of [2 ** 20, 2 ** 19 + 1, 2 ** 19, 2 ** 19 - 33, 7]) {
        await store.putPartial(A.hintId, 0, large.slice(0, length))
        const { partial } = await store.readPartial(A.hintId)
        if (!equalBytes(partial, large.subarray(0, length))) throw new Error(`${length} bytes came back changed`)
      }
    },
  },
]
