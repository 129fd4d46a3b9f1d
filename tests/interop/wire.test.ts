// Holds packages/protocol and the independent reference to vectors/wire.json: manifests, queries, answers and records
// with their bytes, and bytes that a reader has to refuse.
//
// After a deliberate change of format, write the file anew (the reference does):
// `PIROUETTE_WRITE_VECTORS=1 npx vitest run tests/interop/wire.test.ts`.

import { writeFileSync } from 'node:fs'
import { bytesToHex as hex, hexToBytes as unhex } from '@noble/hashes/utils.js'
import { describe, expect, test } from 'vitest'
import { type ManifestFields, type RecordFields, reference, shipped } from './codecs.js'
import type { Suite } from './reference/layout.js'
import { readVectors, stream, vectorsFile } from './vectors.js'

interface WireVectors {
  readonly manifests: readonly Manifest[]
  readonly queries: readonly {
    readonly manifest: string
    readonly suite: Suite
    readonly vectors: number[][]
    readonly bytes: string
  }[]
  readonly answers: readonly {
    readonly manifest: string
    readonly suite: Suite
    readonly count: number
    readonly entries: string[]
    readonly bytes: string
  }[]
  readonly records: readonly { readonly manifest: string; readonly fields: RecordFields; readonly bytes: string }[]
  readonly refused: readonly Refused[]
}

interface Manifest {
  readonly name: string
  readonly fields: ManifestFields
  readonly bytes: string
}

interface Refused {
  readonly kind: 'manifest' | 'query' | 'answer' | 'record'
  readonly because: string
  /** what a query, an answer (to one query; both in suite 1) or a record is read against */
  readonly manifest?: string
  readonly bytes: string
}

if (process.env['PIROUETTE_WRITE_VECTORS']) {
  writeFileSync(vectorsFile('wire'), `${JSON.stringify(makeVectors(), null, 2)}\n`)
}
const vectors = readVectors<WireVectors>('wire')
const manifestOf = (name: string) => vectors.manifests.find(manifest => manifest.name === name)!.bytes

test('the vectors are those that this file makes', () => {
  expect(vectors).toEqual(makeVectors())
})

describe.each([
  ['the reference', reference],
  ['packages/protocol', shipped],
])('%s', (_, codecs) => {
  test.each(vectors.manifests)('reads and writes a manifest: $name', ({ fields, bytes }) => {
    expect(codecs.encodeManifest(fields)).toBe(bytes)
    expect(codecs.decodeManifest(bytes)).toEqual(fields)
  })

  test.each(vectors.queries)('reads and writes a query: $manifest', ({ manifest, suite, vectors, bytes }) => {
    expect(codecs.encodeQuery(manifestOf(manifest), vectors, suite)).toBe(bytes)
    expect(codecs.decodeQuery(manifestOf(manifest), bytes, suite)).toEqual(vectors)
    expect(() => codecs.decodeQuery(manifestOf(manifest), bytes, suite === 1 ? 2 : 1)).toThrow()
  })

  test.each(vectors.answers)('reads and writes an answer: $manifest', ({ manifest, suite, count, entries, bytes }) => {
    expect(codecs.encodeAnswer(manifestOf(manifest), count, entries, suite)).toBe(bytes)
    expect(codecs.decodeAnswer(manifestOf(manifest), count, bytes, suite)).toEqual(entries)
    expect(() => codecs.decodeAnswer(manifestOf(manifest), count, bytes, suite === 1 ? 2 : 1)).toThrow()
  })

  test.each(vectors.records)('reads and writes a record: $manifest', ({ manifest, fields, bytes }) => {
    if (fields.fingerprint !== '' || fields.value !== '') {
      expect(codecs.encodeRecord(manifestOf(manifest), fields)).toBe(bytes)
    }
    expect(codecs.decodeRecord(manifestOf(manifest), bytes)).toEqual(fields)
  })

  test.each(vectors.refused)('refuses a $kind: $because', ({ kind, manifest, bytes }) => {
    const read = {
      manifest: () => codecs.decodeManifest(bytes),
      query: () => codecs.decodeQuery(manifestOf(manifest!), bytes, 1),
      answer: () => codecs.decodeAnswer(manifestOf(manifest!), 1, bytes, 1),
      record: () => codecs.decodeRecord(manifestOf(manifest!), bytes),
    }
    expect(read[kind]).toThrow()
  })
})

