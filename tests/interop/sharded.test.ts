// Sharded databases: the WebAssembly core, the core without, and a second implementation from docs/protocol/sharded.md make the same
// of the same bytes. What coordinators add up is together what servers would answer that had all partitions as one.

import { encodeManifest } from '@keyhush/protocol'
import type { DatabaseHandle } from '@keyhush/wasm'
import { concatBytes } from '@noble/hashes/utils.js'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { shardedLater } from '../../packages/protocol/test/manifests.js'
import { commitDatabase, layoutHandle } from '../support/wasm.js'
import { always, both, bytes, wasm } from './both.js'
import * as reference from './reference/instant.js'
import { type Layout, split } from './reference/layout.js'
import * as sharded from './reference/sharded.js'
import { stream } from './vectors.js'

/** S, and the layout of a shard: groups of one block and of several, one partition a shard and several, blocks of records. */
const DATABASES: readonly (readonly [number, Layout])[] = [
  [2, { records: 128, recordBytes: 256, partitions: 1, partitionRecords: 128 }],
  [4, { records: 256, recordBytes: 300, partitions: 2, partitionRecords: 128 }],
  [2, { records: 2048, recordBytes: 16, partitions: 1, partitionRecords: 2048, blockRecords: 4 }],
]

function databaseOf([shards, layout]: readonly [number, Layout]) {
  const whole = sharded.joined(layout, shards)
  const records = Array.from({ length: shards }, (_, s) => stream(`shard ${s}`, layout.records * layout.recordBytes))
  const committed = records.map(content => commitDatabase(wasm, layout, content))
  const commitments = committed.flatMap(({ commitments }) => split(commitments, 32))
  const tree = wasm.newUpperTree(layoutHandle(wasm, layout), shards, concatBytes(...commitments))
  return { whole, records: concatBytes(...records), committed, commitments, tree, partitions: commitments.length }
}

function answered(handle: DatabaseHandle, query: Uint8Array, servers: number, groupLog?: number): Uint8Array {
  const pass = wasm.newInstantPass(handle, query, Uint8Array.of(servers > 2 ? 2 : 0), servers, groupLog)
  while (pass.step(handle));
  return pass.finish(handle)
}

