// What the bench computes on is the real thing: it notices values that are wrong, and what it counts is what is there.

import { answerBytes, queryBytes } from '@keyhush/protocol'
import { loadCore } from '@keyhush/wasm'
import { expect, test } from 'vitest'
import { CHANGES, ComputeBench, distinct, PROOFS } from './compute.js'
import { pseudorandomBytes } from './stage.js'

test('lookups after edits and additions are checked against what they made', async () => {
  const data = pseudorandomBytes(1000 * 32)
  const bench = new ComputeBench(await loadCore(), data, 32)
  bench.digest()
  for (const proofs of PROOFS) bench.offline(proofs)
  const { partitions } = bench.layout
  for (const change of CHANGES) {
    const { serverMs, listBytes } = bench.updates(change, 100, 2)
    expect(serverMs.length).toBe(2)
    expect(listBytes).toEqual([40 + 100 * (5 + 32), 40 + 100 * (5 + 32)])
  }
  expect(bench.layout.records).toBe(1000 + 2 * 100 + 2 * 50)
  expect(bench.layout.partitions).toBeGreaterThan(partitions)
  for (const proofs of PROOFS) {
    const { query, answer, recon, bytes } = bench.lookups(proofs, 20)
    expect([query.length, answer.length, recon.length]).toEqual([20, 20, 20])
    const geometry = { ...sizes(bench), suite: 1 }
    expect(bytes).toBe(2 * (queryBytes(geometry, 1) + answerBytes(geometry, 1, proofs)))
  }
  bench.free()
})

test('data that is not what the database was made of is noticed', async () => {
  const data = pseudorandomBytes(1000 * 32)
  const bench = new ComputeBench(await loadCore(), data, 32)
  bench.digest()
  bench.offline('tags')
  data.fill(0)
  expect(() => bench.lookups('tags', 1)).toThrow('is wrong')
  bench.free()
})

test('changes are of distinct records', () => {
  const indices = distinct(500, 1000)
  expect(new Set(indices).size).toBe(500)
  expect(Math.max(...indices)).toBeLessThan(1000)
  expect(() => distinct(501, 1000)).toThrow(RangeError)
})

function sizes({ layout }: ComputeBench) {
  const { records, recordBytes, partitions, partitionRecords } = layout
  return { records, recordBytes, partitions, partitionRecords }
}
