// Sealed values in the wrong place, changed, or under another key: unreadable, each of them, never another state.

import { beforeEach, describe, expect, test } from 'vitest'
import { MemoryStore } from '../../src/store/memory.js'
import { newSealingKey, SealedStore } from '../../src/store/sealed.js'
import { type StateHead, type StateStore, StateUnreadableError, type StoredHint } from '../../src/store/store.js'
import { bytes, epochOf, recordOf } from '../../src/testing/fixtures.js'

/** A store on a disk that someone else writes to: what is read passes through their hands. */
class Meddled extends MemoryStore {
  head = (head: StateHead): StateHead => head
  hint = (hint: StoredHint): StoredHint => hint
  partial = (partial: Uint8Array): Uint8Array => partial

  constructor() {
    super({ durable: true })
  }
  override async read() {
    const head = await super.read()
    return head && this.head(head)
  }
  override async readPartial(hintId: Uint8Array) {
    const stored = await super.readPartial(hintId)
    return { ...stored, partial: this.partial(stored.partial) }
  }
  override async readHint(hintId: Uint8Array) {
    return this.hint(await super.readHint(hintId))
  }
  override async readEntries(hintId: Uint8Array, from: number) {
    const { version, entries } = await this.readHint(hintId)
    return entries.slice(from - version)
  }
}

const record = recordOf(1)
const { hintId } = record
const key = await newSealingKey()
let disk: Meddled
let sealed: StateStore

/** Anew, as after a restart: a store that has seen nothing yet. */
const reopened = () => new SealedStore(disk, async () => key)

beforeEach(async () => {
  disk = new Meddled()
  sealed = reopened()
  await sealed.begin(record, bytes('partial', 40), bytes('directory', 30), undefined)
})

async function lookUp(version: number) {
  await sealed.putPending(hintId, version, bytes(`pending ${version}`, 50))
  await sealed.commit(hintId, version, bytes(`effect ${version}`, 20))
}

function flipped(value: Uint8Array, bit: number): Uint8Array {
  const copy = value.slice()
  copy[bit >> 3]! ^= 1 << (bit & 7)
  return copy
}

const unreadable = (work: Promise<unknown>) => expect(work).rejects.toThrow(StateUnreadableError)

describe('a value moved or exchanged', () => {
  beforeEach(async () => {
    await sealed.complete(hintId, 0, bytes('checkpoint', 60))
    for (let version = 0; version < 3; version++) await lookUp(version)
    await sealed.putPending(hintId, 3, bytes('pending 3', 50))
  })

  test('untouched, everything reads', async () => {
    const fresh = reopened()
    expect((await fresh.read())?.pending).toEqual(bytes('pending 3', 50))
    expect((await fresh.readHint(hintId)).entries).toEqual([0, 1, 2].map(i => bytes(`effect ${i}`, 20)))
  })

  const effects = (order: readonly number[]) => (hint: StoredHint) => ({
    ...hint,
    entries: order.map(i => hint.entries[i]!),
  })
  test.each<[string, (hint: StoredHint) => StoredHint]>([
    ['two effects exchanged', effects([1, 0, 2])],
    ['an effect left out', effects([0, 2])],
    ['a checkpoint said to be of another version', hint => ({ ...effects([1, 2])(hint), version: 1 })],
    ['an effect passed off as the checkpoint', hint => ({ ...hint, checkpoint: hint.entries[0]! })],
    ['a checkpoint that was never sealed', hint => ({ ...hint, checkpoint: bytes('checkpoint', 60) })],
    ['no checkpoint', hint => ({ ...hint, checkpoint: new Uint8Array() })],
  ])('%s', async (_what, change) => {
    disk.hint = change
    await unreadable(reopened().readHint(hintId))
    await unreadable(
      reopened()
        .readEntries(hintId, 0)
        .then(() => reopened().readHint(hintId)),
    )
  })

  test.each<[string, (head: StateHead) => StateHead]>([
    ['the parties exchanged', head => ({ ...head, record: { ...record, parties: [...record.parties].reverse() } })],
    [
      'a hint that the fence knows, made out to be one that it does not',
      head => ({
        ...head,
        record: { ...head.record, fenced: [] },
      }),
    ],
  ])('%s', async (_what, change) => {
    disk.head = change
    await unreadable(reopened().read())
    await unreadable(reopened().readHint(hintId))
  })

  test("another hint's values", async () => {
    disk.head = head => ({ ...head, record: { ...record, hintId: recordOf(2).hintId } })
    await unreadable(reopened().read())
  })

  test('a pending lookup moved to another version', async () => {
    disk.head = head => ({ ...head, version: head.version + 1 })
    await unreadable(reopened().read())
    await expect(reopened().putPending(hintId, 3, bytes('pending 3', 50))).rejects.toThrow()
  })

  test('an effect passed off as the pending lookup', async () => {
    const { entries } = await disk.readHint(hintId)
    disk.head = head => ({ ...head, version: 2, pending: entries[2] })
    await unreadable(reopened().read())
  })
})

