// From a query's bytes to an answer's (TAPIR Fig. 5, Answer): every check that docs/protocol.md asks of a server, then
// one call into the core.

import {
  decodeQuery,
  encodeAnswer,
  equalBytes,
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

/** Answers a query. Throws a Refusal for any bytes that are not one, and lets a trap of the core through. */
export function answerQuery(epochs: Epochs, body: Uint8Array): Uint8Array {
  const query = readQuery(body)
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
  return encodeAnswer(manifest, query.count, entriesFor(epoch, query.vectors, proofs), proofs)
}

function readQuery(body: Uint8Array): Query {
  try {
    return decodeQuery(body)
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
