// docs/protocol/one-server.md: instant lookups with one server, by the definitions: coefficients modulo q as big integers, products term
// by term. Slow: at the real degree a product takes a second, so only small rings are prepared and answered here.

import { chacha20orig } from '@noble/ciphers/chacha.js'
import { blake3 } from '@noble/hashes/blake3.js'
import { concatBytes, utf8ToBytes } from '@noble/hashes/utils.js'

const Q = 8_380_417n * 8_318_977n
const DELTA = (Q - 1n) / 16n
const CAP_LOG = 6
const HALF_ENTRIES = 8n

type Poly = bigint[]

const context = (name: string) => utf8ToBytes(`keyhush 2026-11 one-server ${name} v2`)
const derived = (name: string, ...parts: Uint8Array[]) => blake3(concatBytes(...parts), { context: context(name) })
const LEAF = derived('leaf')
const NODE = derived('node')
const node = (left: Uint8Array, right: Uint8Array) => blake3(concatBytes(left, right), { key: NODE })

const mod = (value: bigint) => ((value % Q) + Q) % Q
const centred = (value: bigint) => (value > Q / 2n ? value - Q : value)

function le(value: number | bigint, bytes: number): Uint8Array {
  return Uint8Array.from({ length: bytes }, (_, i) => Number((BigInt(value) >> BigInt(8 * i)) & 255n))
}

function number(bytes: Uint8Array): bigint {
  return bytes.reduceRight((sum, byte) => (sum << 8n) + BigInt(byte), 0n)
}

/** The u64s of a ChaCha20 stream. */
function* words(seed: Uint8Array, stream: number | bigint): Generator<bigint, never> {
  for (let block = 0; ; block += 16) {
    const bytes = chacha20orig(seed, le(stream, 8), new Uint8Array(1024), undefined, block)
    for (let at = 0; at < 1024; at += 8) yield number(bytes.subarray(at, at + 8))
  }
}

function times(a: Poly, b: Poly): Poly {
  const n = a.length
  const out = new Array<bigint>(2 * n).fill(0n)
  for (const [i, x] of a.entries()) if (x !== 0n) for (let j = 0; j < n; j++) out[i + j]! += x * b[j]!
  return Array.from({ length: n }, (_, i) => mod(out[i]! - out[i + n]!))
}

const plus = (a: Poly, b: Poly) => a.map((x, i) => mod(x + b[i]!))
const scaled = (a: Poly, factor: bigint) => a.map(x => mod(x * factor))

/** X → X^exponent, then times X^shift. */
function image(a: Poly, exponent: number, shift = 0): Poly {
  const n = a.length
  const out = new Array<bigint>(n)
  for (const [i, x] of a.entries()) {
    const at = (i * exponent + shift) % (2 * n)
    out[at % n] = at < n ? x : mod(-x)
  }
  return out
}

/** 5^j modulo 2n */
function power(j: number, n: number): number {
  let exponent = 1
  for (let i = 0; i < j; i++) exponent = (exponent * 5) % (2 * n)
  return exponent
}

/** Bits, the lowest first. */
function packed(numbers: readonly bigint[], bits: number): Uint8Array {
  const all = numbers.reduceRight((sum, value) => (sum << BigInt(bits)) + value, 0n)
  const hex = all.toString(16).padStart(2 * Math.ceil((numbers.length * bits) / 8), '0')
  return Uint8Array.from(hex.match(/../g)!, byte => Number.parseInt(byte, 16)).reverse()
}

function unpacked(bytes: Uint8Array, bits: number, count: number): bigint[] {
  const mask = (1n << BigInt(bits)) - 1n
  return Array.from({ length: count }, (_, i) => {
    const [from, to] = [Math.floor((i * bits) / 8), Math.ceil(((i + 1) * bits) / 8)]
    return (number(bytes.subarray(from, to)) >> BigInt(i * bits - 8 * from)) & mask
  })
}

/** Entry k is ⌊2^63·P(|x| ≤ k)⌋ for the discrete Gaussian of deviation tenths/10, in fixed point of 300 bits. */
export function gaussTable(tenths: number): bigint[] {
  const ONE = 1n << 300n
  const mass = (x: number) => {
    // exp(−x²/2σ²), by halving the exponent 16 times
    const exponent = (BigInt(x * x) * 100n * ONE) / BigInt(2 * tenths * tenths)
    const small = exponent >> 16n
    let [term, sum] = [ONE, ONE]
    for (let k = 1n; term !== 0n; k++) {
      term = (term * small) / ONE / k
      sum += k % 2n === 0n ? term : -term
    }
    for (let i = 0; i < 16; i++) sum = (sum * sum) / ONE
    return x === 0 ? sum : 2n * sum
  }
  const masses = Array.from({ length: 2 * tenths }, (_, x) => mass(x)) // to 20 deviations
  const all = masses.reduce((sum, x) => sum + x, 0n)
  const table: bigint[] = []
  let sum = 0n
  for (const x of masses) {
    sum += x
    const entry = (sum << 63n) / all
    if (entry === table.at(-1) || entry >= 1n << 63n) break
    table.push(entry)
  }
  return table
}

