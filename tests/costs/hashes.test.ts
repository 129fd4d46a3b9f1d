// Planned numbers of hashes equal counted ones, for a server that commits and a client that checks lookups. They are counted in
// the reference, which makes one call for each leaf, node and tag.

import { loadCore } from '@keyhush/wasm'
import { beforeEach, expect, test, vi } from 'vitest'
import { Database } from '../interop/reference/database.js'
import type * as hashes from '../interop/reference/hash.js'
import { planLayout } from '../interop/reference/layout.js'
import { Hint } from '../interop/reference/scheme.js'
import type * as linear from '../interop/reference/tags.js'
import { distinctRecords } from '../support/servers.js'

const counted = vi.hoisted(() => ({
  hashes: 0,
  counting<A extends readonly unknown[], R>(hash: (...input: A) => R): (...input: A) => R {
    return (...input) => {
      this.hashes++
      return hash(...input)
    }
  },
}))
vi.mock('../interop/reference/hash.js', async original => {
  const genuine = await original<typeof hashes>()
  return { ...genuine, leaf: counted.counting(genuine.leaf), node: counted.counting(genuine.node) }
})
vi.mock('../interop/reference/tags.js', async original => {
  const genuine = await original<typeof linear>()
  return { ...genuine, linearTag: counted.counting(genuine.linearTag) }
})
beforeEach(() => {
  counted.hashes = 0
})

const core = await loadCore()

test.each([
  [1, undefined],
  [1000, undefined],
  [1003, undefined], // the last partition is not full
  [300, 1],
  [64, 64],
  [500, 250],
])('hashes of %i records in %s partitions are as planned', (records, partitions) => {
  const valueBytes = 7
  const layout = planLayout(records, valueBytes, partitions)
  const database = new Database(layout, Buffer.concat(distinctRecords(records, valueBytes)))
  expect(counted.hashes).toBe(core.plan({ records, valueBytes, partitions }).merkle.digestHashes)

  for (const [proofs, suite] of [
    ['merkle', 1],
    ['tags', 2],
  ] as const) {
    const hint = new Hint(layout, database.commitments, database.partitions, new Uint8Array(32), suite)
    for (const queries of [1, 8]) {
      counted.hashes = 0
      const asked = hint.query(Array(queries).fill(records - 1), new Uint8Array(32).fill(queries))
      hint.recon(asked, database.answer(asked.retrieve, suite), database.answer(asked.refresh, suite))
      expect(counted.hashes).toBe(core.plan({ records, valueBytes, partitions, queries })[proofs].lookupHashes)
    }
  }
})
