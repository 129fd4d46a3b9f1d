// docs/protocol.md, Pointproofs, on @noble/curves: who verifies, and who makes the key and proofs out of an α that is known.
// Slow, and written from that page alone.

import { normalizeZ } from '@noble/curves/abstract/curve.js'
import { bls12_381 } from '@noble/curves/bls12-381.js'
import { blake3 } from '@noble/hashes/blake3.js'
import { concatBytes, hexToBytes, utf8ToBytes } from '@noble/hashes/utils.js'
import { isZero, Writer } from '../../../../tests/interop/reference/bytes.js'

const { G1, G2, fields, pairingBatch } = bls12_381
const { Fp, Fr, Fp12 } = fields
type G1Point = typeof G1.Point.BASE
type G2Point = typeof G2.Point.BASE

const ROW = 256
const NAME_BYTES = 64

const derive = (name: string, bytes: Uint8Array, dkLen = 32) =>
  blake3(bytes, { context: utf8ToBytes(`keyhush 2026-11 pointproofs ${name} v1`), dkLen })
const littleEndian = (bytes: Uint8Array) => bytes.reduceRight((number, byte) => number * 256n + BigInt(byte), 0n)
const scalarOf = (wide: Uint8Array) => Fr.create(littleEndian(wide))
const sum = (terms: readonly bigint[]) => terms.reduce((all, term) => Fr.add(all, term), 0n)
const u16 = (value: number) => new Writer().u16(value).bytes()
const times = <P extends { multiplyUnsafe(scalar: bigint): P }>(point: P, scalar: bigint) =>
  point.multiplyUnsafe(scalar)

export interface Shape {
  readonly partitions: number
  readonly partitionRecords: number
  readonly recordBytes: number
}

export interface Answer {
  readonly manifest: Uint8Array
  readonly header: Uint8Array
  readonly offsets: readonly number[]
  readonly records: Uint8Array
  readonly proof: Uint8Array
}

/** x */
export function recordScalar(index: number, record: Uint8Array): bigint {
  if (isZero(record)) return 0n
  return scalarOf(derive('scalar', new Writer().u64(BigInt(index)).put(record).bytes(), 64))
}

/** tₙ */
export function coefficients({ manifest, header, offsets, records }: Omit<Answer, 'proof'>): bigint[] {
  const material = concatBytes(manifest, header, ...offsets.map(u16), records)
  const stream = derive('coefficients', material, 16 * offsets.length)
  return offsets.map((_, n) => littleEndian(stream.subarray(16 * n, 16 * n + 16)))
}

/** Of each entry: its row among all, its place i, and its scalar. */
function entries(
  { partitions, partitionRecords, recordBytes }: Shape,
  offsets: readonly number[],
  records: Uint8Array,
) {
  const rows = Math.ceil(partitionRecords / ROW)
  return offsets.map((offset, n) => {
    const q = n % partitions
    const record = records.subarray(n * recordBytes, (n + 1) * recordBytes)
    return {
      row: q * rows + Math.floor(offset / ROW),
      place: (offset % ROW) + 1,
      scalar: recordScalar(q * partitionRecords + offset, record),
    }
  })
}

// ---- who verifies -------------------------------------------------------------------------------

export interface Key {
  readonly first: G1Point
  /** [αᵏ]₂ is at k − 1 */
  readonly powers: readonly G2Point[]
}

export function decodeKey(bytes: Uint8Array): Key {
  const powers = Array.from({ length: ROW }, (_, k) => G2.Point.fromBytes(bytes.subarray(140 + 192 * k, 332 + 192 * k)))
  return { first: G1.Point.fromBytes(bytes.subarray(44, 140)), powers }
}

/** The row commitments in the row lists of all partitions. */
export function decodeRows({ partitions, partitionRecords }: Shape, lists: Uint8Array): G1Point[] {
  const rows = Math.ceil(partitionRecords / ROW)
  return Array.from({ length: partitions * rows }, (_, n) => {
    const at = 32 + 48 * n + 32 * Math.floor(n / rows)
    return G1.Point.fromBytes(lists.subarray(at, at + 48))
  })
}