const TABLES = { small: gaussTable(128), noise: gaussTable(156) }

function draw(source: Iterator<bigint, never>, table: readonly bigint[]): bigint {
  const word = source.next().value
  const place = word & ((1n << 63n) - 1n)
  const magnitude = BigInt(table.filter(entry => place >= entry).length)
  return word >> 63n === 1n ? -magnitude : magnitude
}

const draws = (source: Iterator<bigint, never>, table: readonly bigint[], count: number) =>
  Array.from({ length: count }, () => draw(source, table))

const NOISE = [...Array.from({ length: 11 }, (_, i) => 8n ** BigInt(i)), 6n * 8n ** 10n]

const ownNoise = (source: Iterator<bigint, never>) =>
  draws(source, TABLES.noise, NOISE.length).reduce((sum, digit, i) => sum + NOISE[i]! * digit, 0n)

export interface Shape {
  readonly degree: number
  readonly records: number
  readonly recordBytes: number
  readonly outputs: number
  readonly columns: number
  readonly columnRecords: number
  readonly path: number
}

const selectorBits = ({ columns }: Shape) => (columns <= 9000 ? 16 : 18)

export function lengthsOf(shape: Shape): { request: number; answer: number; hint: number } {
  const { degree, outputs, columns } = shape
  return {
    request: 5 * degree + Math.ceil((columns * selectorBits(shape)) / 8),
    answer: (outputs * degree * 7) / 16,
    hint: 4 + (outputs * degree * 19) / 8 + 2048,
  }
}

export function shapeOf(degree: number, records: number, recordBytes: number): Shape | undefined {
  const shapes = [1, 2, 4, 6, 8, 10, 12, 14, 16].flatMap(outputs => {
    const bytes = (outputs * degree) / 4
    for (let path = 0; 32 * path + recordBytes <= bytes; path++) {
      const columnRecords = Math.floor((bytes - 32 * path) / recordBytes)
      const columns = Math.ceil(records / columnRecords)
      if (columns > 88_000) return []
      if (Math.max(0, Math.ceil(Math.log2(columns)) - CAP_LOG) <= path) {
        return [{ degree, records, recordBytes, outputs, columns, columnRecords, path }]
      }
    }
    return []
  })
  const cost = (shape: Shape) => {
    const { request, answer, hint } = lengthsOf(shape)
    return 2 * (request + answer) + hint
  }
  return shapes.sort((a, b) => cost(a) - cost(b))[0]
}

export interface Context {
  readonly databaseId: Uint8Array
  readonly generation: number
  readonly of: 'records' | 'directory'
}

const bytesOf = ({ databaseId, generation, of }: Context) =>
  concatBytes(databaseId, le(generation, 4), Uint8Array.of(Number(of === 'directory')))

function publicElement(seed: Uint8Array, stream: bigint, degree: number): Poly {
  const out: Poly = []
  for (const word of words(seed, stream)) {
    const value = word & ((1n << 46n) - 1n)
    if (value < Q) out.push(value)
    if (out.length === degree) break
  }
  return out
}

function matrices(shape: Shape, of: Context): { selectors: Poly[]; key: Poly } {
  const seed = derived('matrix', bytesOf(of))
  const chunks = Math.ceil(shape.columns / shape.degree)
  const element = (stream: bigint) => publicElement(seed, stream, shape.degree)
  return {
    selectors: Array.from({ length: chunks }, (_, k) => element(BigInt(k))),
    key: element(1n << 32n),
  }
}

const whitenerOf = (of: Context, attempt: number, cap: Uint8Array) => {
  const seed = derived('whitening', bytesOf(of), le(attempt, 4), cap)
  return (column: number, bytes: Uint8Array) => chacha20orig(seed, le(column, 8), bytes)
}

const GADGET = 1n << 23n

/** Centred coefficients, without their lowest 23 bits. */
const digit = (a: Poly): Poly => a.map(value => mod((centred(value) + (1n << 22n)) >> 23n))

/** A server: its hint, and its answers. */
export class Server {
  readonly hint: Uint8Array
  readonly #shape: Shape
  /** by row: centred entries */
  readonly #rows: readonly (readonly bigint[])[]
  /** by output, from the last step down: its number and digit */
  readonly #steps: readonly (readonly [number, Poly])[][]

