// ChaCha20 in Bernstein's form (a counter and a nonce of 8 bytes, which is zero here): the generator of instant lookups, and the stream of
// uniform numbers. D. J. Bernstein, "ChaCha, a variant of Salsa20" (2008). By hand: a library for all ciphers is four times as long.

import { clean } from '@noble/hashes/utils.js'

const BLOCK_BYTES = 64
const WORDS = 16
const DOUBLE_ROUNDS = 10

/** Bytes of a node's seed, whose block is computed with the 128-bit form of the key. */
export const SEED_BYTES = 16
/** Bytes of a stream's key. */
export const KEY_BYTES = 32

/** "expand 16-byte k" and "expand 32-byte k" */
const OF_SEED = [0x61707865, 0x3120646e, 0x79622d36, 0x6b206574]
const OF_KEY = [0x61707865, 0x3320646e, 0x79622d32, 0x6b206574]

/** Four words for each quarter round: the columns, then the diagonals. */
const QUARTERS = Uint8Array.of(
  ...[0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15],
  ...[0, 5, 10, 15, 1, 6, 11, 12, 2, 7, 8, 13, 3, 4, 9, 14],
)

/** A block of the stream of a key of 16 or 32 bytes. */
function writeBlock(key: Uint8Array, counter: number, into: Uint8Array): void {
  const start = new Int32Array(WORDS)
  start.set(key.length === SEED_BYTES ? OF_SEED : OF_KEY)
  for (let i = 0; i < KEY_BYTES; i++) start[4 + (i >> 2)]! |= key[i & (key.length - 1)]! << (8 * (i & 3))
  start[12] = counter
  const x = start.slice()
  for (let round = 0; round < DOUBLE_ROUNDS; round++) {
    for (let i = 0; i < QUARTERS.length; i += 4) {
      const [a, b, c, d] = [QUARTERS[i]!, QUARTERS[i + 1]!, QUARTERS[i + 2]!, QUARTERS[i + 3]!]
      step(x, a, b, d, 16)
      step(x, c, d, b, 12)
      step(x, a, b, d, 8)
      step(x, c, d, b, 7)
    }
  }
  for (let i = 0; i < WORDS; i++) {
    const word = x[i]! + start[i]!
    for (let byte = 0; byte < 4; byte++) into[4 * i + byte] = word >> (8 * byte)
  }
  clean(start, x)
}

/** x[a] += x[b]; x[d] = (x[d] ^ x[a]) <<< bits */
function step(x: Int32Array, a: number, b: number, d: number, bits: number): void {
  x[a]! += x[b]!
  const word = x[d]! ^ x[a]!
  x[d] = (word << bits) | (word >>> (32 - bits))
}

/** Computes the block of a seed: the left seed, the right one, and in bits 0 and 1 of byte 32 the control bits. */
export function stretch(seed: Uint8Array, into: Uint8Array): void {
  writeBlock(seed, 0, into)
}

/** A key's stream, and uniform numbers from it (docs/protocol.md, Uniform numbers). Secret: call `wipe` when done. */
export class Uniform {
  readonly #key: Uint8Array
  readonly #block = new Uint8Array(BLOCK_BYTES)
  #blocks = 0
  /** bytes of the block that are used */
  #used = BLOCK_BYTES

  constructor(key: Uint8Array) {
    this.#key = key.slice()
  }

  /** Fills `into` with the stream's next bytes. */
  fill(into: Uint8Array): void {
    for (let at = 0; at < into.length; ) {
      if (this.#used === BLOCK_BYTES) {
        writeBlock(this.#key, this.#blocks++, this.#block)
        this.#used = 0
      }
      const piece = this.#block.subarray(this.#used, this.#used + into.length - at)
      into.set(piece, at)
      at += piece.length
      this.#used += piece.length
    }
  }

  /** A number below `bound`, which is at most 2^16: Lemire's multiplication with rejection, which is exactly uniform. */
  below(bound: number): number {
    const word = new DataView(new ArrayBuffer(4))
    let product: number
    do {
      this.fill(new Uint8Array(word.buffer))
      product = word.getUint32(0, true) * bound
    } while (product % 2 ** 32 < 2 ** 32 % bound)
    word.setUint32(0, 0)
    return Math.floor(product / 2 ** 32)
  }

  wipe(): void {
    clean(this.#key, this.#block)
  }
}
