// Instant queries, and the verification of their answers (rust-core/core/src/instant).

import { clean } from '@noble/hashes/utils.js'
import type { InstantQueryHandle } from '../core/instant.js'
import { KEY_BYTES, SEED_BYTES, Uniform } from './chacha.js'
import { domainLog, generate } from './dpf.js'
import { expectBelow, expectLength, indexError, lengthError } from './failure.js'
import { DIGEST_BYTES } from './hashes.js'
import type { Layout } from './layout.js'
import { add, isEqual, selectRow } from './masks.js'
import { isGenuine } from './merkle.js'
import { type Shape, shapeFor } from './shape.js'

/** Secret. `free` overwrites it. */
export class Query implements InstantQueryHandle {
  readonly #layout: Layout
  readonly #shape: Shape
  readonly #indices: Uint32Array
  readonly #requests: readonly Uint8Array[]
  /** the server whose queries are vectors; none with two servers */
  readonly #carrier: number | undefined
  #freed = false

  /** Throws `length`, `index`. */
  constructor(layout: Layout, indices: Uint32Array, entropy: Uint8Array, servers: number) {
    expectLength('entropy', entropy, KEY_BYTES)
    const shape = shapeFor(layout, servers)
    const count = indices.length
    if (count < 1 || count > shape.maxQueries) {
      throw lengthError('record indices', Math.min(Math.max(count, 1), shape.maxQueries), count)
    }
    for (const index of indices) layout.locate(index) // refuses the lookup before anything is drawn
    this.#layout = layout
    this.#shape = shape
    this.#indices = indices.slice()
    const random = new Uniform(entropy)
    this.#carrier = servers === 2 ? undefined : random.below(servers)
    this.#requests = Array.from({ length: servers }, (_, server) => {
      const bytes = servers === 2 || server === this.#carrier ? shape.queryBytes : shape.seedBytes
      return new Uint8Array(count * bytes)
    })
    for (let number = 0; number < count; number++) {
      const { q, m } = layout.locate(indices[number]!)
      const group = q * shape.partitionGroups + (m >> shape.groupLog)
      const queries = this.#requests.map(request => {
        const bytes = request.length / count
        return request.subarray(number * bytes, (number + 1) * bytes)
      })
      if (this.#carrier === undefined) writeKeys(shape, group, random, queries)
      else writeShares(shape, group, random, queries, this.#carrier)
    }
    random.wipe()
  }

  request(server: number): Uint8Array {
    this.#expectUse()
    expectBelow('server', server >>> 0, this.#requests.length)
    return this.#requests[server >>> 0]!.slice()
  }

  isVector(server: number): boolean {
    this.#expectUse()
    return server >>> 0 === this.#carrier
  }

  recon(commitments: Uint8Array, answers: Uint8Array): Uint8Array | undefined {
    this.#expectUse()
    const [layout, { answerBytes, groupBytes, groupLog }] = [this.#layout, this.#shape]
    const [servers, count] = [this.#requests.length, this.#indices.length]
    const each = Math.max(Math.ceil(answers.length / servers), 1)
    if (Math.ceil(answers.length / each) !== servers) throw indexError('number of answers', servers + 1)
    expectLength('commitments', commitments, layout.partitions * DIGEST_BYTES)
    const sum = new Uint8Array(count * answerBytes)
    for (let server = 0; server < servers; server++) {
      const answer = answers.subarray(server * each, (server + 1) * each)
      expectLength('instant answer', answer, sum.length)
      add(sum, answer)
    }
    const records = new Uint8Array(count * layout.recordBytes)
    const commitment = new Uint8Array(DIGEST_BYTES)
    let genuine = -1
    for (let number = 0; number < count; number++) {
      const index = this.#indices[number]!
      const { q, m } = layout.locate(index)
      const group = sum.subarray(number * answerBytes, number * answerBytes + groupBytes)
      const siblings = sum.subarray(number * answerBytes + groupBytes, (number + 1) * answerBytes)
      selectRow(commitment, commitments, q)
      genuine &= isGenuine(layout, commitment, groupLog, m >> groupLog, group, siblings)
      // Which block of the group, and which record of the block.
      const slot = (m & (2 ** groupLog - 1)) * layout.blockRecords + (index & (layout.blockRecords - 1))
      selectRow(records.subarray(number * layout.recordBytes, (number + 1) * layout.recordBytes), group, slot)
    }
    clean(sum, commitment)
    return genuine === -1 ? records : undefined
  }

  free(): void {
    this.#freed = true
    clean(this.#indices, ...this.#requests)
  }

  #expectUse(): void {
    if (this.#freed) throw new Error('expected a query in use, got one that was freed')
  }
}

/** The stream gives both parties' seeds, then a bit that says which server is party 0. Both servers' queries are written either way. */
function writeKeys(shape: Shape, group: number, random: Uniform, queries: readonly Uint8Array[]): void {
  const seeds = [new Uint8Array(SEED_BYTES), new Uint8Array(SEED_BYTES)] as const
  for (const seed of seeds) random.fill(seed)
  const swapped = -random.below(2)
  const [zero, one] = [queries[0]!, queries[1]!]
  generate(domainLog(shape.groups), group, seeds, [zero, one])
  for (let i = 0; i < zero.length; i++) {
    const difference = swapped & (zero[i]! ^ one[i]!)
    zero[i]! ^= difference
    one[i]! ^= difference
  }
}

/** Splits a unit vector: the stream gives the other servers' seeds in order, and the carrier gets the rest of the sum. */
function writeShares(
  { groups }: Shape,
  group: number,
  random: Uniform,
  queries: readonly Uint8Array[],
  carrier: number,
): void {
  const last = queries[carrier]!
  for (let i = 0; i < last.length; i++) last[i] = (isEqual(i, group >>> 3) & 1) << (group & 7)
  queries.forEach((seed, server) => {
    if (server === carrier) return
    random.fill(seed)
    const [share, stream] = [new Uint8Array(last.length), new Uniform(seed)]
    stream.fill(share)
    add(last, share)
    share.fill(0)
    stream.wipe()
  })
  last[last.length - 1]! &= 0xff >> (last.length * 8 - groups)
}
