// From a query's bytes to an answer's (TAPIR Fig. 5, Answer): every check that docs/protocol.md asks of a server, then
// one call into the core.

import { decodeClaimedQuery, encodeAnswerTo, type FenceClaim, HEADER_BYTES, type Query } from '@pirouette/protocol'
import type { CoreError } from '@pirouette/wasm'
import { Refusal } from '../base/refusal.js'
import type { Epoch, Epochs } from '../database/epochs.js'
import { decoded, epochOf, expectPartitions } from './binary.js'

/** An answer, and the claim that came with the query, for the fence to judge. */
export interface Answered {
  readonly answer: Uint8Array
  readonly claim: FenceClaim | undefined
}

/**
 * Answers a query. `reserve` is told how many bytes the answer will have before they are made, and may throw. Throws a
 * Refusal for any bytes that are not a query, and lets a trap of the core through.
 */
export function answerQuery(epochs: Epochs, body: unknown, reserve: (bytes: number) => void = () => {}): Answered {
  const { query, claim } = decoded(body, decodeClaimedQuery)
  const epoch = epochOf(epochs, query)
  const { manifest } = epoch
  if (!epoch.suites.includes(query.suite)) {
    throw new Refusal('bad_request', `suite: this database has ${epoch.suites.join(' or ')}, got ${query.suite}`)
  }
  expectPartitions(epoch, query)
  if (query.count > manifest.maxBatch) {
    throw new Refusal('bad_request', `count: expected at most ${manifest.maxBatch}, got ${query.count}`)
  }
  reserve(HEADER_BYTES + epoch.answerBytes(query.count, query.suite))
  return { answer: encodeAnswerTo(query, manifest, bodyFor(epoch, query)), claim }
}

function bodyFor(epoch: Epoch, { vectors, suite }: Query): Uint8Array {
  try {
    return epoch.answer(vectors, suite)
  } catch (error) {
    // The core names the offset; the reply does not, for it is part of a query.
    if ((error as CoreError).code === 'index') {
      throw new Refusal('bad_request', 'an offset is not below the number of records in a partition')
    }
    throw error
  }
}
