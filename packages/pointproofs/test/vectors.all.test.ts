// Pointproofs: the WebAssembly module and an independent verifier on @noble/curves are held to the shared vectors, and agree
// about what was changed, thousands of times in `npm run test:all` and a few dozen in `npm test`.

import { loadPointproofs, type PointproofsVerifier } from '@keyhush/pointproofs'
import { blake3 } from '@noble/hashes/blake3.js'
import { bytesToHex, concatBytes, hexToBytes } from '@noble/hashes/utils.js'
import fc from 'fast-check'
import { beforeAll, expect, test } from 'vitest'
import { stream } from '../../../tests/interop/vectors.js'
import { THOROUGH } from '../../../tests/support/thorough.js'
import { thoroughly } from '../../../tests/support/thoroughly.js'
import { loadProving } from '../dist/server/module.js'
import {
  type Answer,
  Ceremony,
  decodeKey,
  decodeRows,
  type Key,
  prove,
  rowLists,
  type Shape,
  verify,
} from './support/reference.js'
import vectors from './vectors.json' with { type: 'json' }

const pointproofs = await loadPointproofs()
const [manifest, header] = [stream('manifest', 32), stream('header', 40)]
const entropy = new Uint8Array(32).fill(1)
/** What is honest has to hold, in a small sample too. */
const UNCHANGED = { world: 0, answer: 0, kind: 'none', field: 'proof', at: 0, bytes: new Uint8Array(1) } as const
const hash = (bytes: Uint8Array) => bytesToHex(blake3(bytes))

const known = new Ceremony(vectors.ceremony.development)
let keyBytes: Uint8Array
let key: Key

beforeAll(() => {
  for (const { name, entropy } of vectors.ceremony.contributions) known.contribute(name, hexToBytes(entropy))
  keyBytes = known.key()
  key = decodeKey(keyBytes)
})

/** A database of the vectors. */
function database(vector: (typeof vectors.databases)[number]) {
  const { partitions, partitionRecords, recordBytes, recordsLabel } = vector
  const records = stream(recordsLabel, partitions * partitionRecords * recordBytes)
  for (let i = 4; i < partitions * partitionRecords; i += 5) records.fill(0, i * recordBytes, (i + 1) * recordBytes)
  const recordsOf = (offsets: readonly number[]) =>
    concatBytes(
      ...offsets.map((offset, n) => {
        const index = (n % partitions) * partitionRecords + offset
        return records.subarray(index * recordBytes, (index + 1) * recordBytes)
      }),
    )
  const lists = hexToBytes(vector.rowLists)
  const answers = vector.answers.map(({ offsets, proof }) => ({
    ...{ manifest, header, offsets, records: recordsOf(offsets) },
    proof: hexToBytes(proof),
  }))
  return { shape: { partitions, partitionRecords, recordBytes }, records, lists, answers }
}

const verifierOf = (shape: Shape, lists: Uint8Array) =>
  pointproofs.verifier(keyBytes, blake3(keyBytes), true, shape, lists)
const verdictOf = (verifier: PointproofsVerifier, answer: Answer) =>
  verifier
    .begin(answer.manifest, answer.header, Uint16Array.from(answer.offsets), answer.records, answer.proof)
    .finish()

thoroughly(
  'a ceremony: WebAssembly makes the transcripts, receipts and the key that the vectors have, and so does the reference',
  () => {
    const { development, begunHash, contributions, keyHash } = vectors.ceremony
    let transcript = pointproofs.beginCeremony(development)
    expect(hash(transcript)).toBe(begunHash)
    // To contribute takes longest. After the first, the transcript goes on as the reference makes it; in `npm run test:all`, as both do.
    for (const { name, entropy: own, receipt, transcriptHash } of THOROUGH
      ? contributions
      : contributions.slice(0, 1)) {
      const ceremony = pointproofs.ceremony(transcript, entropy)
      const contributed = ceremony.contribute(name, hexToBytes(own))
      ceremony.free()
      transcript = contributed.slice(0, -32)
      expect([hash(transcript), bytesToHex(contributed.slice(-32))]).toEqual([transcriptHash, receipt])
    }
    transcript = known.transcript()
    expect(hash(transcript)).toBe(contributions.at(-1)?.transcriptHash)
    const ceremony = pointproofs.ceremony(transcript, entropy)
    expect([ceremony.names, ceremony.development]).toEqual([contributions.map(({ name }) => name), development])
    expect(contributions.every(({ receipt }) => ceremony.has(hexToBytes(receipt)))).toBe(true)
    expect(ceremony.has(new Uint8Array(32))).toBe(false)
    expect([hash(ceremony.key()), bytesToHex(ceremony.hash)]).toEqual([keyHash, hash(transcript)])
    ceremony.free()

    expect([hash(keyBytes), bytesToHex(known.chain)]).toEqual([keyHash, contributions.at(-1)?.receipt])
  },
)

