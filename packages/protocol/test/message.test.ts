import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import {
  answerBytes,
  builtFor,
  decodeAnswer,
  decodeClaimedQuery,
  decodeQuery,
  encodeAnswer,
  encodeFenceRequest,
  encodeManifest,
  encodeQuery,
  FENCE_REPLY_BYTES,
  FENCE_REQUEST_BYTES,
  type Manifest,
  type Proofs,
  proofsIn,
  proofsOf,
  queryBytes,
  splitVerdict,
  suiteOf,
  WireError,
  withClaim,
  withVerdict,
} from '../src/index.js'
import { bytesOf, expectExactOrRefused, holdToLaw, markedBytes, smallManifests } from './arbitraries.js'

/** A manifest, a kind of proof it has, a count it allows (at most 3, to stay small) and a body for it. */
const exchanges = (bodyBytes: (manifest: Manifest, count: number, proofs: Proofs) => number) =>
  smallManifests
    .chain(manifest => fc.constantFrom(...proofsOf(manifest)).map(proofs => ({ manifest, proofs })))
    .chain(({ manifest, proofs }) =>
      fc
        .integer({ min: 1, max: Math.min(3, manifest.maxBatch) })
        .chain(count =>
          bytesOf(bodyBytes(manifest, count, proofs) - 40).map(body => ({ manifest, proofs, count, body })),
        ),
    )
const queries = exchanges(queryBytes)
const answers = exchanges(answerBytes)

/** A query's bytes, and a claim that may stand behind it. */
const claimed = queries.chain(({ manifest, proofs, count, body }) =>
  fc
    .record({
      databaseId: fc.constant(manifest.databaseId),
      hintId: bytesOf(16),
      version: fc.oneof(fc.constantFrom(0, Number.MAX_SAFE_INTEGER), fc.maxSafeNat()),
      requestHash: markedBytes(32),
    })
    .map(claim => ({ manifest, query: encodeQuery(manifest, count, body, proofs), claim })),
)

/** The bytes of a query that was read. A changed header still decodes where it names another database or epoch. */
const encodeAsRead = (manifest: Manifest, query: ReturnType<typeof decodeQuery>) =>
  encodeQuery(
    { ...manifest, ...query, partitionRecords: 1, recordBytes: 1 },
    query.count,
    query.vectors,
    builtFor(query),
  )

describe('a query', () => {
  test('decodes to what was encoded', () => {
    fc.assert(
      fc.property(queries, ({ manifest, proofs, count, body }) => {
        const bytes = encodeQuery(manifest, count, body, proofs)
        expect(bytes.length).toBe(queryBytes(manifest, count))
        const { databaseId, generation, epoch, partitions } = manifest
        const suite = suiteOf(proofs)
        expect(decodeQuery(bytes)).toEqual({ suite, databaseId, generation, epoch, partitions, count, vectors: body })
        expect(proofsIn(manifest, { suite })).toBe(proofs)
      }),
    )
  })

  test('bytes are refused, or are the bytes of the query they decode to', () => {
    fc.assert(
      fc.property(queries, ({ manifest, proofs, count, body }) => {
        const encode = (query: ReturnType<typeof decodeQuery>) => encodeAsRead(manifest, query)
        holdToLaw(decodeQuery, encode, encodeQuery(manifest, count, body, proofs))
      }),
      { numRuns: 20 },
    )
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 100 }), bytes => {
        expectExactOrRefused(decodeQuery, () => new Uint8Array(), bytes)
      }),
    )
  })

  test('for proofs that the database has not is for the server to refuse', () => {
    expect(proofsIn({ suite: 2 } as Manifest, { suite: 1 })).toBeUndefined()
    expect(proofsIn({ suite: 1 } as Manifest, { suite: 3 })).toBeUndefined()
  })

  test('shares one layout with the manifest: both carry the same id, generation and epoch', () => {
    fc.assert(
      fc.property(queries, ({ manifest, count, body }) => {
        const query = encodeQuery(manifest, count, body, builtFor(manifest))
        expect(query.subarray(4, 32)).toEqual(encodeManifest(manifest).subarray(4, 32))
      }),
    )
  })

  test.each([0, -1, 1.5, 65])('of count %d is refused', count => {
    const [exchange] = fc.sample(queries, { numRuns: 1, seed: 1 })
    expect(() => encodeQuery(exchange!.manifest, count, exchange!.body)).toThrow(WireError)
  })
})