describe('both accept and refuse the same bytes: every byte changed in three ways, one too few, one too many', () => {
  /** What a decoder makes of bytes; undefined: it refuses them. */
  const attempt = <T>(decode: () => T): T | undefined => {
    try {
      return decode()
    } catch {
      return undefined
    }
  }
  const mutations = (valid: string) => [
    valid.slice(0, -2),
    `${valid}00`,
    ...[0x01, 0x80, 0xff].flatMap(flip =>
      Array.from(
        unhex(valid),
        (byte, at) => valid.slice(0, 2 * at) + hex(Uint8Array.of(byte ^ flip)) + valid.slice(2 * at + 2),
      ),
    ),
  ]

  test.each(vectors.manifests.filter(({ bytes }) => bytes.length < 10_000))('manifest: $name', ({ bytes }) => {
    for (const mutated of mutations(bytes)) {
      const [a, b] = [reference, shipped].map(codecs => attempt(() => codecs.decodeManifest(mutated)))
      expect(b, mutated).toEqual(a)
    }
  })

  test.each(vectors.answers)('answer: $manifest', ({ manifest, suite, count, bytes }) => {
    for (const mutated of mutations(bytes)) {
      const [a, b] = [reference, shipped].map(codecs =>
        attempt(() => codecs.decodeAnswer(manifestOf(manifest), count, mutated, suite)),
      )
      expect(b, mutated).toEqual(a)
    }
  })
})

// ---- how the vectors are made ---------------------------------------------------------------------

function makeVectors(): WireVectors & { readonly comment: string } {
  const manifests = makeManifests()
  const bytesOf = (name: string) => manifests.find(manifest => manifest.name === name)!.bytes
  return {
    comment: 'Made by tests/interop/wire.test.ts. Bytes are hex.',
    manifests,
    queries: (
      [
        ['smallest', 1, [[0]]],
        ['keyed', 1, [[0, 4]]],
        ['keyed', 1, [1, 3, 2, 2, 4, 0]],
        ['keyed', 2, [1, 3, 2, 2, 4, 0]],
        ['without commitments', 2, [[2, 1]]],
        ['largest partitions', 1, [[65_535, 256]]],
      ] as [string, Suite, (number | number[])[]][]
    ).map(([manifest, suite, offsets]) => {
      const vectors = typeof offsets[0] === 'number' ? pairs(offsets as number[]) : (offsets as number[][])
      return { manifest, suite, vectors, bytes: reference.encodeQuery(bytesOf(manifest), vectors, suite) }
    }),
    answers: (
      [
        { manifest: 'smallest', suite: 1, count: 1, entries: 1, entryBytes: 1 },
        { manifest: 'keyed', suite: 1, count: 2, entries: 4, entryBytes: 24 + 3 * 32 },
        { manifest: 'keyed', suite: 2, count: 2, entries: 4, entryBytes: 24 },
        { manifest: 'without commitments', suite: 2, count: 1, entries: 2, entryBytes: 8 },
      ] as const
    ).map(({ manifest, suite, count, entries: howMany, entryBytes }) => {
      const entries = Array.from({ length: howMany }, (_, i) => bytes(`entry ${i}`, entryBytes))
      return {
        manifest,
        suite,
        count,
        entries,
        bytes: reference.encodeAnswer(bytesOf(manifest), count, entries, suite),
      }
    }),
    records: [
      { manifest: 'smallest', fields: { fingerprint: '', value: 'ff' } },
      { manifest: 'keyed', fields: { fingerprint: bytes('fingerprint', 16), value: '0001020304050607' } },
      { manifest: 'keys alone', fields: { fingerprint: bytes('fingerprint', 16), value: '' } },
      { manifest: 'variable', fields: { fingerprint: bytes('fingerprint', 16), value: '' } },
      { manifest: 'variable', fields: { fingerprint: bytes('fingerprint', 16), value: bytes('value', 5) } },
      { manifest: 'variable', fields: { fingerprint: bytes('fingerprint', 16), value: bytes('value', 300) } },
      { manifest: 'keyless and variable', fields: { fingerprint: '', value: 'ff' } },
    ]
      .map(vector => ({ ...vector, bytes: reference.encodeRecord(bytesOf(vector.manifest), vector.fields) }))
      .concat({ manifest: 'keyed', fields: { fingerprint: '', value: '' }, bytes: '00'.repeat(24) }),
    refused: makeRefused(bytesOf),
  }
}

