// The rollback fence (docs/protocol.md, Rollback fence): a request of 80 bytes and a reply of 8, alone or behind a query and its
// answer (message.ts).

import { checkInteger, checkLength, checkMagic, copyOf, isZero, viewOf, writeMagic } from './bytes.js'
import { DATABASE_ID_BYTES, FORMAT, HASH_BYTES, HINT_ID_BYTES } from './constants.js'
import { malformed, WireError } from './errors.js'

export const FENCE_REQUEST_BYTES = 80
export const FENCE_REPLY_BYTES = 8

/** `register`: once, before a hint is first stored. `confirm`: each time after that. */
export type FenceKind = 'register' | 'confirm'

export interface FenceRequest {
  readonly kind: FenceKind
  /** 16 bytes */
  readonly databaseId: Uint8Array
  /** 16 bytes */
  readonly hintId: Uint8Array
  /** the hint's version, below 2^53; 0 in a registration */
  readonly version: number
  /** the name of the lookup that is pending at that version; zero if there is none yet, and in a registration */
  readonly requestHash: Uint8Array
}

/** What a hint asks the fence to confirm. */
export type FenceClaim = Omit<FenceRequest, 'kind'>

/** `refused`: a copy of this hint has gone further, or the fence does not know it. The hint is condemned then. */
export type FenceVerdict = 'granted' | 'refused'

const MAGIC = 'PIRF'
const KINDS: readonly FenceKind[] = ['register', 'confirm']
const VERDICTS: readonly FenceVerdict[] = ['granted', 'refused']
const AT = { format: 4, kind: 6, databaseId: 8, hintId: 24, version: 40, requestHash: 48 } as const

/** Throws WireError if the values contradict each other. */
export function encodeFenceRequest(request: FenceRequest): Uint8Array<ArrayBuffer> {
  checkRequest(request)
  const bytes = new Uint8Array(FENCE_REQUEST_BYTES)
  const view = viewOf(bytes)
  writeMagic(bytes, MAGIC)
  view.setUint16(AT.format, FORMAT, true)
  view.setUint16(AT.kind, 1 + KINDS.indexOf(request.kind), true)
  bytes.set(request.databaseId, AT.databaseId)
  bytes.set(request.hintId, AT.hintId)
  view.setBigUint64(AT.version, BigInt(request.version), true)
  bytes.set(request.requestHash, AT.requestHash)
  return bytes
}

/** Throws WireError for any bytes that `encodeFenceRequest` would not have written. Shares no memory with `bytes`. */
export function decodeFenceRequest(bytes: Uint8Array): FenceRequest {
  checkLength('fence request', bytes, FENCE_REQUEST_BYTES)
  const request = {
    kind: decodeHead(bytes, KINDS),
    databaseId: copyOf(bytes, AT.databaseId, AT.hintId),
    hintId: copyOf(bytes, AT.hintId, AT.version),
    version: Number(viewOf(bytes).getBigUint64(AT.version, true)),
    requestHash: copyOf(bytes, AT.requestHash),
  }
  checkRequest(request)
  return request
}

export function encodeFenceReply(verdict: FenceVerdict): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(FENCE_REPLY_BYTES)
  writeMagic(bytes, MAGIC)
  viewOf(bytes).setUint16(AT.format, FORMAT, true)
  viewOf(bytes).setUint16(AT.kind, 1 + VERDICTS.indexOf(verdict), true)
  return bytes
}

/** Throws WireError for any bytes that `encodeFenceReply` would not have written. */
export function decodeFenceReply(bytes: Uint8Array): FenceVerdict {
  checkLength('fence reply', bytes, FENCE_REPLY_BYTES)
  return decodeHead(bytes, VERDICTS)
}

/** Checks magic and format, and reads which of `names` it is. */
function decodeHead<T>(bytes: Uint8Array, names: readonly T[]): T {
  checkMagic(bytes, MAGIC)
  const view = viewOf(bytes)
  const format = view.getUint16(AT.format, true)
  if (format !== FORMAT) throw new WireError('version', `fence format: expected ${FORMAT}, got ${format}`)
  const number = view.getUint16(AT.kind, true)
  return names[number - 1] ?? malformed('fence message', `a number from 1 to ${names.length}`, number)
}

function checkRequest({ kind, databaseId, hintId, version, requestHash }: FenceRequest): void {
  checkLength('database id', databaseId, DATABASE_ID_BYTES)
  checkLength('hint id', hintId, HINT_ID_BYTES)
  checkLength('request hash', requestHash, HASH_BYTES)
  checkInteger('version', version, 0, kind === 'register' ? 0 : Number.MAX_SAFE_INTEGER)
  if (kind === 'register' && !isZero(requestHash)) malformed('request hash', 'zero in a registration', 'others')
}
