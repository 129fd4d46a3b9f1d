// An app without routes: timeouts, bounds, log, errors and headers, the same in every deployment.

import { type FastifyInstance, fastify } from 'fastify'
import { Refusal } from '../base/refusal.js'
import { Batches } from './limits/batches.js'
import { boundedServer, Connections, mostConnections } from './limits/connections.js'
import { Reads } from './limits/reads.js'
import { Streams } from './limits/streams.js'
import { Unsent, type UnsentOptions } from './limits/unsent.js'
import { errors, frameworkError } from './plugins/errors.js'
import { type HeadersOptions, headers } from './plugins/headers.js'
import { logging, loggingOptions, serializers } from './plugins/logging.js'
import type { Readiness } from './readiness.js'

export interface FrameOptions {
  readonly readiness: Readiness
  readonly unsent: UnsentOptions | undefined
  readonly trustProxy: string | undefined
  /** pino's level and where lines go */
  readonly log: { readonly level: string; readonly stream: { write(line: string): void } } | undefined
}

/** Why a server that is about to end refuses requests. */
export const SHUTTING_DOWN = 'this server is shutting down'

export function frame(options: FrameOptions) {
  const { readiness, log } = options
  const app: FastifyInstance = fastify({
    ...loggingOptions,
    serverFactory: boundedServer,
    pluginTimeout: 30_000,
    logger: log === undefined ? false : { ...log, base: null, serializers },
    trustProxy: options.trustProxy ?? false,
    frameworkErrors: frameworkError,
    clientErrorHandler: (error, socket) => connections.answerBroken(error, socket),
    genReqId: () => '', // not used
    return503OnClosing: false, // its reply would not have the protocol's form; Readiness gives ours
  })
  app.addHook('onRequest', (_request, reply, done) => {
    // The next request of this connection goes to another server, if there is one.
    if (readiness.leaving) reply.header('connection', 'close')
    done()
  })
  // What no route takes is not read.
  app.removeAllContentTypeParsers()
  const connections = Connections.of(app.server, { most: mostConnections() })
  app.addHook('preClose', async () => {
    readiness.stop(SHUTTING_DOWN)
    connections.close()
    if (!app.server.listening) app.server.close() // which Fastify leaves to us, since boundedServer made it
  })
  const { most } = connections
  const advice = 'raise the limit of open files (LimitNOFILE), and that of the heap (--max-old-space-size)'
  connections.tell = refused => {
    app.log.warn({ refused, most }, `all connections are taken; some are refused, or closed for others: ${advice}`)
  }
  return {
    app,
    unsent: new Unsent(options.unsent).watch(app),
    bodies: new Unsent(options.unsent).watch(app), // the same for bodies on their way
    connections,
    streams: new Streams(most),
    batches: new Batches(),
    reads: new Reads(),
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
  // Bytes that Fastify does not know as such: where a test runner has put jsdom's globals in the place of Node's.
  app.addHook('preSerialization', (_request, reply, payload: unknown, done) => {
    if (ArrayBuffer.isView(payload)) {
      const bytes = Buffer.from(payload.buffer as ArrayBuffer, payload.byteOffset, payload.byteLength)
      reply.serializer(() => bytes as unknown as string)
    }
    done(null, payload)
  })
  app.addHook('onRequest', ({ raw: { httpVersion, headers } }, _reply, done) => {
    if (httpVersion === '1.1' && headers.host === undefined) {
      throw new Refusal('bad_request', 'expected a Host header, which HTTP/1.1 requires, got none')
    }
    done()
  })
}