function pairs(offsets: readonly number[]): number[][] {
  return Array.from({ length: offsets.length / 2 }, (_, i) => offsets.slice(2 * i, 2 * i + 2))
}

/** Bytes named by what they stand for, in hex. */
function bytes(label: string, count: number): string {
  return hex(stream(label, count))
}

function makeManifests(): Manifest[] {
  const zero = '00'.repeat(32)
  const keyless = {
    suite: 1 as Suite,
    databaseId: bytes('database', 16),
    generation: 1,
    epoch: 1,
    keyed: false,
    variable: false,
    expires: 0,
    directoryBytes: 0,
    updateListBytes: 0,
    directoryHash: zero,
    updateListHash: zero,
    updateRecordsHash: zero,
    previousManifest: zero,
  }
  const keyed = { ...keyless, keyed: true, directoryBytes: 68, directoryHash: bytes('directory', 32) }
  const changed = {
    generation: 0x01020304,
    epoch: 0xfffffffe,
    expires: 0x1_0000_0001,
    updateListBytes: 40 + 50 * (5 + 318), // the longest of "variable"
    updateListHash: bytes('update list', 32),
    updateRecordsHash: bytes('update records', 32),
    previousManifest: bytes('previous manifest', 32),
  }
  const sized = (records: number, valueBytes: number, partitions: number, partitionRecords: number) => ({
    ...{ records, valueBytes, partitions, partitionRecords },
    commitments: Array.from({ length: partitions }, (_, q) => bytes(`commitment ${q}`, 32)),
    contentHashes: Array.from({ length: partitions }, (_, q) => bytes(`content ${q}`, 32)),
  })
  const cases: Record<string, ManifestFields> = {
    smallest: { ...keyless, ...sized(1, 1, 1, 1), recordBytes: 1 },
    keyed: { ...keyed, ...sized(9, 8, 2, 5), recordBytes: 24 },
    'keys alone': { ...keyed, ...sized(16, 0, 16, 1), recordBytes: 16 },
    variable: { ...keyed, ...changed, ...sized(50, 300, 17, 3), variable: true, recordBytes: 318 },
    'keyless and variable': { ...keyless, ...sized(3, 1, 1, 4), variable: true, recordBytes: 3 },
    'first of a generation': {
      ...{ ...keyless, generation: 2, epoch: 2, previousManifest: changed.previousManifest },
      ...{ ...sized(1, 1, 1, 1), recordBytes: 1 },
    },
    'without commitments': {
      ...{ ...keyless, suite: 2, ...sized(5, 8, 2, 3), recordBytes: 8 },
      commitments: [zero, zero],
    },
    'largest partitions': {
      ...{ ...keyless, ...changed, updateListBytes: 40 + 41_000 * (5 + 65_536) },
      ...{ ...sized(65_537, 65_536, 2, 65_536), recordBytes: 65_536 },
    },
  }
  return Object.entries(cases).map(([name, fields]) => ({ name, fields, bytes: reference.encodeManifest(fields) }))
}

