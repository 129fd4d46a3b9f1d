// Bodies on their way take room before they are read: one that anybody may post, to whatever route. A route whose bodies
// are bounded by something else says so (`config.boundsBodies`).

import type { FastifyInstance } from 'fastify'
import type { Unsent } from './unsent.js'

declare module 'fastify' {
  interface FastifyContextConfig {
    /** its bodies take no room of others' */
    boundsBodies?: true
  }
}

/** Throws a `rate_limited` Refusal where there is no room for what Content-Length says, or the route's longest body. */
export function boundBodies(app: FastifyInstance, bodies: Unsent): void {
  app.addHook('preParsing', (request, reply, body, done) => {
    const { method, headers, routeOptions } = request
    if (method === 'POST' && !routeOptions.config.boundsBodies) {
      const { bodyLimit } = routeOptions
      const unknown = headers['transfer-encoding'] === undefined ? 0 : bodyLimit
      const bytes = Number(headers['content-length'] ?? unknown)
      // What is too long is refused unread.
      if (bytes > 0 && bytes <= bodyLimit) bodies.reserveBody(request, reply, bytes)
    }
    done(null, body)
  })
}
