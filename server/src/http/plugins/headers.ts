// Headers for an API that web pages of other origins read: CORS without credentials, and from helmet what means
// something for bytes and JSON. HSTS is left to whatever terminates TLS.

import cors, { type FastifyCorsOptions } from '@fastify/cors'
import helmet from '@fastify/helmet'
import { BATCH_SIGNATURE_HEADER } from '@pirouette/protocol'
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import { Refusal } from '../../base/refusal.js'

const DAY_SECONDS = 24 * 60 * 60
const ALLOWED_HEADERS = ['Content-Type', 'Range', 'If-Range', 'If-None-Match']

const ORIGINS_OF_THIS_MACHINE = /^https?:\/\/(([\w-]+\.)*localhost|127\.\d+\.\d+\.\d+|\[::1\])(:\d+)?$/

export interface HeadersOptions {
  /** `*`: any; `localhost`: those of this machine, on any port */
  readonly allowOrigins: readonly string[]
  /** paths that publishers use, from web pages too */
  readonly publisherPaths: ReadonlySet<string>
}

export const headers = fp(async (app: FastifyInstance, { allowOrigins, publisherPaths }: HeadersOptions) => {
  const everywhere: FastifyCorsOptions = {
    origin: allowOrigins.includes('*')
      ? '*'
      : allowOrigins.map(origin => (origin === 'localhost' ? ORIGINS_OF_THIS_MACHINE : origin)),
    methods: ['GET', 'HEAD', 'POST'],
    allowedHeaders: ALLOWED_HEADERS,
    // Clients refuse an answer with a Content-Encoding or another length, so they must see both.
    exposedHeaders: ['Content-Encoding', 'Content-Length', 'Content-Range', 'ETag', 'Retry-After'],
    maxAge: DAY_SECONDS,
    strictPreflight: false, // its error would not have the protocol's form
  }
  preflightOnlyWhatIsThere(app)
  const forPublishers = {
    ...everywhere,
    allowedHeaders: [...ALLOWED_HEADERS, 'Authorization', BATCH_SIGNATURE_HEADER],
  }
  await app.register(cors, {
    delegator: (request, callback) =>
      callback(null, publisherPaths.has(pathOf(request.url)) ? forPublishers : everywhere),
  })
  await app.register(helmet, {
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
  })
})

/** @fastify/cors would answer a preflight of any path. */
function preflightOnlyWhatIsThere(app: FastifyInstance): void {
  app.addHook('onRoute', function (this: FastifyInstance, { url, routePath, method }) {
    if (method === 'OPTIONS' || this.hasRoute({ url, method: 'OPTIONS' })) return
    this.options(routePath, async () => {}) // never gets there: the reply is the hook's of @fastify/cors
  })
  app.addHook('onRequest', async ({ method, routeOptions }) => {
    if (method === 'OPTIONS' && routeOptions.url === '*') throw new Refusal('not_found', 'there is nothing here')
  })
}

function pathOf(url: string): string {
  return url.split('?', 1)[0]!
}