function makeRefused(bytesOf: (name: string) => string): Refused[] {
  const overwritten = (valid: string, at: number, field: string) =>
    valid.slice(0, 2 * at) + field + valid.slice(2 * at + field.length)
  const u32 = (value: number) => hex(new Uint8Array(new Uint32Array([value]).buffer))

  const keyless = bytesOf('smallest')
  const keyed = bytesOf('keyed')
  const changed = bytesOf('variable')
  const badManifests = {
    'no bytes': '',
    'a byte too few': keyed.slice(0, -2),
    'a byte too many': `${keyed}00`,
    'another magic': overwritten(keyed, 0, '51'),
    'format 2': overwritten(keyed, 4, '02'),
    'suite 0': overwritten(keyed, 6, '00'),
    'suite 3': overwritten(keyed, 6, '03'),
    'commitments in suite 2': overwritten(keyed, 6, '02'),
    'generation 0': overwritten(keyed, 24, u32(0)),
    'epoch 0': overwritten(keyed, 28, u32(0)),
    'N = 0': overwritten(keyed, 32, u32(0)),
    'N > Q·M': overwritten(keyed, 32, u32(11)),
    'ℓ too short for its value': overwritten(keyed, 36, u32(23)),
    'ℓ = 0': overwritten(overwritten(keyless, 36, u32(0)), 48, u32(0)),
    'ℓ = 65 537': overwritten(overwritten(keyless, 36, u32(65_537)), 48, u32(65_537)),
    'Q = 0': overwritten(keyed, 40, u32(0)),
    'Q of more partitions than follow': overwritten(keyed, 40, u32(3)),
    'M = 0': overwritten(keyed, 44, u32(0)),
    'M = 65 537': overwritten(keyed, 44, u32(65_537)),
    'value bytes that do not give ℓ': overwritten(keyed, 48, u32(9)),
    'neither keyed nor keyless': overwritten(keyed, 52, '02'),
    'neither variable nor fixed': overwritten(keyed, 53, '02'),
    'a reserved byte': overwritten(keyed, 55, '01'),
    'an expiry of 2^53 seconds': overwritten(keyed, 62, '20'),
    'a manifest before the first': overwritten(keyed, 168, '01'),
    'fewer epochs than generations': overwritten(keyed, 24, u32(2)),
    'a later epoch without a list': overwritten(bytesOf('first of a generation'), 24, u32(1)),
    'a later epoch without a manifest before it': overwritten(changed, 168, '00'.repeat(32)),
    'an update list without its hash': overwritten(changed, 104, '00'.repeat(32)),
    'an update list shorter than its header': overwritten(changed, 68, u32(39)),
    'an update list of more entries than records': overwritten(changed, 68, u32(40 + 51 * 323)),
    'an update list that ends within an entry': overwritten(changed, 68, u32(40 + 324)),
    'an update list without its hash in record form': overwritten(changed, 136, '00'.repeat(32)),
    'an update list in the first epoch': overwritten(overwritten(keyed, 68, u32(40)), 104, '01'),
    'the hash of no update records': overwritten(keyed, 136, '01'),
    'a directory without keys': overwritten(keyless, 64, u32(1)),
    "a directory's hash without keys": overwritten(keyless, 72, '01'),
    'keys without a directory': overwritten(keyed, 64, u32(0)),
    'the hash of no update list': overwritten(keyed, 104, '01'),
  }
  const query = reference.encodeQuery(keyed, [[0, 4]], 1)
  const badQueries = {
    'no bytes': '',
    'a header alone': query.slice(0, 80),
    'a byte too few': query.slice(0, -2),
    'a byte too many': `${query}00`,
    "an answer's magic": overwritten(query, 3, '41'),
    'format 2': overwritten(query, 4, '02'),
    'suite 2': overwritten(query, 6, '02'),
    'count 0': overwritten(query.slice(0, 80), 36, '00'),
    'a count of more vectors than follow': overwritten(query, 36, '02'),
    'a reserved byte': overwritten(query, 38, '01'),
  }
  const answer = reference.encodeAnswer(keyed, 1, [bytes('entry 0', 120), bytes('entry 1', 120)], 1)
  const badAnswers = {
    'no bytes': '',
    'a header alone': answer.slice(0, 80),
    'a byte too few': answer.slice(0, -2),
    'a byte too many': `${answer}00`,
    "a query's magic": overwritten(answer, 3, '51'),
    'format 2': overwritten(answer, 4, '02'),
    'suite 2': overwritten(answer, 6, '02'),
    'another database': overwritten(answer, 8, hex(unhex(bytes('database', 1)).map(byte => byte ^ 1))),
    'another generation': overwritten(answer, 24, u32(2)),
    'another epoch': overwritten(answer, 28, u32(2)),
    'another Q': overwritten(answer, 32, u32(1)),
    'another count': overwritten(answer, 36, '02'),
    'a reserved byte': overwritten(answer, 38, '01'),
  }
  const fields = { fingerprint: bytes('fingerprint', 16), value: bytes('value', 5) }
  const record = reference.encodeRecord(bytesOf('variable'), fields)
  const badRecords = {
    'no bytes': '',
    'a byte too few': record.slice(0, -2),
    'a byte too many': `${record}00`,
    'a value longer than any': overwritten(record, 16, '2d01'),
    'something after the value': `${record.slice(0, -2)}01`,
    'something in an empty slot': `${'00'.repeat(317)}01`,
  }
  const refused = (kind: Refused['kind'], cases: Record<string, string>, manifest?: string) =>
    Object.entries(cases).map(([because, bytes]) => ({ kind, because, ...(manifest && { manifest }), bytes }))
  return [
    ...refused('manifest', badManifests),
    ...refused('query', badQueries, 'keyed'),
    ...refused('answer', badAnswers, 'keyed'),
    ...refused('record', badRecords, 'variable'),
  ]
}
