// The stored form of a large state: of one moment, and the page has its thread back while it is hashed, on its way out and in.

import { expect, test } from 'vitest'
import { WORK_BYTES } from '../src/base/constants.js'
import { fromStored, makeRoom, storedForm } from '../src/scheme/stored-form.js'
import { StateUnreadableError } from '../src/store/store.js'
import { core } from './support/harness.js'
import { seededRandom } from './support/random.js'

const PARTITIONS = 4
const RECORDS = 4096
const RECORD_BYTES = 256
const BINDING = new Uint8Array(32)

function layoutOf() {
  return core.layout(PARTITIONS * RECORDS, RECORD_BYTES, PARTITIONS, RECORDS)
}

function builder() {
  const layout = layoutOf()
  const partition = seededRandom(1)(RECORDS * RECORD_BYTES)
  const hash = core.blake3(partition)
  const hashes = new Uint8Array(Buffer.concat(Array<Uint8Array>(PARTITIONS).fill(hash)))
  const builder = core.newHintBuilder(layout, new Uint8Array(32 * PARTITIONS), hashes, seededRandom(2)(32), 'tags')
  layout.free()
  const fold = (q: number) => {
    builder.begin(0, q)
    new Uint8Array(core.memory.buffer, builder.lanePointer(0), partition.length).set(partition)
    builder.absorb(0, partition.length)
    expect(builder.fold(0)).toBe(true)
  }
  return { builder, fold, hashes }
}

test('is what it was when it was asked for, however much it is changed while it is hashed', async () => {
  const { builder: made, fold } = builder()
  fold(0)
  const before = made.partial(BINDING).take()
  let pauses = 0
  const pause = async () => {
    pauses += 1
    if (pauses < PARTITIONS) fold(pauses)
  }
  const form = await storedForm({ core, environment: { pause } as never }, {}, () => made.partial(BINDING))
  expect(Buffer.compare(form, before)).toBe(0)
  // All but the checksum is hashed.
  expect(pauses).toBe(Math.ceil((before.length - 16) / WORK_BYTES) - 1)
  expect(pauses).toBeGreaterThan(3)
  const after = made.partial(BINDING).take()
  expect(Buffer.compare(after, before)).not.toBe(0)
  made.free()
})

test('of a download that has yet to begin is small: it waits for that to be stored', async () => {
  const { builder: made } = builder()
  expect(made.partial(BINDING).take().length).toBeLessThan(512)
  made.free()
})

test('is freed if something fails meanwhile', async () => {
  const { builder: made, fold } = builder()
  fold(0)
  let freed = 0
  const pause = () => Promise.reject(new Error('the page has gone'))
  const write = () => {
    const form = made.partial(BINDING)
    const free = form.free.bind(form)
    form.free = () => {
      freed += 1
      free()
    }
    return form
  }
  await expect(storedForm({ core, environment: { pause } as never }, {}, write)).rejects.toThrow('the page has gone')
  expect(freed).toBe(1)
  made.free()
})

test('is handed back in pieces, and read when all of it is there', async () => {
  const { builder: made, fold, hashes } = builder()
  fold(0)
  const stored = made.partial(BINDING).take()
  made.free()
  let pauses = 0
  const pause = async () => {
    pauses += 1
  }
  const context = { core, environment: { pause } as never }
  const read = (bytes: Uint8Array) =>
    fromStored(context, bytes, form => {
      const layout = layoutOf()
      const builder = core.resumeHintBuilder(form, layout, new Uint8Array(32 * PARTITIONS), hashes, BINDING)
      layout.free()
      return builder
    })
  const again = await read(stored)
  expect(pauses).toBe(Math.ceil(stored.length / WORK_BYTES))
  expect(again.isFolded(0)).toBe(true)
  expect(Buffer.compare(again.partial(BINDING).take(), stored)).toBe(0)
  again.free()
  for (const at of [0, WORK_BYTES - 1, WORK_BYTES, stored.length - 17, stored.length - 1]) {
    const torn = stored.slice()
    torn[at]! ^= 1
    await expect(read(torn)).rejects.toThrow(StateUnreadableError)
  }
  await expect(read(stored.subarray(1))).rejects.toThrow(StateUnreadableError)
  await expect(read(new Uint8Array())).rejects.toThrow(StateUnreadableError)
})

test('finds memory that came step by step, and has been given back', async () => {
  const MIB = 2 ** 20
  let [pauses, freed] = [0, 0]
  const watched = {
    ...core,
    newRoom(bytes: number) {
      const room = core.newRoom(bytes)
      const free = room.free.bind(room)
      room.free = () => {
        freed += 1
        free()
      }
      return room
    },
  }
  const pause = async () => {
    pauses += 1
  }
  const context = { core: watched, environment: { pause } as never }
  await makeRoom(context, { hints: MIB, tags: 2 * MIB })
  expect([pauses, freed]).toEqual([0, 0]) // not worth it
  await makeRoom(context, { hints: 8 * MIB, tags: 24 * MIB })
  expect([pauses, freed]).toEqual([31, 1])
  const size = core.memory.buffer.byteLength
  await makeRoom(context, { hints: 31 * MIB })
  expect(core.memory.buffer.byteLength).toBe(size)
  await makeRoom(context, { hints: 4096 * MIB - 1 }) // whatever needs it will say that it cannot be had
  expect([pauses, freed]).toEqual([61, 3])
})
