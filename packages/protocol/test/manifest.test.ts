// What decodeManifest does besides what tests/interop/vectors/wire.json and decoders.test.ts hold it to, and what encodeManifest refuses.

import { readFile } from 'node:fs/promises'
import { describe, expect, onTestFinished, test } from 'vitest'
import { checkFollows, decodeManifests } from '../src/chain.js'
import { type Fields, headerBytes } from '../src/fields.js'
import {
  contentHash,
  decodeManifest,
  encodeManifest,
  type Manifest,
  type OneServerFields,
  ownBase,
  proofsOf,
  WireError,
} from '../src/index.js'
import { HEADER, HEADER_AT, ONE_SERVER, POINTPROOFS } from '../src/manifest.js'
import { keyless, later } from './manifests.js'

/** A database without commitments. */
const bare: Manifest = { ...keyless, suite: 2, commitments: new Uint8Array(512) }

describe('a manifest', () => {
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

  test.each([() => {}, undefined])('is as ever where a page has added %s to all objects', added => {
    const bytes = encodeManifest(keyless)
    onTestFinished(() => void Reflect.deleteProperty(Object.prototype, 'added'))
    Object.assign(Object.prototype, { added })
    expect(encodeManifest(keyless)).toEqual(bytes)
    expect(Object.keys(decodeManifest(bytes))).not.toContain('added')
    checkFollows(keyless, later)
  })

  test.each<[string, Partial<Manifest>, RegExp]>([
    ['record bytes that are not the sum of their parts', { recordBytes: 33 }, /record bytes: .*32.*33/],
    ['more records than places', { records: 16 * 63 + 1 }, /records: .*1008.*1009/],
    ['a directory without keys', { directoryBytes: 1 }, /directory length/],
    ['suite 3', { suite: 3 }, /suite: .*1 or 2.*3/],
    ['too few commitments', { commitments: new Uint8Array(480) }, /commitments: .*512.*480/],
    ['a short database id', { databaseId: new Uint8Array(15) }, /database id: .*16.*15/],
    ['an expiry that is not an integer', { expires: 0.5 }, /expiry/],
  ])('with %s is not written, and the message says what was expected', (_, change, message) => {
    expect(() => encodeManifest({ ...keyless, ...change })).toThrow(message)
    expect(() => encodeManifest({ ...keyless, ...change })).toThrow(WireError)
  })

  test('has what lookups with one server need last, and a flag that says so', () => {
    const hint = new Uint8Array(32).fill(9)
    const oneServer = ownBase(keyless, hint)
    const rows = { rowsHash: hint, keyHash: hint, transcriptHash: hint, development: false }
    const expiring = { ...keyless, expires: 1 }
    for (const plain of [expiring, { ...expiring, suite: 6, pointproofs: rows }]) {
      const [bytes, hinted] = [encodeManifest(plain), encodeManifest({ ...plain, oneServer })]
      expect(decodeManifest(hinted)).toEqual({ ...plain, oneServer })
      expect(hinted.length - bytes.length).toBe(80)
      expect(hinted.subarray(bytes.length, bytes.length + 32)).toEqual(hint)
      bytes[170] = 1
      expect(hinted.subarray(0, bytes.length)).toEqual(bytes)
    }
    expect(() => encodeManifest({ ...expiring, oneServer: ownBase(keyless, new Uint8Array(32)) })).toThrow(/hint hash/)
    expect(() => encodeManifest({ ...bare, expires: 1, oneServer: ownBase(bare, hint) })).toThrow(/hinted/)
    expect(() => encodeManifest({ ...keyless, oneServer })).toThrow(/expiry/)
    expect(() => checkFollows(keyless, { ...later, oneServer: ownBase(later, hint) })).toThrow(/hinted/)
    checkFollows(
      { ...keyless, oneServer },
      {
        ...later,
        oneServer: ownBase(
          later,
          hint.map(byte => byte + 1),
        ),
      },
    )
  })

  describe('that is not its own base', () => {
    const hint = new Uint8Array(32).fill(9)
    const first = { ...keyless, expires: 1, oneServer: ownBase(keyless, hint) }
    const entry = 5 + keyless.recordBytes
    const entries = (count: number) => ({ updateListBytes: 40 + count * entry })
    const patch = (count: number) => ({ patchBytes: count * entry, patchHash: new Uint8Array(32).fill(8) })
    const second = { ...later, ...entries(2), expires: 1, oneServer: { ...first.oneServer, ...patch(2) } }
    const third = { ...second, ...entries(3), epoch: 3, oneServer: { ...second.oneServer, ...patch(5) } }
    const others = (next: Manifest, change: Partial<OneServerFields>) => ({
      ...next,
      oneServer: { ...next.oneServer!, ...change },
    })

    test('reads as it was written, and follows the epoch before', () => {
      for (const manifest of [second, third]) expect(decodeManifest(encodeManifest(manifest))).toEqual(manifest)
      checkFollows(first, second)
      checkFollows(second, third)
      checkFollows(second, { ...third, ...entries(0), oneServer: second.oneServer })
      checkFollows(second, { ...third, oneServer: ownBase(third, hint) })
    })

    test.each([
      ['a base after it', { baseEpoch: 3 }, /base epoch: .*1 to 2.*3/],
      ['more records at its base', { baseRecords: keyless.records + 1 }, /base records/],
      ['half an entry', { patchBytes: entry - 1 }, /whole entries/],
      ['a patch of no hash', { patchHash: new Uint8Array(32) }, /patch hash/],
      ['a hash of no patch', { patchBytes: 0 }, /patch hash/],
      ['itself for its base, and a patch', { baseEpoch: 2, baseRecords: keyless.records }, /patch length/],
    ])('with %s is not written', (_, change, message) => {
      expect(() => encodeManifest(others(second, change))).toThrow(message)
    })

    test.each<[string, Manifest, Manifest, RegExp]>([
      ['a base that no epoch had', second, others({ ...third, epoch: 3 }, { baseEpoch: 2 }), /base epoch: .*1/],
      ['another hint of the same base', second, others(third, { hintHash: hint.map(byte => byte + 1) }), /hint hash/],
      ['other records of the same base', second, others(third, { baseRecords: 1 }), /base records/],
      ['a patch without its list', second, others(third, patch(2)), /patch length/],
      ['a patch longer than its list', second, others(third, patch(6)), /patch length/],
      [
        'the base of the generation before',
        second,
        { ...third, generation: 2, updateListBytes: 0, updateListHash: new Uint8Array(32) },
        /base epoch/,
      ],
    ])('does not follow with %s', (_, before, next, message) => {
      expect(() => checkFollows(before, next)).toThrow(message)
    })
  })

  test('of another format or suite is a version error', () => {
    for (const at of [4, 6]) {
      const bytes = encodeManifest(keyless)
      bytes[at] = 3
      expect(() => decodeManifest(bytes)).toThrow(expect.objectContaining({ code: 'version' }))
    }
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

test('the tables in docs/protocol.md have the fields of the code: change them there, too', async () => {
  const document = await readFile(new URL('../../../docs/protocol.md', import.meta.url), 'utf8')
  const section = document.split('\n## Manifest\n')[1]!.split('\n## ')[0]!
  const tables = section.split(/\n\n/).filter(paragraph => paragraph.startsWith('| at '))
  const cells = tables.map(table =>
    table.split('\n').map(row =>
      row
        .split('|')
        .slice(1, 4)
        .map(cell => cell.trim()),
    ),
  )
  const rows = (fields: Fields, from: number) => {
    let at = from
    return Object.values(fields).map(({ name, bytes }) => {
      at += bytes
      return [`${at - bytes}`, `${bytes}`, name]
    })
  }
  const [header, pointproofs, oneServer] = cells.map(([, , ...rows]) => rows)
  const end = `${HEADER_AT + headerBytes(HEADER)}`
  expect(header).toEqual([
    ['0', '4', 'magic'],
    ['4', '2', 'format'],
    ...rows(HEADER, HEADER_AT),
    [end, '64·Q', "partitions' hashes"],
  ])
  expect(pointproofs).toEqual(rows(POINTPROOFS, 0))
  expect(section).toContain(`${end} bytes, then 64 for each partition`)
  expect(section).toContain(`In suite 6, ${headerBytes(POINTPROOFS)} bytes follow`)
  expect(oneServer).toEqual(rows(ONE_SERVER, 0))
  expect(section).toContain(`If hinted, ${headerBytes(ONE_SERVER)} bytes follow`)

  const [, first] = document.split('\n### 1. Fetch the manifest\n')
  const short = [...first!.split('\n### ')[0]!.matchAll(/^\| (\d+) \| ([\d, ]+) \|/gm)]
  expect(short.length).toBeGreaterThan(15)
  const known = new Map(header!.map(([at, bytes]) => [at, bytes]))
  for (const [, at, bytes] of short) expect(`${at}: ${known.get(at!)}`).toBe(`${at}: ${bytes!.split(',')[0]}`)
})

test('within a generation all stays, but for what docs/protocol.md lists: a new field is `same`', () => {
  const namesOf = (next: 'no smaller' | undefined) =>
    Object.entries(HEADER).flatMap(([name, rules]) => (rules.next === next ? [name] : []))
  expect(namesOf('no smaller')).toEqual(['records', 'partitions'])
  expect(namesOf(undefined)).toEqual([
    ...['generation', 'epoch', 'expires', 'directoryBytes', 'updateListBytes', 'directoryHash', 'updateListHash'],
    ...['previousManifest', 'directoryCommitment'],
  ])
})

describe('a chain of manifests', () => {
  const third = { ...later, epoch: 3, records: 1001 }
  const joined = (...chain: Manifest[]) => Uint8Array.from(chain.flatMap(manifest => [...encodeManifest(manifest)]))

  test('keeps its query limit while partitions open, whatever the planner would take for the new ones', () => {
    // ℓ = 65 536 from Q = 16 to 17, and 2^24 records with proofs from Q = 256 to 257: eight, and sixty, queries stay allowed.
    for (const [recordBytes, partitionRecords, partitions, maxQueries] of [
      [65_536, 1, 16, 8],
      [32, 65_536, 256, 60],
    ] as const) {
      const sized = (change: Partial<Manifest>): Manifest => {
        const manifest = { ...later, recordBytes, valueBytes: recordBytes, partitionRecords, partitions, maxQueries }
        const full = { ...manifest, records: partitions * partitionRecords, ...change }
        const digests = new Uint8Array(32 * full.partitions).fill(1)
        return { ...full, commitments: digests, contentHashes: digests }
      }
      const opened = { epoch: 3, partitions: partitions + 1 }
      expect(decodeManifests(joined(sized({}), sized(opened)))).toHaveLength(2)
      for (const other of [maxQueries - 1, maxQueries + 1]) {
        expect(() => decodeManifests(joined(sized({}), sized({ ...opened, maxQueries: other })))).toThrow(
          /query limit: .* as before/,
        )
      }
      expect(() => encodeManifest(sized({ ...opened, partitions: 3 * partitions }))).toThrow(/query limit/)
      encodeManifest(sized({ ...opened, partitions: 2 * partitions }))
    }
  })

  test('torn anywhere is refused', () => {
    const bytes = joined(later, third)
    for (let length = 1; length < bytes.length; length++) {
      if (2 * length === bytes.length) continue
      expect(() => decodeManifests(bytes.subarray(0, length))).toThrow(WireError)
    }
  })
})
