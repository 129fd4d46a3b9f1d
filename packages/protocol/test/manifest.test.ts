import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import {
  contentHash,
  decodeManifest,
  decodeManifests,
  encodeManifest,
  type Manifest,
  proofsOf,
  WireError,
} from '../src/index.js'
import { expectExactOrRefused, holdToLaw, manifests } from './arbitraries.js'

const keyless: Manifest = {
  suite: 1,
  databaseId: new Uint8Array(16).fill(7),
  generation: 1,
  epoch: 1,
  records: 1000,
  recordBytes: 32,
  partitions: 16,
  partitionRecords: 63,
  blockRecords: 1,
  valueBytes: 32,
  keyed: false,
  variable: false,
  maxBatch: 64,
  expires: 0,
  directoryBytes: 0,
  updateListBytes: 0,
  directoryHash: new Uint8Array(32),
  updateListHash: new Uint8Array(32),
  previousManifest: new Uint8Array(32),
  directoryBlockLog: 0,
  directoryBlockBytes: 0,
  directorySeed: new Uint8Array(16),
  directoryCommitment: new Uint8Array(32),
  commitments: new Uint8Array(512).fill(1),
  contentHashes: new Uint8Array(512).fill(2),
}

/** What an epoch after the first has more. */
const later: Manifest = {
  ...keyless,
  epoch: 2,
  updateListBytes: 40,
  updateListHash: new Uint8Array(32).fill(3),
  previousManifest: new Uint8Array(32).fill(4),
}

/** A database with keys. */
const keyed: Manifest = {
  ...{ ...keyless, keyed: true, valueBytes: 16, directoryBytes: 100, directoryHash: new Uint8Array(32).fill(6) },
  ...{ directoryBlockLog: 7, directoryBlockBytes: 640, directorySeed: new Uint8Array(16).fill(8) },
  directoryCommitment: new Uint8Array(32).fill(9),
}

/** A database without commitments. */
const bare: Manifest = { ...keyless, suite: 2, commitments: new Uint8Array(512) }

