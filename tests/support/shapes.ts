// What two transcripts are compared by: everything but the offsets, the entries, and the date; of what the fence is told,
// everything but the hint's id and the hash of a request.

import { bytesToHex, concatBytes } from '@noble/hashes/utils.js'
import type { Exchange } from './proxy.js'

export function shapeOf({ method, path, headers, body, reply }: Exchange) {
  const { date: _, ...replyHeaders } = reply?.headers ?? {}
  return {
    request: { method, path, headers, bytes: body.length, header: bytesToHex(publicBytes(path, body)) },
    reply: reply && { status: reply.status, headers: replyHeaders, bytes: reply.body.length },
  }
}

/** Of a claim: all up to the hint's id, and the version. Of anything else: the header. */
function publicBytes(path: string, body: Uint8Array): Uint8Array {
  return path.endsWith('/v1/fence') ? concatBytes(body.subarray(0, 24), body.subarray(40, 48)) : body.subarray(0, 40)
}

/** The exchanges about queries among others. */
export const answers = (exchanges: readonly Exchange[]) => exchanges.filter(({ path }) => path.endsWith('/v1/answer'))

/** The exchanges about claims. */
export const claims = (exchanges: readonly Exchange[]) => exchanges.filter(({ path }) => path.endsWith('/v1/fence'))
