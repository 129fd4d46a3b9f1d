// What surrounds routes in every deployment: timeouts, bounds, log, errors, headers.

import { createServer, type RequestListener, STATUS_CODES } from 'node:http'
import type { Socket } from 'node:net'
import { type FastifyInstance, fastify } from 'fastify'
import { Refusal } from '../base/refusal.js'
import { Connections, mostConnections } from './connections.js'
import { hangUpWhenIdle } from './idle.js'
import { errors, frameworkError } from './plugins/errors.js'
import { type HeadersOptions, headers } from './plugins/headers.js'
import { logging, loggingOptions, serializers } from './plugins/logging.js'
import type { Readiness } from './readiness.js'
import { boundUnderWay } from './under-way.js'
import { Unsent, type UnsentOptions } from './unsent.js'

export interface FrameOptions {
  readonly readiness: Readiness
  readonly unsent: UnsentOptions | undefined
  readonly trustProxy: string | undefined
  /** pino's level and where lines go */
  readonly log: { readonly level: string; readonly stream: { write(line: string): void } } | undefined
}

export interface Frame {
  readonly app: FastifyInstance
  readonly unsent: Unsent
  /** the same for bodies on their way */
  readonly bodies: Unsent
  readonly connections: Connections
}

const SECOND = 1000

/** How long a connection stands yet of which nothing more is read. */
const LINGER_MILLISECONDS = SECOND

/** What a server says that is about to end. */
export const SHUTTING_DOWN = 'this server is shutting down'

/** An app without routes. */
export function frame(options: FrameOptions): Frame {
  const { readiness, log } = options
  const app: FastifyInstance = fastify({
    ...loggingOptions,
    serverFactory: listener,
    pluginTimeout: 30 * SECOND,
    logger: log === undefined ? false : { ...log, base: null, serializers },
    trustProxy: options.trustProxy ?? false,
    frameworkErrors: frameworkError,
    clientErrorHandler: answerBrokenRequest,
    genReqId: () => '', // nobody reads it
    return503OnClosing: false, // its reply would not have the protocol's form; Readiness gives ours
  })
  app.addHook('onRequest', (_request, reply, done) => {
    // The next request of this connection goes to another server, if there is one.
    if (readiness.leaving) reply.header('connection', 'close')
    done()
  })
  app.addHook('preClose', async () => readiness.stop(SHUTTING_DOWN))
  hangUpWhenIdle(app)
  boundUnderWay(app.server)
  const connections = new Connections(app.server, { most: mostConnections() })
  connections.tell = refused => {
    const most = app.server.maxConnections
    app.log.warn({ refused, most }, 'connections are refused: the process may open no more files')
  }
  return {
    app,
    unsent: new Unsent(options.unsent).watch(app),
    bodies: new Unsent(options.unsent),
    connections,
  }
}

/** What all routes have that are added from now on. `databases`: paths under which they are. */
export async function surround(
  app: FastifyInstance,
  { databases, ...origins }: HeadersOptions & { readonly databases: readonly string[] },
): Promise<void> {
  await app.register(logging)
  await app.register(errors, { databases })
  await app.register(headers, origins)
}

/**
 * Made here, since Fastify has a server of its own for each further address of `localhost`, of which no bound would know. A query
 * is at most a few kilobytes and arrives at once; a partition may take a slow line minutes, but keeps moving.
 */
export function listener(handler: RequestListener) {
  const timeouts = {
    requestTimeout: 30 * SECOND, // until a request has arrived whole
    headersTimeout: 30 * SECOND, // by itself a minute, and of the two Node takes the longer one for a body
    connectionsCheckingInterval: SECOND, // by itself 30 s
    keepAliveTimeout: 75 * SECOND, // longer than common proxies keep theirs, so that they close first
  }
  return createServer(timeouts, handler).setTimeout(60 * SECOND) // without any traffic
}

/** Replies to what is not HTTP, or did not arrive in time. It has no log line: the error holds the bytes. */
function answerBrokenRequest({ code }: Error & { code?: string }, socket: Socket): void {
  if (!socket.writable) return
  const { statusCode, reply } = refusalOfBroken(code)
  const body = JSON.stringify(reply)
  socket.end(
    `HTTP/1.1 ${statusCode} ${STATUS_CODES[statusCode]}\r\nContent-Type: application/json; charset=utf-8\r\n` +
      `Content-Length: ${body.length}\r\nConnection: close\r\n\r\n${body}`,
  )
  // Whoever goes on sending has had time to read that.
  const timer = setTimeout(() => socket.destroy(), LINGER_MILLISECONDS).unref()
  socket.once('close', () => clearTimeout(timer))
}

function refusalOfBroken(code: string | undefined): Refusal {
  switch (code) {
    case 'ERR_HTTP_REQUEST_TIMEOUT':
      return new Refusal('bad_request', 'the request came too slowly', 408)
    case 'HPE_HEADER_OVERFLOW':
      return new Refusal('bad_request', 'the headers are too long', 431)
    default:
      return new Refusal('bad_request', 'the request is not well-formed HTTP')
  }
}