  constructor(shape: Shape, of: Context, attempt: number, records: Uint8Array) {
    const { degree, outputs, columns, columnRecords, recordBytes, path } = shape
    const half = degree / 2
    this.#shape = shape
    const each = columnRecords * recordBytes
    const leafBytes = (outputs * degree) / 4 - 32 * path
    const contents = Array.from({ length: columns }, (_, c) => {
      const bytes = new Uint8Array(leafBytes)
      bytes.set(records.subarray(c * each, (c + 1) * each))
      return bytes
    })
    const zero = new Uint8Array(32)
    const levels = [contents.map(bytes => blake3(bytes, { key: LEAF }))]
    for (let level = 0; level < path; level++) {
      const below = levels[level]!
      const width = Math.ceil(below.length / 2)
      levels.push(Array.from({ length: width }, (_, i) => node(below[2 * i]!, below[2 * i + 1] ?? zero)))
    }
    const cap = new Uint8Array(2048)
    cap.set(concatBytes(...levels[path]!))
    const whiten = whitenerOf(of, attempt, cap)
    const whole = contents.map((bytes, c) => {
      const siblings = Array.from({ length: path }, (_, level) => levels[level]![(c >> level) ^ 1] ?? zero)
      return whiten(c, concatBytes(bytes, ...siblings))
    })
    const entry = (row: number, column: Uint8Array) =>
      BigInt((column[row >> 1]! >> (4 * (row % 2))) & 15) - HALF_ENTRIES
    this.#rows = Array.from({ length: outputs * half }, (_, row) => whole.map(column => entry(row, column)))

    const { selectors, key } = matrices(shape, of)
    const inverse = modularInverse(BigInt(half))
    const elements: Uint8Array[] = []
    this.#steps = Array.from({ length: outputs }, (_, output) => {
      const parts = this.#rows.slice(output * half, (output + 1) * half).map(row => randomPart(row, selectors, degree))
      // A_j = (2/n)·Σ_r X^r·τ_j(f_r)
      const aggregate = (j: number) => {
        const sum = parts.map((part, r) => image(part, power(j, degree), r)).reduce(plus)
        return scaled(sum, inverse)
      }
      const steps: [number, Poly][] = []
      let carry = aggregate(half - 1)
      for (let j = half - 1; j > 0; j--) {
        const step = digit(carry)
        steps.push([j, step])
        carry = plus(aggregate(j - 1), times(step, image(key, power(j - 1, degree))))
      }
      elements.push(
        packed(
          carry.map(value => value >> 27n),
          19,
        ),
      )
      return steps
    })
    this.hint = concatBytes(le(attempt, 4), ...elements, cap)
  }

  answer(request: Uint8Array): Uint8Array {
    const { degree, columns } = this.#shape
    const bits = selectorBits(this.#shape)
    const key = unpacked(request, 40, degree).map(value => mod((value << 6n) + (1n << 5n)))
    const selectors = unpacked(request.subarray(5 * degree), bits, columns)
    const out = this.#steps.flatMap((steps, output) => {
      const half = degree / 2
      let sum: Poly = new Array<bigint>(degree).fill(0n)
      for (const [row, entries] of this.#rows.slice(output * half, (output + 1) * half).entries()) {
        const scanned = entries.reduce((total, entry, c) => total + entry * selectors[c]!, 0n)
        sum[row] = (BigInt.asUintN(bits, scanned) * Q + (1n << BigInt(bits - 1))) >> BigInt(bits)
      }
      for (const [j, step] of steps) sum = plus(sum, times(step, image(key, power(j - 1, degree))))
      return sum.slice(0, half).map(value => BigInt.asUintN(7, ((value << 7n) + Q / 2n) / Q))
    })
    return packed(out, 7)
  }
}

/** f = Σ_k a_k·D_k(1/X), D_k the row's entries of chunk k. */
function randomPart(row: readonly bigint[], selectors: readonly Poly[], degree: number): Poly {
  const products = selectors.map((a, k) => {
    const entries = Array.from({ length: degree }, (_, c) => row[k * degree + c] ?? 0n)
    return times(image(entries, 2 * degree - 1), a)
  })
  return products.reduce(plus)
}

function modularInverse(value: bigint): bigint {
  let [a, b, x, y] = [value, Q, 1n, 0n]
  while (b !== 0n) [a, b, x, y] = [b, a % b, y, x - (a / b) * y]
  return mod(x)
}