describe('a value of several pieces', () => {
  const [pieceBytes, aroundBytes, magicBytes] = [2 ** 19, 28, 5]
  const value = bytes('of three pieces', 2 * pieceBytes + 7)
  const start = (piece: number) => magicBytes + piece * (pieceBytes + aroundBytes)
  const read = async () => (await reopened().readPartial(hintId)).partial
  /** the sealed value as stored, changed */
  const changed = (change: (sealed: Uint8Array) => Uint8Array) => {
    disk.partial = change
    return read()
  }
  beforeEach(() => sealed.putPartial(hintId, 0, value))

  test('untouched, it reads', async () => {
    expect(Buffer.compare(await read(), value)).toBe(0)
  })

  test('two exchanged, one left out, one added, the end cut off, a bit changed in any', async () => {
    const parts = (sealed: Uint8Array) => [0, 1, 2].map(piece => sealed.slice(start(piece), start(piece + 1)))
    const joined = (sealed: Uint8Array, order: readonly number[]) =>
      Buffer.concat([sealed.subarray(0, magicBytes), ...order.map(piece => parts(sealed)[piece]!)])
    expect((await changed(sealed => joined(sealed, [0, 1, 2]))).length).toBe(value.length)
    for (const order of [[1, 0, 2], [0, 2], [0, 1], [1, 2], [0, 1, 1, 2], [0, 1, 2, 2], [0], []]) {
      await unreadable(changed(sealed => joined(sealed, order)))
    }
    await unreadable(changed(sealed => sealed.slice(0, -1)))
    await unreadable(changed(sealed => sealed.slice(0, start(2) + 5)))
    for (const piece of [0, 1, 2]) await unreadable(changed(sealed => flipped(sealed, 8 * start(piece) + 77)))
  })

  test('a piece of another value of the same kind and version', async () => {
    let before: Uint8Array = new Uint8Array()
    await changed(sealed => {
      before = sealed
      return sealed
    })
    disk.partial = partial => partial
    await sealed.putPartial(hintId, 0, value)
    for (const piece of [0, 1, 2]) {
      await unreadable(
        changed(sealed => {
          const mixed = sealed.slice()
          mixed.set(before.subarray(start(piece), start(piece + 1)), start(piece))
          return mixed
        }),
      )
    }
  })
})

describe('across an epoch', () => {
  test('a lookup, an update and an effect of before put in the place of those after', async () => {
    await sealed.complete(hintId, 0, bytes('checkpoint', 60))
    await sealed.putPending(hintId, 0, bytes('pending 0', 50))
    const { pending: before } = (await disk.read())!
    const update = { entry: bytes('update 0', 25), manifest: epochOf(1, 2).manifest, pending: bytes('extended', 55) }
    await sealed.advance(hintId, 0, update)
    const { pending: after } = (await disk.read())!
    await sealed.commit(hintId, 1, bytes('effect 1', 20))
    await sealed.putPending(hintId, 2, bytes('pending 2', 50))
    expect((await reopened().readHint(hintId)).entries).toEqual([update.entry, bytes('effect 1', 20)])

    for (const [version, pending] of [
      [1, before],
      [2, before],
      [2, after],
    ] as const) {
      disk.head = head => ({ ...head, version, pending })
      await unreadable(reopened().read())
    }
    disk.head = head => head
    disk.hint = hint => ({ ...hint, entries: [hint.entries[1]!, hint.entries[0]!] })
    await unreadable(reopened().readEntries(hintId, 0))
  })

  test('a half-made hint of before put in the place of the one after', async () => {
    const { partial: before } = await disk.readPartial(hintId)
    await sealed.updatePartial(hintId, 0, { partial: bytes('updated', 45), ...epochOf(1, 2) })
    expect((await reopened().readPartial(hintId)).partial).toEqual(bytes('updated', 45))
    disk.partial = () => before
    await unreadable(reopened().readPartial(hintId))
  })
})

