// From a query's bytes to an answer's (TAPIR Fig. 5, Answer): every check that docs/protocol.md asks of a server, then
// one call into the core.

import {
  decodeClaimedQuery,
  encodeAnswerTo,
  type FenceClaim,
  HEADER_BYTES,
  type MessageHeader,
  type Query,
} from '@keyhush/protocol'
import type { CoreError } from '@keyhush/wasm'
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
  const { query, claim } = decoded(body, bytes =>
    decodeClaimedQuery(bytes, header => answerable(epochs, header).queryBytes),
  )
  const { epoch } = answerable(epochs, query)
  const bytes = HEADER_BYTES + epoch.answerBytes(query.count, query.suite)
  reserve(bytes)
  const room = new Uint8Array(Buffer.allocUnsafeSlow(bytes).buffer) // of its own: a pool's would stand as long as any other answer there
  return { answer: encodeAnswerTo(query, epoch.manifest, bodyFor(epoch, query), room), claim }
}

/** The epoch that a query is for, if it is answered there, and the bytes of one of its queries. */
function answerable(epochs: Epochs, header: MessageHeader): { readonly epoch: Epoch; readonly queryBytes: number } {
  const epoch = epochOf(epochs, header)
  if (!epoch.suites.includes(header.suite)) {
    throw new Refusal('bad_request', `suite: this database has ${epoch.suites.join(' or ')}, got ${header.suite}`)
  }
  expectPartitions(epoch, header)
  const limits = epoch.queryLimits(header.suite)
  const [queryBytes, most] = [limits[0]!, limits[1]!] // taken apart as a list it would take as long as all else here
  if (header.count > most) throw new Refusal('bad_request', `count: expected at most ${most}, got ${header.count}`)
  return { epoch, queryBytes }
}

function bodyFor(epoch: Epoch, { vectors, suite }: Query): Uint8Array {
  try {
    return epoch.answer(vectors, suite)
  } catch (error) {
    // The core names the offset; the reply does not, for it is part of a query.
    if ((error as CoreError).code === 'index') {
      throw new Refusal('bad_request', 'an offset is not below the number of records in a partition')
    }
    if ((error as CoreError).code === 'query') throw new Refusal('bad_request', (error as CoreError).message)
    throw error
  }
}