test('rows and proofs: who knows α makes those of the vectors, and both verifiers take them', () => {
  for (const vector of vectors.databases) {
    const { shape, records, lists, answers } = database(vector)
    expect(bytesToHex(rowLists(known.alpha, blake3(keyBytes), shape, records))).toBe(vector.rowLists)
    const verifier = verifierOf(shape, lists)
    for (const answer of answers) {
      expect(bytesToHex(prove(known.alpha, shape, records, answer))).toBe(bytesToHex(answer.proof))
      expect(verdictOf(verifier, answer)).toBe(true)
      expect(verify(key, decodeRows(shape, lists), shape, answer)).toBe(true)
    }
    verifier.free()
  }
})

thoroughly(
  'an update: rows and proofs follow edits, as who knows α makes them, in both provers and for both verifiers',
  async () => {
    const vector = vectors.databases.at(-1)!
    const { shape, records, lists } = database(vector)
    const { partitions, partitionRecords, recordBytes } = shape
    const [rowsAPartition, proving] = [Math.ceil(partitionRecords / 256), await loadProving()]
    const ceremony = proving.ceremony(known.transcript(), entropy)
    const prover = proving.prover(proving.setup(ceremony), shape)
    ceremony.free()
    const partitionBytes = partitionRecords * recordBytes
    const listBytes = lists.length / partitions
    const openings = Array.from({ length: partitions }, (_, q) =>
      prover.prove(q, records.subarray(q * partitionBytes, (q + 1) * partitionBytes)).slice(listBytes),
    )
    const recordAt = (index: number) => records.subarray(index * recordBytes, (index + 1) * recordBytes)
    const placeOf = (row: number) => Math.floor(row / rowsAPartition) * listBytes + 32 + (row % rowsAPartition) * 48
    const made = vectors.update.edits.map(({ index, value }) => {
      const [old, now] = [recordAt(index).slice(), hexToBytes(value)]
      recordAt(index).set(now)
      const offset = index % partitionRecords
      const row = Math.floor(index / partitionRecords) * rowsAPartition + Math.floor(offset / 256)
      return { row, edit: prover.edits(Uint32Array.of(index), old, now) }
    })
    const touched = vectors.update.touched.map(({ row }) => row)
    const before = concatBytes(...touched.map(row => lists.subarray(placeOf(row), placeOf(row) + 48)))
    const edits = concatBytes(...made.map(({ edit }) => edit))
    const followed = prover.follow(
      before,
      Uint32Array.from(made, ({ row }) => touched.indexOf(row)),
      edits,
    )
    expect(bytesToHex(followed)).toBe(vectors.update.touched.map(({ commitment }) => commitment).join(''))
    for (const [n, row] of touched.entries()) lists.set(followed.subarray(48 * n, 48 * n + 48), placeOf(row))
    expect(bytesToHex(lists)).toBe(bytesToHex(rowLists(known.alpha, blake3(keyBytes), shape, records)))

    const verifier = verifierOf(shape, lists)
    for (const { offsets, proof } of vectors.update.answers) {
      const found = concatBytes(...offsets.map((offset, q) => recordAt(q * partitionRecords + offset)))
      const answer = { manifest, header, offsets, records: found, proof: hexToBytes(proof) }
      expect(bytesToHex(prove(known.alpha, shape, records, answer))).toBe(proof)
      const old = concatBytes(...offsets.map((offset, q) => openings[q]!.subarray(96 * offset, 96 * offset + 96)))
      const placed = made.flatMap(({ row, edit }) => {
        const q = Math.floor(row / rowsAPartition)
        return Math.floor(offsets[q]! / 256) === row % rowsAPartition ? [{ q, edit }] : []
      })
      const entries = Uint32Array.from(placed, ({ q }) => q)
      const corrections = concatBytes(...placed.map(({ edit }) => edit))
      const proved = prover.proveEdited(
        partitions,
        manifest,
        header,
        Uint16Array.from(offsets),
        found,
        old,
        entries,
        corrections,
      )
      expect(bytesToHex(proved)).toBe(proof)
      expect(verdictOf(verifier, answer)).toBe(true)
      expect(verify(key, decodeRows(shape, lists), shape, answer)).toBe(true)
    }
    verifier.free()
    prover.free()
  },
)

