// Holds packages/protocol and the independent reference to vectors/wire.json: manifests, queries, answers, records,
// a publisher's batches and signatures, and what goes to and comes from a fence, with their bytes; and bytes that a reader
// has to refuse.
//
// After a deliberate change of format, write the file anew (the reference does):
// `KEYHUSH_WRITE_VECTORS=1 npx vitest run tests/interop/wire.test.ts`.

import { writeFileSync } from 'node:fs'
import { isDeepStrictEqual } from 'node:util'
import { slotMark } from '@keyhush/protocol'
import { bytesToHex as hex, hexToBytes as unhex, utf8ToBytes } from '@noble/hashes/utils.js'
import { describe, expect, test } from 'vitest'
import { keyless as shared } from '../../packages/protocol/test/manifests.js'
import { verifies } from '../../server/dist/base/ed25519.js'
import { sampled } from '../support/thorough.js'
import { type BatchFields, type FenceFields, inHex, type ManifestFields, reference, shipped } from './codecs.js'
import { offsetsOf } from './reference/bytes.js'
import { blockLayout } from './reference/directory.js'
import { FENCE_FIELDS } from './reference/fence.js'
import { hash } from './reference/hash.js'
import { answerBytes, generate, groupsAmong, groupsOf, lastVector } from './reference/instant.js'
import type { Suite } from './reference/layout.js'
import { HEADER_FIELDS, ONE_SERVER_FIELDS, POINTPROOFS_FIELDS } from './reference/manifest.js'

import { HEAD_FIELDS, type InstantOf, type Sharing } from './reference/message.js'
import { BATCH_FIELDS, signWith } from './reference/publishing.js'
import { isExcluded, slotMarks } from './reference/slot-marks.js'
import { put, readVectors, stream, vectorsFile } from './vectors.js'

/** As `makeVectors` makes them. */
type WireVectors = ReturnType<typeof makeVectors>

interface Manifest {
  readonly name: string
  readonly fields: ManifestFields
  readonly bytes: string
}

interface Refused {
  readonly kind: keyof ReturnType<typeof readersOf>
  readonly because: string
  /** The manifest that a query or answer (of one query in suite 1), a record, or an instant query or answer is read against. */
  readonly manifest?: string
  /** of a batch's signature, the header's text */
  readonly bytes: string
}

// What the vectors below are made of, here because they may be made at once.
const BATCH: BatchFields = {
  encoding: 'utf8',
  databaseId: bytes('database', 16),
  generation: 1,
  epoch: 2,
  expires: 0,
  base: bytes('base', 32),
  operations: '{"op":"delete","key":"evil.example"}\n',
}

const CLAIM: FenceFields = {
  kind: 'confirm',
  databaseId: bytes('database', 16),
  hintId: bytes('hint', 16),
  version: 2 ** 32 - 1,
  name: bytes('name', 32),
}

const POINTPROOFS = {
  ...{ rowsHash: bytes('rows', 32), keyHash: bytes('key', 32), transcriptHash: bytes('transcript', 32) },
  development: false,
}

const THREE_VECTORS = [
  [1, 3],
  [2, 2],
  [4, 0],
]

const NOBODY: FenceFields = { ...CLAIM, kind: 'register', version: 0, name: '00'.repeat(32) }

function littleEndian(value: number, length: number): string {
  return hex(new Uint8Array(new BigUint64Array([BigInt(value)]).buffer).subarray(0, length))
}

/** Changes a field of what has these: to a number, or from its beginning to other bytes. */
function changing<Name extends string>(lengths: Readonly<Record<Name, number>>, begin = 0) {
  const at = offsetsOf(lengths)
  return (bytes: string, field: Name, by: number | string) =>
    put(bytes, begin + at[field], typeof by === 'number' ? littleEndian(by, lengths[field]) : by)
}

const headed = changing(HEAD_FIELDS)

type HeaderField = keyof typeof HEADER_FIELDS

const HEADER_AT = offsetsOf(HEADER_FIELDS)

function partOf(manifest: string, field: HeaderField): string {
  return manifest.slice(2 * HEADER_AT[field], 2 * (HEADER_AT[field] + HEADER_FIELDS[field]))
}

function headerFieldAt(at: number): string {
  const names = Object.keys(HEADER_FIELDS) as HeaderField[]
  return names.findLast(name => HEADER_AT[name] <= at && at < HEADER_AT.end) ?? 'what follows the header'
}

/** The fields in which two manifests differ. */
function differing(a: string, b: string): string[] {
  return (Object.keys(HEADER_FIELDS) as HeaderField[]).filter(name => partOf(a, name) !== partOf(b, name))
}

if (process.env['KEYHUSH_WRITE_VECTORS']) {
  writeFileSync(vectorsFile('wire'), `${JSON.stringify(makeVectors(), null, 2)}\n`)
}
const vectors = readVectors<WireVectors>('wire')
const manifestOf = (name: string) => vectors.manifests.find(manifest => manifest.name === name)!.fields

/** One test of many cases: a fault fails it with the names of its case and of what differs, and hides no other. */
function testAll<T extends object>(what: string, cases: readonly T[], check: (one: T) => void): void {
  const nameOf = (one: T) => Object.values(one).filter(each => typeof each !== 'object' && `${each}`.length < 80)
  test(what, () => {
    const faults = cases.flatMap(one => {
      try {
        check(one)
        return []
      } catch (error) {
        return [`${nameOf(one).join(', ')}: ${(error as Error).message}`]
      }
    })
    expect(faults, faults[0]).toEqual([])
  })
}

/** How each kind is read against a manifest. */
function readersOf(codecs: typeof reference, bytes: string, manifest: ManifestFields) {
  return {
    manifest: () => codecs.decodeManifest(bytes),
    query: () => codecs.decodeQuery(manifest, bytes, 1),
    answer: () => codecs.decodeAnswer(manifest, 1, bytes, 1),
    record: () => codecs.decodeRecord(manifest, bytes),
    batch: () => codecs.decodeBatch(bytes),
    'batch signature': () => codecs.decodeBatchSignature(bytes),
    'fence request': () => codecs.decodeFenceRequest(bytes),
    'fence reply': () => codecs.decodeFenceReply(bytes),
    claim: () => codecs.decodeClaimedQuery(bytes),
    verdict: () => codecs.splitVerdict(bytes),
    'instant query': () => codecs.decodeInstantQuery(manifest, bytes),
    'instant answer': () => codecs.decodeInstantAnswer(manifest, 'records', 1, bytes, 2),
  }
}

test('the vectors are those that this file makes', () => {
  expect(vectors).toEqual(makeVectors())
})

