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

/** What takes no room: less than a request's headers may have, which are bounded as requests under way are. */
export const NO_BYTES = 1024

/** Throws a `rate_limited` Refusal where there is no room for what Content-Length says, or the route's longest body. */
export function boundBodies(app: FastifyInstance, bodies: Unsent): void {
  app.addHook('preParsing', (request, reply, body, done) => {
    const { method, headers } = request
    const unknown = headers['transfer-encoding'] === undefined ? 0 : Number.POSITIVE_INFINITY
    const bytes = Number(headers['content-length'] ?? unknown)
    if (method === 'POST' && bytes > NO_BYTES) {
      const { bodyLimit, config } = request.routeOptions // made anew whenever it is asked for
      const most = headers['content-length'] === undefined ? bodyLimit : bytes
      // What is too long is refused unread.
      if (!config.boundsBodies && most <= bodyLimit) bodies.reserveBody(request, reply, most)
    }
    done(null, body)
  })
}
