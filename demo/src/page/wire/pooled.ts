// What servers learn who show each other a question for three servers or more (docs/protocol.md, Any one of k). Each server's question
// marks some positions of the list. All marks together mark one position, the one that was asked for.

import {
  decodeInstantQuery,
  depth,
  HASH_BYTES,
  HEADER_BYTES,
  type InstantOf,
  instantLayout,
  type Manifest,
} from '@keyhush/protocol'
import { chacha20 } from '@noble/ciphers/chacha.js'

const SEED_BYTES = 32

/** What some servers were sent for one step of a lookup, put together. */
export interface Pooled {
  readonly of: InstantOf
  /** in one question */
  readonly positions: number
  /** for each question, the positions that are marked by an odd number of these servers */
  readonly marked: readonly (readonly number[])[]
}

/** `requests`: one of each server that pools. `replyBytes`: the length of a reply, from which the positions follow. */
export function pool(manifest: Manifest, requests: readonly Uint8Array[], replyBytes: number): Pooled {
  const questions = requests.map(decodeInstantQuery)
  const { of, count } = questions[0]!
  const positions = positionsOf(manifest, of, (replyBytes - HEADER_BYTES) / count)
  const marked = Array.from({ length: count }, (_, k) => {
    const marks = questions.map(({ queries, vectors }) => {
      const each = queries.length / count
      const share = queries.subarray(k * each, (k + 1) * each)
      return vectors ? share : streamOf(share, positions)
    })
    return oddPositions(marks, positions)
  })
  return { of, positions, marked }
}

/** The groups of records that a server adds up: the length of an answer says how many records are a group. */
function positionsOf(manifest: Manifest, of: InstantOf, answerBytes: number): number {
  const layout = instantLayout(manifest, of)
  const levels = depth(layout)
  const blocks = layout.partitionRecords / layout.blockRecords
  for (let a = 0; a <= levels; a++) {
    const bytes = 2 ** a * layout.blockRecords * layout.recordBytes + (levels - a) * HASH_BYTES
    if (bytes === answerBytes) return layout.partitions * Math.ceil(blocks / 2 ** a)
  }
  throw new RangeError(`no answer has ${answerBytes} bytes`)
}

function streamOf(seed: Uint8Array, positions: number): Uint8Array {
  if (seed.length !== SEED_BYTES) throw new RangeError(`a seed has ${SEED_BYTES} bytes, not ${seed.length}`)
  return chacha20(seed, new Uint8Array(12), new Uint8Array(Math.ceil(positions / 8)))
}

function oddPositions(marks: readonly Uint8Array[], positions: number): number[] {
  const isMarked = (bytes: Uint8Array, at: number) => (bytes[at >> 3]! >> (at & 7)) & 1
  return Array.from({ length: positions }, (_, at) => at).filter(
    at => marks.reduce((odd, bytes) => odd ^ isMarked(bytes, at), 0) === 1,
  )
}
