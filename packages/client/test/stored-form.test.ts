// The stored form of a large state: of one moment, and the page has its thread back while it is hashed.

import { expect, test } from 'vitest'
import { WORK_BYTES } from '../src/base/constants.js'
import { storedForm } from '../src/scheme/stored-form.js'
import { core } from './support/harness.js'
import { seededRandom } from './support/random.js'

const PARTITIONS = 4
const RECORDS = 4096
const RECORD_BYTES = 256
const BINDING = new Uint8Array(32)

function builder() {
  const layout = core.layout(PARTITIONS * RECORDS, RECORD_BYTES, PARTITIONS, RECORDS)
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
  return { builder, fold }
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
  const form = await storedForm({ core, environment: { pause } as never }, () => made.partial(BINDING))
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
  await expect(storedForm({ core, environment: { pause } as never }, write)).rejects.toThrow('the page has gone')
  expect(freed).toBe(1)
  made.free()
})
