// Bodies: each takes room before it is read, and is read into one buffer. A route whose bodies are bounded by
// something else says so (`config.boundsBodies`).

import type { FastifyInstance, FastifyRequest, RequestPayload } from 'fastify'
import { Refusal } from '../../base/refusal.js'
import { isInChunks } from './connections.js'
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

/** Has `app` take the bodies of its POST routes as bytes, for as long as `room` has any. */
export function takeBodies(app: FastifyInstance, room: Unsent): void {
  app.removeAllContentTypeParsers()
  app.addHook('onRequest', (request, _reply, done) => {
    // A body is bytes, whatever its Content-Type says, and it need not have one.
    request.headers['content-type'] = OCTET_STREAM
    if (request.method === 'POST' && request.headers['content-encoding'] !== undefined) {
      throw new Refusal('unsupported_encoding', 'expected a body without Content-Encoding, got one with it')
    }
    if (isInChunks(request)) {
      // A chunk may be one byte long, and takes hundreds of bytes of memory.
      throw new Refusal('bad_request', 'expected a body with Content-Length, got one in chunks', 411)
    }
    done()
  })
  app.addHook('preParsing', (request, reply, body, done) => {
    if (request.method === 'POST') {
      const { bodyLimit, config } = request.routeOptions
      const bytes = lengthOf(request)
      if (bytes > bodyLimit) {
        reply.header('connection', 'close') // nothing more of it is read
        throw new Refusal('too_large', "expected a body of at most this kind's length, got a longer one")
      }
      if (bytes > NO_BYTES && !config.boundsBodies) room.reserveBody(request, bytes)
    }
    done(null, body)
  })
  app.addContentTypeParser(OCTET_STREAM, inOnePiece)
}

function lengthOf({ headers }: FastifyRequest): number {
  return Number(headers['content-length'] ?? 0)
}

/** Reads a body into one buffer: a piece of one byte takes hundreds where it is kept. */
function inOnePiece(
  request: FastifyRequest,
  payload: RequestPayload,
  done: (error: Error | null, body?: Uint8Array) => void,
): void {
  const bytes = Buffer.allocUnsafe(lengthOf(request))
  let length = 0
  payload.on('data', (piece: Buffer) => {
    piece.copy(bytes, length)
    length += piece.length
  })
  payload.once('error', done)
  payload.once('end', () => {
    if (length === bytes.length) done(null, bytes)
    else done(new Refusal('bad_request', `expected ${bytes.length} bytes, as Content-Length says, got another length`))
  })
}
