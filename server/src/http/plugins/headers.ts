// Headers for an API that web pages of other origins read: CORS without credentials, and from helmet what means
// something for bytes and JSON. HSTS is left to whatever terminates TLS.

import type { IncomingMessage, ServerResponse } from 'node:http'
import cors from '@fastify/cors'
import { BATCH_SIGNATURE_HEADER } from '@keyhush/protocol'
import type { FastifyInstance, FastifyPluginAsync } from 'fastify'
import fp from 'fastify-plugin'
import helmet from 'helmet'
import { Refusal } from '../../base/refusal.js'

const DAY_SECONDS = 24 * 60 * 60
const ALLOWED_HEADERS = ['Content-Type', 'Range', 'If-Range', 'If-None-Match']

// Clients refuse an answer with a Content-Encoding or another length, so they must see both.
const EXPOSED_HEADERS = ['Content-Encoding', 'Content-Length', 'Content-Range', 'ETag', 'Retry-After'].join(', ')

const ORIGINS_OF_THIS_MACHINE = /^https?:\/\/(([\w-]+\.)*localhost|127\.\d+\.\d+\.\d+|\[::1\])(:\d+)?$/

export interface HeadersOptions {
  /** `*`: any; `localhost`: those of this machine, on any port */
  readonly allowOrigins: readonly string[]
  /** paths that publishers use, from web pages too */
  readonly publisherPaths: ReadonlySet<string>
}

export const headers = fp(async (app: FastifyInstance, { allowOrigins, publisherPaths }: HeadersOptions) => {
  const [isAllowed, readable, fixed] = [allowedBy(allowOrigins), readableBy(allowOrigins), helmetHeaders()]
  app.addHook('onRequest', (request, reply, done) => {
    reply.headers(fixed).headers(readable(request.headers.origin))
    if (request.method === 'OPTIONS' && request.routeOptions.url === '*')
      throw new Refusal('not_found', 'there is nothing here')
    const { origin, host } = request.headers
    // Pages that may not read replies could fill the fence with hints, and have lookups computed.
    if (request.method === 'POST' && origin !== undefined && !isAllowed(origin) && !isOriginOf(origin, host))
      throw new Refusal('unauthorized', 'pages of this origin may not use this server (--allow-origin)', 403)
    done()
  })
  // For preflights alone: it looks up its options anew for each request, which takes longer than a query's answer.
  const scope: FastifyPluginAsync = async preflights => {
    await preflights.register(cors, {
      origin: allowOrigins.includes('*') ? '*' : allowOrigins.map(patternOf),
      methods: ['GET', 'HEAD', 'POST'],
      allowedHeaders: ALLOWED_HEADERS,
      exposedHeaders: EXPOSED_HEADERS,
      maxAge: DAY_SECONDS,
      strictPreflight: false, // its error would not have the protocol's form
    })
    preflightOnlyWhatIsThere(app, preflights, publisherPaths)
  }
  await app.register(scope)
})

/** What @fastify/cors says of a reply, for one that never gets to it: the headers for a request's Origin. */
function readableBy(allowOrigins: readonly string[]): (origin: string | undefined) => Readonly<Record<string, string>> {
  const exposed = { 'access-control-expose-headers': EXPOSED_HEADERS }
  const toAny = { 'access-control-allow-origin': '*', ...exposed }
  if (allowOrigins.includes('*')) return () => toAny
  const isAllowed = allowedBy(allowOrigins)
  return origin =>
    origin !== undefined && isAllowed(origin)
      ? { vary: 'Origin', 'access-control-allow-origin': origin, ...exposed }
      : { vary: 'Origin' }
}

function allowedBy(allowOrigins: readonly string[]): (origin: string) => boolean {
  const patterns = allowOrigins.map(patternOf)
  return origin =>
    patterns.some(
      pattern => pattern === '*' || (typeof pattern === 'string' ? pattern === origin : pattern.test(origin)),
    )
}

/** Whether a page is this server's own, as the browser sees it. */
function isOriginOf(origin: string, host: string | undefined): boolean {
  return URL.canParse(origin) && new URL(origin).host === host
}

function patternOf(origin: string): string | RegExp {
  return origin === 'localhost' ? ORIGINS_OF_THIS_MACHINE : origin
}

/** What helmet says of every reply. It is asked once: @fastify/helmet has it write the same lines anew for each. */
function helmetHeaders(): Record<string, string> {
  const headers: Record<string, string> = {}
  const recorder = {
    setHeader: (name: string, value: string) => {
      headers[name.toLowerCase()] = value // as Fastify has them, so that it need not make that name anew for each reply
    },
    removeHeader: () => {},
  } as unknown as ServerResponse
  helmet({
    contentSecurityPolicy: { useDefaults: false, directives: { defaultSrc: ["'none'"], frameAncestors: ["'none'"] } },
    crossOriginResourcePolicy: { policy: 'cross-origin' },
    referrerPolicy: { policy: 'no-referrer' },
    crossOriginOpenerPolicy: false,
    originAgentCluster: false,
    strictTransportSecurity: false,
    xDnsPrefetchControl: false,
    xDownloadOptions: false,
    xPermittedCrossDomainPolicies: false,
    xXssProtection: false,
  })({} as IncomingMessage, recorder, () => {})
  return headers
}

/** @fastify/cors would answer a preflight of any path. What publishers use takes their headers, too. */
function preflightOnlyWhatIsThere(
  app: FastifyInstance,
  preflights: FastifyInstance,
  publisherPaths: ReadonlySet<string>,
): void {
  const cors = { allowedHeaders: [...ALLOWED_HEADERS, BATCH_SIGNATURE_HEADER] }
  app.addHook('onRoute', ({ url, method }) => {
    if (method === 'OPTIONS' || app.hasRoute({ url, method: 'OPTIONS' })) return
    // Its handler is never called: the reply is the hook's of @fastify/cors.
    preflights.options(url, publisherPaths.has(url) ? { config: { cors } } : {}, async () => {})
  })
}