/** Whether an answer's proof holds. */
export function verify(key: Key, rows: readonly G1Point[], shape: Shape, answer: Answer): boolean {
  let proof: G1Point
  try {
    proof = G1.Point.fromBytes(answer.proof)
    proof.assertValidity() // which refuses the identity
    if (!proof.isTorsionFree()) return false
  } catch {
    if (!isIdentity(answer.proof)) return false
    proof = G1.Point.ZERO
  }
  const t = coefficients(answer)
  let weighted = 0n
  const pairs: { g1: G1Point; g2: G2Point }[] = [{ g1: proof.negate(), g2: G2.Point.BASE }]
  for (const [n, { row, place, scalar }] of entries(shape, answer.offsets, answer.records).entries()) {
    const weight = t[n] as bigint
    pairs.push({ g1: times(rows[row] as G1Point, weight), g2: key.powers[ROW - place] as G2Point })
    weighted = Fr.add(weighted, Fr.mul(weight, scalar))
  }
  pairs.push({ g1: times(key.first, Fr.neg(weighted)), g2: key.powers[ROW - 1] as G2Point })
  // noble pairs no identities; they would change nothing.
  const some = pairs.filter(({ g1 }) => !g1.is0())
  return some.length === 0 || Fp12.eql(pairingBatch(some), Fp12.ONE)
}

function isIdentity(proof: Uint8Array): boolean {
  return proof.length === 48 && proof[0] === 0xc0 && isZero(proof.subarray(1))
}

// ---- a ceremony of which all factors are known --------------------------------------------------

// Points as toBytes() gives them, which makes sure of each that it is of the group. These are multiples of its generator, and so
// many that making sure would take longer than all the rest.

const field = (value: bigint) => hexToBytes(value.toString(16).padStart(96, '0'))
const isLarger = (value: bigint) => value > Fp.neg(value)

function short1(point: G1Point): Uint8Array {
  const { x, y } = point.toAffine()
  return flagged(field(x), isLarger(y))
}

function short2(point: G2Point): Uint8Array {
  const { x, y } = point.toAffine()
  const part = y.c1 === 0n ? y.c0 : y.c1
  return flagged(concatBytes(field(x.c1), field(x.c0)), isLarger(part))
}

function long2(point: G2Point): Uint8Array {
  const { x, y } = point.toAffine()
  return concatBytes(...[x.c1, x.c0, y.c1, y.c0].map(field))
}

/** As compressed; `larger`: y is the larger of the two that go with x. */
function flagged(x: Uint8Array, larger: boolean): Uint8Array {
  x[0] = (x[0] as number) | 0x80 | (larger ? 0x20 : 0)
  return x
}

/** What a ceremony is bound to, before contributions. */
const head = (development: boolean) =>
  new Writer()
    .put('PIRT')
    .u16(1)
    .u16(ROW)
    .u32(development ? 1 : 0)
    .bytes()

/** A ceremony as it goes on: α, and what stands in its transcript. */
export class Ceremony {
  readonly #development: boolean
  readonly #contributions: Uint8Array[] = []
  #alpha = 1n
  /** [αᵏ]₁ is at k − 1, as far as k = 512, and [αᵏ]₂ as far as 256; made when asked for */
  #known: { readonly g1: readonly G1Point[]; readonly g2: readonly G2Point[] } | undefined
  chain: Uint8Array

  constructor(development: boolean) {
    this.#development = development
    this.chain = derive('chain', head(development))
  }

  get alpha(): bigint {
    return this.#alpha
  }

