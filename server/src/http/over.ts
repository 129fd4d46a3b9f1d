// When a reply is over. One that waits behind another of its connection (pipelining) has no socket yet, and nobody tells it
// that the connection has gone: so the connection is asked as well.

import type { Socket } from 'node:net'
import type { FastifyReply, FastifyRequest } from 'fastify'

const waiting = new WeakMap<Socket, Set<() => void>>()

/** Calls once when the reply has left or its connection is gone. */
export function whenOver(request: FastifyRequest, reply: FastifyReply, call: () => void): void {
  const { socket } = request.raw
  const calls = waiting.get(socket) ?? waitOn(socket)
  const over = () => {
    if (calls.delete(over)) call()
  }
  calls.add(over)
  // One listener where `stream.finished` has ten: they are added for every reply. 'finish' has a 'close' behind it.
  reply.raw.on('close', over)
  if (socket.destroyed) process.nextTick(over)
}

/** One listener, however many replies. */
function waitOn(socket: Socket): Set<() => void> {
  const calls = new Set<() => void>()
  waiting.set(socket, calls)
  socket.once('close', () => {
    for (const call of calls) call()
  })
  return calls
}
