// docs/protocol.md, One server: hints, a value at a time; what is sent; what is answered; and what a client makes of it.

import { chacha20orig } from '@noble/ciphers/chacha.js'
import { Reader } from './bytes.js'
import { queryEntropy } from './hash.js'
import { blocksOf, type Layout, placeOf, split } from './layout.js'
import { Words } from './random.js'
import { linearTag } from './tags.js'

export interface Geometry {
  readonly stripes: number
  readonly stripeRecords: number
  readonly hints: number
}

export function geometryOf(layout: Layout): Geometry {
  const { partitions, partitionRecords, recordBytes } = blocksOf(layout)
  const slots = partitions * partitionRecords
  const fits = (s: number) => 60 * s * (recordBytes + 10) <= Math.max(2 ** 23, 2 * slots) && 32 * s <= slots
  let s = 65_536
  while (s > 1 && !fits(s)) s /= 2
  const least = Math.ceil(slots / s)
  return { stripes: least + (least % 2), stripeRecords: s, hints: 60 * s }
}

/** Whether there are such lookups, and how many queries a request carries, where the generation carries as many. */
export function mostQueries(layout: Layout): number {
  const geometry = geometryOf(layout)
  const read = Math.floor(2 ** 26 / (geometry.stripes * blocksOf(layout).recordBytes))
  return geometry.stripes > 16_384 ? 0 : Math.min(64, read, Math.floor(2 ** 17 / queryBytes(geometry)))
}

export const queryBytes = ({ stripes }: Geometry) => Math.ceil(stripes / 8) + 2 * stripes

/** A client's hints, of whole records, from the entropy they are made under. */
export class Hints {
  readonly #layout: Layout
  readonly #geometry: Geometry
  readonly #records: readonly Uint8Array[]
  readonly #key: Uint8Array
  readonly #secret: Uint8Array
  readonly #point: bigint
  readonly #slots: { id: number; flip: boolean; extra: number }[] = []
  readonly #cutoffs = new Map<number, number>()
  readonly #spare: number[] = []
  readonly #blocks = new Map<string, DataView>()
  #version = 0

