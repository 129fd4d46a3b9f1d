// A witness's port: `POST /add-checkpoint` (c2sp.org/tlog-witness).

import { type FastifyInstance, fastify } from 'fastify'
import { boundedServer, Connections } from './limits/connections.js'
import { sendError } from './plugins/errors.js'

const MOST_CONNECTIONS = 64

/** An app that hands each body to `answer`. Closing it ends its connections. */
export async function witnessServer(
  answer: (body: string) => Promise<{ readonly status: number; readonly text: string }>,
  bodyLimit: number,
): Promise<FastifyInstance> {
  const app = fastify({ logger: false, serverFactory: boundedServer, forceCloseConnections: true, bodyLimit })
  Connections.of(app.server, { most: MOST_CONNECTIONS })
  app.removeAllContentTypeParsers()
  app.addContentTypeParser('*', { parseAs: 'buffer' }, (_request, body, done) => done(null, body))
  app.setErrorHandler((error, _request, reply) => sendError(app, error, reply))
  app.post('/add-checkpoint', async (request, reply) => {
    const { status, text } = await answer(String(request.body ?? ''))
    if (status === 503) reply.header('retry-after', 1)
    return reply
      .code(status)
      .type(status === 409 ? 'text/x.tlog.size' : 'text/plain; charset=utf-8')
      .send(text)
  })
  await app.ready()
  return app
}