testAll("fields stand where the reference's tables say", Object.entries(HEADER_FIELDS), ([field, length]) => {
  for (const { fields, bytes } of vectors.manifests) {
    const says = { ...fields, magic: hex(utf8ToBytes('PIRM')), format: 1, packing: Math.log2(fields.blockRecords) }
    const flags = { hinted: fields.oneServer !== undefined, marked: fields.slotMarksHash !== undefined }
    const value = { ...says, ...flags }[field as keyof typeof HEADER_FIELDS]
    const written = typeof value === 'string' ? value : littleEndian(Number(value), length)
    expect(partOf(bytes, field as keyof typeof HEADER_FIELDS)).toBe(written)
  }
})

describe.each([
  ['the reference', reference],
  ['packages/protocol', shipped],
])('%s', (_, codecs) => {
  testAll('reads and writes manifests', vectors.manifests, ({ fields, bytes }) => {
    const written = codecs.encodeManifest(fields)
    expect(differing(written, bytes)).toEqual([])
    expect(written).toBe(bytes)
    expect(codecs.decodeManifest(bytes)).toEqual(fields)
  })

  testAll('knows which manifest is the next', vectors.pairs, ({ follows, bytes }) => {
    const second = bytes.indexOf(bytes.slice(0, 8), 8) // magic
    for (const each of [bytes.slice(0, second), bytes.slice(second)]) codecs.decodeManifest(each) // each is one by itself
    if (follows) expect(codecs.decodeChain(bytes)).toEqual([7, 8])
    else expect(() => codecs.decodeChain(bytes)).toThrow()
  })

  testAll('reads and writes queries', vectors.queries, ({ manifest, suite, vectors, bytes }) => {
    expect(codecs.encodeQuery(manifestOf(manifest), vectors, suite)).toBe(bytes)
    expect(codecs.decodeQuery(manifestOf(manifest), bytes, suite)).toEqual(vectors)
    expect(() => codecs.decodeQuery(manifestOf(manifest), bytes, suite === 1 ? 2 : 1)).toThrow()
  })

  testAll('reads and writes answers', vectors.answers, ({ manifest, suite, count, entries, bytes }) => {
    expect(codecs.encodeAnswer(manifestOf(manifest), count, entries, suite)).toBe(bytes)
    expect(codecs.decodeAnswer(manifestOf(manifest), count, bytes, suite)).toEqual(entries)
    expect(() => codecs.decodeAnswer(manifestOf(manifest), count, bytes, suite === 1 ? 2 : 1)).toThrow()
  })

  testAll('reads and writes records', vectors.records, ({ manifest, fields, bytes }) => {
    if (fields.fingerprint !== '' || fields.value !== '') {
      expect(codecs.encodeRecord(manifestOf(manifest), fields)).toBe(bytes)
    }
    expect(codecs.decodeRecord(manifestOf(manifest), bytes)).toEqual(fields)
  })

  testAll('reads and writes signatures of batches', vectors.batchSignatures, ({ batch, message, fields, header }) => {
    expect(codecs.batchMessage(codecs.decodeBatch(batch).databaseId, fields)).toBe(message)
    expect(codecs.encodeBatchSignature(fields)).toBe(header)
    expect(codecs.decodeBatchSignature(header)).toEqual(fields)
  })

  testAll('reads and writes batches', vectors.batches, ({ fields, bytes }) => {
    expect([codecs.encodeBatch(fields), codecs.decodeBatch(bytes)]).toEqual([bytes, fields])
  })

  testAll('reads and writes requests to a fence', vectors.fenceRequests, ({ fields, bytes }) => {
    expect([codecs.encodeFenceRequest(fields), codecs.decodeFenceRequest(bytes)]).toEqual([bytes, fields])
  })

  testAll('reads and writes verdicts of a fence', vectors.fenceReplies, ({ verdict, bytes }) => {
    expect([codecs.encodeFenceReply(verdict), codecs.decodeFenceReply(bytes)]).toEqual([bytes, verdict])
  })

  testAll('reads and writes claims, and verdicts behind answers', vectors.claims, ({ query, claim, ...vector }) => {
    expect(codecs.withClaim(query, claim)).toBe(vector.request)
    expect(codecs.decodeClaimedQuery(vector.request)).toEqual({ query, claim })
    expect(codecs.decodeClaimedQuery(query)).toEqual({ query, claim: undefined })
    expect(codecs.splitVerdict(vector.reply)).toEqual({ answer: vector.answer, verdict: vector.verdict })
  })

  testAll('reads and writes instant queries', vectors.instantQueries, ({ manifest, of, queries, sharing, bytes }) => {
    expect(codecs.encodeInstantQuery(manifestOf(manifest), of, queries, sharing)).toBe(bytes)
    expect(codecs.decodeInstantQuery(manifestOf(manifest), bytes)).toEqual({ of, queries, sharing })
    expect(() => codecs.decodeQuery(manifestOf(manifest), bytes, 1)).toThrow()
  })

  testAll('reads and writes instant answers', vectors.instantAnswers, ({ manifest, of, answers, servers, bytes }) => {
    const other = of === 'records' ? 'directory blocks' : 'records'
    expect(codecs.encodeInstantAnswer(manifestOf(manifest), of, answers, servers)).toBe(bytes)
    const read = (of: InstantOf, servers: number) =>
      codecs.decodeInstantAnswer(manifestOf(manifest), of, answers.length, bytes, servers)
    expect(read(of, servers)).toEqual(answers)
    expect(() => read(other, servers)).toThrow()
    expect(() => read(of, servers === 2 ? 3 : 2)).toThrow()
  })

  testAll('refuses all that has to be refused', vectors.refused, ({ kind, manifest, bytes }) => {
    expect(readersOf(codecs, bytes, manifestOf(manifest ?? 'keyed'))[kind]).toThrow()
  })
})

test('the slot marks are those of fingerprints, as packages/protocol makes them, and exclude no listed key', () => {
  const { recordBytes, records, marks, keys } = vectors.slotMarks
  const all = unhex(records)
  const marked = unhex(marks)
  marked.forEach((mark, i) => {
    const record = all.subarray(i * recordBytes, (i + 1) * recordBytes)
    expect(mark).toBe(record.every(byte => byte === 0) ? 0 : slotMark(record))
  })
  expect(marked).toHaveLength(all.length / recordBytes)
  for (const { index, fingerprint, excluded } of keys) {
    expect(marked[index] !== slotMark(unhex(fingerprint))).toBe(excluded)
    if (records.includes(fingerprint) && records.indexOf(fingerprint) === 2 * recordBytes * index)
      expect(excluded).toBe(false)
  }
})

test('the signatures are those of an independent library, and servers verify them and no others', () => {
  const { batchSignatures, manifestSignatures } = vectors
  for (const { seed, publicKey, message, signature } of [
    ...batchSignatures.map(({ seed, message, fields }) => ({ seed, message, ...fields })),
    ...manifestSignatures.map(signed => ({ ...signed, message: shipped.manifestMessage(signed.manifest) })),
  ]) {
    const made = signWith(unhex(seed), unhex(message))
    expect([hex(made.publicKey), hex(made.signature)]).toEqual([publicKey, signature])
    expect(verifies(unhex(signature), unhex(message), unhex(publicKey))).toBe(true)
    expect(verifies(unhex(signature), unhex(`${message}00`), unhex(publicKey))).toBe(false)
  }
})