/** About value·2^bits/q. */
const shortened = (value: bigint, bits: bigint) =>
  BigInt.asUintN(Number(bits), ((value >> 14n) * ((1n << 77n) / Q) + (1n << (62n - bits))) >> (63n - bits))

/** A client's queries, and what makes the records of the answers; undefined: refused. */
export class Client {
  readonly request: Uint8Array
  readonly #shape: Shape
  readonly #context: Context
  readonly #indices: readonly number[]
  readonly #secrets: Poly[] = []
  /** what all is drawn from */
  readonly seed: Uint8Array

  constructor(shape: Shape, of: Context, manifestHash: Uint8Array, indices: readonly number[], entropy: Uint8Array) {
    const { degree, columns } = shape
    this.#shape = shape
    this.#context = of
    this.#indices = indices
    const kind = Uint8Array.of(Number(of.of === 'directory'))
    this.seed = derived('entropy', entropy, manifestHash, kind, ...indices.map(index => le(index, 4)))
    const { selectors, key } = matrices(shape, of)
    const parts = indices.flatMap((index, query) => {
      const source = (use: number) => words(this.seed, 4 * query + use)
      const secret = draws(source(0), TABLES.small, degree).map(mod)
      this.#secrets.push(secret)
      const hidden = plus(draws(source(1), TABLES.small, degree), scaled(image(secret, 5), GADGET))
      const sent = plus(hidden, scaled(times(key, secret), -1n))
      const ofSelector = source(2)
      const column = Math.floor(index / shape.columnRecords)
      const products = selectors.flatMap(a => times(a, secret)).slice(0, columns)
      const unit = products.map((product, c) =>
        mod(draw(ofSelector, TABLES.small) - product + (c === column ? DELTA : 0n)),
      )
      const bits = selectorBits(shape)
      return [
        packed(
          sent.map(value => value >> 6n),
          40,
        ),
        packed(
          unit.map(value => shortened(value, BigInt(bits))),
          bits,
        ),
      ]
    })
    this.request = concatBytes(...parts)
  }

  /** The first query's first draws of own noise, i64. */
  noise(count: number): Uint8Array {
    const source = words(this.seed, 3)
    return concatBytes(...Array.from({ length: count }, () => le(BigInt.asUintN(64, ownNoise(source)), 8)))
  }

  decode(hint: Uint8Array, answers: Uint8Array): Uint8Array | undefined {
    const { degree, outputs, columnRecords, recordBytes, path } = this.#shape
    const half = degree / 2
    const cap = hint.subarray(-2048)
    const whiten = whitenerOf(this.#context, Number(number(hint.subarray(0, 4))), cap)
    let good = true
    const found = this.#indices.map((index, query) => {
      const noise = words(this.seed, 4 * query + 3)
      const rounded = unpacked(answers.subarray(query * lengthsOf(this.#shape).answer), 7, outputs * half)
      const rows = Array.from({ length: outputs }, (_, output) => {
        const kept = unpacked(hint.subarray(4 + (output * degree * 19) / 8), 19, degree)
        const random = kept.map(value => mod((value << 27n) + (1n << 26n)))
        const product = times(random, this.#secrets[query]!)
        return Array.from({ length: half }, (_, row) => {
          const own = ownNoise(noise)
          const fixed = (rounded[output * half + row]! * Q + (1n << 6n)) >> 7n
          const value = mod(fixed + product[row]! + own)
          const entry = BigInt.asIntN(4, (value + DELTA / 2n) / DELTA)
          const distance = centred(mod(value - entry * DELTA))
          if (distance > DELTA / 2n - 2n || distance < 2n - DELTA / 2n) good = false
          return Number(entry + HALF_ENTRIES)
        })
      })
      const column = Math.floor(index / columnRecords)
      const nibbles = rows.flat()
      const stored = Uint8Array.from(
        { length: nibbles.length / 2 },
        (_, i) => nibbles[2 * i]! + 16 * nibbles[2 * i + 1]!,
      )
      const bytes = whiten(column, stored)
      const leafBytes = bytes.length - 32 * path
      let digest = blake3(bytes.subarray(0, leafBytes), { key: LEAF })
      for (let level = 0; level < path; level++) {
        const sibling = bytes.subarray(leafBytes + 32 * level, leafBytes + 32 * level + 32)
        digest = (column >> level) % 2 === 0 ? node(digest, sibling) : node(sibling, digest)
      }
      const expected = cap.subarray(32 * (column >> path), 32 * (column >> path) + 32)
      if (digest.some((byte, i) => byte !== expected[i])) good = false
      const at = (index % columnRecords) * recordBytes
      return bytes.subarray(at, at + recordBytes)
    })
    return good ? concatBytes(...found) : undefined
  }
}
