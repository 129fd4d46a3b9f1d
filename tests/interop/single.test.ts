// Holds the WebAssembly core and the independent reference to the lookups with one server of vectors/core.json, which the
// native core made.

import { loadCore, type SingleHandle } from '@keyhush/wasm'
import { bytesToHex, concatBytes, hexToBytes } from '@noble/hashes/utils.js'
import { describe, expect, test } from 'vitest'
import { commitDatabase, fromStored, layoutHandle, memory, reopenSingle } from '../support/wasm.js'
import { Database } from './reference/database.js'
import { blocksOf, split } from './reference/layout.js'
import * as single from './reference/single.js'
import known from './vectors/core.json' with { type: 'json' }
import { stream } from './vectors.js'

const SUITE = 3
const BINDING = new Uint8Array(32).fill(7)
const vectors = known.single
const core = await loadCore()
const recordsOf = ({ layout, recordsLabel }: (typeof vectors)[number]) =>
  stream(recordsLabel, layout.records * layout.recordBytes)

test.each(vectors)('the reference asks one server of $recordsLabel', vector => {
  const { layout, lookups } = vector
  const { partitions } = new Database(layout, recordsOf(vector))
  const blocks = partitions.flatMap(partition => split(partition, blocksOf(layout).recordBytes))
  const hints = new single.Hints(layout, blocks, hexToBytes(vector.hintEntropy), lookups)
  for (const { indices, entropy, ...expected } of vector.asked) {
    const { queries, recover } = hints.query(indices, hexToBytes(entropy))
    expect(bytesToHex(concatBytes(...queries))).toBe(expected.queries)
    const answers = queries.map(query => single.answer(layout, partitions, query))
    expect(bytesToHex(concatBytes(...answers))).toBe(expected.answer)
    const records = recover.map((of, i) => of(answers[i]!))
    expect(bytesToHex(concatBytes(...records))).toBe(expected.records)
    for (const [i, of] of recover.entries()) {
      for (const at of [0, answers[i]!.length - 1]) {
        const lie = answers[i]!.slice()
        lie[at]! ^= 1
        expect(() => of(lie)).toThrow('lied')
      }
    }
  }
})

test.each([
  { records: 1 << 16, recordBytes: 32 },
  { records: 1 << 20, recordBytes: 256 },
  { records: 1 << 10, recordBytes: 1 << 16 },
  { records: 1 << 11, recordBytes: 1 << 16 },
  { records: 1 << 12, recordBytes: 1 << 16 },
  { records: 1 << 16, recordBytes: 1 << 12 },
])('core and reference agree on how much of $records records of $recordBytes bytes a request may ask for', layout => {
  const [partitions, partitionRecords] = [16, layout.records / 16]
  const handle = layoutHandle(core, { ...layout, partitions, partitionRecords })
  const most = single.mostQueries({ ...layout, partitions, partitionRecords })
  if (most === 0) expect(() => core.singleBytes(handle)).toThrow('one server cannot answer it')
  else expect(core.singleBytes(handle)[2]).toBe(most)
})

describe.each(vectors)('the WebAssembly core asks one server of $recordsLabel', vector => {
  const { layout, lookups, hintEntropy } = vector
  const database = commitDatabase(core, layout, recordsOf(vector))

  /** Made in pieces, stored half-way and taken up again. */
  function hintsOf(): SingleHandle {
    const handle = layoutHandle(core, layout)
    const { contentHashes, partitions } = database
    let builder = core.newSingleBuilder(handle, contentHashes, hexToBytes(hintEntropy), lookups)
    while (builder.step());
    for (const [q, partition] of partitions.entries()) {
      builder.begin(q % 2, q)
      memory(core, builder.lanePointer(q % 2), partition.length).set(partition)
      builder.absorb(q % 2, partition.length)
      expect(builder.fold(q % 2)).toBe(true)
      expect(builder.isFolded(q)).toBe(true)
      if (q === 0) {
        const stored = builder.partial(BINDING).take()
        builder.free()
        builder = fromStored(core, stored, form => core.resumeSingleBuilder(form, handle, contentHashes, BINDING))
      }
      while (builder.step());
    }
    return builder.finish(0)
  }

  test('as the vectors have it', () => {
    let hints = hintsOf()
    const [queryBytes, answerBytes, most] = core.singleBytes(layoutHandle(core, layout))
    expect(queryBytes).toBe(single.queryBytes(single.geometryOf(layout)))
    expect([...database.handle.queryLimits(SUITE, false)]).toEqual([
      queryBytes,
      Math.min(most!, database.handle.maxQueries),
    ])
    let left = lookups
    for (const { indices, entropy, ...expected } of vector.asked) {
      hints.query(Uint32Array.from(indices), hexToBytes(entropy))
      const stored = hints.pendingBytes()
      expect(hints.pending).toBe(indices.length)
      hints.withdraw()
      hints.resume(stored)
      const queries = hints.request()
      expect(bytesToHex(queries)).toBe(expected.queries)
      const reply = database.handle.answer(queries, SUITE)
      expect(bytesToHex(reply)).toBe(expected.answer)
      expect(reply.length).toBe(answerBytes! * indices.length)
      expect(reply.length).toBe(database.handle.answerBytes(indices.length, SUITE, false))
      expect(hints.verify(reply)).toBe(true)
      expect(bytesToHex(hints.recon())).toBe(expected.records)
      expect(hints.missed).toBe(0)
      left -= indices.length
      expect(hints.left).toBe(left)
      const effect = hints.takeEffect()
      expect(() => hints.replay(effect)).toThrow('out of order')
      hints = reopenSingle(core, hints.checkpoint(BINDING).take(), layoutHandle(core, layout), BINDING)
    }
    expect(() =>
      reopenSingle(core, hints.checkpoint(BINDING).take(), layoutHandle(core, layout), new Uint8Array(32)),
    ).toThrow()
  })
})