describe('both implementations accept and refuse the same bytes: every byte changed, one too few, one too many', () => {
  /** What a decoder makes of bytes; undefined: it refuses them. */
  const attempt = <T>(decode: () => T): T | undefined => {
    try {
      return decode()
    } catch {
      return undefined
    }
  }
  /** How, and where; `undefined`: not at all. */
  const mutations = (valid: string): [string, number | undefined][] => [
    [valid, undefined],
    [valid.slice(0, -2), valid.length / 2 - 1],
    [`${valid}00`, valid.length / 2],
    ...sampled(
      [...unhex(valid)].flatMap((byte, at) => [0x01, 0x80, 0xff].map(flip => ({ at, changed: byte ^ flip }))),
    ).map(({ at, changed }): [string, number] => [put(valid, at, hex(Uint8Array.of(changed))), at]),
  ]

  type Read = (codecs: typeof reference, bytes: string) => unknown
  const expectAgreement = (valid: string, read: Read, fieldAt = (at: number) => `byte ${at}`) => {
    const differently = mutations(valid).flatMap(([mutated, at]) => {
      const [a, b] = [reference, shipped].map(codecs => attempt(() => read(codecs, mutated)))
      return isDeepStrictEqual(a, b) ? [] : [at === undefined ? 'what is valid' : fieldAt(at)]
    })
    expect([...new Set(differently)], 'the reference and packages/protocol read it differently').toEqual([])
  }
  const small = vectors.manifests.filter(({ bytes }) => bytes.length < 10_000)

  testAll('manifests', small, ({ bytes }) =>
    expectAgreement(bytes, (codecs, mutated) => codecs.decodeManifest(mutated), headerFieldAt),
  )

  testAll('answers', vectors.answers, ({ manifest, suite, count, bytes }) => {
    expectAgreement(bytes, (codecs, mutated) => codecs.decodeAnswer(manifestOf(manifest), count, mutated, suite))
  })

  testAll('records', vectors.records, ({ manifest, bytes }) => {
    expectAgreement(bytes, (codecs, mutated) => codecs.decodeRecord(manifestOf(manifest), mutated))
  })

  const others = [
    ['batch', vectors.batches[0]!.bytes.slice(0, 2 * 80)],
    ['fence request', vectors.fenceRequests[0]!.bytes],
    ['fence request', vectors.fenceRequests[1]!.bytes],
    ['fence reply', vectors.fenceReplies[0]!.bytes],
  ] as const
  testAll('batches, and what goes to and comes from a fence', others, ([kind, bytes]) =>
    expectAgreement(bytes, (codecs, mutated) => readersOf(codecs, mutated, manifestOf('keyed'))[kind]()),
  )
})

// ---- how the vectors are made ---------------------------------------------------------------------

/** A manifest by its name. */
type Named = (name: string) => Manifest