describe('a manifest', () => {
  test('decodes to what was encoded', () => {
    fc.assert(
      fc.property(manifests, manifest => {
        expect(decodeManifest(encodeManifest(manifest))).toEqual(manifest)
      }),
    )
  })

  test('stands in its bytes where docs/protocol.md says', () => {
    const bytes = encodeManifest({ ...later, expires: 0x1_0000_0002, epoch: 3 })
    const view = new DataView(bytes.buffer)
    expect(bytes.length).toBe(224 + 64 * 16)
    expect(new TextDecoder().decode(bytes.subarray(0, 4))).toBe('PIRM')
    expect([view.getUint16(4, true), view.getUint16(6, true)]).toEqual([1, 1])
    expect(bytes.subarray(8, 24)).toEqual(keyless.databaseId)
    expect([24, 28, 32, 36, 40, 44, 48].map(at => view.getUint32(at, true))).toEqual([1, 3, 1000, 32, 16, 63, 32])
    expect([56, 60].map(at => view.getUint32(at, true))).toEqual([2, 1])
    expect(bytes.subarray(224, 288)).toEqual(Uint8Array.from({ length: 64 }, (_, i) => (i < 32 ? 1 : 2)))
    const blocks = encodeManifest({ ...keyed, directoryBlockLog: 9 })
    expect([168, 172].map(at => new DataView(blocks.buffer).getUint32(at, true))).toEqual([9, 640])
    expect([...blocks.subarray(176, 224)]).toEqual([...keyed.directorySeed, ...keyed.directoryCommitment])
  })

  test('bytes are refused, or are the canonical bytes of what they decode to', () => {
    fc.assert(
      fc.property(manifests, manifest => holdToLaw(decodeManifest, encodeManifest, encodeManifest(manifest))),
      {
        numRuns: 10,
      },
    )
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 400 }), bytes =>
        expectExactOrRefused(decodeManifest, encodeManifest, bytes),
      ),
    )
  })

  test('owns its memory: changing the input afterwards changes nothing', () => {
    for (const bytes of [encodeManifest(keyless), Buffer.from(encodeManifest(keyless))]) {
      const manifest = decodeManifest(bytes)
      bytes.fill(0)
      expect(manifest).toEqual(keyless)
    }
  })

  test('decodes from a view into a larger buffer', () => {
    const larger = new Uint8Array(3000)
    larger.set(encodeManifest(keyless), 13)
    expect(decodeManifest(larger.subarray(13, 13 + 224 + 1024))).toEqual(keyless)
  })

  test.each<[string, Partial<Manifest>, RegExp]>([
    ['record bytes that are not the sum of their parts', { recordBytes: 33 }, /record bytes: .*32.*33/],
    ['more records than places', { records: 16 * 63 + 1 }, /records: .*1008.*1009/],
    ['no records', { records: 0 }, /records: .*0/],
    ['no partitions', { partitions: 0 }, /partitions/],
    ['a partition of more than 65536 records', { partitionRecords: 65_537 }, /partition records: .*65536.*65537/],
    ['generation 0', { generation: 0 }, /generation/],
    ['epoch 0', { epoch: 0 }, /epoch/],
    ['a directory without keys', { directoryBytes: 1 }, /directory length/],
    ['a directory hash without keys', { directoryHash: new Uint8Array(32).fill(1) }, /directory hash/],
    ['an update list hash without a list', { updateListHash: new Uint8Array(32).fill(1) }, /update list hash/],
    ['a previous manifest in epoch 1', { previousManifest: new Uint8Array(32).fill(1) }, /previous manifest/],
    ['a list in epoch 1', { ...later, epoch: 1, previousManifest: new Uint8Array(32) }, /update list length/],
    [
      'a later epoch without a list',
      { ...later, updateListBytes: 0, updateListHash: new Uint8Array(32) },
      /update list/,
    ],
    ['a list that ends within an entry', { ...later, updateListBytes: 40 + 36 }, /update list length: .*entries.*76/],
    ['blocks without keys', { directoryBlockBytes: 32 }, /directory block length: .*0.*32/],
    ['more than one block without keys', { directoryBlockLog: 1 }, /directory block bits: .*0.*1/],
    ["a directory's seed without keys", { directorySeed: new Uint8Array(16).fill(1) }, /directory seed/],
    [
      'a commitment to blocks without keys',
      { directoryCommitment: new Uint8Array(32).fill(1) },
      /directory commitment/,
    ],
    ['more than 2^16 blocks', { ...keyed, directoryBlockLog: 17 }, /directory block bits: .*16.*17/],
    ['blocks of no bytes', { ...keyed, directoryBlockBytes: 0 }, /directory block length: .*32/],
    ['blocks of no whole units', { ...keyed, directoryBlockBytes: 65 }, /directory block length: .*multiple of 32.*65/],
    ['blocks that are too long', { ...keyed, directoryBlockBytes: 65_568 }, /directory block length: .*65536.*65568/],
    ['a commitment to blocks in suite 2', { ...keyed, suite: 2 }, /directory commitment: .*zero/],
    ['commitments in suite 2', { suite: 2 }, /commitments: .*zero/],
    ['suite 3', { suite: 3 }, /suite: .*1 or 2.*3/],
    ['a list shorter than its header', { ...later, updateListBytes: 39 }, /update list length: .*40.*39/],
    ['a later epoch without its list hash', { ...later, updateListHash: new Uint8Array(32) }, /update list hash/],
    [
      'a later epoch that names none before it',
      { ...later, previousManifest: new Uint8Array(32) },
      /previous manifest/,
    ],
    ['more generations than epochs', { ...later, generation: 3 }, /generation: .*2.*3/],
    ['keys without a directory', { keyed: true, valueBytes: 16 }, /directory length/],
    ['too few commitments', { commitments: new Uint8Array(480) }, /commitments: .*512.*480/],
    ['a short database id', { databaseId: new Uint8Array(15) }, /database id: .*16.*15/],
    ['an expiry that is not an integer', { expires: 0.5 }, /expiry/],
  ])('with %s is refused by name', (_, change, message) => {
    expect(() => encodeManifest({ ...keyless, ...change })).toThrow(message)
    expect(() => encodeManifest({ ...keyless, ...change })).toThrow(WireError)
  })

  test('of another format or suite is a version error', () => {
    for (const at of [4, 6]) {
      const bytes = encodeManifest(keyless)
      bytes[at] = 3
      expect(() => decodeManifest(bytes)).toThrow(expect.objectContaining({ code: 'version' }))
    }
  })

  test('an expiry beyond 2^53 - 1 is refused', () => {
    const bytes = encodeManifest(keyless)
    bytes[63] = 1
    expect(() => decodeManifest(bytes)).toThrow(/expiry/)
  })

  test('without commitments reads as it was written', () => {
    expect(decodeManifest(encodeManifest(bare))).toEqual(bare)
    expect(proofsOf(bare)).toEqual(['tags'])
    expect(proofsOf(keyless)).toEqual(['merkle', 'tags'])
  })

  test('gives each partition its content hash', () => {
    const contentHashes = Uint8Array.from({ length: 512 }, (_, i) => i >>> 5)
    expect(contentHash({ contentHashes }, 15)).toEqual(new Uint8Array(32).fill(15))
  })
})