describe.each(DATABASES)('%i shards of %o', (shards, layout) => {
  const { whole, records, committed, commitments, tree, partitions } = databaseOf([shards, layout])
  const levels = sharded.upperLevels(commitments)
  const root = levels.at(-1)![0]!

  test('have the same root', () => {
    expect(tree.root).toEqual(root)
    expect(tree.siblingBytes).toBe(32 * Math.log2(partitions))
    const sizes = both(core => layoutHandle(core, whole).instantSizes(2))
    expect(tree.layout.instantSizes(2)).toEqual(sizes)
  })

  test('get the same keys and parts, and answer together as servers with all', () => {
    for (const servers of [2, 3]) {
      const index = (servers * 1234) % whole.records
      const entropy = stream(`entropy ${servers}`, 32)
      const query = both(core => {
        const made = core.newInstantQuery(layoutHandle(core, whole), Uint32Array.of(index), entropy, servers)
        return Array.from({ length: servers }, (_, server) => [made.request(server), made.isVector(server)] as const)
      }) as (readonly [Uint8Array, boolean])[]
      const groups = servers === 2 ? reference.groupsOf(whole) : reference.groupsAmong(whole, servers)
      const groupLog = servers === 2 ? undefined : wasm.instantGroupLog(tree.layout, servers)
      expect(groupLog ?? groups.a).toBe(groups.a)
      const sums = query.map(([request, isVector]) => {
        const cut = tree.split(request, servers, isVector)
        const [parts, siblings] = [cut.subarray(0, -tree.siblingBytes), cut.subarray(-tree.siblingBytes)]
        const queries = split(parts, parts.length / shards)
        const share =
          servers === 2
            ? Array.from({ length: groups.groups }, (_, group) => reference.evaluate(groups.n, request, group))
            : reference.shareBits(groups, isVector, request)
        if (servers === 2) {
          expect(queries).toEqual(sharded.keysOf(whole, shards, request))
          expect(siblings).toEqual(sharded.upperSiblings(levels, sharded.partitionBits(whole, partitions, request)))
        } else {
          const vector = Uint8Array.from({ length: share.length / 8 }, (_, i) =>
            share.slice(8 * i, 8 * i + 8).reduce((byte, bit, at) => byte | (Number(bit) << at), 0),
          )
          expect(concatBytes(...queries)).toEqual(vector)
          expect(siblings).toEqual(sharded.upperSiblings(levels, sharded.parities(share, partitions)))
        }
        const ofShards = queries.map((query, s) => answered(committed[s]!.handle, query, servers, groupLog))
        const sum = concatBytes(ofShards.reduce(reference.xor), siblings)
        const one = reference.answerTo(whole, groups, [records], share)
        expect(sum.subarray(0, -tree.siblingBytes)).toEqual(one.subarray(0, -tree.siblingBytes))
        return { sum, one }
      })
      // Control bits are other shares of the wanted partition than the parities of a key's outputs.
      const together = (of: 'sum' | 'one') => sums.map(each => each[of]).reduce(reference.xor)
      expect(together('sum')).toEqual(together('one'))
      const answers = sums.map(({ sum }) => sum)
      const record = split(records, layout.recordBytes)[index]
      expect(reference.recon(whole, [root], index, answers, groups)).toEqual(record)
      const found = both(core => {
        const made = core.newInstantQuery(layoutHandle(core, whole), Uint32Array.of(index), entropy, servers)
        return made.recon(root, concatBytes(...answers))
      })
      expect(found).toEqual(record)
    }
  })

  test('are verified up to the root: every changed bit is refused by both cores', () => {
    const entropy = stream('lies', 32)
    const query = wasm.newInstantQuery(layoutHandle(wasm, whole), Uint32Array.of(whole.records - 1), entropy)
    const sums = [0, 1].map(server => {
      const cut = tree.split(query.request(server))
      const parts = split(cut.subarray(0, -tree.siblingBytes), (cut.length - tree.siblingBytes) / shards)
      const answers = parts.map((part, s) => answered(committed[s]!.handle, part, 2))
      return concatBytes(answers.reduce(reference.xor), cut.subarray(-tree.siblingBytes))
    })
    const answers = concatBytes(...sums)
    for (let bit = 0; bit < answers.length * 4; bit++) {
      const changed = answers.slice()
      changed[bit >> 3]! ^= 1 << (bit & 7)
      const found = both(core =>
        core
          .newInstantQuery(layoutHandle(core, whole), Uint32Array.of(whole.records - 1), entropy)
          .recon(root, changed),
      )
      expect(found, `bit ${bit}`).toBeUndefined()
    }
  })
})

describe('both cores', () => {
  test('find the same block of the same shard for a key, as the definition says', () => {
    always(
      [bytes(16), bytes(16), fc.integer({ min: 7, max: 16 }), fc.integer({ min: 0, max: 8 })],
      (seed, print, blockLog, log) => {
        const number = both(core => core.directoryShape(blockLog, 64, seed).number(print, 2 ** log))
        expect(number).toBe(sharded.blockAmong({ blockLog, seed }, 2 ** log, print))
      },
      200,
    )
  })

  test('lay out what no machine holds, and make the same keys for it', () => {
    const numbers = [2 ** 30, 256, 1, 2 ** 30] as const
    for (const servers of [2, 3, 8]) both(core => core.layout(...numbers).instantSizes(servers))
    const entropy = stream('large', 32)
    const request = both(core =>
      core.newInstantQuery(core.layout(...numbers), Uint32Array.of(2 ** 30 - 1), entropy).request(1),
    )
    expect(request).toHaveLength(33 + 23 * 16 + 6)
    both(core => core.layout(2 ** 31, 65_536, 1, 2 ** 31).instantSizes(3))
    both(core => core.layout(2 ** 30, 256, 2, 2 ** 29))
    expect(() => wasm.newDatabase(wasm.layout(2 ** 17, 1, 1, 2 ** 17))).toThrow(
      expect.objectContaining({ code: 'layout' }),
    )
  })
})

test('a manifest of suite 11 reads as the page says', () => {
  const read = sharded.readSharded(encodeManifest(shardedLater))
  expect(read).toEqual({ root: shardedLater.commitments, shards: shardedLater.shards })
})