function makeVectors() {
  const manifests = makeManifests()
  const named: Named = name => manifests.find(manifest => manifest.name === name)!
  return {
    comment: 'Made by tests/interop/wire.test.ts. Bytes are hex.',
    manifests,
    pairs: makePairs(),
    slotMarks: makeSlotMarks(),
    queries: (
      [
        ['smallest', 1, [[0]]],
        ['keyed', 1, [[0, 4]]],
        ['keyed', 1, THREE_VECTORS],
        ['keyed', 2, THREE_VECTORS],
        ['without commitments', 2, [[2, 1]]],
        ['largest partitions', 1, [[65_535, 256]]],
        ['with Pointproofs', 6, [[0, 2]]],
        ['with Pointproofs', 1, [[2, 2]]],
      ] as [string, Suite, number[][]][]
    ).map(([manifest, suite, vectors]) => {
      return { manifest, suite, vectors, bytes: reference.encodeQuery(named(manifest).fields, vectors, suite) }
    }),
    answers: (
      [
        { manifest: 'smallest', suite: 1, count: 1, entries: 1, entryBytes: 1 },
        { manifest: 'keyed', suite: 1, count: 2, entries: 4, entryBytes: 24 + 3 * 32 },
        { manifest: 'keyed', suite: 2, count: 2, entries: 4, entryBytes: 24 },
        { manifest: 'without commitments', suite: 2, count: 1, entries: 2, entryBytes: 8 },
        { manifest: 'with Pointproofs', suite: 6, count: 2, entries: 4, entryBytes: 8 },
      ] as const
    ).map(({ manifest, suite, count, entries: howMany, entryBytes }) => {
      const entries = Array.from({ length: howMany }, (_, i) => bytes(`entry ${i}`, entryBytes))
      if (suite === 6) entries.push(bytes('proof', 48))
      const body = reference.encodeAnswer(named(manifest).fields, count, entries, suite)
      return { manifest, suite, count, entries, bytes: body }
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
      .map(vector => ({ ...vector, bytes: reference.encodeRecord(named(vector.manifest).fields, vector.fields) }))
      .concat({ manifest: 'keyed', fields: { fingerprint: '', value: '' }, bytes: '00'.repeat(24) }),
    ...makePublished(named),
    ...makeFenced(named),
    ...makeInstant(named),
    refused: [...makeRefused(named), ...makeRefusedBeside(named), ...makeRefusedInstant(named)],
  }
}

function makeInstant(named: Named) {
  const asked: [string, InstantOf, number[]][] = [
    ['smallest', 'records', [0]],
    ['keyed', 'records', [1]],
    ['keyed', 'directory blocks', [127]],
    ['four a block', 'records', [1, 0]],
    ['longest answers', 'records', [127]],
  ]
  const layoutOf = (manifest: string, of: InstantOf) => {
    const { fields } = named(manifest)
    const { directoryBlockLog: blockLog, directoryBlockBytes: blockBytes } = fields
    return of === 'records' ? fields : blockLayout({ blockLog, blockBytes })
  }
  const answered = (manifest: string, of: InstantOf, answers: string[], servers: number) => ({
    ...{ manifest, of, answers, servers },
    bytes: reference.encodeInstantAnswer(named(manifest).fields, of, answers, servers),
  })
  const amongMore: [string, InstantOf, Sharing][] = [
    ['smallest', 'records', { servers: 3, vectors: true }],
    ['keyed', 'records', { servers: 3, vectors: false }],
    ['keyed', 'records', { servers: 3, vectors: true }],
    ['keyed', 'directory blocks', { servers: 8, vectors: true }],
    ['four a block', 'records', { servers: 5, vectors: false }],
  ]
  const queriesTo = amongMore.map(([manifest, of, sharing]) => {
    const groups = groupsAmong(layoutOf(manifest, of), sharing.servers)
    const seeds = Array.from({ length: sharing.servers - 1 }, (_, i) => stream(`share ${i}`, 32))
    const queries = [sharing.vectors ? lastVector(groups, groups.groups - 1, seeds) : seeds[0]!, seeds[1]!]
    const whole = queries.slice(0, sharing.vectors ? 1 : 2).map(hex)
    const body = reference.encodeInstantQuery(named(manifest).fields, of, whole, sharing)
    return { manifest, of, queries: whole, sharing, bytes: body }
  })
  const answersOf = amongMore.map(([manifest, of, { servers }]) => {
    const answers = [bytes('shared', groupsAmong(layoutOf(manifest, of), servers).answerBytes)]
    return answered(manifest, of, answers, servers)
  })
  const sharing: Sharing = { servers: 2, vectors: false }
  const instantQueries = asked.map(([manifest, of, groups]) => {
    const { n } = groupsOf(layoutOf(manifest, of))
    const queries = groups.map(group => {
      const seeds = [0, 1].map(party => stream(`seed ${party} ${group}`, 16)) as [Uint8Array, Uint8Array]
      return hex(generate(n, group, seeds)[(group % 2) as 0 | 1])
    })
    return { manifest, of, queries, sharing, bytes: reference.encodeInstantQuery(named(manifest).fields, of, queries) }
  })
  const instantAnswers = asked.slice(0, -1).map(([manifest, of, groups]) => {
    const answers = groups.map(group => bytes(`answer ${group}`, answerBytes(layoutOf(manifest, of))))
    return answered(manifest, of, answers, 2)
  })
  return { instantQueries: [...instantQueries, ...queriesTo], instantAnswers: [...instantAnswers, ...answersOf] }
}

type Cases = readonly (readonly [because: string, bytes: string])[]

function refused(kind: Refused['kind'], cases: Cases, manifest?: string): Refused[] {
  return cases.map(([because, bytes]) => ({ kind, because, ...(manifest && { manifest }), bytes }))
}

function lengths(valid: string): Cases {
  return [
    ['no bytes', ''],
    ['a head alone', valid.slice(0, 2 * offsetsOf(HEAD_FIELDS).end)],
    ['a byte too few', valid.slice(0, -2)],
    ['a byte too many', `${valid}00`],
  ]
}

function heads(valid: string, magics: readonly string[], suites: readonly number[]): Cases {
  return [
    ...magics.map(magic => [`the magic ${magic}`, headed(valid, 'magic', hex(utf8ToBytes(magic)))] as const),
    ...suites.map(suite => [`suite ${suite}`, headed(valid, 'suite', suite)] as const),
    ['format 2', headed(valid, 'format', 2)],
    ['a reserved byte', headed(valid, 'reserved', 1)],
  ]
}

function epochs(valid: string): Cases {
  return [
    ['another database', headed(valid, 'databaseId', 'ff'.repeat(16))],
    ['another generation', headed(valid, 'generation', 2)],
    ['another epoch', headed(valid, 'epoch', 2)],
    ['another Q', headed(valid, 'partitions', 7)],
  ]
}

function makeRefusedInstant(named: Named): Refused[] {
  const { instantQueries, instantAnswers } = makeInstant(named)
  const [query] = instantQueries.filter(({ manifest }) => manifest === 'keyed')
  const [answer] = instantAnswers.filter(({ manifest }) => manifest === 'keyed')
  const [asked, answered] = [query!.bytes, answer!.bytes]
  const one = query!.queries[0]!
  const head = asked.slice(0, -one.length)
  const sharing = changing({ servers: 1, form: 1 }, offsetsOf(HEAD_FIELDS).end)
  const ofKeyed = instantQueries.filter(({ manifest, sharing }) => manifest === 'keyed' && sharing.servers === 3)
  const [seed, vector] = [ofKeyed[0]!.bytes, ofKeyed[1]!.bytes]
  const queries: Cases = [
    ...lengths(asked),
    ...heads(asked, ['PIRA', 'PIRH'], [0, 1, 2, 3, 6]),
    ['count 0', headed(head, 'count', 0)],
    ['a count of more queries than follow', headed(asked, 'count', 2)],
    ['a count of fewer queries than follow', asked + one],
    ['65 queries', headed(head, 'count', 65) + one.repeat(65)],
    ['party 2', `${asked.slice(0, -2)}02`],
    ...lengths(vector),
    ...lengths(seed),
    ['two servers in suite 7', sharing(vector, 'servers', 2)],
    ['nine servers', sharing(vector, 'servers', 9)],
    ['form 2', sharing(vector, 'form', 2)],
    ['a vector as seeds', sharing(vector, 'form', 0)],
    ['seeds as vectors', sharing(seed, 'form', 1)],
    ['a bit beyond the last group', `${vector.slice(0, -2)}ff`],
  ]
  const answers: Cases = [
    ...lengths(answered),
    ...heads(answered, ['PIRQ', 'PIRP'], [0, 1, 2, 3, 5]),
    ...epochs(answered),
    ['count 0', headed(answered, 'count', 0)],
    ['count 2', headed(answered, 'count', 2)],
  ]
  return [...refused('instant query', queries, 'keyed'), ...refused('instant answer', answers, 'keyed')]
}

/** Signatures under RFC 8032 seeds, which are secret keys; batches and manifests are bytes. */
function makePublished(named: Named) {
  const largest = { generation: 0x01020304, epoch: 0xffffffff, expires: Number.MAX_SAFE_INTEGER }
  const batches = [
    BATCH,
    { ...BATCH, ...largest, encoding: 'base64' as const, operations: '{"op":"add","value":"/+8="}\n' },
    { ...BATCH, encoding: 'hex' as const, operations: '{"op":"generation","headroom":100}\n' },
    { ...BATCH, operations: '' },
  ].map(fields => {
    const written = reference.encodeBatch(fields)
    return { fields, bytes: written, hash: hex(hash(unhex(written))) }
  })
  return {
    batches,
    batchSignatures: batches.slice(0, 2).map(({ fields, bytes: batch, hash: batchHash }, i) => {
      const seed = bytes(`publisher ${i}`, 32)
      const message = reference.batchMessage(fields.databaseId, { base: fields.base, batchHash })
      const { publicKey, signature } = signWith(unhex(seed), unhex(message))
      const signed = { publicKey: hex(publicKey), base: fields.base, batchHash, signature: hex(signature) }
      return { seed, batch, message, fields: signed, header: reference.encodeBatchSignature(signed) }
    }),
    manifestSignatures: ['smallest', 'variable'].map((name, i) => {
      const [seed, manifest] = [bytes(`publisher ${i}`, 32), named(name).bytes]
      const { publicKey, signature } = signWith(unhex(seed), unhex(reference.manifestMessage(manifest)))
      return { seed, publicKey: hex(publicKey), manifest, signature: hex(signature) }
    }),
  }
}

/** Claims: a query and a claim in one request, an answer and a verdict in one reply. */
function makeFenced(named: Named) {
  const asked = [NOBODY, CLAIM, { ...CLAIM, name: NOBODY.name }, { ...CLAIM, version: Number.MAX_SAFE_INTEGER }]
  const query = reference.encodeQuery(named('keyed').fields, THREE_VECTORS, 2)
  const entries = Array.from({ length: 6 }, (_, i) => bytes(`entry ${i}`, 24))
  const answer = reference.encodeAnswer(named('keyed').fields, 3, entries, 2)
  const fenceReplies = (['granted', 'refused'] as const).map(verdict => ({
    verdict,
    bytes: reference.encodeFenceReply(verdict),
  }))
  return {
    fenceRequests: asked.map(fields => ({ fields, bytes: reference.encodeFenceRequest(fields) })),
    fenceReplies,
    claims: fenceReplies.map(({ verdict, bytes: reply }) => ({
      ...{ query, claim: CLAIM, request: reference.withClaim(query, CLAIM) },
      ...{ answer, verdict, reply: answer + reply },
    })),
  }
}

function makeRefusedBeside(named: Named): Refused[] {
  const batch = reference.encodeBatch(BATCH)
  const [ofBatch, ofFence] = [changing(BATCH_FIELDS), changing(FENCE_FIELDS)]
  const { batchSignatures } = makePublished(named)
  const { header } = batchSignatures[0]!
  const [register, confirm] = [NOBODY, CLAIM].map(reference.encodeFenceRequest) as [string, string]
  const reply = reference.encodeFenceReply('granted')
  const query = reference.encodeQuery(named('keyed').fields, [[0, 4]], 1)
  type Kind = 'batch' | 'batch signature' | 'fence request' | 'fence reply' | 'claim' | 'verdict'
  const cases: Record<Kind, Cases> = {
    batch: [
      ['71 bytes', batch.slice(0, 2 * 71)],
      ['another magic', ofBatch(batch, 'magic', '51')],
      ['another format', ofBatch(batch, 'format', 2)],
      ['values written in a fourth way', ofBatch(batch, 'encoding', 3)],
      ['reserved byte', ofBatch(batch, 'reserved', 1)],
      ['generation 0', ofBatch(batch, 'generation', 0)],
      ['a generation after its epoch', ofBatch(batch, 'generation', 3)],
      ['epoch 0', ofBatch(batch, 'epoch', 0)],
      ['epoch 1', ofBatch(batch, 'epoch', 1)],
      ['an expiry of 2^53', ofBatch(batch, 'expires', 2 ** 53)],
      ['made on no manifest', ofBatch(batch, 'base', '00'.repeat(32))],
    ],
    'batch signature': [
      ['nothing', ''],
      ['three parts', header.slice(0, 194)],
      ['five parts', `${header}.00`],
      ['upper case', header.toUpperCase()],
      ['a digit too few', header.slice(0, -1)],
      ['a space', ` ${header}`],
      ['commas', header.replaceAll('.', ',')],
    ],
    'fence request': [
      ['79 bytes', confirm.slice(0, -2)],
      ['81 bytes', `${confirm}00`],
      ['another magic', ofFence(confirm, 'magic', '51')],
      ['another format', ofFence(confirm, 'format', 2)],
      ['kind 0', ofFence(confirm, 'kind', 0)],
      ['kind 3', ofFence(confirm, 'kind', 3)],
      ['a version of 2^53', ofFence(confirm, 'version', 2 ** 53)],
      ['a registration at a version', ofFence(register, 'version', 1)],
      ['a registration with a name', ofFence(register, 'name', `${'00'.repeat(31)}01`)],
    ],
    'fence reply': [
      ['7 bytes', reply.slice(0, -2)],
      ['9 bytes', `${reply}00`],
      ['another magic', ofFence(reply, 'magic', '51')],
      ['another format', ofFence(reply, 'format', 2)],
      ['verdict 0', ofFence(reply, 'kind', 0)],
      ['verdict 3', ofFence(reply, 'kind', 3)],
    ],
    claim: [
      ['a registration', query + register],
      ['no name', query + ofFence(confirm, 'name', '00'.repeat(32))],
      ['of another database', query + ofFence(confirm, 'databaseId', 'ff'.repeat(16))],
      ['80 bytes of something else', query + '00'.repeat(80)],
      ['a byte too few', query + confirm.slice(0, -2)],
      ['a byte too many', `${query}${confirm}00`],
      ['two of them', query + confirm + confirm],
    ],
    verdict: [['7 bytes of one', reply.slice(0, -2)]],
  }
  return Object.entries(cases).flatMap(([kind, list]) => refused(kind as Kind, list))
}

/** Bytes named by what they stand for, in hex. */
function bytes(label: string, count: number): string {
  return hex(stream(label, count))
}

function makeManifests(): Manifest[] {
  const zero = '00'.repeat(32)
  const { commitments, contentHashes, pointproofs, oneServer, slotMarksHash, ...plain } = shared
  const keyless = { ...inHex(plain), suite: 1 as Suite, databaseId: bytes('database', 16) }
  const keyed = {
    ...{ ...keyless, keyed: true, directoryBytes: 68, directoryHash: bytes('directory', 32) },
    ...{ directoryBlockLog: 7, directoryBlockBytes: 640, directorySeed: bytes('directory seed', 16) },
    directoryCommitment: bytes('directory commitment', 32),
  }
  const changed = {
    generation: 0x01020304,
    epoch: 0xfffffffe,
    expires: 0x1_0000_0001,
    updateListBytes: 40 + 50 * (5 + 318), // the longest of "variable"
    updateListHash: bytes('update list', 32),
    previousManifest: bytes('previous manifest', 32),
  }
  const sized = (records: number, valueBytes: number, partitions: number, partitionRecords: number) => ({
    ...{ records, valueBytes, partitions, partitionRecords, blockRecords: 1 },
    commitments: Array.from({ length: partitions }, (_, q) => bytes(`commitment ${q}`, 32)),
    contentHashes: Array.from({ length: partitions }, (_, q) => bytes(`content ${q}`, 32)),
  })
  const cases: Record<string, ManifestFields> = {
    smallest: { ...keyless, ...sized(1, 1, 1, 1), recordBytes: 1 },
    keyed: { ...keyed, ...sized(9, 8, 2, 5), recordBytes: 24 },
    'four a block': { ...keyed, ...sized(9, 8, 2, 8), recordBytes: 24, blockRecords: 4 },
    'two a block': { ...keyless, ...sized(2, 1, 1, 2), recordBytes: 1, blockRecords: 2 },
    'keys alone': { ...keyed, ...sized(16, 0, 16, 1), recordBytes: 16 },
    variable: { ...keyed, ...changed, ...sized(50, 300, 17, 3), variable: true, recordBytes: 318 },
    'keyless and variable': { ...keyless, ...sized(3, 1, 1, 4), variable: true, recordBytes: 3 },
    'first of a generation': {
      ...{ ...keyless, generation: 2, epoch: 2, previousManifest: changed.previousManifest },
      ...{ ...sized(1, 1, 1, 1), recordBytes: 1 },
    },
    'keyed without commitments': {
      ...{ ...keyed, suite: 2, ...sized(9, 8, 2, 5), recordBytes: 24, directoryCommitment: zero },
      commitments: [zero, zero],
    },
    'longest blocks': {
      ...keyed,
      ...sized(9, 8, 2, 5),
      recordBytes: 24,
      directoryBlockLog: 16,
      directoryBlockBytes: 65_536,
    },
    'without commitments': {
      ...{ ...keyless, suite: 2, ...sized(5, 8, 2, 3), recordBytes: 8 },
      commitments: [zero, zero],
    },
    'with Pointproofs': { ...keyless, suite: 6, ...sized(5, 8, 2, 3), recordBytes: 8, pointproofs: POINTPROOFS },
    'with Pointproofs for development': {
      ...{ ...keyed, suite: 6, ...sized(9, 8, 2, 8), recordBytes: 24, blockRecords: 4 },
      ...{ generation: 2, epoch: 2, previousManifest: changed.previousManifest },
      pointproofs: { ...POINTPROOFS, development: true },
    },
    'with Pointproofs, later': {
      ...{ ...keyless, ...changed, suite: 6, ...sized(5, 8, 2, 3), recordBytes: 8, pointproofs: POINTPROOFS },
      updateListBytes: 40 + 5 * (53 + 8),
    },
    'longest answers': { ...keyless, ...sized(128, 65_536, 128, 1), recordBytes: 65_536, maxQueries: 2 },
    'largest partitions': {
      ...{ ...keyless, ...changed, updateListBytes: 40 + 41_000 * (5 + 65_536) },
      ...{ ...sized(65_537, 65_536, 2, 65_536), recordBytes: 65_536 },
    },
    hinted: { ...keyed, ...sized(9, 8, 2, 5), recordBytes: 24, expires: 1, oneServer: ownBase(1, 9) },
    'hinted, not its own base': {
      ...{ ...keyed, ...changed, ...sized(9, 8, 2, 5), recordBytes: 24, updateListBytes: 40 + 2 * 29 },
      oneServer: {
        ...ownBase(0xfffffffe - 1024, 7),
        ...{ patchBytes: 3 * 29, patchHash: bytes('patch', 32) },
      },
    },
    marked: { ...keyed, ...sized(9, 8, 2, 5), recordBytes: 24, slotMarksHash: bytes('marks', 32) },
    'hinted and marked, with Pointproofs': {
      ...{ ...keyed, suite: 6, ...sized(9, 8, 2, 5), recordBytes: 24, pointproofs: POINTPROOFS },
      ...{ expires: 1, oneServer: ownBase(1, 9), slotMarksHash: bytes('marks', 32) },
    },
    'hinted, with Pointproofs': {
      ...{ ...keyless, suite: 6, ...sized(5, 8, 2, 3), recordBytes: 8, pointproofs: POINTPROOFS },
      ...{ expires: 1, oneServer: ownBase(1, 5) },
    },
  }
  return Object.entries(cases).map(([name, fields]) => ({ name, fields, bytes: reference.encodeManifest(fields) }))
}

/** Of an epoch that is its own base. */
function ownBase(epoch: number, records: number) {
  return {
    ...{ hintHash: bytes('hint', 32), baseEpoch: epoch, baseRecords: records },
    ...{ patchBytes: 0, patchHash: '00'.repeat(32) },
  }
}

/** Records of a fingerprint and one byte, an empty slot among them; and keys, listed and not, that a directory leads to their slots. */
function makeSlotMarks() {
  const print = (last: number) => bytes(`slot ${last}`, 15) + littleEndian(last, 1)
  const empty = '00'.repeat(16)
  const prints = [print(0), print(1), empty, print(253), print(254), print(255)]
  const records = prints.map(of => of + (of === empty ? '00' : 'aa')).join('')
  const recordBytes = 17
  const marks = slotMarks(unhex(records), recordBytes)
  const keys = [...prints.entries(), [0, print(255)] as const, [1, print(0)] as const, [2, print(7)] as const]
  return {
    ...{ recordBytes, records, marks: hex(marks) },
    keys: keys.flatMap(([index, fingerprint]) =>
      fingerprint === empty ? [] : [{ index, fingerprint, excluded: isExcluded(marks, index, unhex(fingerprint)) }],
    ),
  }
}

/** Behind epoch 7 of generation 2, its first, of four records: what may come next, and what is one step from that. */
function makePairs() {
  const hashes = (label: string, count: number) => Array.from({ length: count }, (_, q) => bytes(`${label} ${q}`, 32))
  const zero = '00'.repeat(32)
  const noList = { updateListBytes: 0, updateListHash: zero }
  const first: ManifestFields = {
    ...{ suite: 1, databaseId: bytes('database', 16), generation: 2, epoch: 7, ...noList, maxQueries: 64, expires: 0 },
    ...{ records: 4, recordBytes: 24, partitions: 2, partitionRecords: 4, blockRecords: 2, valueBytes: 8 },
    ...{ keyed: true, variable: false, directoryBytes: 68, directoryHash: bytes('directory', 32) },
    ...{ directoryBlockLog: 7, directoryBlockBytes: 640, directorySeed: bytes('directory seed', 16) },
    ...{ directoryCommitment: bytes('blocks', 32), previousManifest: bytes('previous manifest', 32) },
    ...{ commitments: hashes('commitment', 2), contentHashes: hashes('content', 2) },
  }
  const before = reference.encodeManifest(first)
  const next = (change: Partial<ManifestFields>, from = first, previous = before): ManifestFields => {
    const { recordBytes = from.recordBytes, partitions = from.partitions, suite = from.suite } = change
    return {
      ...{ ...from, epoch: 8, updateListBytes: 40 + 5 + recordBytes, previousManifest: hex(hash(unhex(previous))) },
      updateListHash: bytes('update list', 32),
      commitments: suite !== 2 ? hashes('next commitment', partitions) : Array<string>(partitions).fill(zero),
      contentHashes: hashes('next content', partitions),
      ...change,
    }
  }
  const anew = { generation: 3, ...noList }
  const noDirectory = {
    ...{ directoryBytes: 0, directoryHash: zero, directoryBlockLog: 0, directoryBlockBytes: 0 },
    ...{ directorySeed: '00'.repeat(16), directoryCommitment: zero },
  }
  const keyless = { keyed: false, valueBytes: 24, ...noDirectory }
  const another = {
    ...{ directoryBytes: 88, directoryHash: bytes('next', 32), directoryCommitment: bytes('next blocks', 32) },
  }
  const cases: [string, boolean, Partial<ManifestFields>][] = [
    ['the next epoch', true, {}],
    ['with more records and partitions', true, { records: 9, partitions: 3 }],
    ['with another expiry and directory', true, { expires: 1, ...another }],
    ['the next generation', true, anew],
    [
      'the next generation, in which all else is new',
      true,
      { ...anew, ...keyless, suite: 2, records: 1, partitions: 1, partitionRecords: 1, blockRecords: 1, maxQueries: 1 },
    ],
    ['the same epoch', false, { epoch: 7 }],
    ['an epoch too far', false, { epoch: 9 }],
    ['the same epoch of the next generation', false, { ...anew, epoch: 7 }],
    ['another database', false, { databaseId: bytes('another', 16) }],
    ['another database, in the next generation', false, { ...anew, databaseId: bytes('another', 16) }],
    ['the generation before', false, { generation: 1 }],
    ['a generation too far', false, { ...anew, generation: 4 }],
    ['no update list', false, noList],
    ['an update list into a generation', false, { generation: 3 }],
    ['slot marks in the middle of a generation', false, { slotMarksHash: bytes('marks', 32) }],
    ['slot marks in the next generation', true, { ...anew, slotMarksHash: bytes('marks', 32) }],
    ['another suite', false, { suite: 2, directoryCommitment: zero }],
    ['another record length', false, { recordBytes: 25, valueBytes: 9 }],
    ['lengths of values instead of longer ones', false, { variable: true, valueBytes: 6 }],
    ['no keys', false, keyless],
    ['another M', false, { partitionRecords: 6 }],
    ['another g', false, { blockRecords: 1 }],
    ['another query limit', false, { maxQueries: 63 }],
    ['another number of blocks of the directory', false, { directoryBlockLog: 8 }],
    ['another length of blocks of the directory', false, { directoryBlockBytes: 672 }],
    ['another seed of the directory', false, { directorySeed: bytes('another seed', 16) }],
    ['fewer records', false, { records: 3 }],
    ['fewer partitions', false, { partitions: 1 }],
  ]
  const proved = { ...first, suite: 6 as const, pointproofs: POINTPROOFS }
  const beforeProved = reference.encodeManifest(proved)
  const provedCases: [string, boolean, Partial<ManifestFields>][] = [
    ['in suite 6, with other rows', true, { pointproofs: { ...POINTPROOFS, rowsHash: bytes('next rows', 32) } }],
    ['in suite 6, with rows behind its list', true, { updateListBytes: 40 + 5 + 24 + 48 }],
    ['in suite 6, with as many queries a request', true, { records: 13, partitions: 4 }],
    ['in suite 6, with fewer queries a request', false, { records: 17, partitions: 5 }],
    ['in suite 6, with another key', false, { pointproofs: { ...POINTPROOFS, keyHash: bytes('next key', 32) } }],
    [
      'in suite 6, of another transcript',
      false,
      { pointproofs: { ...POINTPROOFS, transcriptHash: bytes('next', 32) } },
    ],
    ['in suite 6, for development', false, { pointproofs: { ...POINTPROOFS, development: true } }],
  ]
  const own = { ...first, expires: 1, oneServer: ownBase(7, first.records) }
  const patched = (entries: number, others: object = {}) => ({
    oneServer: { ...own.oneServer, patchBytes: entries * 29, patchHash: bytes('patch', 32), ...others },
  })
  const ownHinted = reference.encodeManifest(own)
  const hintedCases: [string, boolean, Partial<ManifestFields>][] = [
    ['hinted, its own base', true, { oneServer: ownBase(8, first.records) }],
    ['hinted, with a patch of what its list has', true, patched(1)],
    ['hinted, and renewed', true, { updateListBytes: 40, oneServer: own.oneServer }],
    ['hinted, with a patch of more than its list', false, patched(2)],
    ['hinted, with an empty patch', false, { oneServer: own.oneServer }],
    ['hinted, with another base', false, patched(1, { baseEpoch: 6 })],
    ['hinted, with another hint of the same base', false, patched(1, { hintHash: bytes('another', 32) })],
    ['hinted, with other records of the same base', false, patched(1, { baseRecords: 1 })],
    ['the next generation, hinted, its own base', true, { ...anew, oneServer: ownBase(8, first.records) }],
    ['the next generation, hinted, with a base', false, { ...anew, ...patched(1) }],
  ]
  const { oneServer: _, ...unhinted } = next({}, own, ownHinted)
  const hintedPairs = hintedCases.map(([because, follows, change]) => {
    const after = reference.encodeManifest(next(change, own, ownHinted))
    return { because, follows, bytes: ownHinted + after }
  })
  const pairs = cases.map(([because, follows, change]) => {
    return { because, follows, bytes: before + reference.encodeManifest(next(change)) }
  })
  const provedPairs = provedCases.map(([because, follows, change]) => {
    const after = reference.encodeManifest(next(change, proved, beforeProved))
    return { because, follows, bytes: beforeProved + after }
  })
  const ended = {
    because: 'without what was hinted',
    follows: false,
    bytes: ownHinted + reference.encodeManifest(unhinted),
  }
  return [...pairs, ...provedPairs, ...hintedPairs, ended]
}

function makeRefused(named: Named): Refused[] {
  const bytesOf = (name: string) => named(name).bytes
  const [keyless, keyed, changed] = [bytesOf('smallest'), bytesOf('keyed'), bytesOf('variable')]
  const [proved, later] = [bytesOf('with Pointproofs'), bytesOf('with Pointproofs, later')]
  const set = changing(HEADER_FIELDS)
  const hinted = bytesOf('hinted, not its own base')
  const setHint = (of: string, ...change: [keyof typeof ONE_SERVER_FIELDS, number | string]) =>
    changing(ONE_SERVER_FIELDS, of.length / 2 - offsetsOf(ONE_SERVER_FIELDS).end)(of, ...change)
  const setProof = changing(POINTPROOFS_FIELDS, proved.length / 2 - offsetsOf(POINTPROOFS_FIELDS).end)
  const badManifests = {
    'no bytes': '',
    'a byte too few': keyed.slice(0, -2),
    'a byte too many': `${keyed}00`,
    'another magic': set(keyed, 'magic', '51'),
    'format 2': set(keyed, 'format', 2),
    'suite 0': set(keyed, 'suite', 0),
    'suite 3': set(keyed, 'suite', 3),
    'commitments in suite 2': set(keyed, 'suite', 2),
    'generation 0': set(keyed, 'generation', 0),
    'epoch 0': set(keyed, 'epoch', 0),
    'N = 0': set(keyed, 'records', 0),
    'N > Q·M': set(keyed, 'records', 11),
    'ℓ too short for its value': set(keyed, 'recordBytes', 23),
    'ℓ = 0': set(set(keyless, 'recordBytes', 0), 'valueBytes', 0),
    'ℓ = 65 537': set(set(keyless, 'recordBytes', 65_537), 'valueBytes', 65_537),
    'Q = 0': set(keyed, 'partitions', 0),
    'Q of more partitions than follow': set(keyed, 'partitions', 3),
    'M = 0': set(keyed, 'partitionRecords', 0),
    'M = 65 537': set(keyed, 'partitionRecords', 65_537),
    'value bytes that do not give ℓ': set(keyed, 'valueBytes', 9),
    'neither keyed nor keyless': set(keyed, 'keyed', 2),
    'neither variable nor fixed': set(keyed, 'variable', 2),
    'a query limit of 0': set(keyed, 'maxQueries', 0),
    'a query limit of 65': set(keyed, 'maxQueries', 65),
    'blocks that do not divide a partition': set(bytesOf('four a block'), 'packing', 4),
    'blocks of more than 65 536 bytes': set(set(keyed, 'partitionRecords', 4096), 'packing', 12),
    'blocks of more records than can be': set(keyed, 'packing', 255),
    'answers of more than 16 MiB': set(bytesOf('longest answers'), 'maxQueries', 3),
    'an expiry of 2^53 seconds': set(keyed, 'expires', 2 ** 53),
    'a manifest before the first': set(keyed, 'previousManifest', '01'),
    'fewer epochs than generations': set(keyed, 'generation', 2),
    'a later epoch without a list': set(bytesOf('first of a generation'), 'generation', 1),
    'a later epoch without a manifest before it': set(changed, 'previousManifest', '00'.repeat(32)),
    'an update list without its hash': set(changed, 'updateListHash', '00'.repeat(32)),
    'an update list shorter than its header': set(changed, 'updateListBytes', 39),
    'an update list of more entries than records': set(changed, 'updateListBytes', 40 + 51 * 323),
    'an update list that ends within an entry': set(changed, 'updateListBytes', 40 + 324),
    'an update list in the first epoch': set(set(keyed, 'updateListBytes', 40), 'updateListHash', '01'),
    'a directory without keys': set(keyless, 'directoryBytes', 1),
    "a directory's hash without keys": set(keyless, 'directoryHash', '01'),
    'keys without a directory': set(keyed, 'directoryBytes', 0),
    'the hash of no update list': set(keyed, 'updateListHash', '01'),
    'a directory of more than 2^16 blocks': set(keyed, 'directoryBlockLog', 17),
    "a directory's blocks of no bytes": set(keyed, 'directoryBlockBytes', 0),
    "a directory's blocks of no whole 32 bytes": set(keyed, 'directoryBlockBytes', 65),
    "a directory's blocks of more than 65 536 bytes": set(keyed, 'directoryBlockBytes', 65_568),
    'more than one block without keys': set(keyless, 'directoryBlockLog', 1),
    'blocks without keys': set(keyless, 'directoryBlockBytes', 32),
    "a directory's seed without keys": set(keyless, 'directorySeed', '01'),
    'a commitment to blocks without keys': set(keyless, 'directoryCommitment', '01'),
    'a commitment to blocks in suite 2': set(bytesOf('keyed without commitments'), 'directoryCommitment', '01'),
    'suite 6 without what it verifies with': set(keyed, 'suite', 6),
    'what suite 6 verifies with, in suite 1': set(proved, 'suite', 1),
    'what suite 6 verifies with, a byte too few': proved.slice(0, -2),
    'row lists of no hash': setProof(proved, 'rowsHash', '00'.repeat(32)),
    'a key of no hash': setProof(proved, 'keyHash', '00'.repeat(32)),
    'a transcript of no hash': setProof(proved, 'transcriptHash', '00'.repeat(32)),
    'rows of 255 records': setProof(proved, 'rowRecords', 255),
    'a flag there is not': setProof(proved, 'flags', 2),
    'a reserved byte behind it': setProof(proved, 'reserved', 2 ** 24),
    'an update list in suite 6 shorter than its header': set(later, 'updateListBytes', 39),
    'an update list in suite 6 longer than any': set(later, 'updateListBytes', 40 + 5 * (53 + 8) + 1),
    'no update list in suite 6': set(later, 'updateListBytes', 0),
    'neither hinted nor not': set(keyed, 'hinted', 2),
    'hinted without what lookups need': set(keyed, 'hinted', 1),
    'a hint of no hash': setHint(hinted, 'hintHash', '00'.repeat(32)),
    'a base of the generation before': setHint(bytesOf('hinted'), 'baseEpoch', 0),
    'a base too long ago': setHint(hinted, 'baseEpoch', 0xfffffffe - 1025),
    'a later base': setHint(hinted, 'baseEpoch', 0xffffffff),
    'a base of no records': setHint(hinted, 'baseRecords', 0),
    'a base of more records': setHint(hinted, 'baseRecords', 10),
    'a patch of half an entry': setHint(hinted, 'patchBytes', 28),
    'a patch of no hash': setHint(hinted, 'patchHash', '00'.repeat(32)),
    'a hash of no patch': setHint(hinted, 'patchBytes', 0),
    'a reserved byte in a patch': setHint(hinted, 'reserved', 1),
    'a patch since itself': setHint(setHint(hinted, 'baseEpoch', 0xfffffffe), 'baseRecords', 9),
    'its own base, with fewer records': setHint(bytesOf('hinted'), 'baseRecords', 8),
    'a hint without an expiry': set(hinted, 'expires', '00'.repeat(8)),
    'neither marked nor not': set(keyed, 'marked', 2),
    'marked without slot marks': set(keyed, 'marked', 1),
    'slot marks of no hash': `${set(keyed, 'marked', 1)}${'00'.repeat(32)}`,
    'slot marks without keys': `${set(keyless, 'marked', 1)}${bytes('marks', 32)}`,
    'slot marks, a byte too few': bytesOf('marked').slice(0, -2),
  }
  const query = reference.encodeQuery(named('keyed').fields, [[0, 4]], 1)
  const queries: Cases = [
    ...lengths(query),
    ...heads(query, ['PIRA'], [2, 4, 5]),
    ['count 0', headed(query.slice(0, 2 * offsetsOf(HEAD_FIELDS).end), 'count', 0)],
    ['a count of more vectors than follow', headed(query, 'count', 2)],
  ]
  const answer = reference.encodeAnswer(named('keyed').fields, 1, [bytes('entry 0', 120), bytes('entry 1', 120)], 1)
  const answers: Cases = [
    ...lengths(answer),
    ...heads(answer, ['PIRQ'], [2, 4, 5]),
    ...epochs(answer),
    ['another count', headed(answer, 'count', 2)],
  ]
  const fields = { fingerprint: bytes('fingerprint', 16), value: bytes('value', 5) }
  const record = reference.encodeRecord(named('variable').fields, fields)
  const badRecords = {
    'no bytes': '',
    'a byte too few': record.slice(0, -2),
    'a byte too many': `${record}00`,
    'a value longer than any': put(record, 16, littleEndian(301, 2)),
    'something after the value': `${record.slice(0, -2)}01`,
    'something in an empty slot': `${'00'.repeat(317)}01`,
  }
  return [
    ...refused('manifest', Object.entries(badManifests)),
    ...refused('query', queries, 'keyed'),
    ...refused('answer', answers, 'keyed'),
    ...refused('record', Object.entries(badRecords), 'variable'),
  ]
}
