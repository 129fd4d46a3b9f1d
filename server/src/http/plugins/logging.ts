// What the log may hold of a request (docs/threat-model.md, P7): route pattern, status, response size, duration. Everything else
// a request says or is (body, URL, query string, headers, address) stays out, whatever level is set.
//
// Fastify itself logs through each request's own logger, sometimes with the URL; that logger is silent here. What there
// is to say is said by the hook below and by plugins/errors.ts, through the server's logger.

import {
  type FastifyBaseLogger,
  type FastifyError,
  type FastifyInstance,
  type FastifyRequest,
  type FastifyServerOptions,
  LogController,
} from 'fastify'
import fp from 'fastify-plugin'

export const logging = fp(async (app: FastifyInstance) => {
  const { log }: { readonly log: FastifyBaseLogger & { isLevelEnabled?(level: string): boolean } } = app
  if (!log.isLevelEnabled?.('info')) return // for whoever wants no lines they are not made either
  app.addHook('onResponse', (request, reply, done) => {
    app.log.info({
      route: routeOf(request),
      status: reply.statusCode,
      bytes: bodyBytes(request.method, reply.statusCode, reply.getHeader('content-length')),
      milliseconds: Math.round(reply.elapsedTime * 1000) / 1000,
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

function bodyBytes(method: string, status: number, contentLength: unknown): number {
  return method === 'HEAD' || status === 304 ? 0 : Number(contentLength ?? 0)
}
