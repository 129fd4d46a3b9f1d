// The page *Three servers*: put together, what all servers were sent marks the place that was asked for; what all but one were sent
// marks about half of all places.

import { encodeInstantQuery, HEADER_BYTES, instantLayout } from '@keyhush/protocol'
import { loadCore } from '@keyhush/wasm'
import { expect, test } from 'vitest'
import { keyed as manifest } from '../../packages/protocol/test/manifests.js'
import { pool } from '../src/page/wire/pooled.js'

const core = await loadCore()

test.each([
  ['records', 3],
  ['records', 5],
  ['directory', 3],
] as const)('a question for %s, to %i servers', (of, servers) => {
  const shape = instantLayout(manifest, of)
  const layout = core.layout(
    ...([shape.records, shape.recordBytes, shape.partitions, shape.partitionRecords, shape.blockRecords] as const),
  )
  const [, , answerBytes = 0] = layout.instantSizes(servers)
  const indices = Uint32Array.of(0, shape.records - 1, 5)
  const query = core.newInstantQuery(layout, indices, crypto.getRandomValues(new Uint8Array(32)), servers)
  const requests = Array.from({ length: servers }, (_, server) =>
    encodeInstantQuery(manifest, of, indices.length, query.request(server), {
      servers,
      vectors: query.isVector(server),
    }),
  )
  const replyBytes = HEADER_BYTES + indices.length * answerBytes
  const { marked, positions } = pool(manifest, requests, replyBytes)
  const perPartition = positions / shape.partitions
  const groupBlocks = Math.ceil(shape.partitionRecords / perPartition)
  const places = [...indices].map(index => {
    const [q, m] = [Math.floor(index / shape.partitionRecords), index % shape.partitionRecords]
    return [q * perPartition + Math.floor(m / 2 ** Math.ceil(Math.log2(groupBlocks)))]
  })
  expect(marked).toEqual(places)
  for (const left of requests) {
    const without = requests.filter(request => request !== left)
    for (const marks of pool(manifest, without, replyBytes).marked) {
      if (of === 'records') expect(Math.abs(marks.length / positions - 0.5)).toBeLessThan(0.25)
    }
  }
  expect(() => pool(manifest, requests, replyBytes + indices.length)).toThrow(RangeError)
})
