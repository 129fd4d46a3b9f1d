// Logs route, status, size and duration of each request at level `debug`, and nothing else of it at any level (docs/threat-model.md, P7).
// Fastify's own loggers of requests are silent, because they would log URLs.

import {
  type FastifyBaseLogger,
  type FastifyError,
  type FastifyInstance,
  type FastifyReply,
  type FastifyRequest,
  type FastifyServerOptions,
  LogController,
} from 'fastify'
import fp from 'fastify-plugin'

export const logging = fp(async (app: FastifyInstance) => {
  const { log }: { readonly log: FastifyBaseLogger & { isLevelEnabled?(level: string): boolean } } = app
  if (log.isLevelEnabled?.('debug') !== true) return
  app.addHook('onResponse', (request, reply, done) => {
    const { statusCode: status, elapsedTime } = reply
    log.debug({
      route: routeOf(request),
      status,
      bytes: bytesOf(request, reply),
      milliseconds: Math.round(elapsedTime * 1000) / 1000,
    })
    done()
  })
})

/** The pattern, nothing of the URL; nor of what the router lets through for a schema to refuse. */
export function routeOf({ routeOptions: { method, url } }: FastifyRequest): string {
  return url === undefined ? 'none' : `${method} ${url.replace('([^]+)', '')}`
}

/** Options for Fastify that silence all but the server's own logger, and strip what objects that may carry. */
export const loggingOptions = {
  logController: new LogController({ disableRequestLogging: true }),
  childLoggerFactory: (logger: FastifyBaseLogger) => silent(logger),
} satisfies FastifyServerOptions

/** Serializers for the server's logger: nothing of a request, and of an error only its name and code. */
export const serializers = {
  req: () => ({}),
  res: () => ({}),
  err: (error: FastifyError) => ({ type: error.name, message: '', stack: '', code: error.code }),
}

const silenced = new WeakMap<FastifyBaseLogger, FastifyBaseLogger>()

function silent(logger: FastifyBaseLogger): FastifyBaseLogger {
  let child = silenced.get(logger)
  if (child === undefined) {
    child = logger.child({}, { level: 'silent' })
    silenced.set(logger, child)
  }
  return child
}

function bytesOf({ method }: FastifyRequest, reply: FastifyReply): number {
  return method === 'HEAD' || reply.statusCode === 304 ? 0 : Number(reply.getHeader('content-length') ?? 0)
}
