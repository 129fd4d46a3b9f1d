// What every store must do, whatever it is made of: the laws of store.ts, one case each. Runs in Node and in pages.

import type { HintRecord, StateStore } from '../../src/store/store.js'
import { expectEqual, expectRejection, outcome } from './expect.js'
import { bytes, hintId, observe, recordOf } from './fixtures.js'

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
const A = recordOf(1)
const B = recordOf(2)
const [PARTIAL, CHECKPOINT, DIRECTORY] = [bytes('partial', 40), bytes('checkpoint', 60), bytes('directory', 30)]

/** Hint A, whole, with `versions` effects. */
async function whole(store: StateStore, versions = 0, record: HintRecord = A): Promise<void> {
  await store.begin(record, PARTIAL, DIRECTORY, undefined)
  await store.complete(record.hintId, CHECKPOINT)
  for (let version = 0; version < versions; version++) await lookUp(store, version, record)
}

async function lookUp(store: StateStore, version: number, record: HintRecord = A): Promise<void> {
  await store.putPending(record.hintId, version, pending(version))
  await store.commit(record.hintId, version, effect(version))
}

const pending = (version: number) => bytes(`pending ${version}`, 50)
const effect = (version: number) => bytes(`effect ${version}`, 20 + version)
const effects = (from: number, to: number) => Array.from({ length: to - from }, (_, i) => effect(from + i))

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
        readEffects: () => store.readEffects(A.hintId, 0),
        'begin in place of another': () => store.begin(A, PARTIAL, DIRECTORY, B.hintId),
        putPartial: () => store.putPartial(A.hintId, PARTIAL),
        complete: () => store.complete(A.hintId, CHECKPOINT),
        putPending: () => store.putPending(A.hintId, 0, pending(0)),
        commit: () => store.commit(A.hintId, 0, effect(0)),
        putCheckpoint: () => store.putCheckpoint(A.hintId, 0, CHECKPOINT),
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
      const { hintId, retrieveServer, refreshServer, manifest } = record
      expectEqual({ hintId, retrieveServer, refreshServer, manifest }, A)
      expectEqual(await store.readPartial(A.hintId), { partial: PARTIAL, directory: DIRECTORY })
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
      expectEqual(await store.readPartial(B.hintId), { partial: bytes('new partial', 9), directory: bytes('', 0) })
      await refused(store, {
        readHint: () => store.readHint(A.hintId),
        readEffects: () => store.readEffects(A.hintId, 0),
        putPending: () => store.putPending(A.hintId, 3, pending(3)),
        condemn: async () => {
          await store.condemn(A.hintId, undefined)
          return store.readHint(A.hintId)
        },
        discard: () => store.discard(A.hintId),
      })
    },
  },
  {
    name: 'putPartial replaces the partial hint, until the hint is whole',
    async run({ store }) {
      await store.begin(A, PARTIAL, DIRECTORY, undefined)
      await refused(store, {
        'putPartial of another hint': () => store.putPartial(B.hintId, PARTIAL),
        'putPending of a partial hint': () => store.putPending(A.hintId, 0, pending(0)),
        'commit to a partial hint': () => store.commit(A.hintId, 0, effect(0)),
        'putCheckpoint of a partial hint': () => store.putCheckpoint(A.hintId, 0, CHECKPOINT),
        'readHint of a partial hint': () => store.readHint(A.hintId),
        'readEffects of a partial hint': () => store.readEffects(A.hintId, 0),
      })
      await store.putPartial(A.hintId, bytes('more', 70))
      expectEqual(await store.readPartial(A.hintId), { partial: bytes('more', 70), directory: DIRECTORY })
      await store.complete(A.hintId, CHECKPOINT)
      await refused(store, {
        putPartial: () => store.putPartial(A.hintId, PARTIAL),
        readPartial: () => store.readPartial(A.hintId),
        complete: () => store.complete(A.hintId, CHECKPOINT),
      })
    },
  },
  {
    name: 'complete makes a whole hint, without effects',
    async run({ store }) {
      await store.begin(A, PARTIAL, DIRECTORY, undefined)
      await refused(store, { 'complete of another hint': () => store.complete(B.hintId, CHECKPOINT) })
      await store.complete(A.hintId, CHECKPOINT)
      expectEqual((await store.read())?.stage, 'whole')
      const { version, checkpoint, effects, directory } = await store.readHint(A.hintId)
      expectEqual(
        { version, checkpoint, effects, directory },
        { version: 0, checkpoint: CHECKPOINT, effects: [], directory: DIRECTORY },
      )
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
      expectEqual((await store.readHint(A.hintId)).effects, effects(0, 1))
      await refused(store, { again: () => store.commit(A.hintId, 0, effect(0)) })
    },
  },
  {
    name: 'readEffects hands over what follows a version, or says that a checkpoint has replaced it',
    async run({ store }) {
      await whole(store, 5)
      expectEqual(await store.readEffects(A.hintId, 0), effects(0, 5))
      expectEqual(await store.readEffects(A.hintId, 3), effects(3, 5))
      expectEqual(await store.readEffects(A.hintId, 5), [])
      await refused(store, {
        // Whoever knows of version 6 has seen this store further on than it is: it went backwards.
        'beyond the newest': () => store.readEffects(A.hintId, 6),
        'of another hint': () => store.readEffects(B.hintId, 0),
      })
      await store.putCheckpoint(A.hintId, 3, CHECKPOINT)
      expectEqual(await store.readEffects(A.hintId, 2), undefined)
      expectEqual(await store.readEffects(A.hintId, 3), effects(3, 5))
    },
  },
  {
    name: 'putCheckpoint replaces the effects before it, and nothing else',
    async run({ store }) {
      await whole(store, 5)
      await store.putPending(A.hintId, 5, pending(5))
      await store.putCheckpoint(A.hintId, 3, bytes('at 3', 60))
      let hint = await store.readHint(A.hintId)
      expectEqual([hint.version, hint.checkpoint, hint.effects], [3, bytes('at 3', 60), effects(3, 5)])
      expectEqual(hint.directory, DIRECTORY)
      expectEqual((await store.read())?.pending, pending(5))
      await refused(store, {
        'older than the newest checkpoint': () => store.putCheckpoint(A.hintId, 2, CHECKPOINT),
        'beyond the newest version': () => store.putCheckpoint(A.hintId, 6, CHECKPOINT),
        'of another hint': () => store.putCheckpoint(B.hintId, 4, CHECKPOINT),
      })
      await store.putCheckpoint(A.hintId, 3, bytes('again at 3', 60))
      await store.commit(A.hintId, 5, effect(5))
      await store.putCheckpoint(A.hintId, 6, bytes('at 6', 60))
      hint = await store.readHint(A.hintId)
      expectEqual([hint.version, hint.checkpoint, hint.effects], [6, bytes('at 6', 60), []])
      expectEqual((await store.read())?.journalBytes, 0)
    },
  },
  {
    name: 'journalBytes counts the effects since the newest checkpoint',
    async run({ store }) {
      await whole(store, 2)
      const two = (await store.read())!.journalBytes
      await lookUp(store, 2)
      const three = (await store.read())!.journalBytes
      await store.putCheckpoint(A.hintId, 2, CHECKPOINT)
      expectEqual((await store.read())!.journalBytes, three - two)
    },
  },
  {
    name: 'condemn is for good: its secrets go, nothing is written or read, until another hint takes its place',
    async run(bench) {
      const { store } = bench
      await whole(store, 2)
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
            { condemned, pending, hintId: record.hintId, journalBytes },
            {
              condemned: { culprit: 'https://a.example' },
              pending: undefined,
              hintId: A.hintId,
              journalBytes: 0,
            },
          )
          await refused(handle, {
            readHint: () => handle.readHint(A.hintId),
            readEffects: () => handle.readEffects(A.hintId, 2),
            putPending: () => handle.putPending(A.hintId, 2, pending_),
            commit: () => handle.commit(A.hintId, 2, effect(2)),
            putCheckpoint: () => handle.putCheckpoint(A.hintId, 2, CHECKPOINT),
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
      await bench.store.condemn(A.hintId, undefined)
      await bench.crash()
      const { store } = bench
      const { condemned } = (await store.read())!
      expectEqual([condemned !== undefined, condemned?.culprit], [true, undefined])
      await refused(store, {
        readPartial: () => store.readPartial(A.hintId),
        putPartial: () => store.putPartial(A.hintId, PARTIAL),
        complete: () => store.complete(A.hintId, CHECKPOINT),
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
      expectEqual((await bench.store.readHint(B.hintId)).effects, effects(0, 1))
    },
  },
  {
    name: 'what is stored is the same after a crash, at every stage',
    async run(bench) {
      const steps: ((store: StateStore) => Promise<unknown>)[] = [
        store => store.begin(A, PARTIAL, DIRECTORY, undefined),
        store => store.putPartial(A.hintId, bytes('more', 70)),
        store => store.complete(A.hintId, CHECKPOINT),
        store => store.putPending(A.hintId, 0, pending(0)),
        store => store.commit(A.hintId, 0, effect(0)),
        store => store.putPending(A.hintId, 1, pending(1)),
        store => store.putCheckpoint(A.hintId, 1, bytes('at 1', 60)),
        store => store.commit(A.hintId, 1, effect(1)),
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
      const [partial, checkpoint, directory] = [PARTIAL.slice(), CHECKPOINT.slice(), DIRECTORY.slice()]
      await store.begin(A, partial, directory, undefined)
      partial.fill(0)
      directory.fill(0)
      expectEqual(await store.readPartial(A.hintId), { partial: PARTIAL, directory: DIRECTORY })
      await store.complete(A.hintId, checkpoint)
      const mine = pending(0)
      await store.putPending(A.hintId, 0, mine)
      mine.fill(0)
      expectEqual((await store.read())?.pending, pending(0))
      ;(await store.read())!.pending!.fill(0)
      expectEqual((await store.read())?.pending, pending(0))
      ;(await store.readHint(A.hintId)).checkpoint.fill(0)
      checkpoint.fill(0)
      expectEqual((await store.readHint(A.hintId)).checkpoint, CHECKPOINT)
    },
  },
  {
    name: 'values of 4 MiB and of no bytes come back whole',
    async run(bench) {
      const large = bytes('large', 4 * 2 ** 20)
      await bench.store.begin(A, large, large, undefined)
      await bench.store.complete(A.hintId, large)
      await bench.crash()
      const { checkpoint, directory } = await bench.store.readHint(A.hintId)
      if (!sameBytes(checkpoint, large) || !sameBytes(directory, large))
        throw new Error('a large value came back changed')
      const none = new Uint8Array()
      await bench.store.putPending(A.hintId, 0, none)
      await bench.store.commit(A.hintId, 0, none)
      await bench.store.putCheckpoint(A.hintId, 0, none)
      await bench.crash()
      const hint = await bench.store.readHint(A.hintId)
      expectEqual([hint.checkpoint, hint.effects], [none, [none]])
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
        expectEqual(await other.readEffects(A.hintId, version), [winner])
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
      expectEqual(await other.readEffects(A.hintId, 1), effects(1, 3))
      await lookUp(other, 3)
      expectEqual(await store.readEffects(A.hintId, 3), effects(3, 4))
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
