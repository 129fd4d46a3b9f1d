// Bodies: each takes room as it comes, and is read into one buffer. A route whose bodies are bounded by
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

/** What the buffer of a longer body has first; then it doubles. */
const FIRST_BYTES = 16 * 1024

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
      if (lengthOf(request) > request.routeOptions.bodyLimit) {
        reply.header('connection', 'close') // nothing more of it is read
        throw new Refusal('too_large', "expected a body of at most this kind's length, got a longer one")
      }
    }
    done(null, body)
  })
  app.addContentTypeParser(OCTET_STREAM, (request: FastifyRequest, payload: RequestPayload, done: Done) => {
    const takesNone = lengthOf(request) <= NO_BYTES || request.routeOptions.config.boundsBodies
    readInOnePiece(lengthOf(request), payload, takesNone ? () => {} : room.reserveBody(request), done)
  })
}

type Done = (error: Error | null, body?: Uint8Array) => void

function lengthOf({ headers }: FastifyRequest): number {
  return Number(headers['content-length'] ?? 0)
}

/** Reads a body into one buffer: a piece of one byte takes hundreds where it is kept. The buffer grows, for the length is a promise. */
function readInOnePiece(total: number, payload: RequestPayload, reserve: (bytes: number) => void, done: Done): void {
  let [bytes, length, isOver] = [Buffer.alloc(0), 0, false]
  const end: Done = (error, body) => {
    if (isOver) return
    isOver = true
    bytes = Buffer.alloc(0)
    done(error, body)
  }
  const take = (piece: Buffer) => {
    const needed = length + piece.length
    if (needed > bytes.length) {
      const room = Math.min(total, Math.max(needed, 2 * bytes.length, FIRST_BYTES))
      reserve(room - bytes.length)
      const larger = Buffer.allocUnsafe(room)
      bytes.copy(larger, 0, 0, length)
      bytes = larger
    }
    piece.copy(bytes, length)
    length = needed
  }
  payload.on('data', (piece: Buffer) => {
    if (isOver) return // refused: the rest is dropped, and Fastify closes the connection
    try {
      take(piece)
    } catch (error) {
      end(error as Error)
    }
  })
  // The connection is gone, and thousands may go at once: nothing is made of a reply.
  payload.once('error', () => {
    isOver = true
    bytes = Buffer.alloc(0)
  })
  payload.once('end', () => {
    if (length === total) end(null, bytes)
    else end(new Refusal('bad_request', `expected ${total} bytes, as Content-Length says, got another length`))
  })
}
