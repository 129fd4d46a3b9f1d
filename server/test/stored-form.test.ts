// What a server stores, byte for byte. Other bytes need another FORMAT, so that no version misreads the store of another.

import { toHex } from '@keyhush/protocol'
import { blake3 } from '@noble/hashes/blake3.js'
import { expect, test } from 'vitest'
import { FORMAT } from '../dist/database/stored-values.js'
import { listed } from './helpers.js'
import { batchOn, KEYED, opened, storageOf } from './updatable-helpers.js'

/** Of all that the test below stores, by FORMAT. */
const HASHES: Readonly<Record<number, string>> = {
  7: '6c5ee6d890491e5b877dc02960fb45652a33ee728904c5784c2715cb9064b10b',
}

test('what is stored has the form that FORMAT numbers', async () => {
  const storage = await storageOf('a.csv', KEYED, { maxValueBytes: 20 })
  const clock = { now: () => 1_700_000_000, elapsed: () => 0 }
  const updatable = await opened(storage, { now: clock.now, fence: clock })
  const { databaseId } = updatable
  await updatable.publish(batchOn(updatable, [{ op: 'edit', key: 'one', value: 'another' }]))
  await updatable.publish(batchOn(updatable, [{ op: 'generation', headroom: 100 }]))
  await updatable.publish(batchOn(updatable, [{ op: 'add', key: 'four', value: 'fourth' }]))
  const [first, second] = [1, 2].map(byte => new Uint8Array(16).fill(byte)) as [Uint8Array, Uint8Array]
  const request = { databaseId, version: 1, requestHash: new Uint8Array(32).fill(3) }
  for (const hintId of [first, second])
    await updatable.fence.judge({ ...request, kind: 'register', version: 0, hintId })
  await updatable.fence.judge({ ...request, kind: 'confirm', hintId: first })

  const entries = await listed(storage, '')
  const kinds = 'batch chunk directory fence fence-day fence-new generation head list manifest'
  expect([...new Set(entries.map(([key]) => key.split('/')[0]!))].sort().join(' ')).toBe(kinds)
  const text = entries.map(([key, value]) => `${key} ${toHex(value)}\n`).join('')
  const hash = toHex(blake3(new TextEncoder().encode(text)))
  const way = 'what is stored has changed: raise FORMAT in server/src/database/stored-values.ts, and note the hash here'
  expect({ FORMAT, hash }, way).toEqual({ FORMAT, hash: HASHES[FORMAT] })
})
