// From a query's bytes to an answer's (TAPIR Fig. 5, Answer): every check that docs/protocol.md asks of a server, then
// one call into the core.

import {
  decodeClaimedQuery,
  encodeAnswer,
  equalBytes,
  type FenceClaim,
  maxBatch,
  type Proofs,
  proofsIn,
  proofsOf,
  type Query,
  suiteOf,
  WireError,
} from '@pirouette/protocol'
import type { CoreError } from '@pirouette/wasm'
import type { Epoch, Epochs } from './epochs.js'
import { epochUnknown, Refusal } from './refusal.js'

/** An answer, and the claim that came with the query, for the fence to judge. */
export interface Answered {
  readonly answer: Uint8Array
  readonly claim: FenceClaim | undefined
}

/** Answers a query. Throws a Refusal for any bytes that are not one, and lets a trap of the core through. */
export function answerQuery(epochs: Epochs, body: Uint8Array): Answered {
  const { query, claim } = readQuery(body)
  const epoch = findEpoch(epochs, query)
  const { manifest } = epoch
  const proofs = proofsIn(manifest, query)
  if (proofs === undefined) {
    const offered = proofsOf(manifest).map(suiteOf).join(' or ')
    throw new Refusal('bad_request', `suite: this database has ${offered}, got ${query.suite}`)
  }
  if (query.partitions !== manifest.partitions) {
    throw new Refusal('bad_request', `partitions: expected ${manifest.partitions}, got ${query.partitions}`)
  }
  if (query.count > maxBatch(manifest, proofs)) {
    throw new Refusal('bad_request', `count: expected at most ${maxBatch(manifest, proofs)}, got ${query.count}`)
  }
  const entries = entriesFor(epoch, query.vectors, proofs)
  return { answer: encodeAnswer(manifest, query.count, entries, proofs), claim }
}

function readQuery(body: Uint8Array): ReturnType<typeof decodeClaimedQuery> {
  try {
    return decodeClaimedQuery(body)
  } catch (error) {
    if (error instanceof WireError) throw new Refusal('bad_request', error.message)
    throw error
  }
}

function findEpoch(epochs: Epochs, query: Query): Epoch {
  if (!equalBytes(query.databaseId, epochs.databaseId)) {
    throw new Refusal('wrong_database', 'the query is for another database than the one served here')
  }
  const epoch = epochs.find(query.generation, query.epoch)
  if (epoch === undefined) throw epochUnknown(epochs.newest.manifest)
  return epoch
}

function entriesFor(epoch: Epoch, vectors: Uint8Array, proofs: Proofs): Uint8Array {
  try {
    return epoch.answer(vectors, proofs)
  } catch (error) {
    // The core names the offset; the reply does not, for it is part of a query.
    if ((error as CoreError).code === 'index') {
      throw new Refusal('bad_request', 'an offset is not below the number of records in a partition')
    }
    throw error
  }
}
