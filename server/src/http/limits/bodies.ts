// Bodies: each takes room before it is read, and is read into one buffer. A route whose bodies are bounded by
// something else says so (`config.boundsBodies`).

import type { FastifyInstance, FastifyReply, FastifyRequest, RequestPayload } from 'fastify'
import { Refusal } from '../../base/refusal.js'
import type { Unsent } from './unsent.js'

declare module 'fastify' {
  interface FastifyContextConfig {
    /** its bodies take no room of others' */
    boundsBodies?: true
  }
}

const OCTET_STREAM = 'application/octet-stream'

/** What takes no room: less than a request's headers may have. */
const NO_BYTES = 1024

/** So many pieces of a body may be shorter than that. */
const MOST_SMALL_PIECES = 2048
const SMALL_BYTES = 64

/** Has `app` take the bodies of its POST routes as bytes, for as long as `room` has any. */
export function takeBodies(app: FastifyInstance, room: Unsent): void {
  app.removeAllContentTypeParsers()
  app.addHook('onRequest', (request, _reply, done) => {
    // A body is bytes, whatever its Content-Type says, and it need not have one.
    request.headers['content-type'] = OCTET_STREAM
    if (request.method === 'POST' && request.headers['content-encoding'] !== undefined) {
      throw new Refusal('unsupported_encoding', 'what is posted has no Content-Encoding')
    }
    done()
  })
  app.addHook('preParsing', (request, reply, body, done) => {
    if (request.method === 'POST') {
      const { bodyLimit, config } = request.routeOptions
      // One in chunks counts as the longest of its kind: proxies pass on so what came over HTTP/2 without a length.
      const bytes = lengthOf(request) ?? bodyLimit
      if (bytes > bodyLimit) throw tooLarge(reply)
      if (bytes > NO_BYTES && !config.boundsBodies) room.reserveBody(request, reply, bytes)
    }
    done(null, body)
  })
  app.addContentTypeParser(OCTET_STREAM, inOnePiece)
}

function tooLarge(reply?: FastifyReply): Refusal {
  reply?.header('connection', 'close') // nothing more of it is read
  return new Refusal('too_large', 'the body is longer than any of its kind')
}

/** undefined: it comes in chunks. */
function lengthOf({ headers }: FastifyRequest): number | undefined {
  return headers['transfer-encoding'] === undefined ? Number(headers['content-length'] ?? 0) : undefined
}

/** Reads a body into one buffer, for a piece of one byte takes hundreds where it is kept. */
function inOnePiece(
  request: FastifyRequest,
  payload: RequestPayload,
  done: (error: Error | null, body?: Uint8Array) => void,
): void {
  const { bodyLimit } = request.routeOptions
  const said = lengthOf(request)
  let bytes = Buffer.allocUnsafe(said ?? NO_BYTES)
  let length = 0
  let pieces = 0
  const take = (piece: Buffer) => {
    // Bytes one by one hold the loop for longer than they take to send.
    if (++pieces > MOST_SMALL_PIECES && length < pieces * SMALL_BYTES) request.raw.destroy()
    const needed = length + piece.length
    if (said === undefined && needed > bodyLimit) {
      payload.off('data', take)
      done(tooLarge())
      return
    }
    if (said === undefined && needed > bytes.length) {
      const larger = Buffer.allocUnsafe(Math.min(bodyLimit, 2 * needed))
      bytes.copy(larger, 0, 0, length)
      bytes = larger
    }
    piece.copy(bytes, length)
    length = needed
  }
  payload.on('data', take)
  payload.once('error', done)
  payload.once('end', () => {
    if (said === undefined || length === said) done(null, bytes.subarray(0, length))
    else done(new Refusal('bad_request', `the body is not as long as Content-Length says: expected ${said}`))
  })
}
