// The model's ledger against the SDK's own store, on random schedules of calls: both accept the same writes with the same head,
// and refuse the same.

import { MemoryStore, type StateStore } from '@keyhush/client/environment'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { Model, perform, schedule } from '../../packages/client/test/store/schedules.js'
import { after, DURABILITY, type Head, hexOf, isWrite, type Write } from './ledger.js'

/** Notes the call, and makes it. */
function noting(store: StateStore, note: (write: Write) => void): StateStore {
  return new Proxy(store, {
    get: (store, method: keyof StateStore) => {
      const member = store[method]
      if (typeof member !== 'function') return member
      return (...parameters: unknown[]) => {
        if (isWrite(method)) note({ method, parameters } as Write)
        return (member as (...all: unknown[]) => unknown).apply(store, parameters)
      }
    },
  })
}

async function headOf(store: StateStore): Promise<Head | undefined> {
  const head = await store.read()
  if (head === undefined) return undefined
  const { record, stage, version, pending, condemned } = head
  const [hint, manifest] = [hexOf(record.hintId), hexOf(record.manifest)]
  return { hint, manifest, stage, version, pending, condemned: condemned !== undefined }
}

test('the ledger and the store agree on 1000 random schedules', async () => {
  const accepted = new Map<string, number>()
  const property = fc.asyncProperty(schedule, async steps => {
    const disk = new MemoryStore({ durable: true })
    const model = new Model()
    let head: Head | undefined
    for (const step of steps) {
      let write: Write | undefined
      const store = noting(disk, noted => {
        write = noted
      })
      const refusal: unknown = await perform(store, model, step).then(
        () => undefined,
        error => error,
      )
      model.apply(step)
      if (write === undefined) continue
      if (refusal === undefined) {
        head = after(head, write, false)
        expect(head).toEqual(await headOf(disk))
        accepted.set(write.method, (accepted.get(write.method) ?? 0) + 1)
      } else if (write.method !== 'putCheckpoint') {
        // (The store may refuse a checkpoint because of a newer one, which the ledger does not know.)
        expect(() => after(head, write!, false)).toThrow()
      }
    }
  })
  await fc.assert(property, { numRuns: 1000, seed: 20_261_120 })
  const rare = Object.keys(DURABILITY).filter(method => (accepted.get(method) ?? 0) < 100)
  expect(rare, 'what hardly ever happened').toEqual([])
})
