// An evaluation on the wire (docs/protocol/confidential.md): elements for an evaluator, and these times its share. All integers are
// little-endian.

import { DATABASE_ID_BYTES, isZero, WireError } from '@keyhush/protocol'

export const ELEMENT_BYTES = 32

/** Most keys of one request. */
export const MOST_KEYS = 64

export const MOST_TOKEN_BYTES = 1024

/** Most evaluators of a database, and the largest number of a share. */
export const MOST_EVALUATORS = 8

/** A route of evaluators, and how many elements it multiplies at once. */
export interface Route {
  readonly path: string
  readonly least: number
  readonly most: number
}

/** The check element comes on top of the keys. */
export const EVALUATE: Route = { path: '/v1/evaluate', least: 2, most: MOST_KEYS + 1 }

/** A check element would be a second purchase. */
export const UNLOCK: Route = { path: '/v1/unlock', least: 1, most: 1 }

const HEADER_BYTES = 32
const FORMAT = 1
const REQUEST = { magic: 'PIRV', databaseId: 8, tokenBytes: 24, deal: 26, zeros: [30, 32] } as const
const REPLY = { magic: 'PIRE', number: 8, zeros: [9, 12], deal: 12, databaseId: 16 } as const

export const LONGEST_REQUEST_BYTES = HEADER_BYTES + (MOST_KEYS + 1) * ELEMENT_BYTES + MOST_TOKEN_BYTES

export interface EvaluateRequest {
  /** 16 bytes */
  readonly databaseId: Uint8Array
  /** which deal's shares are to be used; 0: the newest */
  readonly deal: number
  /** as many elements as the route takes, 32 bytes each, one after the other. The codec does not check that they are elements. */
  readonly elements: Uint8Array
  /** at most 1024 bytes */
  readonly token: Uint8Array
}

export interface EvaluateReply {
  readonly databaseId: Uint8Array
  /** of the share that has multiplied, 1 to 8 */
  readonly number: number
  /** which deal that share is of, from 1 */
  readonly deal: number
  readonly elements: Uint8Array
}

/** Throws WireError for what no request can have. */
export function encodeRequest(
  { databaseId, deal, elements, token }: EvaluateRequest,
  route = EVALUATE,
): Uint8Array<ArrayBuffer> {
  const { bytes, view } = message(REQUEST.magic, route, elements, token.length)
  check(token.length <= MOST_TOKEN_BYTES, `token: expected at most ${MOST_TOKEN_BYTES} bytes, got ${token.length}`)
  bytes.set(databaseId, REQUEST.databaseId)
  view.setUint16(REQUEST.tokenBytes, token.length, true)
  view.setUint32(REQUEST.deal, deal, true)
  bytes.set(token, HEADER_BYTES + elements.length)
  return bytes
}

/** Throws WireError for bytes that `encodeRequest` would not have written. */
export function decodeRequest(bytes: Uint8Array, route = EVALUATE): EvaluateRequest {
  const { view, elementsEnd } = opened(REQUEST.magic, route, bytes, REQUEST.zeros)
  const tokenBytes = view.getUint16(REQUEST.tokenBytes, true)
  check(tokenBytes <= MOST_TOKEN_BYTES, `token: expected at most ${MOST_TOKEN_BYTES} bytes, got ${tokenBytes}`)
  checkLength(bytes, elementsEnd + tokenBytes)
  return {
    databaseId: bytes.slice(REQUEST.databaseId, REQUEST.databaseId + DATABASE_ID_BYTES),
    deal: view.getUint32(REQUEST.deal, true),
    elements: bytes.slice(HEADER_BYTES, elementsEnd),
    token: bytes.slice(elementsEnd),
  }
}

/** Throws WireError for what no reply can have. */
export function encodeReply(
  { databaseId, number, deal, elements }: EvaluateReply,
  route = EVALUATE,
): Uint8Array<ArrayBuffer> {
  const { bytes, view } = message(REPLY.magic, route, elements)
  bytes[REPLY.number] = number
  view.setUint32(REPLY.deal, deal, true)
  bytes.set(databaseId, REPLY.databaseId)
  return bytes
}

/** Throws WireError for bytes that `encodeReply` would not have written. */
export function decodeReply(bytes: Uint8Array, route = EVALUATE): EvaluateReply {
  const { view, elementsEnd } = opened(REPLY.magic, route, bytes, REPLY.zeros)
  checkLength(bytes, elementsEnd)
  const [number, deal] = [bytes[REPLY.number]!, view.getUint32(REPLY.deal, true)]
  check(number >= 1 && number <= MOST_EVALUATORS, `share number: expected 1 to ${MOST_EVALUATORS}, got ${number}`)
  check(deal > 0, 'deal: expected a number above 0, got 0')
  return {
    databaseId: bytes.slice(REPLY.databaseId, REPLY.databaseId + DATABASE_ID_BYTES),
    number,
    deal,
    elements: bytes.slice(HEADER_BYTES),
  }
}

/** How long the reply to so many elements is. */
export function replyBytes(elements: number): number {
  return HEADER_BYTES + elements * ELEMENT_BYTES
}

function message(magic: string, route: Route, elements: Uint8Array, more = 0) {
  const count = elements.length / ELEMENT_BYTES
  checkCount(count, route)
  const bytes = new Uint8Array(HEADER_BYTES + elements.length + more)
  const view = new DataView(bytes.buffer)
  bytes.set(new TextEncoder().encode(magic))
  view.setUint16(4, FORMAT, true)
  view.setUint16(6, count, true)
  bytes.set(elements, HEADER_BYTES)
  return { bytes, view }
}

function opened(magic: string, route: Route, bytes: Uint8Array, [from, to]: readonly [number, number]) {
  check(bytes.length >= HEADER_BYTES, `message: expected at least ${HEADER_BYTES} bytes, got ${bytes.length}`)
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  const begins = String.fromCharCode(...bytes.subarray(0, 4))
  check(begins === magic, `magic: expected ${magic}, got other bytes`)
  const format = view.getUint16(4, true)
  if (format !== FORMAT) throw new WireError('version', `format: expected ${FORMAT}, got ${format}`)
  const count = view.getUint16(6, true)
  checkCount(count, route)
  check(isZero(bytes, from, to), 'unused bytes: expected zeros, got others')
  return { view, elementsEnd: HEADER_BYTES + count * ELEMENT_BYTES }
}

function checkCount(count: number, { least, most }: Route): void {
  const isRight = Number.isInteger(count) && count >= least && count <= most
  check(isRight, `count: expected ${least} to ${most} elements, got ${count}`)
}

function checkLength(bytes: Uint8Array, expected: number): void {
  check(bytes.length === expected, `message: expected ${expected} bytes, got ${bytes.length}`)
}

function check(isRight: boolean, message: string): void {
  if (!isRight) throw new WireError('malformed', message)
}
