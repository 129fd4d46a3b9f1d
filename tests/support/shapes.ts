// What two transcripts are compared by: everything but the offsets, the entries, and the date.

import { bytesToHex } from '@noble/hashes/utils.js'
import type { Exchange } from './proxy.js'

export function shapeOf({ method, path, headers, body, reply }: Exchange) {
  const { date: _, ...replyHeaders } = reply?.headers ?? {}
  return {
    request: { method, path, headers, bytes: body.length, header: bytesToHex(body.subarray(0, 40)) },
    reply: reply && { status: reply.status, headers: replyHeaders, bytes: reply.body.length },
  }
}

/** The exchanges about queries among others. */
export const answers = (exchanges: readonly Exchange[]) => exchanges.filter(({ path }) => path.endsWith('/v1/answer'))
