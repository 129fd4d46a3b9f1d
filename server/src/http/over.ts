// When a reply is over: it has left, or its connection is gone. Each has its connection from when it is begun on (limits/connections.ts).

import type { FastifyReply } from 'fastify'

/** Calls once when the reply is over, soon if it is by now. */
export function whenOver({ raw }: FastifyReply, call: () => void): void {
  if (raw.destroyed) process.nextTick(call)
  else raw.on('close', call) // behind 'finish', too; it comes once, and `once` takes longer
}
