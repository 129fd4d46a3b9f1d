// ChaCha20 in Bernstein's form (a counter and a nonce of 8 bytes, which is zero here): the generator of instant lookups, and the stream of
// uniform numbers. D. J. Bernstein, "ChaCha, a variant of Salsa20" (2008). By hand: a library for all ciphers is four times as long.

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
  for (const secret of [start, x]) secret.fill(0)
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

/** The first `bytes` bytes of a key's stream. */
export function streamOf(key: Uint8Array, bytes: number): Uint8Array {
  const whole = new Uint8Array(Math.ceil(bytes / BLOCK_BYTES) * BLOCK_BYTES)
  for (let at = 0; at < bytes; at += BLOCK_BYTES) writeBlock(key, at / BLOCK_BYTES, whole.subarray(at))
  return whole.subarray(0, bytes)
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
      writeBlock(this.#key, this.#blocks++, this.#block)
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
