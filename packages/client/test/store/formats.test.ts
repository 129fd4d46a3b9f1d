// What older versions of this software have stored is read as it was meant. (For IndexedDB see tests/store-browser.)

import { expect, test } from 'vitest'
import { FileStore } from '../../src/store/file.js'
import { MemoryStore } from '../../src/store/memory.js'
import { SealedStore } from '../../src/store/sealed.js'
import type { StateHead, StoredHint } from '../../src/store/store.js'
import { show } from './expect.js'
import { bytes, observe, recordOf } from './fixtures.js'
import { format1 } from './format-1.js'
import { SimulatedDisk } from './power.js'

const { hintId } = recordOf(1)
const unhex = (text: string) => new Uint8Array(Buffer.from(text, 'hex'))

/** The same state, made anew. */
async function made(): Promise<string> {
  const store = new MemoryStore({ durable: true })
  await store.begin(recordOf(1), bytes('partial', 40), bytes('directory', 30), undefined)
  await store.complete(hintId, bytes('checkpoint', 60))
  for (let version = 0; version < 3; version++) {
    await store.putPending(hintId, version, bytes(`pending ${version}`, 50))
    await store.commit(hintId, version, bytes(`effect ${version}`, 20))
  }
  await store.putCheckpoint(hintId, 1, bytes('at 1', 60))
  await store.putPending(hintId, 3, bytes('pending 3', 50))
  return show(await observe(store))
}

test('files of format 1', async () => {
  let disk = new SimulatedDisk()
  for (const [name, text] of Object.entries(format1.files)) disk = disk.with(name, unhex(text))
  const store = await FileStore.open(disk, { self: '1.start.host', isAlive: async () => false })
  expect(show(await observe(store))).toBe(await made())
})

test('sealed values of format 1', async () => {
  const { pending, checkpoint, effects } = format1.sealed
  /** A store that holds those values. */
  class Old extends MemoryStore {
    override async read(): Promise<StateHead> {
      const head = { stage: 'whole', version: 3, journalBytes: 0, condemned: undefined } as const
      return { ...head, record: recordOf(1), pending: unhex(pending) }
    }
    override async readHint(): Promise<StoredHint> {
      return {
        version: 1,
        checkpoint: unhex(checkpoint),
        effects: effects.map(unhex),
        directory: bytes('directory', 30),
      }
    }
  }
  const key = await crypto.subtle.importKey('raw', unhex(format1.sealed.key), 'AES-GCM', false, ['encrypt', 'decrypt'])
  expect(show(await observe(new SealedStore(new Old(), async () => key)))).toBe(await made())
})
