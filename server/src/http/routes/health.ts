// GET /healthz: 200 while the process runs. GET /readyz: 200 while it can answer queries and is to be sent them, with what
// does not work besides.

import type { FastifyInstance } from 'fastify'
import type { Readiness } from '../readiness.js'

export function healthRoutes(app: FastifyInstance, readiness: Readiness): void {
  app.get('/healthz', async (_request, reply) => reply.header('cache-control', 'no-store').send({ status: 'running' }))
  app.get('/readyz', async (_request, reply) => {
    reply.header('cache-control', 'no-store')
    readiness.checkReady()
    const { problems } = readiness
    return reply.send(problems.length === 0 ? { status: 'ready' } : { status: 'ready', problems })
  })
}
