// Holds packages/protocol and the independent reference to vectors/wire.json: manifests, queries, answers, records,
// a publisher's batches and signatures, and what goes to and comes from a fence, with their bytes; and bytes that a reader
// has to refuse.
//
// After a deliberate change of format, write the file anew (the reference does):
// `KEYHUSH_WRITE_VECTORS=1 npx vitest run tests/interop/wire.test.ts`.

import { writeFileSync } from 'node:fs'
import { bytesToHex as hex, hexToBytes as unhex, utf8ToBytes } from '@noble/hashes/utils.js'
import { describe, expect, test } from 'vitest'
import { keyless as shared } from '../../packages/protocol/test/manifests.js'
import { verifies } from '../../server/dist/base/ed25519.js'
import { type BatchFields, type FenceFields, inHex, type ManifestFields, reference, shipped } from './codecs.js'
import { blockLayout } from './reference/directory.js'
import { hash } from './reference/hash.js'
import { answerBytes, generate, groupsAmong, groupsOf, lastVector } from './reference/instant.js'
import type { Suite } from './reference/layout.js'
import { decodeManifest } from './reference/manifest.js'
import type { InstantOf, Sharing } from './reference/message.js'
import { signWith } from './reference/publishing.js'
import { readVectors, stream, vectorsFile } from './vectors.js'

/** As `makeVectors` makes them. */
type WireVectors = ReturnType<typeof makeVectors>

interface Manifest {
  readonly name: string
  readonly fields: ManifestFields
  readonly bytes: string
}

