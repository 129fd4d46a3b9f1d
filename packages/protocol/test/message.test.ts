import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import {
  answerBytes,
  decodeAnswer,
  decodeQuery,
  encodeAnswer,
  encodeManifest,
  encodeQuery,
  type Manifest,
  maxBatch,
  type Proofs,
  proofsIn,
  proofsOf,
  queryBytes,
  suiteOf,
  WireError,
} from '../src/index.js'
import { bytesOf, expectExactOrRefused, holdToLaw, smallManifests } from './arbitraries.js'

/** A manifest, a kind of proof it has, a count it allows (at most 3, to stay small) and a body for it. */
const exchanges = (bodyBytes: (manifest: Manifest, count: number, proofs: Proofs) => number) =>
  smallManifests
    .chain(manifest => fc.constantFrom(...proofsOf(manifest)).map(proofs => ({ manifest, proofs })))
    .chain(({ manifest, proofs }) =>
      fc
        .integer({ min: 1, max: Math.min(3, maxBatch(manifest, proofs)) })
        .chain(count =>
          bytesOf(bodyBytes(manifest, count, proofs) - 40).map(body => ({ manifest, proofs, count, body })),
        ),
    )
const queries = exchanges(queryBytes)
const answers = exchanges(answerBytes)

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
        // A changed header still decodes where it names another database or epoch: encode what was read.
        const encode = (query: ReturnType<typeof decodeQuery>) =>
          encodeQuery({ ...manifest, ...query, partitionRecords: 1, recordBytes: 1 }, query.count, query.vectors)
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
        expect(encodeQuery(manifest, count, body).subarray(4, 32)).toEqual(encodeManifest(manifest).subarray(4, 32))
      }),
    )
  })

  test.each([0, -1, 1.5, 65])('of count %d is refused', count => {
    const [exchange] = fc.sample(queries, { numRuns: 1, seed: 1 })
    expect(() => encodeQuery(exchange!.manifest, count, exchange!.body)).toThrow(WireError)
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
      answers.filter(({ manifest }) => maxBatch(manifest) > 1),
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
