// Client-held tags through the WebAssembly core's interface: a hint's life with stored forms and updates, and what is
// refused. The arithmetic is held to vectors in core.test.ts, and to forgeries in rust-core/core/tests/tags.rs.

import { suiteOf } from '@keyhush/protocol'
import { type ClientHandle, loadCore, type Proofs } from '@keyhush/wasm'
import { utf8ToBytes } from '@noble/hashes/utils.js'
import { expect, test } from 'vitest'
import { commitDatabase, fromStored, layoutHandle, memory, tagsOf } from '../support/wasm.js'
import { stream } from './vectors.js'

const core = await loadCore()
const LAYOUT = { records: 10, recordBytes: 4, partitions: 3, partitionRecords: 4 }
const BINDING = new Uint8Array(32).fill(7)
const NONE = new Uint8Array()
const RECORDS = stream('records', 40)

const bare = () => commitDatabase(core, LAYOUT, RECORDS, 'tags')
type Bare = ReturnType<typeof bare>

/** A hint that was interrupted after each of its partitions, and reopened in the end. */
function hintOf({ contentHashes, partitions }: Bare, entropy: Uint8Array): ClientHandle {
  const layout = layoutHandle(core, LAYOUT)
  let builder = core.newHintBuilder(layout, NONE, contentHashes, entropy, 'tags')
  for (const [q, partition] of partitions.entries()) {
    builder.begin(1, q)
    memory(core, builder.lanePointer(1), partition.length).set(partition)
    builder.absorb(1, partition.length)
    expect(builder.fold(1)).toBe(true)
    const partial = builder.partial(BINDING).take()
    builder.free()
    builder = fromStored(core, partial, form => core.resumeHintBuilder(form, layout, NONE, contentHashes, BINDING))
    expect([builder.proofs, builder.folded]).toEqual(['tags', q + 1])
  }
  const made = builder.finish()
  const client = fromStored(core, made.checkpoint(BINDING).take(), form =>
    core.reopenClient(form, layout, NONE, BINDING),
  )
  expect([client.proofs, client.tagBytes, made.proofs, made.tagBytes]).toEqual(['tags', 8 * 12, 'tags', 8 * 12])
  expect(tagsOf(client)).toEqual(tagsOf(made))
  made.free()
  return client
}

function lookUp(client: ClientHandle, { handle }: Bare, indices: readonly number[]): Uint8Array {
  client.query(Uint32Array.from(indices), crypto.getRandomValues(new Uint8Array(32)))
  expect(client.verify(0, handle.answer(client.retrieveVectors(), suiteOf(client.proofs)))).toBe(true)
  expect(client.verify(1, handle.answer(client.refreshVectors(), suiteOf(client.proofs)))).toBe(true)
  return client.recon()
}

const thrownBy = (work: () => unknown) => {
  try {
    return work()
  } catch (error) {
    return (error as { code?: string }).code
  }
}

test('a hint with tags is interrupted, reopened, follows an update while a batch is pending, and replays it', () => {
  const database = bare()
  const client = hintOf(database, new Uint8Array(32).fill(1))
  const elsewhere = hintOf(database, new Uint8Array(32).fill(1))
  const third = RECORDS.slice(12, 16)
  expect(lookUp(client, database, [3, 9, 3])).toEqual(Uint8Array.of(...third, ...RECORDS.slice(36), ...third))
  elsewhere.replay(client.takeEffect())

  client.query(Uint32Array.of(3), new Uint8Array(32).fill(2))
  const changed = Uint8Array.of(1, 2, 3, 4)
  const records = Uint8Array.of(...changed, ...Array.from({ length: 5 }, () => [9, 9, 9, 9]).flat())
  const epoch = database.handle.applyKeyless(
    Uint8Array.of(2, 1, 1, 1, 1, 1),
    new Uint32Array([3, 0, 0, 0, 0, 0]),
    records,
  )
  const after = database.handle.layout
  expect([after.records, after.partitions]).toEqual([15, 4])
  expect(epoch.list().length).toBe(40 + 6 * 9)
  const entry = client.update(epoch.list(), after, NONE, new Uint8Array(32).fill(3))
  elsewhere.replay(entry)
  expect(tagsOf(elsewhere).length).toBe(8 * 16)

  for (const role of [0, 1] as const) {
    const vectors = role === 0 ? client.retrieveVectors() : client.refreshVectors()
    expect(client.verify(role, database.handle.answer(vectors, suiteOf('tags')))).toBe(true)
  }
  expect(client.recon()).toEqual(changed)
  elsewhere.replay(client.takeEffect())
  expect(elsewhere.checkpoint(BINDING).take()).toEqual(client.checkpoint(BINDING).take())
  expect(lookUp(elsewhere, database, [14, 3, 0])).toEqual(Uint8Array.of(9, 9, 9, 9, ...changed, ...RECORDS.slice(0, 4)))
})

