// What the log may hold of requests (docs/threat-model.md, P7): route pattern, status, response size, duration, and unless it is
// asked for more, sums of these alone: a line costs a third of what an answer does. Everything else a request says or is (body, URL,
// query string, headers, address) stays out, whatever level is set.
//
// Fastify itself logs through each request's own logger, sometimes with the URL; that logger is silent here. What there
// is to say is said by the hook below and by plugins/errors.ts, through the server's logger.

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

const SUMS_EVERY_MILLISECONDS = 10_000

export const logging = fp(async (app: FastifyInstance) => {
  const { log }: { readonly log: FastifyBaseLogger & { isLevelEnabled?(level: string): boolean } } = app
  if (log.isLevelEnabled?.('debug')) logEach(app)
  else if (log.isLevelEnabled?.('info')) logSums(app)
})

function logEach(app: FastifyInstance): void {
  app.addHook('onResponse', (request, reply, done) => {
    const { statusCode: status, elapsedTime } = reply
    app.log.debug({
      route: routeOf(request),
      status,
      bytes: bytesOf(request, reply),
      milliseconds: Math.round(elapsedTime * 1000) / 1000,
    })
    done()
  })
}

/** A line for each route and status that there were, and the last ones when the server closes. */
function logSums(app: FastifyInstance): void {
  let sums = new Map<string, { requests: number; bytes: number; milliseconds: number; longest: number }>()
  app.addHook('onResponse', (request, reply, done) => {
    const { statusCode, elapsedTime } = reply
    const kind = `${statusCode} ${routeOf(request)}`
    let sum = sums.get(kind)
    if (sum === undefined) {
      sum = { requests: 0, bytes: 0, milliseconds: 0, longest: 0 }
      sums.set(kind, sum)
    }
    sum.requests++
    sum.bytes += bytesOf(request, reply)
    sum.milliseconds += elapsedTime
    sum.longest = Math.max(sum.longest, elapsedTime)
    done()
  })
  const say = () => {
    const over = sums
    sums = new Map()
    for (const [kind, { requests, bytes, milliseconds, longest }] of over) {
      const [status, route] = [Number(kind.slice(0, 3)), kind.slice(4)]
      app.log.info({
        route,
        status,
        requests,
        bytes,
        milliseconds: Math.round(milliseconds),
        longest: Math.ceil(longest),
      })
    }
  }
  const timer = setInterval(say, SUMS_EVERY_MILLISECONDS).unref()
  app.addHook('onClose', async () => {
    clearInterval(timer)
    say()
  })
}

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
