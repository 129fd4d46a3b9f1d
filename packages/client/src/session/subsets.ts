// Which servers a lookup asks, if not all of them have to answer (docs/threat-model.md, Three servers or more). A subset has `atLeast`
// members, never fewer: servers that fail lookups on purpose lead a map to the subsets that are left. The order follows from failures,
// delays and chance, never from what is asked.

import { randomBelow, shuffled } from '../base/random.js'
import type { Environment } from '../platform/environment.js'
import type { Link, Links } from '../servers/transport.js'

/** Subsets that one lookup asks at the most. */
export const MOST_SUBSETS = 20

/** Of one lookup. */
export interface Attempts {
  /** subsets that were asked */
  readonly tried: Set<number>
  /** servers that were late or have failed, and are not asked again */
  readonly away: Set<Link>
}

export class Subsets {
  readonly #links: Links
  readonly #atLeast: number
  readonly #random: Environment['random']
  /** sets of servers as bits, by how many are in them */
  readonly #ofSize: readonly (readonly number[])[]
  /** those whose answers were wrong, in the life of the map */
  readonly #wrong = new Set<number>()
  /** the subset that answered last; at first all servers, or any two where two suffice */
  #last: number

  constructor(links: Links, atLeast: number, random: Environment['random']) {
    this.#links = links
    this.#atLeast = atLeast
    this.#random = random
    this.#ofSize = setsBySize(links.length)
    this.#last = this.#bits(atLeast === 2 ? shuffled(links, random).slice(0, 2) : links)
  }

  /**
   * The next for a lookup; undefined: there is none left. The order: the subset that answered last, other subsets, subsets with a server that
   * was late, subsets whose answers were wrong. So liars cannot have the same subsets asked again and again, and a late server delays one call
   * only.
   */
  next({ tried, away }: Attempts): Links | undefined {
    const all = new Set([this.#last, ...this.#ofSize[this.#atLeast]!])
    const isUsable = (bits: number) => !tried.has(bits) && this.#membersOf(bits).every(link => !away.has(link))
    const left = tried.size < MOST_SUBSETS ? [...all].filter(isUsable) : []
    const ranks = new Map(left.map(bits => [bits, this.#rank(bits)]))
    const least = Math.min(...ranks.values())
    const best = left.filter(bits => ranks.get(bits) === least)
    const bits = best.includes(this.#last) ? this.#last : best[randomBelow(Math.max(1, best.length), this.#random)]
    if (bits === undefined) return undefined
    tried.add(bits)
    return shuffled(this.#membersOf(bits), this.#random)
  }

  answered(subset: Links): void {
    this.#last = this.#bits(subset)
  }

  /**
   * The subset's answers were wrong. Returns the server that has lied, if that is proved: if each set of as many servers as may lie, which
   * has a member in every subset that was ever wrong, contains it. As many may lie as may be left out, and as may collude. An answer that
   * was right proves nothing of anybody.
   */
  wrong(subset: Links): Link | undefined {
    this.#wrong.add(this.#bits(subset))
    const most = Math.max(this.#links.length - this.#atLeast, this.#atLeast - 1)
    const wrong = [...this.#wrong]
    const suspects = this.#ofSize
      .slice(1, most + 1)
      .flat()
      .filter(liars => wrong.every(bits => (bits & liars) !== 0))
    const inAll = suspects.reduce((common, liars) => common & liars, suspects.length > 0 ? -1 : 0)
    return this.#membersOf(inAll)[0]
  }

  /** Subsets of the lowest rank are asked first. */
  #rank(bits: number): number {
    const late = this.#membersOf(bits).filter(link => link.standing.isLate(link)).length
    return late + (this.#wrong.has(bits) ? this.#links.length + 1 : 0)
  }

  #membersOf(bits: number): Link[] {
    return this.#links.filter((_, i) => (bits >> i) & 1)
  }

  #bits(subset: Links): number {
    return subset.reduce((bits, link) => bits | (1 << this.#links.indexOf(link)), 0)
  }
}

function setsBySize(servers: number): number[][] {
  const sets: number[][] = Array.from({ length: servers + 1 }, () => [])
  const sizes = [0]
  for (let bits = 0; bits < 2 ** servers; bits++) {
    sizes[bits] = sizes[bits >> 1]! + (bits & 1)
    sets[sizes[bits]!]!.push(bits)
  }
  return sets
}