describe('a chain of manifests', () => {
  const third = { ...later, epoch: 3, records: 1001 }
  const reborn = {
    ...later,
    ...{ generation: 2, epoch: 4, records: 10, partitionRecords: 10, updateListBytes: 0 },
    updateListHash: new Uint8Array(32),
  }
  const joined = (...chain: Manifest[]) => Uint8Array.from(chain.flatMap(manifest => [...encodeManifest(manifest)]))

  test('keeps its batch limit while partitions open, whatever the planner would take for the new ones', () => {
    // ℓ = 65 536 from Q = 16 to 17, and 2^24 records with proofs from Q = 256 to 257: eight, and sixty, queries stay allowed.
    for (const [recordBytes, partitionRecords, partitions, maxBatch] of [
      [65_536, 1, 16, 8],
      [32, 65_536, 256, 60],
    ] as const) {
      const sized = (change: Partial<Manifest>): Manifest => {
        const manifest = { ...later, recordBytes, valueBytes: recordBytes, partitionRecords, partitions, maxBatch }
        const full = { ...manifest, records: partitions * partitionRecords, ...change }
        const digests = new Uint8Array(32 * full.partitions).fill(1)
        return { ...full, commitments: digests, contentHashes: digests }
      }
      const opened = { epoch: 3, partitions: partitions + 1 }
      expect(decodeManifests(joined(sized({}), sized(opened)))).toHaveLength(2)
      for (const other of [maxBatch - 1, maxBatch + 1]) {
        expect(() => decodeManifests(joined(sized({}), sized({ ...opened, maxBatch: other })))).toThrow(/maxBatch/)
      }
      expect(() => encodeManifest(sized({ ...opened, partitions: 3 * partitions }))).toThrow(/batch limit/)
      encodeManifest(sized({ ...opened, partitions: 2 * partitions }))
    }
  })

  test('is read one by one, into another generation too', () => {
    const chain = [later, third, reborn]
    expect(decodeManifests(joined(...chain)).map(({ manifest }) => manifest)).toEqual(chain)
    expect(decodeManifests(joined(...chain)).map(({ bytes }) => bytes)).toEqual(chain.map(encodeManifest))
    expect(decodeManifests(new Uint8Array())).toEqual([])
  })

  test('torn anywhere is refused', () => {
    const bytes = joined(later, third)
    for (let length = 1; length < bytes.length; length++) {
      if (2 * length === bytes.length) continue
      expect(() => decodeManifests(bytes.subarray(0, length))).toThrow(WireError)
    }
  })

  test.each<[string, Manifest]>([
    ['skips an epoch', { ...third, epoch: 4 }],
    ['repeats an epoch', later],
    ['is another database', { ...third, databaseId: new Uint8Array(16) }],
    ['has fewer records', { ...third, records: 999 }],
    ['has fewer partitions', { ...third, ...shrunk(third) }],
    ['has partitions of another size', { ...third, partitionRecords: 64 }],
    ['has records of another size', { ...third, recordBytes: 33, valueBytes: 33 }],
    ['gives its commitments up', { ...third, suite: 2, commitments: bare.commitments }],
    ['skips a generation', { ...reborn, generation: 3, epoch: 3 }],
    ['begins a generation with a list', { ...third, generation: 2 }],
  ])('whose next one %s is refused', (_, next) => {
    expect(() => decodeManifests(joined(later, next))).toThrow(WireError)
  })

  test('keeps the number of blocks, their length and their seed within a generation', () => {
    const { epoch, updateListBytes, updateListHash, previousManifest } = later
    const before = { ...keyed, ...{ epoch, updateListBytes, updateListHash, previousManifest } }
    const next = { ...before, epoch: 3, directoryCommitment: new Uint8Array(32).fill(10) }
    expect(decodeManifests(joined(before, next))).toHaveLength(2)
    for (const [change, message] of [
      [{ directoryBlockLog: 8 }, /directoryBlockLog/],
      [{ directoryBlockBytes: 672 }, /directoryBlockBytes/],
      [{ directorySeed: new Uint8Array(16) }, /directory seed/],
    ] as const) {
      expect(() => decodeManifests(joined(before, { ...next, ...change }))).toThrow(message)
    }
  })

  function shrunk({ commitments, contentHashes }: Manifest): Partial<Manifest> {
    return {
      partitions: 15,
      records: 15 * 63,
      commitments: commitments.slice(32),
      contentHashes: contentHashes.slice(32),
    }
  }
})