describe('a query with a claim', () => {
  test('decodes to both; the vectors are not copied', () => {
    fc.assert(
      fc.property(claimed, ({ query, claim }) => {
        const bytes = withClaim(query, claim)
        expect(bytes.length).toBe(query.length + FENCE_REQUEST_BYTES)
        expect(bytes.subarray(0, query.length)).toEqual(query)
        expect(bytes.subarray(query.length)).toEqual(encodeFenceRequest({ kind: 'confirm', ...claim }))
        const read = decodeClaimedQuery(bytes)
        expect(read).toEqual({ query: decodeQuery(query), claim })
        expect(read.query.vectors.buffer).toBe(bytes.buffer)
      }),
    )
  })

  test('bytes are refused, or are the bytes of the query and the claim they decode to', () => {
    fc.assert(
      fc.property(claimed, ({ manifest, query, claim }) => {
        const encode = (read: ReturnType<typeof decodeClaimedQuery>) => {
          const bytes = encodeAsRead(manifest, read.query)
          return read.claim === undefined ? bytes : withClaim(bytes, read.claim)
        }
        holdToLaw(decodeClaimedQuery, encode, withClaim(query, claim))
      }),
      { numRuns: 20 },
    )
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 200 }), bytes => {
        expectExactOrRefused(decodeClaimedQuery, () => new Uint8Array(), bytes)
      }),
    )
  })

  test('has its one length, and without the claim its one other', () => {
    fc.assert(
      fc.property(claimed, ({ query, claim }) => {
        const bytes = withClaim(query, claim)
        const longer = Uint8Array.from([...bytes, ...bytes])
        for (let length = 0; length <= longer.length; length++) {
          const decode = () => decodeClaimedQuery(longer.subarray(0, length))
          if (length === query.length) expect(decode().claim).toBeUndefined()
          else if (length === bytes.length) expect(decode().claim).toEqual(claim)
          else expect(decode, `${length} of ${bytes.length}`).toThrow(WireError)
        }
      }),
      { numRuns: 20 },
    )
  })

  test('without one is what it was', () => {
    fc.assert(
      fc.property(claimed, ({ query }) => {
        expect(decodeClaimedQuery(query)).toEqual({ query: decodeQuery(query), claim: undefined })
      }),
    )
  })

  test('is refused where the claim is none, or is of another database', () => {
    fc.assert(
      fc.property(claimed, fc.integer({ min: 1, max: 255 }), ({ query, claim }, flip) => {
        const behind = (fence: Uint8Array) => () => decodeClaimedQuery(Uint8Array.from([...query, ...fence]))
        const request = encodeFenceRequest({ kind: 'confirm', ...claim })
        expect(behind(request)().claim).toEqual(claim)
        // Magic, format, kind, and the database's id.
        for (let at = 0; at < 24; at++) {
          const changed = request.map((byte, i) => (i === at ? byte ^ flip : byte))
          expect(behind(changed), `${at}`).toThrow(WireError)
        }
        expect(behind(new Uint8Array(FENCE_REQUEST_BYTES))).toThrow(/magic/)
        const zero = new Uint8Array(32)
        expect(() => decodeClaimedQuery(withClaim(query, { ...claim, requestHash: zero }))).toThrow(/request hash/)
        const registration = { ...claim, kind: 'register', version: 0, requestHash: zero } as const
        expect(behind(encodeFenceRequest(registration))).toThrow(/claim.*register/)
        const databaseId = claim.databaseId.map(byte => byte ^ flip)
        expect(() => decodeClaimedQuery(withClaim(query, { ...claim, databaseId }))).toThrow(/claim.*database/)
        const beyond = request.map((byte, i) => (i === 46 ? byte | 0x20 : byte)) // a version of 2⁵³ or more
        expect(behind(beyond)).toThrow(/version/)
      }),
    )
  })

  test('of no query is none: a count or a Q of 0 has no vectors for it to stand behind', () => {
    fc.assert(
      fc.property(claimed, fc.constantFrom(32, 36), ({ query, claim }, at) => {
        const bytes = withClaim(query.slice(0, 40), claim)
        bytes.fill(0, at, at === 32 ? 36 : 38)
        expect(() => decodeClaimedQuery(bytes)).toThrow(WireError)
      }),
    )
  })

  test('is not made of what is no claim', () => {
    const [sample] = fc.sample(claimed, { numRuns: 1, seed: 1 })
    const { query, claim } = sample!
    for (const wrong of [
      { version: -1 },
      { version: 2 ** 53 },
      { version: 0.5 },
      { hintId: new Uint8Array(15) },
      { requestHash: new Uint8Array(33) },
      { databaseId: new Uint8Array(0) },
    ]) {
      expect(() => withClaim(query, { ...claim, ...wrong })).toThrow(WireError)
    }
  })
})

