// docs/protocol.md, Test vectors: how our client turns seeds into numbers and permutations.

import { chacha20orig } from '@noble/ciphers/chacha.js'

const BLOCK_BYTES = 64

/** A stream of words under a 32-byte seed. */
export class Words {
  readonly #seed: Uint8Array
  readonly #nonce = new Uint8Array(8)
  #block = new DataView(new ArrayBuffer(0))
  #blocks = 0
  #at = 0

  constructor(seed: Uint8Array, stream: number | bigint) {
    this.#seed = seed
    new DataView(this.#nonce.buffer).setBigUint64(0, BigInt(stream), true)
  }

  next(): number {
    if (this.#at === this.#block.byteLength) {
      const zeros = new Uint8Array(BLOCK_BYTES)
      this.#block = new DataView(chacha20orig(this.#seed, this.#nonce, zeros, undefined, this.#blocks++).buffer)
      this.#at = 0
    }
    const word = this.#block.getUint32(this.#at, true)
    this.#at += 4
    return word
  }

  /** The next bytes, a multiple of four of them. */
  bytes(count: number): Uint8Array {
    const bytes = new DataView(new ArrayBuffer(count))
    for (let at = 0; at < count; at += 4) bytes.setUint32(at, this.next(), true)
    return new Uint8Array(bytes.buffer)
  }

  /** Uniform below n ≤ 65 536, so that products are exact in a double. */
  below(n: number): number {
    let product = this.next() * n
    if (product % 2 ** 32 < n) {
      const rejected = (2 ** 32 - n) % n
      while (product % 2 ** 32 < rejected) product = this.next() * n
    }
    return Math.floor(product / 2 ** 32)
  }
}

export function permutation(m: number, words: Words): number[] {
  const entries = Array.from({ length: m }, (_, i) => i)
  for (let i = m - 1; i >= 1; i--) swap(entries, i, words.below(i + 1))
  return entries
}

/** One permutation a partition. */
export function permutations(q: number, m: number, seed: Uint8Array): number[][] {
  return Array.from({ length: q }, (_, stream) => permutation(m, new Words(seed, stream)))
}

export function swap(entries: number[], i: number, j: number): void {
  const held = entries[i]!
  entries[i] = entries[j]!
  entries[j] = held
}
