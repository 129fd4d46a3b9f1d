// What a server that closes does with connections on which nothing is under way: it hangs up.

import type { Socket } from 'node:net'
import type { FastifyInstance } from 'fastify'

const SWEEP_MILLISECONDS = 100

/** Node closes connections that are idle when the server closes, but leaves open those that become so later, and silent ones. */
export function hangUpWhenIdle(app: FastifyInstance): void {
  const { server } = app
  const silent = silentConnections(app)
  app.addHook('preClose', async () => {
    if (!server.listening) return void server.close() // which Fastify leaves to who has made it, and Node keeps it otherwise
    const sweep = setInterval(() => {
      server.closeIdleConnections()
      for (const socket of silent) if (socket.bytesRead === 0) socket.destroy()
    }, SWEEP_MILLISECONDS)
    server.once('close', () => clearInterval(sweep))
  })
}

/** Those that no request has come from yet. Clients open some ahead, and Node takes them for busy when it closes. */
function silentConnections({ server }: FastifyInstance): ReadonlySet<Socket> {
  const silent = new Set<Socket>()
  server.on('connection', (socket: Socket) => {
    silent.add(socket)
    socket.once('close', () => silent.delete(socket))
  })
  server.on('request', ({ socket }: { readonly socket: Socket }) => silent.delete(socket))
  return silent
}
