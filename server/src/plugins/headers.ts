// Headers for an API that web pages of other origins read: CORS without credentials, and from helmet what means
// something for bytes and JSON. HSTS is left to whatever terminates TLS.

import cors from '@fastify/cors'
import helmet from '@fastify/helmet'
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'

const DAY_SECONDS = 24 * 60 * 60

export const headers = fp(async (app: FastifyInstance, options: { allowOrigins: readonly string[] }) => {
  await app.register(cors, {
    origin: options.allowOrigins.includes('*') ? '*' : [...options.allowOrigins],
    methods: ['GET', 'HEAD', 'POST'],
    allowedHeaders: ['Content-Type', 'Range', 'If-Range', 'If-None-Match'],
    // Clients refuse an answer with a Content-Encoding or another length, so they must see both.
    exposedHeaders: ['Content-Encoding', 'Content-Length', 'Content-Range', 'ETag', 'Retry-After'],
    maxAge: DAY_SECONDS,
    strictPreflight: false, // its error would not have the protocol's form
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