interface Refused {
  readonly kind:
    | ('manifest' | 'query' | 'answer' | 'record')
    | ('batch' | 'batch signature' | 'fence request' | 'fence reply' | 'claim' | 'verdict')
    | ('instant query' | 'instant answer')
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

if (process.env['KEYHUSH_WRITE_VECTORS']) {
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

  test.each(vectors.pairs)('whether one manifest is the next: $because ($follows)', ({ follows, bytes }) => {
    const [end, second] = [2 * (224 + 64 * 2 + (bytes.slice(12, 14) === '06' ? 104 : 0)), 7]
    for (const each of [bytes.slice(0, end), bytes.slice(end)]) codecs.decodeManifest(each) // each is one by itself
    if (follows) expect(codecs.decodeChain(bytes)).toEqual([second, second + 1])
    else expect(() => codecs.decodeChain(bytes)).toThrow()
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

  test.each(vectors.batches)('reads and writes a batch: $fields.operations', ({ fields, bytes }) => {
    expect(codecs.encodeBatch(fields)).toBe(bytes)
    expect(codecs.decodeBatch(bytes)).toEqual(fields)
    expect(vectors.batches.find(batch => batch.bytes === bytes)!.hash).toBe(hex(hash(unhex(bytes))))
  })

  test.each(vectors.batchSignatures)('reads and writes the signature of a batch, and it holds', signature => {
    const { batch, message, fields, header } = signature
    expect(fields.batchHash).toBe(hex(hash(unhex(batch))))
    expect(codecs.batchMessage(codecs.decodeBatch(batch).databaseId, fields)).toBe(message)
    expect(codecs.encodeBatchSignature(fields)).toBe(header)
    expect(codecs.decodeBatchSignature(header)).toEqual(fields)
  })

  test.each(vectors.manifestSignatures)('signs a manifest over the same bytes', ({ seed, manifest, ...expected }) => {
    const { publicKey, signature } = signWith(unhex(seed), unhex(codecs.manifestMessage(manifest)))
    expect({ publicKey: hex(publicKey), signature: hex(signature) }).toEqual(expected)
  })

  test.each(vectors.fenceRequests)('reads and writes a request to a fence: $fields.kind', ({ fields, bytes }) => {
    expect(codecs.encodeFenceRequest(fields)).toBe(bytes)
    expect(codecs.decodeFenceRequest(bytes)).toEqual(fields)
  })

  test.each(vectors.fenceReplies)('reads and writes a verdict of a fence: $verdict', ({ verdict, bytes }) => {
    expect(codecs.encodeFenceReply(verdict)).toBe(bytes)
    expect(codecs.decodeFenceReply(bytes)).toBe(verdict)
  })

  test.each(vectors.claims)('reads and writes a claim behind a query, and a verdict behind its answer', vector => {
    const { query, claim, request, answer, verdict, reply } = vector
    expect(codecs.withClaim(query, claim)).toBe(request)
    expect(codecs.decodeClaimedQuery(request)).toEqual({ query, claim })
    expect(codecs.decodeClaimedQuery(query)).toEqual({ query, claim: undefined })
    expect(codecs.splitVerdict(reply)).toEqual({ answer, verdict })
  })

  test.each(vectors.instantQueries)(
    'reads and writes an instant query of $of for $sharing.servers servers: $manifest',
    vector => {
      const { manifest, of, queries, sharing, bytes } = vector
      expect(codecs.encodeInstantQuery(manifestOf(manifest), of, queries, sharing)).toBe(bytes)
      expect(codecs.decodeInstantQuery(manifestOf(manifest), bytes)).toEqual({ of, queries, sharing })
      expect(() => codecs.decodeQuery(manifestOf(manifest), bytes, 1)).toThrow()
    },
  )

  test.each(vectors.instantAnswers)(
    'reads and writes an instant answer of $of from one of $servers servers: $manifest',
    vector => {
      const { manifest, of, answers, servers, bytes } = vector
      const other = of === 'records' ? 'directory blocks' : 'records'
      expect(codecs.encodeInstantAnswer(manifestOf(manifest), of, answers, servers)).toBe(bytes)
      const read = (of: InstantOf, servers: number) =>
        codecs.decodeInstantAnswer(manifestOf(manifest), of, answers.length, bytes, servers)
      expect(read(of, servers)).toEqual(answers)
      expect(() => read(other, servers)).toThrow()
      expect(() => read(of, servers === 2 ? 3 : 2)).toThrow()
    },
  )

  test.each(vectors.refused)('refuses a $kind: $because', ({ kind, manifest, bytes }) => {
    const read = {
      manifest: () => codecs.decodeManifest(bytes),
      query: () => codecs.decodeQuery(manifestOf(manifest!), bytes, 1),
      answer: () => codecs.decodeAnswer(manifestOf(manifest!), 1, bytes, 1),
      record: () => codecs.decodeRecord(manifestOf(manifest!), bytes),
      batch: () => codecs.decodeBatch(bytes),
      'batch signature': () => codecs.decodeBatchSignature(bytes),
      'fence request': () => codecs.decodeFenceRequest(bytes),
      'fence reply': () => codecs.decodeFenceReply(bytes),
      claim: () => codecs.decodeClaimedQuery(bytes),
      verdict: () => codecs.splitVerdict(bytes),
      'instant query': () => codecs.decodeInstantQuery(manifestOf(manifest!), bytes),
      'instant answer': () => codecs.decodeInstantAnswer(manifestOf(manifest!), 'records', 1, bytes, 2),
    }
    expect(read[kind]).toThrow()
  })
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

describe('both implementations accept and refuse the same bytes: every byte changed in three ways, one too few, one too many', () => {
  /** What a decoder makes of bytes; undefined: it refuses them. */
  const attempt = <T>(decode: () => T): T | undefined => {
    try {
      return decode()
    } catch {
      return undefined
    }
  }
  const disagreeing = (bytes: string) =>
    `the reference (expected) and packages/protocol (received) read these bytes differently: ${bytes}`
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

  const expectAgreement = (valid: string, decode: (codecs: typeof reference, bytes: string) => unknown) => {
    for (const mutated of mutations(valid)) {
      const [a, b] = [reference, shipped].map(codecs => attempt(() => decode(codecs, mutated)))
      expect(b, disagreeing(mutated)).toEqual(a)
    }
  }

  test.each(vectors.manifests.filter(({ bytes }) => bytes.length < 10_000))('manifest: $name', ({ bytes }) => {
    expectAgreement(bytes, (codecs, mutated) => codecs.decodeManifest(mutated))
  })

  test.each(vectors.answers)('answer: $manifest', ({ manifest, suite, count, bytes }) => {
    expectAgreement(bytes, (codecs, mutated) => codecs.decodeAnswer(manifestOf(manifest), count, mutated, suite))
  })

  test.each([
    ['batch', vectors.batches[0]!.bytes.slice(0, 2 * 80), 'decodeBatch'],
    ['registration', vectors.fenceRequests[0]!.bytes, 'decodeFenceRequest'],
    ['confirmation', vectors.fenceRequests[1]!.bytes, 'decodeFenceRequest'],
    ['reply of a fence', vectors.fenceReplies[0]!.bytes, 'decodeFenceReply'],
  ] as const)('%s', (_, bytes, decoder) => {
    expectAgreement(bytes, (codecs, mutated) => codecs[decoder](mutated))
  })
})

// ---- how the vectors are made ---------------------------------------------------------------------

function makeVectors() {
  const manifests = makeManifests()
  const bytesOf = (name: string) => manifests.find(manifest => manifest.name === name)!.bytes
  return {
    comment: 'Made by tests/interop/wire.test.ts. Bytes are hex.',
    manifests,
    pairs: makePairs(),
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
      return { manifest, suite, vectors, bytes: reference.encodeQuery(bytesOf(manifest), vectors, suite) }
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
    ...makePublished(bytesOf),
    ...makeFenced(bytesOf),
    ...makeInstant(bytesOf),
    refused: [...makeRefused(bytesOf), ...makeRefusedBeside(bytesOf), ...makeRefusedInstant(bytesOf)],
  }
}

function makeInstant(bytesOf: (name: string) => string) {
  const asked: [string, InstantOf, number[]][] = [
    ['smallest', 'records', [0]],
    ['keyed', 'records', [1]],
    ['keyed', 'directory blocks', [127]],
    ['four a block', 'records', [1, 0]],
    ['longest answers', 'records', [127]],
  ]
  const layoutOf = (manifest: string, of: InstantOf) => {
    const fields = decodeManifest(unhex(bytesOf(manifest)))
    const { directoryBlockLog: blockLog, directoryBlockBytes: blockBytes } = fields
    return of === 'records' ? fields : blockLayout({ blockLog, blockBytes })
  }
  const answered = (manifest: string, of: InstantOf, answers: string[], servers: number) => ({
    ...{ manifest, of, answers, servers },
    bytes: reference.encodeInstantAnswer(bytesOf(manifest), of, answers, servers),
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
    const body = reference.encodeInstantQuery(bytesOf(manifest), of, whole, sharing)
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
    return { manifest, of, queries, sharing, bytes: reference.encodeInstantQuery(bytesOf(manifest), of, queries) }
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
    ['a head alone', valid.slice(0, 80)],
    ['a byte too few', valid.slice(0, -2)],
    ['a byte too many', `${valid}00`],
  ]
}

function heads(valid: string, magics: readonly string[], suites: readonly number[]): Cases {
  return [
    ...magics.map(magic => [`the magic ${magic}`, replaced(valid, 0, hex(utf8ToBytes(magic)))] as const),
    ...suites.map(suite => [`suite ${suite}`, replaced(valid, 6, `0${suite}`)] as const),
    ['format 2', replaced(valid, 4, '02')],
    ['a reserved byte', replaced(valid, 38, '01')],
  ]
}

function epochs(valid: string): Cases {
  return [
    ['another database', replaced(valid, 8, 'ff'.repeat(16))],
    ['another generation', replaced(valid, 24, '02')],
    ['another epoch', replaced(valid, 28, '02')],
    ['another Q', replaced(valid, 32, '07')],
  ]
}

function makeRefusedInstant(bytesOf: (name: string) => string): Refused[] {
  const { instantQueries, instantAnswers } = makeInstant(bytesOf)
  const [query] = instantQueries.filter(({ manifest }) => manifest === 'keyed')
  const [answer] = instantAnswers.filter(({ manifest }) => manifest === 'keyed')
  const [asked, answered] = [query!.bytes, answer!.bytes]
  const one = query!.queries[0]!
  const vectorTo = instantQueries.find(({ manifest, sharing }) => manifest === 'keyed' && sharing.vectors)!
  const [vector, seed] = [
    vectorTo.bytes,
    instantQueries.find(({ sharing: { servers, vectors } }) => servers === 3 && !vectors)!.bytes,
  ]
  const queries: Cases = [
    ...lengths(asked),
    ...heads(asked, ['PIRA', 'PIRH'], [0, 1, 2, 3, 6]),
    ['count 0', replaced(asked.slice(0, 80), 36, '00')],
    ['a count of more queries than follow', replaced(asked, 36, '02')],
    ['a count of fewer queries than follow', asked + one],
    ['65 queries', replaced(asked.slice(0, 80), 36, '41') + one.repeat(65)],
    ['party 2', `${asked.slice(0, -2)}02`],
    ...lengths(vector),
    ...lengths(seed),
    ['two servers in suite 7', replaced(vector, 40, '02')],
    ['nine servers', replaced(vector, 40, '09')],
    ['form 2', replaced(vector, 41, '02')],
    ['a vector as seeds', replaced(vector, 41, '00')],
    ['seeds as vectors', replaced(seed, 41, '01')],
    ['a bit beyond the last group', `${vector.slice(0, -2)}ff`],
  ]
  const answers: Cases = [
    ...lengths(answered),
    ...heads(answered, ['PIRQ', 'PIRP'], [0, 1, 2, 3, 5]),
    ...epochs(answered),
    ['count 0', replaced(answered, 36, '00')],
    ['count 2', replaced(answered, 36, '02')],
  ]
  return [...refused('instant query', queries, 'keyed'), ...refused('instant answer', answers, 'keyed')]
}

/** Signatures under RFC 8032 seeds, which are secret keys; batches and manifests are bytes. */
function makePublished(bytesOf: (name: string) => string) {
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
      const [seed, manifest] = [bytes(`publisher ${i}`, 32), bytesOf(name)]
      const { publicKey, signature } = signWith(unhex(seed), unhex(reference.manifestMessage(manifest)))
      return { seed, publicKey: hex(publicKey), manifest, signature: hex(signature) }
    }),
  }
}

/** Claims: a query and a claim in one request, an answer and a verdict in one reply. */
function makeFenced(bytesOf: (name: string) => string) {
  const asked = [NOBODY, CLAIM, { ...CLAIM, name: NOBODY.name }, { ...CLAIM, version: Number.MAX_SAFE_INTEGER }]
  const query = reference.encodeQuery(bytesOf('keyed'), THREE_VECTORS, 2)
  const entries = Array.from({ length: 6 }, (_, i) => bytes(`entry ${i}`, 24))
  const answer = reference.encodeAnswer(bytesOf('keyed'), 3, entries, 2)
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

/** `bytes` with the byte at `at` and those behind it replaced. */
function replaced(bytes: string, at: number, by: string): string {
  return bytes.slice(0, 2 * at) + by + bytes.slice(2 * at + by.length)
}

function makeRefusedBeside(bytesOf: (name: string) => string): Refused[] {
  const batch = reference.encodeBatch(BATCH)
  const { batchSignatures } = makePublished(bytesOf)
  const { header } = batchSignatures[0]!
  const [register, confirm] = [NOBODY, CLAIM].map(reference.encodeFenceRequest) as [string, string]
  const reply = reference.encodeFenceReply('granted')
  const query = reference.encodeQuery(bytesOf('keyed'), [[0, 4]], 1)
  type Kind = 'batch' | 'batch signature' | 'fence request' | 'fence reply' | 'claim' | 'verdict'
  const cases: Record<Kind, Cases> = {
    batch: [
      ['71 bytes', batch.slice(0, 2 * 71)],
      ['another magic', replaced(batch, 0, '51')],
      ['another format', replaced(batch, 4, '0200')],
      ['values written in a fourth way', replaced(batch, 6, '03')],
      ['reserved byte', replaced(batch, 7, '01')],
      ['generation 0', replaced(batch, 24, '00000000')],
      ['a generation after its epoch', replaced(batch, 24, '03000000')],
      ['epoch 0', replaced(batch, 28, '00000000')],
      ['epoch 1', replaced(batch, 28, '01000000')],
      ['an expiry of 2^53', replaced(batch, 32, '0000000000002000')],
      ['made on no manifest', replaced(batch, 40, '00'.repeat(32))],
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
      ['another magic', replaced(confirm, 0, '51')],
      ['another format', replaced(confirm, 4, '0200')],
      ['kind 0', replaced(confirm, 6, '0000')],
      ['kind 3', replaced(confirm, 6, '0300')],
      ['a version of 2^53', replaced(confirm, 40, '0000000000002000')],
      ['a registration at a version', replaced(register, 40, '01')],
      ['a registration with a name', replaced(register, 79, '01')],
    ],
    'fence reply': [
      ['7 bytes', reply.slice(0, -2)],
      ['9 bytes', `${reply}00`],
      ['another magic', replaced(reply, 0, '51')],
      ['another format', replaced(reply, 4, '0200')],
      ['verdict 0', replaced(reply, 6, '0000')],
      ['verdict 3', replaced(reply, 6, '0300')],
    ],
    claim: [
      ['a registration', query + register],
      ['no name', query + replaced(confirm, 48, '00'.repeat(32))],
      ['of another database', query + replaced(confirm, 8, 'ff'.repeat(16))],
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
  const { commitments, contentHashes, pointproofs, oneServerHint, ...plain } = shared
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
    'longest answers': { ...keyless, ...sized(128, 65_536, 128, 1), recordBytes: 65_536, maxBatch: 2 },
    'largest partitions': {
      ...{ ...keyless, ...changed, updateListBytes: 40 + 41_000 * (5 + 65_536) },
      ...{ ...sized(65_537, 65_536, 2, 65_536), recordBytes: 65_536 },
    },
    hinted: { ...keyed, ...sized(9, 8, 2, 5), recordBytes: 24, expires: 1, oneServerHint: bytes('hint', 32) },
    'hinted, with Pointproofs': {
      ...{ ...keyless, suite: 6, ...sized(5, 8, 2, 3), recordBytes: 8, pointproofs: POINTPROOFS },
      ...{ expires: 1, oneServerHint: bytes('hint', 32) },
    },
  }
  return Object.entries(cases).map(([name, fields]) => ({ name, fields, bytes: reference.encodeManifest(fields) }))
}

/** Behind epoch 7 of generation 2, its first, of four records: what may come next, and what is one step from that. */
function makePairs() {
  const hashes = (label: string, count: number) => Array.from({ length: count }, (_, q) => bytes(`${label} ${q}`, 32))
  const zero = '00'.repeat(32)
  const noList = { updateListBytes: 0, updateListHash: zero }
  const first: ManifestFields = {
    ...{ suite: 1, databaseId: bytes('database', 16), generation: 2, epoch: 7, ...noList, maxBatch: 64, expires: 0 },
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
      { ...anew, ...keyless, suite: 2, records: 1, partitions: 1, partitionRecords: 1, blockRecords: 1, maxBatch: 1 },
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
    ['another suite', false, { suite: 2, directoryCommitment: zero }],
    ['another record length', false, { recordBytes: 25, valueBytes: 9 }],
    ['lengths of values instead of longer ones', false, { variable: true, valueBytes: 6 }],
    ['no keys', false, keyless],
    ['another M', false, { partitionRecords: 6 }],
    ['another g', false, { blockRecords: 1 }],
    ['another batch limit', false, { maxBatch: 63 }],
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
  const pairs = cases.map(([because, follows, change]) => {
    return { because, follows, bytes: before + reference.encodeManifest(next(change)) }
  })
  const provedPairs = provedCases.map(([because, follows, change]) => {
    const after = reference.encodeManifest(next(change, proved, beforeProved))
    return { because, follows, bytes: beforeProved + after }
  })
  return [...pairs, ...provedPairs]
}

function makeRefused(bytesOf: (name: string) => string): Refused[] {
  const u32 = (value: number) => hex(new Uint8Array(new Uint32Array([value]).buffer))

  const keyless = bytesOf('smallest')
  const keyed = bytesOf('keyed')
  const changed = bytesOf('variable')
  const proved = bytesOf('with Pointproofs')
  const later = bytesOf('with Pointproofs, later')
  const badManifests = {
    'no bytes': '',
    'a byte too few': keyed.slice(0, -2),
    'a byte too many': `${keyed}00`,
    'another magic': replaced(keyed, 0, '51'),
    'format 2': replaced(keyed, 4, '02'),
    'suite 0': replaced(keyed, 6, '00'),
    'suite 3': replaced(keyed, 6, '03'),
    'commitments in suite 2': replaced(keyed, 6, '02'),
    'generation 0': replaced(keyed, 24, u32(0)),
    'epoch 0': replaced(keyed, 28, u32(0)),
    'N = 0': replaced(keyed, 32, u32(0)),
    'N > Q·M': replaced(keyed, 32, u32(11)),
    'ℓ too short for its value': replaced(keyed, 36, u32(23)),
    'ℓ = 0': replaced(replaced(keyless, 36, u32(0)), 48, u32(0)),
    'ℓ = 65 537': replaced(replaced(keyless, 36, u32(65_537)), 48, u32(65_537)),
    'Q = 0': replaced(keyed, 40, u32(0)),
    'Q of more partitions than follow': replaced(keyed, 40, u32(3)),
    'M = 0': replaced(keyed, 44, u32(0)),
    'M = 65 537': replaced(keyed, 44, u32(65_537)),
    'value bytes that do not give ℓ': replaced(keyed, 48, u32(9)),
    'neither keyed nor keyless': replaced(keyed, 52, '02'),
    'neither variable nor fixed': replaced(keyed, 53, '02'),
    'a batch limit of 0': replaced(keyed, 54, '00'),
    'a batch limit of 65': replaced(keyed, 54, '41'),
    'blocks that do not divide a partition': replaced(bytesOf('four a block'), 55, '04'),
    'blocks of more than 65 536 bytes': replaced(replaced(keyed, 44, u32(4096)), 55, '0c'),
    'blocks of more records than can be': replaced(keyed, 55, 'ff'),
    'answers of more than 16 MiB': replaced(bytesOf('longest answers'), 54, '03'),
    'an expiry of 2^53 seconds': replaced(keyed, 62, '20'),
    'a manifest before the first': replaced(keyed, 136, '01'),
    'fewer epochs than generations': replaced(keyed, 24, u32(2)),
    'a later epoch without a list': replaced(bytesOf('first of a generation'), 24, u32(1)),
    'a later epoch without a manifest before it': replaced(changed, 136, '00'.repeat(32)),
    'an update list without its hash': replaced(changed, 104, '00'.repeat(32)),
    'an update list shorter than its header': replaced(changed, 68, u32(39)),
    'an update list of more entries than records': replaced(changed, 68, u32(40 + 51 * 323)),
    'an update list that ends within an entry': replaced(changed, 68, u32(40 + 324)),
    'an update list in the first epoch': replaced(replaced(keyed, 68, u32(40)), 104, '01'),
    'a directory without keys': replaced(keyless, 64, u32(1)),
    "a directory's hash without keys": replaced(keyless, 72, '01'),
    'keys without a directory': replaced(keyed, 64, u32(0)),
    'the hash of no update list': replaced(keyed, 104, '01'),
    'a directory of more than 2^16 blocks': replaced(keyed, 168, u32(17)),
    "a directory's blocks of no bytes": replaced(keyed, 172, u32(0)),
    "a directory's blocks of no whole 32 bytes": replaced(keyed, 172, u32(65)),
    "a directory's blocks of more than 65 536 bytes": replaced(keyed, 172, u32(65_568)),
    'more than one block without keys': replaced(keyless, 168, u32(1)),
    'blocks without keys': replaced(keyless, 172, u32(32)),
    "a directory's seed without keys": replaced(keyless, 176, '01'),
    'a commitment to blocks without keys': replaced(keyless, 192, '01'),
    'a commitment to blocks in suite 2': replaced(bytesOf('keyed without commitments'), 192, '01'),
    'suite 6 without what it verifies with': replaced(keyed, 6, '06'),
    'what suite 6 verifies with, in suite 1': replaced(proved, 6, '01'),
    'what suite 6 verifies with, a byte too few': proved.slice(0, -2),
    'row lists of no hash': replaced(proved, 352, '00'.repeat(32)),
    'a key of no hash': replaced(proved, 384, '00'.repeat(32)),
    'a transcript of no hash': replaced(proved, 416, '00'.repeat(32)),
    'rows of 255 records': replaced(proved, 448, 'ff00'),
    'a flag there is not': replaced(proved, 450, '02'),
    'a reserved byte behind it': replaced(proved, 455, '01'),
    'an update list in suite 6 shorter than its header': replaced(later, 68, u32(39)),
    'an update list in suite 6 longer than any': replaced(later, 68, u32(40 + 5 * (53 + 8) + 1)),
    'no update list in suite 6': replaced(later, 68, u32(0)),
  }
  const query = reference.encodeQuery(keyed, [[0, 4]], 1)
  const queries: Cases = [
    ...lengths(query),
    ...heads(query, ['PIRA'], [2, 4, 5]),
    ['count 0', replaced(query.slice(0, 80), 36, '00')],
    ['a count of more vectors than follow', replaced(query, 36, '02')],
  ]
  const answer = reference.encodeAnswer(keyed, 1, [bytes('entry 0', 120), bytes('entry 1', 120)], 1)
  const answers: Cases = [
    ...lengths(answer),
    ...heads(answer, ['PIRQ'], [2, 4, 5]),
    ...epochs(answer),
    ['another count', replaced(answer, 36, '02')],
  ]
  const fields = { fingerprint: bytes('fingerprint', 16), value: bytes('value', 5) }
  const record = reference.encodeRecord(bytesOf('variable'), fields)
  const badRecords = {
    'no bytes': '',
    'a byte too few': record.slice(0, -2),
    'a byte too many': `${record}00`,
    'a value longer than any': replaced(record, 16, '2d01'),
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
