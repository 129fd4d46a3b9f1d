// Bodies: each says how long it is, takes room before it is read, and is read into one buffer. A route whose bodies are bounded by
// something else says so (`config.boundsBodies`).

import type { FastifyInstance, FastifyRequest, RequestPayload } from 'fastify'
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

/** Has `app` take the bodies of its POST routes as bytes, for as long as `room` has any. */
export function takeBodies(app: FastifyInstance, room: Unsent): void {
  app.removeAllContentTypeParsers()
  app.addContentTypeParser(OCTET_STREAM, inOnePiece)
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
      const refusal = refusalOf(request, bodyLimit)
      if (refusal !== undefined) {
        reply.header('connection', 'close') // nothing more of it is read
        throw refusal
      }
      const bytes = lengthOf(request)
      if (bytes > NO_BYTES && !config.boundsBodies) room.reserveBody(request, reply, bytes)
    }
    done(null, body)
  })
}

/** Chunks of one byte would cost hundreds each. Clients of ours know the length of what they send. */
function refusalOf(request: FastifyRequest, bodyLimit: number): Refusal | undefined {
  if (request.headers['transfer-encoding'] !== undefined) {
    return new Refusal('bad_request', 'a body says how long it is: expected Content-Length, got chunks', 411)
  }
  if (lengthOf(request) > bodyLimit) return new Refusal('too_large', 'the body is longer than any of its kind')
  return undefined
}

function lengthOf({ headers }: FastifyRequest): number {
  return Number(headers['content-length'] ?? 0)
}

/** Reads a body into a buffer of its length, for pieces cost more than the bytes in them. */
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
    else done(new Refusal('bad_request', `the body is not as long as Content-Length says: expected ${bytes.length}`))
  })
}
