// Holds the WebAssembly core and the independent reference to the instant lookups and light hints of vectors/core.json,
// which the native core made.

import { bytesToHex, concatBytes, hexToBytes, utf8ToBytes } from '@noble/hashes/utils.js'
import { loadCore } from '@pirouette/wasm'
import { describe, expect, test } from 'vitest'
import { commitDatabase, layoutHandle } from '../support/wasm.js'
import { Writer } from './reference/bytes.js'
import { Database } from './reference/database.js'
import * as directories from './reference/directory.js'
import { fingerprint } from './reference/hash.js'
import * as instant from './reference/instant.js'
import { blocksOf, type Layout, placeOf, split } from './reference/layout.js'
import * as light from './reference/light.js'
import { Words } from './reference/random.js'
import { type CoreVectors, readVectors, stream } from './vectors.js'

const vectors = readVectors<CoreVectors>('core')
const core = await loadCore()
const recordsOf = ({ layout, recordsLabel }: { layout: Layout; recordsLabel: string }) =>
  stream(recordsLabel, layout.records * layout.recordBytes)

const printsOf = (keys: number) => Array.from({ length: keys }, (_, i) => fingerprint(utf8ToBytes(`key ${i}`)))

describe('the reference', () => {
  test.each(vectors.directories)('reads each block of a directory of $keys keys alone', vector => {
    const { keys, slots, blockLog, blockBytes } = vector
    const directory = directories.buildDirectory(printsOf(keys), slots)
    expect({ blockLog: directory.blockLog, blockBytes: directory.blockBytes }).toEqual({ blockLog, blockBytes })
    expect(bytesToHex(directory.seed)).toBe(vector.seed)
    expect(bytesToHex(directories.directoryCommitment(directory))).toBe(vector.commitment)
    const blocks = split(directories.paddedBlocks(directory), blockBytes)
    printsOf(keys).forEach((print, i) => {
      const number = directories.blockOf(directory, print)
      expect(number).toBe(vector.blocks[i])
      expect(directories.indexByBlock(directory.seed, blocks[number]!, print, keys)).toBe(vector.indices[i])
    })
  })

  test.each(vectors.instant)('looks up instantly in $recordsLabel', vector => {
    const { layout, indices } = vector
    const { n, a, perPartition } = instant.groupsOf(layout)
    const words = new Words(hexToBytes(vector.entropy), 0)
    const seed = () => {
      const writer = new Writer()
      for (let i = 0; i < 4; i++) writer.u32(words.next())
      return writer.bytes()
    }
    const requests: [Uint8Array[], Uint8Array[]] = [[], []]
    for (const index of indices) {
      const { q, m } = placeOf(layout, index)
      const seeds = [seed(), seed()] as const
      const first = words.below(2)
      instant.generate(n, q * perPartition + Math.floor(m / 2 ** a), seeds).forEach((key, party) => {
        requests[first ^ party]!.push(key)
      })
    }
    expect(requests.map(keys => bytesToHex(concatBytes(...keys)))).toEqual(vector.requests)
    const { partitions, commitments } = new Database(layout, recordsOf(vector))
    const answers = requests.map(keys => keys.map(key => instant.answer(layout, partitions, key)))
    expect(answers.map(of => bytesToHex(concatBytes(...of)))).toEqual(vector.answers)
    const found = indices.map((index, i) => {
      const both = [answers[0]![i]!, answers[1]![i]!] as const
      const changed = both[0].slice()
      changed[changed.length - 1]! ^= 1
      expect(() => instant.recon(layout, commitments, index, [changed, both[1]])).toThrow('lied')
      return instant.recon(layout, commitments, index, both)
    })
    expect(bytesToHex(concatBytes(...found))).toBe(vector.records)
  })

  test.each(vectors.light)('makes and checks a light hint of $recordsLabel, with $proofs', vector => {
    const layout = blocksOf(vector.layout)
    const secrets = light.secretsOf(hexToBytes(vector.root))
    const keepsTags = vector.proofs === 'tags'
    expect(bytesToHex(secrets.hintId)).toBe(vector.hintId)
    expect(light.requests(secrets, keepsTags).map(bytesToHex)).toEqual([vector.paritiesRequest, vector.tagsRequest])
    const records = new Database(vector.layout, recordsOf(vector)).partitions.flatMap(of =>
      split(of, layout.recordBytes),
    )
    const replies = light.replies(layout, records, secrets, keepsTags)
    expect(replies.map(bytesToHex)).toEqual([vector.parities, vector.tags])
    expect(bytesToHex(light.accepts(layout, secrets, replies, keepsTags)!)).toBe(vector.kept)
    for (const lie of replies) {
      for (const at of [0, lie.length - 1]) {
        lie[at]! ^= 1
        expect(light.accepts(layout, secrets, replies, keepsTags)).toBeUndefined()
        lie[at]! ^= 1
      }
    }
  })
})