  contribute(text: string, entropy: Uint8Array): void {
    const name = new Uint8Array(NAME_BYTES)
    name.set(utf8ToBytes(text))
    const draw = (what: number) =>
      scalarOf(derive('factor', concatBytes(entropy, this.chain, name, Uint8Array.of(what)), 64))
    const [factor, nonce] = [draw(0), draw(1)]
    const before = this.#alpha
    this.#alpha = Fr.mul(before, factor)
    this.#known = undefined
    const points = [before, this.#alpha, Fr.mul(before, nonce)].map(exponent => short1(times(G1.Point.BASE, exponent)))
    const challenge = scalarOf(derive('contribution', concatBytes(this.chain, name, ...points), 64))
    const z = Fr.add(nonce, Fr.mul(challenge, factor))
    const response = hexToBytes(z.toString(16).padStart(64, '0')).reverse()
    const contribution = concatBytes(name, points[1] as Uint8Array, points[2] as Uint8Array, response)
    this.#contributions.push(contribution)
    this.chain = derive('chain', concatBytes(this.chain, contribution))
  }

  transcript(): Uint8Array {
    const powers = this.#powers()
    const g1 = powers.g1.map(short1)
    const g2 = powers.g2.map(short2)
    g1.splice(ROW, 1) // α^257
    const counted = concatBytes(head(this.#development), u16(this.#contributions.length), u16(0))
    return concatBytes(counted, ...g1, ...g2, ...this.#contributions)
  }

  key(): Uint8Array {
    const begin = concatBytes(utf8ToBytes('PIRK'), head(this.#development).subarray(4, 12), blake3(this.transcript()))
    const powers = this.#powers().g2.map(long2)
    return concatBytes(begin, times(G1.Point.BASE, this.#alpha).toBytes(false), ...powers)
  }

  #powers() {
    const all = (count: number) => Array.from({ length: count }, (_, k) => Fr.pow(this.#alpha, BigInt(k + 1)))
    // In affine coordinates all at once: one by one that takes longer than the products.
    this.#known ??= {
      g1: normalizeZ(
        G1.Point,
        all(2 * ROW).map(power => times(G1.Point.BASE, power)),
      ),
      g2: normalizeZ(
        G2.Point,
        all(ROW).map(power => times(G2.Point.BASE, power)),
      ),
    }
    return this.#known
  }
}

// ---- who knows α proves without openings --------------------------------------------------------

/** The row lists of all partitions of a database, one behind the other. */
export function rowLists(alpha: bigint, keyHash: Uint8Array, shape: Shape, database: Uint8Array): Uint8Array {
  const { partitions, partitionRecords } = shape
  const lists = Array.from({ length: partitions }, (_, q) => {
    const scalars = partitionScalars(shape, database, q)
    const rows = Array.from({ length: Math.ceil(partitionRecords / ROW) }, (_, row) => {
      const terms = scalars.slice(row * ROW, (row + 1) * ROW).map((x, j) => Fr.mul(x, Fr.pow(alpha, BigInt(j + 1))))
      return times(G1.Point.BASE, sum(terms)).toBytes()
    })
    return concatBytes(keyHash, ...rows)
  })
  return concatBytes(...lists)
}

/** The proof of an answer out of a database. */
export function prove(alpha: bigint, shape: Shape, database: Uint8Array, answer: Omit<Answer, 'proof'>): Uint8Array {
  const t = coefficients(answer)
  const exponents = answer.offsets.map((offset, n) => {
    const row = Math.floor(offset / ROW) * ROW
    const scalars = partitionScalars(shape, database, n % shape.partitions).slice(row, row + ROW)
    const others = scalars.map((x, j) =>
      row + j === offset ? 0n : Fr.mul(x, Fr.pow(alpha, BigInt(ROW + 1 + j - (offset - row)))),
    )
    return Fr.mul(t[n] as bigint, sum(others))
  })
  return times(G1.Point.BASE, sum(exponents)).toBytes()
}

function partitionScalars({ partitionRecords, recordBytes }: Shape, database: Uint8Array, q: number): bigint[] {
  return Array.from({ length: partitionRecords }, (_, m) => {
    const index = q * partitionRecords + m
    return recordScalar(index, database.subarray(index * recordBytes, (index + 1) * recordBytes))
  })
}
