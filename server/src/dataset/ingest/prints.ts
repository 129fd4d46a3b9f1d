// Finds fingerprints among many, by an open-addressing table of their numbers, without an object for each.

import { FINGERPRINT_BYTES } from '@keyhush/protocol'

const WORDS = FINGERPRINT_BYTES / Uint32Array.BYTES_PER_ELEMENT

export class FingerprintIndex {
  readonly #words: Uint32Array
  /** number + 1; 0: free */
  readonly #slots: Uint32Array

  /** Of these fingerprints, none of which is in it yet. They begin at a multiple of four bytes. */
  constructor(fingerprints: Uint8Array) {
    this.#words = wordsOf(fingerprints)
    this.#slots = new Uint32Array(2 ** Math.ceil(Math.log2(2 * (this.#words.length / WORDS) + 1)))
  }

  /** Adds fingerprint n; but if it has an equal one, adds nothing and returns that one's number. */
  add(n: number): number | undefined {
    const slot = this.#slotOf(this.#words, n)
    const found = this.#slots[slot]!
    if (found !== 0) return found - 1
    this.#slots[slot] = n + 1
    return undefined
  }

  /** The number of the fingerprint that equals this one; undefined: it has none. */
  find(fingerprint: Uint8Array): number | undefined {
    const found = this.#slots[this.#slotOf(wordsOf(fingerprint), 0)]!
    return found === 0 ? undefined : found - 1
  }

  /** Where fingerprint n of `words` is, or would be. Fingerprints are hashes, so the first word chooses. */
  #slotOf(words: Uint32Array, n: number): number {
    const [own, slots, mask, at] = [this.#words, this.#slots, this.#slots.length - 1, WORDS * n]
    let slot = words[at]! & mask
    for (; slots[slot] !== 0; slot = (slot + 1) & mask) {
      const other = WORDS * (slots[slot]! - 1)
      if (
        own[other] === words[at] &&
        own[other + 1] === words[at + 1] &&
        own[other + 2] === words[at + 2] &&
        own[other + 3] === words[at + 3]
      ) {
        break
      }
    }
    return slot
  }
}

function wordsOf(fingerprints: Uint8Array): Uint32Array {
  const { buffer, byteOffset, length } = fingerprints
  return new Uint32Array(buffer, byteOffset, length / Uint32Array.BYTES_PER_ELEMENT)
}
