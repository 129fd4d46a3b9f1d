// All random choices of a schedule, drawn from its seed alone: the same seed is the same schedule.

export class Chance {
  #state: number

  constructor(seed: number) {
    // Spreads neighbouring seeds.
    this.#state = Math.imul(seed ^ 0x5bd1e995, 0x9e3779b1) >>> 0
  }

  below(bound: number): number {
    return Math.floor((this.#word() / 2 ** 32) * bound)
  }

  /** from `least` to `most`, both included */
  between(least: number, most: number): number {
    return least + this.below(most - least + 1)
  }

  happens(probability: number): boolean {
    return this.#word() / 2 ** 32 < probability
  }

  pick<T>(choices: readonly T[]): T {
    return choices[this.below(choices.length)]!
  }

  bytes(count: number): Uint8Array {
    return Uint8Array.from({ length: count }, () => this.#word() >>> 24)
  }

  /** mulberry32 */
  #word(): number {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0
    let word = this.#state
    word = Math.imul(word ^ (word >>> 15), word | 1)
    word ^= word + Math.imul(word ^ (word >>> 7), word | 61)
    return (word ^ (word >>> 14)) >>> 0
  }
}

/** A number below `count`, by the seed. */
export function draws(seed: number): (count: number) => number {
  const chance = new Chance(seed)
  return count => chance.below(count)
}