test('a half-made hint with tags follows an update', () => {
  const database = bare()
  const { contentHashes, partitions, handle } = database
  const [before, entropy] = [layoutHandle(core, LAYOUT), new Uint8Array(32).fill(1)]
  const builder = core.newHintBuilder(before, NONE, contentHashes, entropy, 'tags')
  const fold = (q: number, bytes: Uint8Array) => {
    builder.begin(0, q)
    memory(core, builder.lanePointer(0), bytes.length).set(bytes)
    builder.absorb(0, bytes.length)
    expect(builder.fold(0)).toBe(true)
  }
  fold(0, partitions[0]!)
  const epoch = handle.applyKeyless(Uint8Array.of(2, 2), Uint32Array.of(1, 9), Uint8Array.of(1, 1, 1, 1, 2, 2, 2, 2))
  const hashes = Uint8Array.from([0, 1, 2].flatMap(q => [...handle.contentHash(q)]))
  builder.update(epoch.list(), before, handle.layout, NONE, hashes)
  const now = (q: number) => memory(core, handle.recordsPointer() + 16 * q, 16).slice()
  for (const q of [1, 2]) fold(q, now(q))
  const client = builder.finish()
  expect(lookUp(client, database, [1, 9, 4])).toEqual(Uint8Array.of(1, 1, 1, 1, 2, 2, 2, 2, ...RECORDS.slice(16, 20)))
})

test('a forged record condemns, whichever it is', () => {
  const database = bare()
  for (let at = 0; at < 12; at++) {
    const client = hintOf(database, new Uint8Array(32).fill(4))
    client.query(Uint32Array.of(at % 10), new Uint8Array(32).fill(5))
    const forged = database.handle.answer(client.refreshVectors(), suiteOf('tags'))
    forged[at]! ^= 1
    expect([client.verify(1, forged), client.condemned]).toEqual([false, true])
    client.free()
  }
})

test('a directory is brought on by a list', () => {
  const prints = core.fingerprints(utf8ToBytes('abc'), Uint32Array.of(1, 2, 3))
  const directory = core.buildDirectory(prints, 3)
  const before = core.layout(3, 16, 1, 4)
  const database = core.newDatabase(before, 'tags')
  const stored = memory(core, database.recordsPointer(), 48)
  directory.indices(prints, 3).forEach((index, i) => void stored.set(prints.slice(16 * i, 16 * i + 16), 16 * index))
  database.commit(0)
  const changes = core.fingerprints(utf8ToBytes('bd'), Uint32Array.of(1, 2)) // b goes, d comes
  const epoch = database.applyKeyed(directory, Uint8Array.of(3, 1), changes, changes)
  const expected = epoch.takeDirectory()!.encode()
  expect(directory.updated(epoch.list(), before, database.layout).encode()).toEqual(expected)
})

test('what a database or a hint does not have, or has no name, is refused with a code', () => {
  const { handle, contentHashes, commitments } = bare()
  const layout = layoutHandle(core, LAYOUT)
  const unknown = 'snarks' as Proofs
  const entropy = new Uint8Array(32)
  expect(commitments).toEqual(new Uint8Array(96))
  expect(thrownBy(() => handle.answer(new Uint8Array(6)))).toBe('phase')
  expect(thrownBy(() => handle.answer(new Uint8Array(6), suiteOf('merkle')))).toBe('phase')
  expect(thrownBy(() => handle.answer(new Uint8Array(6), 7))).toBe('phase')
  expect(thrownBy(() => core.newDatabase(layout, unknown))).toBe('index')
  expect(thrownBy(() => layout.entryBytes(unknown))).toBe('index')
  expect(thrownBy(() => core.newHintBuilder(layout, commitments, contentHashes, entropy, unknown))).toBe('index')
  expect(thrownBy(() => core.newHintBuilder(layout, NONE, contentHashes, entropy))).toBe('length')
  expect(core.newHintBuilder(layout, commitments, contentHashes, entropy).proofs).toBe('merkle')
})
