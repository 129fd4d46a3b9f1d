// Each stored form has a version, and each version one layout: what is written in a version never changes. A form that
// changes without its version would be read by other releases as what it is not.

import { createHash } from 'node:crypto'
import { toHex } from '@keyhush/protocol'
import { expect, test } from 'vitest'
import { FileStore } from '../../src/store/file.js'
import { FORMAT, toRow } from '../../src/store/head.js'
import { DATABASE, ROW, ROW_BYTES, rowKey, SCHEMA_VERSION, STORES } from '../../src/store/indexeddb/schema.js'
import { MemoryStore } from '../../src/store/memory.js'
import type { StoredHead } from '../../src/store/rules.js'
import { newSealingKey, SealedStore } from '../../src/store/sealed.js'
import { bytes, epochOf, recordOf } from '../../src/testing/fixtures.js'
import { SimulatedDisk } from './power.js'

/** Hashes of the layouts, by version. Lines are added, never changed. */
const HEADS: Record<number, string> = { 4: 'a28aae47974944a6' }
const FILES: Record<number, string> = { 4: 'da780fd921eac7d3' }
const DATABASES: Record<number, string> = { 2: '097173383d20b625', 3: 'c7317dac4f0a8329' }

/** Expects `layout` to be the one of this version. */
function hold(layouts: Record<number, string>, version: number, layout: string, form: string, where: string): void {
  const hash = createHash('sha256').update(layout).digest('hex').slice(0, 16)
  const what = version in layouts ? 'has changed, and its version has not' : `has no hash for version ${version} yet`
  const raise = version in layouts ? `raise ${where}, say there what changed, and ` : ''
  expect(
    hash,
    `${form} ${what}: ${raise}add the line \`${version in layouts ? version + 1 : version}: '${hash}'\` here`,
  ).toBe(layouts[version])
}

/** With every field there is: one that is added has to be added here, or this does not compile. */
type Complete<T> = T extends Uint8Array
  ? T
  : T extends object
    ? { readonly [K in keyof T]-?: Complete<Exclude<T[K], undefined>> }
    : T

const record = { ...recordOf(1), signature: bytes('signature', 64) }
const head: Complete<StoredHead> = {
  record,
  stage: 'whole',
  version: 5,
  checkpointVersion: 3,
  journalBytes: 40,
  pending: bytes('pending', 50),
  condemned: { culprit: 'https://a.example' },
}

/** Names and kinds of a value's parts, in the order of the names. */
function shapeOf(value: unknown): unknown {
  if (value instanceof Uint8Array) return 'bytes'
  if (Array.isArray(value)) return [shapeOf(value[0])]
  if (typeof value !== 'object' || value === null) return typeof value
  const parts = Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1))
  return parts.map(([name, part]) => [name, shapeOf(part)])
}

test('the head', () => {
  hold(HEADS, FORMAT, JSON.stringify(shapeOf(toRow(head))), 'the stored head', 'FORMAT in src/store/head.ts')
})

test('the files of the file store', async () => {
  const disk = new SimulatedDisk()
  const store = await FileStore.open(disk)
  const { hintId } = record
  const seen: string[] = []
  const look = async () => {
    for (const name of [...(await disk.list())].sort()) seen.push(`${name} ${toHex((await disk.read(name))!)}`)
  }
  await store.begin(record, bytes('partial', 40), epochOf(1).directory, undefined)
  await store.putRow(hintId, 'r1', bytes('row', 64))
  await look()
  await store.complete(hintId, 0, bytes('checkpoint', 60), ['r1'])
  await store.putPending(hintId, 0, bytes('pending', 50))
  await store.commit(hintId, 0, bytes('effect', 20))
  await store.advance(hintId, 1, { entry: bytes('update', 25), manifest: epochOf(1, 2).manifest, pending: undefined })
  await store.putVerifier(hintId, bytes('verifier', 70))
  await store.putPending(hintId, 2, bytes('pending', 50))
  await look()
  hold(FILES, FORMAT, seen.join('\n'), 'a file of the file store', 'FORMAT in src/store/head.ts')
})

test('the IndexedDB database', () => {
  const key = ['servers', 'hint', 'checkpoint', 1] satisfies Parameters<typeof rowKey>[0]
  const layout = [DATABASE, STORES, ROW, ROW_BYTES, rowKey(key, 0), rowKey(key, 1)]
  const where = 'SCHEMA_VERSION in src/store/indexeddb/schema.ts'
  hold(DATABASES, SCHEMA_VERSION, JSON.stringify(layout), 'the IndexedDB database', where)
})

/** Version 2: the magic; then of each piece of 512 KiB a nonce of 12 bytes, and the ciphertext with its tag of 16. */
test.each([
  ['of one piece', 40],
  ['of two pieces', 2 ** 19 + 5],
])('a sealed value %s', async (_, length) => {
  const key = await newSealingKey()
  const disk = new MemoryStore({ durable: true })
  const value = bytes('partial', length)
  await new SealedStore(disk, async () => key).begin(record, value, bytes('directory', 30), undefined)
  const { partial: sealed } = await disk.readPartial(record.hintId)
  const changed =
    'the sealed form has changed: raise the last byte of MAGIC in src/store/sealed.ts, and describe the new form here'
  expect(new TextDecoder().decode(sealed.subarray(0, 5)), changed).toBe('PIRs\x02')
  const pieces: number[] = []
  const firstNonce = toHex(sealed.subarray(5, 17))
  const count = Math.ceil(length / 2 ** 19)
  const bound = ['keyhush', 'partial', 0, toHex(record.hintId), record.scheme, record.parties, record.fenced]
  for (let piece = 0, at = 5; piece < count; piece++, at += 28 + 2 ** 19) {
    const place = count === 1 ? [] : [piece, count, piece === 0 ? '' : firstNonce]
    const additionalData = new TextEncoder().encode(JSON.stringify([...bound, ...place]))
    const parameters = { name: 'AES-GCM', iv: sealed.slice(at, at + 12), additionalData }
    const opened = await crypto.subtle
      .decrypt(parameters, key, sealed.slice(at + 12, at + 28 + 2 ** 19))
      .catch((cause: unknown) => Promise.reject(new Error(changed, { cause })))
    for (const byte of new Uint8Array(opened)) pieces.push(byte)
  }
  expect(pieces.length === length && pieces.every((byte, i) => byte === value[i]), changed).toBe(true)
})
