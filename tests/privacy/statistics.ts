// What one server can compute from the vectors it has seen. If they are uniform and independent, as the scheme has it,
// every statistic here is chi-square; each asks about another way in which they might not be.

import { uniformityPValue } from './chi-square.js'

/** The vectors of offsets that one server received, in order. */
export type Sight = readonly ArrayLike<number>[]

export interface Statistic {
  readonly name: string
  readonly pValue: number
}

/**
 * All statistics of the offsets below `m` that one server saw: each position alone, neighbours in one vector, and each
 * position with itself one and two requests later (two, for lookups that alternate). Pairs are disjoint and so independent;
 * `phase` is the first request of the first pair.
 */
export function statistics(sight: Sight, m: number): Statistic[] {
  const requests = withoutRepeats(sight)
  const positions = Array.from(requests[0]!, (_, q) => q)
  const one = (q: number) => uniformityPValue(histogram(requests.length, m, t => requests[t]![q]!))
  const two = (q: number) =>
    uniformityPValue(histogram(requests.length, m * m, t => requests[t]![q]! * m + requests[t]![q + 1]!))
  const across = (q: number, lag: number, phase: number) => {
    const pairs = Math.floor((requests.length - phase) / (2 * lag)) * lag
    return uniformityPValue(
      histogram(pairs, m * m, pair => {
        const t = phase + pair + lag * Math.floor(pair / lag)
        return requests[t]![q]! * m + requests[t + lag]![q]!
      }),
    )
  }
  return [
    ...positions.map(q => ({ name: `position ${q}`, pValue: one(q) })),
    ...positions.slice(1).map(q => ({ name: `positions ${q - 1} and ${q}`, pValue: two(q - 1) })),
    ...positions.flatMap(q =>
      [1, 2].flatMap(lag =>
        [0, lag].map(phase => ({
          name: `position ${q} and the same ${lag} later (phase ${phase})`,
          pValue: across(q, lag, phase),
        })),
      ),
    ),
  ]
}

/** A request that repeats the one before it byte for byte tells nothing new. */
function withoutRepeats(sight: Sight): Sight {
  return sight.filter((vector, t) => t === 0 || Array.from(vector).some((offset, q) => offset !== sight[t - 1]![q]))
}

function histogram(samples: number, cells: number, cellOf: (sample: number) => number): number[] {
  const counts = new Array<number>(cells).fill(0)
  for (let sample = 0; sample < samples; sample++) counts[cellOf(sample)]!++
  return counts
}