test('both verifiers come to one verdict about answers that were changed', () => {
  const worlds = vectors.databases.slice(1).map(vector => {
    const world = database(vector)
    return { ...world, rows: decodeRows(world.shape, world.lists), verifier: verifierOf(world.shape, world.lists) }
  })
  const verdicts = new Map<boolean, number>()
  const change = fc.record({
    world: fc.nat(worlds.length - 1),
    answer: fc.nat(1),
    kind: fc.constantFrom('none', 'bit', 'bytes', 'offset', 'proof of another answer', 'negated', 'identity'),
    field: fc.constantFrom('manifest', 'header', 'records', 'proof'),
    at: fc.nat(),
    bytes: fc.uint8Array({ minLength: 1, maxLength: 48 }),
  })
  fc.assert(
    fc.property(change, ({ world: number, answer: which, kind, field, at, bytes }) => {
      const { shape, rows, verifier, answers } = worlds[number] as (typeof worlds)[number]
      const honest = answers[which] as Answer
      const answer = {
        ...honest,
        [field]: honest[field].slice(),
        offsets: [...honest.offsets],
        proof: honest.proof.slice(),
      }
      const place = at % answer[field].length
      if (kind === 'bit') answer[field][place] = (answer[field][place] as number) ^ (1 << (at % 8))
      if (kind === 'bytes') answer[field].set(bytes.slice(0, answer[field].length - place), place)
      if (kind === 'offset') answer.offsets[at % answer.offsets.length] = at % shape.partitionRecords
      if (kind === 'proof of another answer') answer.proof.set((answers[1 - which] as Answer).proof)
      if (kind === 'negated') answer.proof[0] = (answer.proof[0] as number) ^ 0x20
      if (kind === 'identity') answer.proof.set([0xc0, ...new Uint8Array(47)])
      const unchanged = ['manifest', 'header', 'records', 'proof', 'offsets'].every(
        name => String(answer[name as keyof Answer]) === String(honest[name as keyof Answer]),
      )
      const verdict = verdictOf(verifier, answer)
      expect(verify(key, rows, shape, answer)).toBe(verdict)
      expect(verdict).toBe(unchanged)
      verdicts.set(verdict, (verdicts.get(verdict) ?? 0) + 1)
    }),
    { numRuns: THOROUGH ? 150 : 12, seed: 11, examples: [[UNCHANGED]] },
  )
  expect([verdicts.has(true), verdicts.has(false)]).toEqual([true, true])
})

test('the module refuses what is malformed, with a code', () => {
  const { shape, lists, answers } = database(vectors.databases[1]!)
  const code = (call: () => unknown) => {
    try {
      return call()
    } catch (error) {
      return (error as { code?: string }).code
    }
  }
  const make = (over: {
    key?: Uint8Array
    keyHash?: Uint8Array
    development?: boolean
    shape?: Shape
    lists?: Uint8Array
  }) =>
    code(() => {
      const made = over.key ?? keyBytes
      pointproofs
        .verifier(
          made,
          over.keyHash ?? blake3(made),
          over.development ?? true,
          over.shape ?? shape,
          over.lists ?? lists,
        )
        .free()
      return 'fine'
    })
  expect(make({})).toBe('fine')
  expect(make({ development: false })).toBe('key')
  expect(make({ keyHash: new Uint8Array(32) })).toBe('key')
  expect(make({ keyHash: new Uint8Array(31) })).toBe('length')
  expect(make({ key: keyBytes.slice(1) })).toBe('length')
  expect(make({ key: keyBytes.with(60, (keyBytes[60] as number) ^ 1) })).toBe('point')
  expect(make({ lists: lists.slice(1) })).toBe('length')
  expect(make({ lists: lists.with(0, (lists[0] as number) ^ 1) })).toBe('rows')
  for (const partitions of [0, -1, 1.5, Number.NaN, 2 ** 32 + 2]) {
    expect(make({ shape: { ...shape, partitions } })).toBe('index')
  }
  const verifier = verifierOf(shape, lists)
  const answer = answers[0] as Answer
  const given = (over: Partial<Answer>) => code(() => verdictOf(verifier, { ...answer, ...over }))
  expect(given({})).toBe(true)
  expect(given({ offsets: [0] })).toBe('length')
  expect(given({ offsets: [0, 255] })).toBe('index')
  expect(given({ records: answer.records.slice(1) })).toBe('length')
  expect(given({ proof: answer.proof.slice(1) })).toBe('length')
  expect(given({ header: header.slice(1) })).toBe('length')
  verifier.free()

  const begun = pointproofs.beginCeremony(false)
  const ceremony = pointproofs.ceremony(begun, entropy)
  expect(code(() => ceremony.key())).toBe('transcript')
  expect(code(() => ceremony.contribute('', entropy))).toBe('name')
  expect(code(() => ceremony.contribute('Ada', entropy.slice(1)))).toBe('length')
  expect(code(() => ceremony.has(entropy.slice(1)))).toBe('length')
  ceremony.free()
  expect(code(() => pointproofs.ceremony(begun.slice(0, -1), entropy))).toBe('length')
  expect(code(() => pointproofs.ceremony(begun.with(0, 0), entropy))).toBe('transcript')
  expect(code(() => pointproofs.ceremony(begun.with(16, 0), entropy))).toBe('point')
  expect(code(() => pointproofs.ceremony(begun, entropy.slice(1)))).toBe('length')
})