describe('the WebAssembly core', () => {
  test.each(vectors.directories)('reads each block of a directory of $keys keys alone', vector => {
    const { keys, slots, blockLog, blockBytes } = vector
    const directory = core.buildDirectory(concatBytes(...printsOf(keys)), slots)
    expect({ blockLog: directory.blockLog, blockBytes: directory.blockBytes }).toEqual({ blockLog, blockBytes })
    expect(bytesToHex(directory.seed)).toBe(vector.seed)
    const database = directory.database()
    expect(bytesToHex(database.commitment(0))).toBe(vector.commitment)
    const shape = core.directoryShape(blockLog, blockBytes, hexToBytes(vector.seed))
    const all = new Uint8Array(core.memory.buffer, database.recordsPointer(), blockBytes * 2 ** blockLog).slice()
    printsOf(keys).forEach((print, i) => {
      const number = shape.number(print)
      expect(number).toBe(vector.blocks[i])
      const block = all.subarray(number * blockBytes, (number + 1) * blockBytes)
      expect(shape.index(block, print, keys)).toBe(vector.indices[i])
      expect(() => shape.index(block, print, vector.indices[i]!)).toThrow('beyond the database')
    })
  })

  test.each(vectors.instant)('looks up instantly in $recordsLabel', vector => {
    const layout = layoutHandle(core, vector.layout)
    const database = commitDatabase(core, vector.layout, recordsOf(vector)).handle
    const query = core.newInstantQuery(layout, Uint32Array.from(vector.indices), hexToBytes(vector.entropy))
    const requests = [query.request(0), query.request(1)]
    expect(requests.map(bytesToHex)).toEqual(vector.requests)
    const [zero, one] = requests.map(request => {
      const pass = core.newInstantPass(database, request, new Uint8Array(vector.indices.length))
      while (pass.step(database));
      return pass.finish(database)
    })
    expect([zero!, one!].map(bytesToHex)).toEqual(vector.answers)
    expect(bytesToHex(query.recon(hexToBytes(vector.commitments), zero!, one!)!)).toBe(vector.records)
    zero![0]! ^= 1
    expect(query.recon(hexToBytes(vector.commitments), zero!, one!)).toBeUndefined()
  })

  test.each(vectors.light)('makes and checks a light hint of $recordsLabel, with $proofs', vector => {
    const { handle: database, commitments } = commitDatabase(core, vector.layout, recordsOf(vector))
    const root = hexToBytes(vector.root)
    const begin = () => core.newLightAttempt(layoutHandle(core, vector.layout), commitments, root, vector.proofs)
    const attempt = begin()
    expect(bytesToHex(attempt.paritiesRequest())).toBe(vector.paritiesRequest)
    expect(bytesToHex(attempt.tagsRequest())).toBe(vector.tagsRequest)
    const [parities, tags] = [
      core.newLightParities(database, attempt.paritiesRequest(), false),
      core.newLightTags(database, attempt.tagsRequest(), false),
    ].map(reply => {
      while (reply.step(database));
      return reply.finish()
    })
    expect([parities!, tags!].map(bytesToHex)).toEqual([vector.parities, vector.tags])
    const outcome = attempt.finish(parities!, tags!)
    expect(outcome.takeInquiry()).toBeUndefined()
    const client = outcome.takeHint()!
    expect(bytesToHex(client.hintId)).toBe(vector.hintId)
    expect([client.proofs, client.form]).toEqual([vector.proofs, 'delta'])
    // A stored hint ends in key and tags, and a checksum.
    expect(bytesToHex(client.checkpoint(new Uint8Array(32)).slice(0, -16)).endsWith(vector.kept)).toBe(true)
    expect(() => attempt.paritiesRequest()).toThrow('the attempt is over')
    parities![0]! ^= 1
    const refused = begin().finish(parities!, tags!)
    expect(refused.takeHint()).toBeUndefined()
    const inquiry = refused.takeInquiry()!
    expect(inquiry.blamesRefreshServer).toBe(true)
    const { partitions, partitionRecords, recordBytes } = vector.layout
    const all = new Uint8Array(partitions * partitionRecords * recordBytes)
    all.set(recordsOf(vector))
    split(all, partitionRecords * recordBytes).forEach((partition, q) => void inquiry.take(q, partition))
    expect([...inquiry.liars()!]).toEqual([1])
  })
})