  constructor(layout: Layout, records: readonly Uint8Array[], entropy: Uint8Array, lookups: number) {
    const geometry = geometryOf(layout)
    const { stripes, stripeRecords, hints } = geometry
    const zero = new Uint8Array(records[0]!.length)
    this.#layout = layout
    this.#geometry = geometry
    this.#records = Array.from({ length: stripes * stripeRecords }, (_, i) => records[i] ?? zero)
    const drawn = (stream: bigint, bytes: number) => chacha20orig(entropy, nonceOf(stream), new Uint8Array(bytes))
    this.#secret = drawn(2n ** 64n - 2n, 32)
    this.#key = drawn(2n ** 64n - 3n, 32)
    this.#point = new Reader(drawn(2n ** 64n - 4n, 8)).u64()
    const words = new Words(entropy, 2n ** 64n - 5n)
    for (let id = 0; this.#spare.length < lookups; id++) {
      const ordered = Array.from({ length: stripes }, (_, k) => this.#selection(k, id)).sort((a, b) => a - b)
      const below = ordered[stripes / 2 - 1]!
      if (below === ordered[stripes / 2]) continue
      this.#cutoffs.set(id, below + 1)
      if (this.#slots.length === hints) {
        this.#spare.push(id)
        continue
      }
      let stripe: number
      do stripe = words.below(stripes)
      while (this.#isBelow(stripe, id))
      this.#slots.push({ id, flip: false, extra: stripe * stripeRecords + words.below(stripeRecords) })
    }
  }

  /** The queries of a lookup, and what recovers its records from the answers; once. */
  query(indices: readonly number[], entropy: Uint8Array) {
    const { stripes, stripeRecords } = this.#geometry
    const material = new Uint8Array(72 + 4 * indices.length)
    const view = new DataView(material.buffer)
    material.set(entropy)
    material.set(this.#secret, 32)
    view.setBigUint64(64, BigInt(this.#version), true)
    for (const [i, index] of indices.entries()) view.setUint32(72 + 4 * i, index, true)
    const hedged = queryEntropy(material)
    const words = new Words(hedged, 0)
    const recover: ((answer: Uint8Array) => Uint8Array)[] = []
    const queries = indices.map(index => {
      const slot = Math.floor(index / (this.#layout.blockRecords ?? 1))
      const stripe = Math.floor(slot / stripeRecords)
      const used = this.#slots.findIndex(hint => this.#contents(hint).get(stripe) === slot)
      if (used < 0) throw new Error('no hint contains it; these vectors have none such')
      const side = words.below(2)
      const dummy = words.below(stripeRecords)
      const hint = this.#slots[used]!
      const contents = this.#contents(hint)
      const offsets = Array.from({ length: stripes }, (_, k) => {
        if (k === stripe) return dummy
        return (contents.get(k) ?? this.#offset(k, hint.id)) % stripeRecords
      })
      const query = new Uint8Array(queryBytes(this.#geometry))
      const body = new DataView(query.buffer)
      offsets.forEach((offset, k) => {
        const real = contents.has(k) && k !== stripe
        if (real === (side === 1)) query[k >> 3]! |= 1 << (k & 7)
        body.setUint16(Math.ceil(stripes / 8) + 2 * k, offset, true)
      })
      const sums = sumsOf(this.#geometry, query, i => this.#records[i]!)
      // Of the hint as it was made: all that it contains.
      const parity = [...contents.values()].map(i => this.#records[i]!).reduce(xor)
      recover.push(answer => {
        const bytes = answer.length / 2
        const replied = [answer.subarray(0, bytes), answer.subarray(bytes)]
        const genuine = replied.every((sum, of) => linearTag(this.#point, sum) === linearTag(this.#point, sums[of]!))
        if (!genuine) throw new Error('the server lied')
        return placeOf(this.#layout, index).cut(xor(parity, replied[side]!))
      })
      const id = this.#spare.shift()!
      this.#slots[used] = { id, flip: this.#isBelow(stripe, id), extra: slot }
      return query
    })
    this.#version++
    return { queries, recover }
  }

  /** Slots of the database by their stripe. */
  #contents({ id, flip, extra }: { id: number; flip: boolean; extra: number }): Map<number, number> {
    const { stripes, stripeRecords } = this.#geometry
    const contents = new Map([[Math.floor(extra / stripeRecords), extra]])
    for (let k = 0; k < stripes; k++) {
      if (this.#isBelow(k, id) !== flip) contents.set(k, k * stripeRecords + this.#offset(k, id))
    }
    return contents
  }

  #isBelow(stripe: number, id: number): boolean {
    return this.#selection(stripe, id) < this.#cutoffs.get(id)!
  }

  #selection(stripe: number, id: number): number {
    return (this.#value(0, stripe, id) << 16) >> 16
  }

  #offset(stripe: number, id: number): number {
    return this.#value(1, stripe, id) % this.#geometry.stripeRecords
  }

  /** Half id mod 2 of word ⌊c/8⌋ of block 4·⌊id/128⌋ + ⌊c/2⌋ mod 4, c = id mod 128. */
  #value(kind: number, stripe: number, id: number): number {
    const c = id % 128
    const block = 4 * Math.floor(id / 128) + (Math.floor(c / 2) % 4)
    const name = `${kind} ${stripe} ${block}`
    let words = this.#blocks.get(name)
    if (words === undefined) {
      const nonce = nonceOf(BigInt(stripe) + (BigInt(kind) << 32n))
      words = new DataView(chacha20orig(this.#key, nonce, new Uint8Array(64), undefined, block).buffer)
      this.#blocks.set(name, words)
    }
    return words.getUint16(4 * Math.floor(c / 8) + 2 * (c % 2), true)
  }
}

/** A server's answer to a query: `record` of a slot. */
export function answer(layout: Layout, partitions: readonly Uint8Array[], query: Uint8Array): Uint8Array {
  const { recordBytes } = blocksOf(layout)
  const records = partitions.flatMap(partition => split(partition, recordBytes))
  const zero = new Uint8Array(recordBytes)
  const [first, second] = sumsOf(geometryOf(layout), query, slot => records[slot] ?? zero)
  return Uint8Array.from([...first, ...second])
}

function sumsOf(
  { stripes, stripeRecords }: Geometry,
  query: Uint8Array,
  record: (slot: number) => Uint8Array,
): [Uint8Array, Uint8Array] {
  const offsets = new DataView(query.buffer, query.byteOffset + Math.ceil(stripes / 8))
  const zero = new Uint8Array(record(0).length)
  const sums: [Uint8Array, Uint8Array] = [zero, zero]
  for (let k = 0; k < stripes; k++) {
    const side = (query[k >> 3]! >> (k & 7)) & 1
    sums[side] = xor(sums[side]!, record(k * stripeRecords + offsets.getUint16(2 * k, true)))
  }
  return sums
}

function xor(a: Uint8Array, b: Uint8Array): Uint8Array {
  return a.map((byte, i) => byte ^ b[i]!)
}

function nonceOf(stream: bigint): Uint8Array {
  const nonce = new Uint8Array(8)
  new DataView(nonce.buffer).setBigUint64(0, stream, true)
  return nonce
}
