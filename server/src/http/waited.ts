// Replies that wait in a queue for worker threads.

import type { FastifyReply, FastifyRequest } from 'fastify'
import { networkOf } from '../base/address.js'
import type { Waiting } from '../workers/requests.js'
import { sendBytes } from './binary.js'
import { whenOver } from './limits/connections.js'

export interface Waited {
  /** begins the time that the reply may take to leave; its bytes have been reserved */
  readonly made: () => void
  /** overwritten once they are answered, or cannot be */
  readonly queries: Uint8Array
  /** Lets the queries wait, in the turns of this network. Throws an `instant_full` Refusal. */
  submit(network: string): Waiting
  /** the reply with these answers */
  encode(answers: Uint8Array): Uint8Array | Promise<Uint8Array>
}

/** Sends the answers when they are there. A client that has gone is not waited for. */
export async function sendWaited(
  request: FastifyRequest,
  reply: FastifyReply,
  { made, queries, submit, encode }: Waited,
): Promise<FastifyReply> {
  try {
    const waiting = submit(networkOf(request.ip))
    whenOver(reply, waiting.cancel)
    const encoded = await encode(await waiting.answers)
    made()
    return sendBytes(reply, encoded)
  } finally {
    queries.fill(0)
  }
}
