import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { contentHash, decodeManifest, encodeManifest, type Manifest, WireError } from '../src/index.js'
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
  valueBytes: 32,
  keyed: false,
  variable: false,
  expires: 0,
  directoryBytes: 0,
  updateListBytes: 0,
  directoryHash: new Uint8Array(32),
  updateListHash: new Uint8Array(32),
  previousManifest: new Uint8Array(32),
  commitments: new Uint8Array(512).fill(1),
  contentHashes: new Uint8Array(512).fill(2),
}

describe('a manifest', () => {
  test('decodes to what was encoded', () => {
    fc.assert(
      fc.property(manifests, manifest => {
        expect(decodeManifest(encodeManifest(manifest))).toEqual(manifest)
      }),
    )
  })

  test('stands in its bytes where docs/protocol.md says', () => {
    const bytes = encodeManifest({ ...keyless, expires: 0x1_0000_0002, epoch: 3 })
    const view = new DataView(bytes.buffer)
    expect(bytes.length).toBe(168 + 64 * 16)
    expect(new TextDecoder().decode(bytes.subarray(0, 4))).toBe('PIRM')
    expect([view.getUint16(4, true), view.getUint16(6, true)]).toEqual([1, 1])
    expect(bytes.subarray(8, 24)).toEqual(keyless.databaseId)
    expect([24, 28, 32, 36, 40, 44, 48].map(at => view.getUint32(at, true))).toEqual([1, 3, 1000, 32, 16, 63, 32])
    expect([56, 60].map(at => view.getUint32(at, true))).toEqual([2, 1])
    expect(bytes.subarray(168, 232)).toEqual(Uint8Array.from({ length: 64 }, (_, i) => (i < 32 ? 1 : 2)))
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
    const bytes = encodeManifest(keyless)
    const manifest = decodeManifest(bytes)
    bytes.fill(0)
    expect(manifest).toEqual(keyless)
  })

  test('decodes from a view into a larger buffer', () => {
    const larger = new Uint8Array(3000)
    larger.set(encodeManifest(keyless), 13)
    expect(decodeManifest(larger.subarray(13, 13 + 168 + 1024))).toEqual(keyless)
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
      bytes[at] = 2
      expect(() => decodeManifest(bytes)).toThrow(expect.objectContaining({ code: 'version' }))
    }
  })

  test('an expiry beyond 2^53 - 1 is refused', () => {
    const bytes = encodeManifest(keyless)
    bytes[63] = 1
    expect(() => decodeManifest(bytes)).toThrow(/expiry/)
  })

  test('gives each partition its content hash', () => {
    const contentHashes = Uint8Array.from({ length: 512 }, (_, i) => i >>> 5)
    expect(contentHash({ contentHashes }, 15)).toEqual(new Uint8Array(32).fill(15))
  })
})
