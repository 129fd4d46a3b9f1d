// What is stored in the one format that is read, is read as it was meant, also by later versions of this software; what is
// in another is refused. (For IndexedDB see tests/browsers.)

import { expect, test } from 'vitest'
import { FileStore } from '../../src/store/file.js'
import { MemoryStore } from '../../src/store/memory.js'
import { SealedStore } from '../../src/store/sealed.js'
import { type StateHead, StateUnreadableError, type StoredHint } from '../../src/store/store.js'
import { show } from '../../src/testing/expect.js'
import { bytes, epochOf, observe, recordOf } from '../../src/testing/fixtures.js'
import { format1 } from './format-1.js'
import { format4 } from './format-4.js'
import { SimulatedDisk } from './power.js'

const { hintId } = recordOf(1)
const unhex = (text: string) => new Uint8Array(Buffer.from(text, 'hex'))

/** A store on a folder with these files. */
async function opened(files: Readonly<Record<string, string>>): Promise<FileStore> {
  let disk = new SimulatedDisk()
  for (const [name, text] of Object.entries(files)) disk = disk.with(name, unhex(text))
  return await FileStore.open(disk)
}

/** The state that the files of format 4 hold, made anew. */
async function made(): Promise<string> {
  const store = new MemoryStore({ durable: true })
  await store.begin(recordOf(1), bytes('partial', 40), epochOf(1).directory, undefined)
  await store.complete(hintId, 0, bytes('checkpoint', 60))
  for (let version = 0; version < 2; version++) {
    await store.putPending(hintId, version, bytes(`pending ${version}`, 50))
    await store.commit(hintId, version, bytes(`effect ${version}`, 20))
  }
  await store.advance(hintId, 2, { entry: bytes('update 2', 25), manifest: epochOf(1, 2).manifest, pending: undefined })
  await store.putCheckpoint(hintId, 1, { checkpoint: bytes('at 1', 60), ...epochOf(1) })
  await store.putPending(hintId, 3, bytes('pending 3', 50))
  return show(await observe(store))
}

test('files of format 4', async () => {
  expect(show(await observe(await opened(format4.files)))).toBe(await made())
})

test('sealed values of format 4', async () => {
  const { pending, checkpoint, entries } = format4.sealed
  /** A store that holds those values. */
  class Old extends MemoryStore {
    override async read(): Promise<StateHead> {
      const head = { stage: 'whole', version: 3, journalBytes: 0, condemned: undefined } as const
      return { ...head, record: { ...recordOf(1), manifest: epochOf(1, 2).manifest }, pending: unhex(pending) }
    }
    override async readHint(): Promise<StoredHint> {
      return { version: 1, checkpoint: unhex(checkpoint), ...epochOf(1), entries: entries.map(unhex), rows: [] }
    }
    override async readVerifier(): Promise<undefined> {}
  }
  const key = await crypto.subtle.importKey('raw', unhex(format4.sealed.key), 'AES-GCM', false, ['encrypt', 'decrypt'])
  expect(show(await observe(new SealedStore(new Old(), async () => key)))).toBe(await made())
})

test('files of format 1: unreadable, as of another version; a new state takes their place', async () => {
  const store = await opened(format1.files)
  await expect(store.read()).rejects.toThrow(StateUnreadableError)
  await expect(store.read()).rejects.toThrow('format 1')
  await store.begin(recordOf(2), bytes('partial', 40), epochOf(2).directory, undefined)
  expect((await store.read())?.record.hintId).toEqual(recordOf(2).hintId)
})
