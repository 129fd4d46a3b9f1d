// The headers of every reply: CORS without credentials, for pages of other origins, and what browsers need to know of bytes and
// JSON. HSTS is for whatever terminates TLS.

import { BATCH_SIGNATURE_HEADER } from '@keyhush/protocol'
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import { Refusal } from '../../base/refusal.js'

const FIXED = {
  'content-security-policy': "default-src 'none';frame-ancestors 'none'",
  'cross-origin-resource-policy': 'cross-origin',
  'referrer-policy': 'no-referrer',
  'x-content-type-options': 'nosniff',
  'x-frame-options': 'SAMEORIGIN',
}

/** Clients refuse an answer with a Content-Encoding or another length, so they must see both. */
const EXPOSED = {
  'access-control-expose-headers': 'Content-Encoding, Content-Length, Content-Range, ETag, Retry-After',
}

const ALLOWED_HEADERS = 'Content-Type, Range, If-Range, If-None-Match'

const PREFLIGHT = {
  'access-control-allow-methods': 'GET, HEAD, POST',
  'access-control-max-age': '86400', // a day, in seconds
  'content-length': '0',
}

const ORIGINS_OF_THIS_MACHINE = /^https?:\/\/(([\w-]+\.)*localhost|127\.\d+\.\d+\.\d+|\[::1\])(:\d+)?$/

export interface HeadersOptions {
  /** `*`: any; `localhost`: origins on this machine, with any port */
  readonly allowOrigins: readonly string[]
  /** paths that publishers use, from web pages too */
  readonly publisherPaths: ReadonlySet<string>
}

export const headers = fp(async (app: FastifyInstance, { allowOrigins, publisherPaths }: HeadersOptions) => {
  const allowsAny = allowOrigins.includes('*')
  const isAllowed = (origin: string) =>
    allowOrigins.some(one => (one === 'localhost' ? ORIGINS_OF_THIS_MACHINE.test(origin) : one === origin))
  const ofAny = { ...FIXED, 'access-control-allow-origin': '*', ...EXPOSED }
  const ofOthers = { ...FIXED, vary: 'Origin' }

  app.addHook('onRequest', (request, reply, done) => {
    const { origin } = request.headers
    if (allowsAny) reply.headers(ofAny)
    else if (origin === undefined || !isAllowed(origin)) reply.headers(ofOthers)
    else reply.headers({ ...ofOthers, 'access-control-allow-origin': origin, ...EXPOSED })
    // A page that may not read replies could still fill the fence with hints, and have lookups computed. A page of this server's own
    // host is no exception: a page that had its host's name lead here would look the same.
    if (request.method === 'POST' && !allowsAny && origin !== undefined && !isAllowed(origin))
      throw new Refusal('unauthorized', 'expected a page of an origin that --allow-origin allows, got another', 403)
    done()
  })

  app.addHook('onRoute', ({ url, method }) => {
    if (method === 'OPTIONS' || app.hasRoute({ url, method: 'OPTIONS' })) return
    const allowed = publisherPaths.has(url) ? `${ALLOWED_HEADERS}, ${BATCH_SIGNATURE_HEADER}` : ALLOWED_HEADERS
    const preflight = { ...PREFLIGHT, 'access-control-allow-headers': allowed }
    app.options(url, async (_request, reply) => reply.code(204).headers(preflight).send())
  })
})
