// ChaCha20 in Bernstein's form (a counter and a nonce of 8 bytes): the generator of instant lookups, and the stream of uniform numbers.

import { chacha20orig } from '@noble/ciphers/chacha.js'

const BLOCK_BYTES = 64
const NONCE = new Uint8Array(8)
const ZEROS = new Uint8Array(BLOCK_BYTES)

/** Bytes of a node's seed, whose block is computed with the 128-bit form of the key. */
export const SEED_BYTES = 16
/** Bytes of a stream's key. */
export const KEY_BYTES = 32

/** Computes the block of a seed: the left seed, the right one, and in bits 0 and 1 of byte 32 the control bits. */
export function stretch(seed: Uint8Array, into: Uint8Array): void {
  chacha20orig(seed, NONCE, ZEROS, into)
}

/** The first `bytes` bytes of a key's stream. */
export function streamOf(key: Uint8Array, bytes: number): Uint8Array {
  return chacha20orig(key, NONCE, new Uint8Array(bytes))
}

/** Uniform numbers (docs/protocol.md, Uniform numbers). Secret: call `wipe` when done. */
export class Uniform {
  readonly #key: Uint8Array
  readonly #block = new Uint8Array(BLOCK_BYTES)
  readonly #words = new DataView(this.#block.buffer)
  #blocks = 0
  /** bytes of the block that are used */
  #used = BLOCK_BYTES

  constructor(key: Uint8Array) {
    this.#key = key.slice()
  }

  #word(): number {
    if (this.#used === BLOCK_BYTES) {
      chacha20orig(this.#key, NONCE, ZEROS, this.#block, this.#blocks++)
      this.#used = 0
    }
    const word = this.#words.getUint32(this.#used, true)
    this.#used += 4
    return word
  }

  /** Fills `into` with whole words. */
  fill(into: Uint8Array): void {
    const words = new DataView(into.buffer, into.byteOffset, into.length)
    for (let at = 0; at < into.length; at += 4) words.setUint32(at, this.#word(), true)
  }

  /** A number below `bound`, which is at most 2^16: Lemire's multiplication with rejection, which is exactly uniform. */
  below(bound: number): number {
    let product = this.#word() * bound
    const threshold = 2 ** 32 % bound
    while (product % 2 ** 32 < threshold) product = this.#word() * bound
    return Math.floor(product / 2 ** 32)
  }

  wipe(): void {
    this.#key.fill(0)
    this.#block.fill(0)
  }
}
