// Requests under way, however little each of them asks for. One read from a connection brings more than a thousand, and Node
// would have all of them handled at once, though their replies leave one after the other: what is pipelined behind a reply
// nobody reads would be worked for and stand in memory. So one request of a connection is handled at a time; those behind it
// wait until its reply has left, and are counted, before Fastify sees them.

import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { NO_BYTES } from './bodies.js'

/** That wait, and the one that is handled. */
const DEFAULT_MOST = { ofConnection: 256, inAll: 16_384 }

/** Of a request that waits, for whose body no room is reserved yet. */
const takesRoom = ({ headers }: IncomingMessage) =>
  headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > NO_BYTES

interface Connection {
  /** behind the one that is handled */
  readonly waiting: [IncomingMessage, ServerResponse][]
  /** of which no reply has left */
  requests: number
}

const bounded = new WeakSet<Server>()

/** A connection that has too many is hung up on; beyond what all may have, the one that has most. Once for a server. */
export function boundUnderWay(server: Server, most = DEFAULT_MOST): void {
  if (bounded.has(server)) return
  bounded.add(server)
  const handlers = server.listeners('request')
  const connections = new Map<Socket, Connection>()
  /** whose next request is due */
  const ready: Connection[] = []
  let inAll = 0

  const meet = (socket: Socket) => {
    const connection: Connection = { waiting: [], requests: 0 }
    connections.set(socket, connection)
    // Of each request that is cut off Node makes an error, most of whose cost is a stack that nobody sees: of hundreds that
    // wait on each of hundreds of connections, seconds.
    const { stackTraceLimit } = Error
    socket.prependOnceListener('close', () => {
      Error.stackTraceLimit = 0
    })
    socket.once('close', () => {
      Error.stackTraceLimit = stackTraceLimit
      forget(socket)
    })
    return connection
  }
  const forget = (socket: Socket) => {
    const connection = connections.get(socket)
    if (connection === undefined) return
    connections.delete(socket)
    inAll -= connection.requests
    connection.waiting.length = 0
  }
  const hangUp = (socket: Socket) => {
    forget(socket)
    socket.destroy()
  }
  const handle = (connection: Connection, request: IncomingMessage, response: ServerResponse) => {
    response.on('close', () => {
      if (!connections.has(request.socket)) return
      connection.requests--
      inAll--
      if (connection.waiting.length === 0) return
      if (ready.push(connection) === 1) setImmediate(goOn)
    })
    for (const handler of handlers) handler.call(server, request, response)
  }
  /** One that waits, at every turn of the event loop: whoever reads a reply before asking again goes first. */
  const goOn = () => {
    const connection = ready.shift()!
    if (ready.length > 0) setImmediate(goOn)
    const next = connection.waiting.shift()
    if (next === undefined || next[0].socket.destroyed) return
    if (connection.waiting.length === 0) next[0].socket.resume()
    handle(connection, ...next)
  }
  server.removeAllListeners('request')
  server.on('request', (request: IncomingMessage, response: ServerResponse) => {
    const { socket } = request
    if (socket.destroyed) return
    const connection = connections.get(socket) ?? meet(socket)
    inAll++
    if (connection.requests++ === 0) handle(connection, request, response)
    else {
      connection.waiting.push([request, response])
      // What follows stays with who sent it, a hang-up too. Not at once: Node reads on when a request has come whole.
      if (takesRoom(request)) queueMicrotask(() => connection.waiting.length > 0 && socket.pause())
    }
    if (connection.requests > most.ofConnection) hangUp(socket)
    else if (inAll > most.inAll) hangUp([...connections].reduce((a, b) => (b[1].requests > a[1].requests ? b : a))[0])
  })
}
