// Every error leaves in the protocol's form, `{ code, message }`. A client learns of its own mistakes only. Of ours the log gets the
// place in the code, and not the message, which might quote a body.

import { DATABASE_PATH, DATABASES_NAMED, type ErrorCode } from '@keyhush/protocol'
import type { FastifyBaseLogger, FastifyError, FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import fp from 'fastify-plugin'
import { ThreadError } from '../../base/errors.js'
import { Refusal } from '../../base/refusal.js'
import { StorageError } from '../../storage/storage.js'

const TOLD_EVERY_MILLISECONDS = 1000
const MOST_KINDS = 100

export interface ErrorsOptions {
  /** paths under which databases are: `/` or `/names` */
  readonly databases: readonly string[]
}

export const errors = fp(async (app: FastifyInstance, { databases }: ErrorsOptions) => {
  app.setErrorHandler((error, _request, reply) => sendError(app, error, reply))
  // Names the right paths to a client that has a wrong one.
  const details = { databases: databases.filter(path => DATABASE_PATH.test(path)).slice(0, DATABASES_NAMED) }
  const nothing = new Refusal(
    'not_found',
    'expected a path of the protocol, got another; `databases` lists the paths of the databases here',
    404,
    details,
  )
  app.setNotFoundHandler((_request, reply) => sendRefusal(reply, nothing))
})

/** For errors that Fastify meets before it has found a route. */
export function frameworkError(error: FastifyError, _request: FastifyRequest, reply: FastifyReply): void {
  const refusal =
    error.code === 'FST_ERR_MAX_PARAM_LENGTH'
      ? new Refusal('not_found', 'expected a path of the protocol, got a longer one')
      : new Refusal('bad_request', 'the URL is malformed')
  void sendRefusal(reply, refusal)
}

/** A route of its own encapsulated context uses this as its error handler. */
export function sendError(app: FastifyInstance, error: unknown, reply: FastifyReply): FastifyReply {
  const refusal = refusalFor(error)
  // The log gets an error if the fault is ours.
  if (refusal.code === 'internal' || error instanceof StorageError || error instanceof ThreadError) tell(app.log, error)
  return sendRefusal(reply, refusal)
}

const toldOf = new WeakMap<object, Map<string, { readonly at: number; more: number }>>()

/** Any client can repeat what fails: the log gets an error once a second, with how often it came meanwhile. */
function tell(log: FastifyBaseLogger, error: unknown): void {
  const described = describeError(error)
  const kind = `${described.error} ${described.at[0]}`
  const told = toldOf.get(log) ?? new Map<string, { readonly at: number; more: number }>()
  toldOf.set(log, told)
  const [last, now] = [told.get(kind), performance.now()]
  if (last !== undefined && now - last.at < TOLD_EVERY_MILLISECONDS) {
    last.more++
    return
  }
  if (told.size >= MOST_KINDS) told.clear()
  told.set(kind, { at: now, more: 0 })
  const cause = error instanceof ThreadError && { cause: describeError(error.cause) }
  log.error(
    { ...described, ...cause, ...(last !== undefined && last.more > 0 && { more: last.more }) },
    'a request failed',
  )
}

/** What an error may tell the log: its kind and where it arose. */
export function describeError(error: unknown): { error: string; at: string[] } {
  if (!(error instanceof Error)) return { error: typeof error, at: [] }
  const { name, message, code, stack = '' } = error as Error & { code?: unknown }
  const end = stack.indexOf(message) + message.length // a message can have lines that look like frames
  const frames = stack.includes(message) ? stack.slice(end).split('\n') : []
  return {
    error: typeof code === 'string' ? `${name} ${code}` : name,
    at: frames.map(line => line.trim()).filter(line => line.startsWith('at ')),
  }
}

/** Their replies say when to come again, unless the header says more. */
const PASSING: readonly ErrorCode[] = ['not_ready', 'instant_full', 'rate_limited']

function sendRefusal(reply: FastifyReply, refusal: Refusal): FastifyReply {
  // Headers of the reply that was to be; an error must not be cached under them.
  for (const name of ['etag', 'content-type', 'content-length', 'accept-ranges']) {
    reply.removeHeader(name)
    if (!reply.raw.headersSent) reply.raw.removeHeader(name) // a stream that fails at its first byte has set them there
  }
  const isPassing = PASSING.includes(refusal.code) && !reply.hasHeader('retry-after')
  if (isPassing) reply.header('retry-after', refusal.retryAfter)
  return reply.code(refusal.statusCode).header('cache-control', 'no-store').send(refusal.reply)
}

function refusalFor(error: unknown): Refusal {
  if (error instanceof Refusal) return error
  if (error instanceof StorageError) {
    const what = error.kind === 'away' ? 'this server cannot reach its store' : 'this server cannot write to its store'
    return new Refusal('not_ready', `${what} now; nothing was stored: send the same again later`)
  }
  if (error instanceof ThreadError) return new Refusal('not_ready', 'this server could not prove an answer; try again')
  const { code, statusCode = 500 } = error as Partial<FastifyError>
  if (code === 'ECONNRESET') return new Refusal('bad_request', 'expected a whole request, got a part of it') // the client has hung up
  // Fastify's own, of a request that is none of ours.
  if (statusCode < 500) return new Refusal('bad_request', 'the request is malformed')
  return new Refusal('internal', 'the server failed; the fault is not in the request')
}