test('any bit flipped, of a partial hint, checkpoint, entry or pending lookup', async () => {
  const bits = (value: Uint8Array) => Array.from({ length: value.length * 8 }, (_, bit) => bit)
  const { partial } = await disk.readPartial(hintId)
  for (const bit of bits(partial)) {
    disk.partial = value => flipped(value, bit)
    await unreadable(reopened().readPartial(hintId))
  }
  await sealed.complete(hintId, 0, bytes('checkpoint', 60))
  await lookUp(0)
  await sealed.putPending(hintId, 1, bytes('pending 1', 50))
  const { checkpoint, entries } = await disk.readHint(hintId)
  for (const bit of bits(checkpoint)) {
    disk.hint = hint => ({ ...hint, checkpoint: flipped(hint.checkpoint, bit) })
    await unreadable(reopened().readHint(hintId))
  }
  for (const bit of bits(entries[0]!)) {
    disk.hint = hint => ({ ...hint, entries: [flipped(hint.entries[0]!, bit)] })
    await unreadable(reopened().readEntries(hintId, 0))
  }
  for (const bit of bits((await disk.read())!.pending!)) {
    disk.head = head => ({ ...head, pending: flipped(head.pending!, bit) })
    await unreadable(reopened().read())
  }
})

describe('a lost key', () => {
  const other = newSealingKey()
  const locked = () => new SealedStore(disk, () => other)

  test('makes the state unreadable; a new hint may take its place', async () => {
    await unreadable(locked().readPartial(hintId))
    await sealed.complete(hintId, 0, bytes('checkpoint', 60))
    await sealed.putPending(hintId, 0, bytes('pending', 50))
    const store = locked()
    await unreadable(store.read())
    await unreadable(store.readHint(hintId))
    await store.begin(recordOf(2), bytes('partial', 40), new Uint8Array(), undefined)
    expect((await store.readPartial(recordOf(2).hintId)).partial).toEqual(bytes('partial', 40))
  })

  test('lets an unreadable state be discarded, and condemned', async () => {
    await sealed.complete(hintId, 0, bytes('checkpoint', 60))
    await sealed.putPending(hintId, 0, bytes('pending', 50))
    await expect(sealed.discard(undefined)).rejects.toThrow('readable')
    await locked().discard(undefined)
    expect(await sealed.read()).toBeUndefined()

    await sealed.begin(record, bytes('partial', 40), new Uint8Array(), undefined)
    await locked().condemn(hintId, undefined)
    expect((await locked().read())?.condemned).toBeDefined()
  })
})

test('nothing secret is stored as it is, and nothing twice the same', async () => {
  const secret = bytes('a secret of some length', 64)
  await sealed.complete(hintId, 0, secret)
  await sealed.putPending(hintId, 0, secret)
  const head = await disk.read()
  await sealed.advance(hintId, 0, { entry: secret, manifest: record.manifest, pending: secret })
  const advanced = await disk.read()
  await sealed.commit(hintId, 1, secret)
  const { checkpoint, manifest, directory, entries } = await disk.readHint(hintId)
  const stored = [checkpoint, ...entries, head!.pending!, advanced!.pending!].map(value => Buffer.from(value))
  for (const value of stored) expect(value.includes(Buffer.from(secret.subarray(0, 8)))).toBe(false)
  expect(new Set(stored.map(value => value.toString('hex'))).size).toBe(5)
  expect({ manifest, directory }).toEqual(epochOf(1))
})