describe('an answer', () => {
  test('decodes to the entries that were encoded, without copying them', () => {
    fc.assert(
      fc.property(answers, ({ manifest, proofs, count, body }) => {
        const bytes = encodeAnswer(manifest, count, body, proofs)
        expect(bytes.length).toBe(answerBytes(manifest, count, proofs))
        const entries = decodeAnswer(manifest, count, bytes, proofs)
        expect(entries).toEqual(body)
        expect(entries.buffer).toBe(bytes.buffer)
      }),
    )
  })

  test('with any header byte changed, cut short or with a byte too many is refused; entries are not judged', () => {
    fc.assert(
      fc.property(answers, ({ manifest, proofs, count, body }) => {
        const valid = encodeAnswer(manifest, count, body, proofs)
        for (let at = 0; at < 40; at++) {
          const mutated = valid.slice()
          mutated[at]! ^= 0x10
          expect(() => decodeAnswer(manifest, count, mutated, proofs)).toThrow(WireError)
        }
        const other = proofs === 'tags' ? 'merkle' : 'tags'
        expect(() => decodeAnswer(manifest, count, valid, other)).toThrow(/answer suite/)
        holdToLaw(
          bytes => decodeAnswer(manifest, count, bytes, proofs),
          entries => encodeAnswer(manifest, count, entries, proofs),
          valid,
        )
      }),
      { numRuns: 20 },
    )
  })

  test('to another question is refused with the field named', () => {
    const [exchange] = fc.sample(
      answers.filter(({ manifest }) => manifest.maxBatch > 1),
      { numRuns: 1, seed: 2 },
    )
    const { manifest, proofs, count, body } = exchange!
    const bytes = encodeAnswer(manifest, count, body, proofs)
    const other = (change: Partial<Manifest>) => () => decodeAnswer({ ...manifest, ...change }, count, bytes, proofs)
    expect(other({ databaseId: new Uint8Array(16) })).toThrow(/answer database/)
    expect(other({ generation: manifest.generation ^ 1 })).toThrow(/answer generation/)
    expect(other({ epoch: manifest.epoch ^ 2 })).toThrow(/answer epoch/)
    expect(other({ partitions: manifest.partitions + 1 })).toThrow(/answer partitions/)
    expect(other({ recordBytes: manifest.recordBytes + 1 })).toThrow(/answer length/)
    expect(() => decodeAnswer(manifest, count + 1, bytes, proofs)).toThrow(/answer count/)
    const query = encodeQuery(manifest, count, new Uint8Array(count * manifest.partitions * 2), proofs)
    expect(() => decodeAnswer(manifest, count, query, proofs)).toThrow(/magic/)
  })
})

describe('an answer with a verdict', () => {
  const verdicts = fc.constantFrom('granted' as const, 'refused' as const)

  test('splits into both, and the answer is not copied', () => {
    fc.assert(
      fc.property(answers, verdicts, ({ manifest, proofs, count, body }, verdict) => {
        const answer = encodeAnswer(manifest, count, body, proofs)
        const bytes = withVerdict(answer, verdict)
        expect(bytes.length).toBe(answer.length + FENCE_REPLY_BYTES)
        const split = splitVerdict(bytes)
        expect(split).toEqual({ answer, verdict })
        expect(split.answer.buffer).toBe(bytes.buffer)
        expect(decodeAnswer(manifest, count, split.answer, proofs)).toEqual(body)
      }),
    )
  })

  test('bytes are refused, or are the bytes of what they split into', () => {
    const law = (bytes: Uint8Array) => {
      const join = ({ answer, verdict }: ReturnType<typeof splitVerdict>) => withVerdict(answer, verdict)
      holdToLaw(splitVerdict, join, bytes)
    }
    fc.assert(fc.property(fc.uint8Array({ maxLength: 60 }), verdicts, (answer, said) => law(withVerdict(answer, said))))
    fc.assert(fc.property(fc.uint8Array({ maxLength: 20 }), law))
  })

  test('has its one length: no part of it, and nothing with bytes before or behind, is an answer and a verdict', () => {
    fc.assert(
      fc.property(answers, verdicts, ({ manifest, proofs, count, body }, verdict) => {
        const bytes = withVerdict(encodeAnswer(manifest, count, body, proofs), verdict)
        const read = (reply: Uint8Array) => () => decodeAnswer(manifest, count, splitVerdict(reply).answer, proofs)
        expect(read(bytes)()).toEqual(body)
        for (let length = 0; length < bytes.length; length++) expect(read(bytes.subarray(0, length))).toThrow(WireError)
        expect(read(Uint8Array.from([...bytes, 0]))).toThrow(WireError)
        expect(read(Uint8Array.from([0, ...bytes]))).toThrow(WireError)
        expect(read(withVerdict(bytes, verdict))).toThrow(/answer length/)
      }),
      { numRuns: 20 },
    )
  })

  test('says granted or refused and nothing else', () => {
    const bytes = withVerdict(new Uint8Array(3), 'refused')
    const says = (number: number) => () => splitVerdict(bytes.with(bytes.length - 2, number)).verdict
    expect([says(1)(), says(2)()]).toEqual(['granted', 'refused'])
    for (const number of [0, 3, 255]) expect(says(number)).toThrow(WireError)
    // And all the rest of it is fixed.
    for (const at of [3, 4, 5, 6, 7, 8, 10]) {
      expect(() => splitVerdict(bytes.map((byte, i) => (i === at ? byte ^ 1 : byte))), `${at}`).toThrow(WireError)
    }
  })
})
