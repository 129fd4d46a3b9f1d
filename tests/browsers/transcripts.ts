// Checks on what two proxies have seen of one hint, without the client's secrets.

import assert from 'node:assert/strict'
import { decodeClaimedQuery } from '@keyhush/protocol'
import type { LyingProxy } from '../support/proxy.js'
import { answers } from '../support/shapes.js'

export interface Summary {
  /** different ones, of each server */
  readonly queries: number
  /** repetitions, at both servers */
  readonly resent: number
}

/**
 * A server sees each query, and perhaps the very same bytes again until the next one: never an older one once more
 * (unless a page was frozen with it), and never one that is almost another. Two queries for the same record on the same
 * permutations agree in 15 of 16 offsets; two honest ones, of 256 offsets a partition, agree in 8 or more with a
 * probability below 10⁻¹⁵ a pair. Every query is shown to both servers, unless a browser was killed between the two and
 * has `lost` its storage.
 */
export function assertNothingReused(proxies: readonly LyingProxy[], { frozen = false, lost = 0 } = {}): Summary {
  const seen = proxies.map(proxy => answers(proxy.seen).map(({ body }) => Buffer.from(body).toString('hex')))
  const distinct = seen.map(queries => [...new Set(queries)])
  for (const [s, queries] of distinct.entries()) {
    const turns = seen[s]!.filter((query, i) => query !== seen[s]![i - 1])
    if (!frozen) assert.equal(turns.length, queries.length, 'an older query was sent again')
    const vectors = queries.map(vectorsIn)
    vectors.forEach((vector, i) => {
      const alike = vectors.slice(0, i).some(earlier => agreeing(vector, earlier) >= 8)
      assert(!alike, 'a query is almost the same as an earlier one')
    })
  }
  assert(Math.abs(distinct[0]!.length - distinct[1]!.length) <= lost, 'a query was shown to one server alone')
  return { queries: distinct[0]!.length, resent: seen.flat().length - distinct.flat().length }
}

/** The offsets in a query, without what is before them and the claim that may be behind them. */
function vectorsIn(query: string): string {
  return Buffer.from(decodeClaimedQuery(Buffer.from(query, 'hex')).query.vectors).toString('hex')
}

/** The number of offsets, four digits each, that two queries have in common. */
function agreeing(a: string, b: string): number {
  let count = 0
  for (let i = 0; i < a.length; i += 4) if (a.startsWith(b.slice(i, i + 4), i)) count++
  return count
}
