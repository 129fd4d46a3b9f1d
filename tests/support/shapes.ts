// The shape of an exchange, by which transcripts are compared: all but the offsets, the entries and the date, and of a claim all
// but the hint's id and the hash of a request.

import { bytesToHex, concatBytes } from '@noble/hashes/utils.js'
import type { Exchange } from './proxy.js'

const CLAIM_BYTES = 80

export function shapeOf(exchange: Exchange) {
  const { method, path, headers, body, reply } = exchange
  const { date: _, ...replyHeaders } = reply?.headers ?? {}
  return {
    request: { method, path, headers, bytes: body.length, header: bytesToHex(publicBytes(exchange)) },
    reply: reply && { status: reply.status, headers: replyHeaders, bytes: reply.body.length },
  }
}

/** Of a claim: all up to the hint's id, and the version. Of anything else: the header. */
function publicBytes(exchange: Exchange): Uint8Array {
  const claim = claimIn(exchange) ?? new Uint8Array()
  return concatBytes(queryIn(exchange).subarray(0, 40), claim.subarray(0, 24), claim.subarray(40, 48))
}

/** A request without its claim. */
export const queryIn = (exchange: Exchange) => exchange.body.subarray(0, claimAt(exchange))

/** The claim in a request, alone or behind a query; undefined: none. */
export function claimIn(exchange: Exchange): Uint8Array | undefined {
  const at = claimAt(exchange)
  return at === exchange.body.length ? undefined : exchange.body.subarray(at)
}

/** A query is as long as its header says; if there are as many bytes more as a claim has, they are one. */
function claimAt({ path, body }: Exchange): number {
  if (isFence(path)) return 0
  if (!isAnswer(path)) return body.length
  const view = new DataView(body.buffer, body.byteOffset, body.byteLength)
  const end = 40 + 2 * view.getUint32(32, true) * view.getUint16(36, true)
  return body.length === end + CLAIM_BYTES ? end : body.length
}

const isAnswer = (path: string) => path.endsWith('/v1/answer')
const isFence = (path: string) => path.endsWith('/v1/fence')

/** The exchanges about queries among others. */
export const answers = (exchanges: readonly Exchange[]) => exchanges.filter(({ path }) => isAnswer(path))

/** The exchanges with claims alone. */
export const fences = (exchanges: readonly Exchange[]) => exchanges.filter(({ path }) => isFence(path))

/** All claims, in either form. */
export const claims = (exchanges: readonly Exchange[]) => exchanges.map(claimIn).filter(claim => claim !== undefined)
