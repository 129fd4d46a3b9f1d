// Requests under way, however little each of them asks for: one that is pipelined behind a reply nobody reads is answered
// at once, and stands in memory, with its reply and their streams, until its turn comes. One read from a connection brings
// more than a thousand; so they are counted before Fastify sees them.

import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'

const DEFAULT_MOST = { ofConnection: 256, inAll: 16_384 }

/** A share of so many, which together have no more than one. */
export function underWayShare(parts: number): typeof DEFAULT_MOST {
  return { ...DEFAULT_MOST, inAll: Math.floor(DEFAULT_MOST.inAll / parts) }
}

const bounded = new WeakSet<Server>()

/** A connection that has too many is hung up on; beyond what all may have, the one that has most. Once for a server. */
export function boundUnderWay(server: Server, most = DEFAULT_MOST): void {
  if (bounded.has(server)) return
  bounded.add(server)
  const handlers = server.listeners('request')
  const ofSocket = new Map<Socket, number>()
  let inAll = 0

  const forget = (socket: Socket) => {
    inAll -= ofSocket.get(socket) ?? 0
    ofSocket.delete(socket)
  }
  const hangUp = (socket: Socket) => {
    forget(socket)
    socket.destroy()
  }
  const add = (socket: Socket, requests: number) => {
    const before = ofSocket.get(socket)
    if (before === undefined) return
    ofSocket.set(socket, before + requests)
    inAll += requests
  }
  server.removeAllListeners('request')
  server.on('request', (request: IncomingMessage, response: ServerResponse) => {
    const { socket } = request
    if (socket.destroyed) return
    if (!ofSocket.has(socket)) {
      ofSocket.set(socket, 0)
      socket.once('close', () => forget(socket))
    }
    add(socket, 1)
    if (ofSocket.get(socket)! > most.ofConnection) hangUp(socket)
    else if (inAll > most.inAll) hangUp([...ofSocket].reduce((a, b) => (b[1] > a[1] ? b : a))[0])
    if (socket.destroyed) return
    response.on('close', () => add(socket, -1))
    for (const handler of handlers) handler.call(server, request, response)
  })
}
