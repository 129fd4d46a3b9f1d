// docs/protocol.md, Rollback fence: requests and replies, and how they stand behind queries and answers.

import { concatBytes } from '@noble/hashes/utils.js'
import { isZero, offsetsOf, Reader, Writer } from './bytes.js'
import { HEAD_FIELDS } from './message.js'

const REPLY_BYTES = 8
const MOST = 2n ** 53n - 1n

const KINDS = ['register', 'confirm'] as const
const VERDICTS = ['granted', 'refused'] as const

export interface FenceRequest {
  readonly kind: (typeof KINDS)[number]
  readonly databaseId: Uint8Array
  readonly hintId: Uint8Array
  readonly version: bigint
  readonly name: Uint8Array
}

/** A request's fields, in order, with their lengths. A reply has the first three. */
export const FENCE_FIELDS = {
  ...{ magic: 4, format: 2, kind: 2, databaseId: 16, hintId: 16, version: 8, name: 32 },
} as const

export type Verdict = (typeof VERDICTS)[number]

export function encodeFenceRequest({ kind, databaseId, hintId, version, name }: FenceRequest): Uint8Array {
  return new Writer()
    .put('PIRF')
    .u16(1)
    .u16(1 + KINDS.indexOf(kind))
    .put(databaseId, hintId)
    .u64(version)
    .put(name)
    .bytes()
}

export function decodeFenceRequest(bytes: Uint8Array): FenceRequest {
  const reader = new Reader(bytes)
  const kind = head(reader, KINDS)
  const [databaseId, hintId] = [reader.take(16), reader.take(16)]
  const version = reader.u64()
  const name = reader.take(32)
  reader.end()
  if (version > MOST) throw new Error('a version beyond 2^53 - 1')
  if (kind === 'register' && (version !== 0n || !isZero(name))) throw new Error('a registration of more than a hint')
  return { kind, databaseId, hintId, version, name }
}

export function encodeFenceReply(verdict: Verdict): Uint8Array {
  return new Writer()
    .put('PIRF')
    .u16(1)
    .u16(1 + VERDICTS.indexOf(verdict))
    .bytes()
}

export function decodeFenceReply(bytes: Uint8Array): Verdict {
  const reader = new Reader(bytes)
  const verdict = head(reader, VERDICTS)
  reader.end()
  return verdict
}

function head<T>(reader: Reader, names: readonly T[]): T {
  reader.expect('magic', 'PIRF')
  if (reader.u16() !== 1) throw new Error('unknown fence format')
  const name = names[reader.u16() - 1]
  if (name === undefined) throw new Error('neither of two')
  return name
}

/** A claim is a confirmation. */
export function withClaim(query: Uint8Array, claim: Omit<FenceRequest, 'kind'>): Uint8Array {
  return concatBytes(query, encodeFenceRequest({ kind: 'confirm', ...claim }))
}

/** What a request's head says of its length tells whether there is a claim. The query is not looked at further. */
export function splitClaim(bytes: Uint8Array): { query: Uint8Array; claim: FenceRequest | undefined } {
  const at = offsetsOf(HEAD_FIELDS)
  const from = (field: keyof typeof HEAD_FIELDS) => new Reader(bytes.subarray(at[field]))
  const end = at.end + 2 * from('partitions').u32() * from('count').u16()
  const query = bytes.subarray(0, end)
  if (bytes.length === end) return { query, claim: undefined }
  const claim = decodeFenceRequest(bytes.subarray(end))
  if (claim.kind !== 'confirm' || isZero(claim.name)) throw new Error('a claim that is none')
  new Reader(claim.databaseId).expect("query's database", query.slice(at.databaseId, at.generation))
  return { query, claim }
}

export function splitVerdict(bytes: Uint8Array): { answer: Uint8Array; verdict: Verdict } {
  const end = bytes.length - REPLY_BYTES
  return { answer: bytes.subarray(0, end), verdict: decodeFenceReply(bytes.slice(end)) }
}
