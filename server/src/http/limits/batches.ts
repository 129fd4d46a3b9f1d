// How many batches of changes a process reads at a time, for all its databases together.

import type { IncomingMessage } from 'node:http'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { Refusal } from '../../base/refusal.js'
import { whenOver } from './connections.js'

/** The limit is needed because anybody who has seen a signed header can send it again. */
const MOST_AT_ONCE = 4

export class Batches {
  // The other operator keeps every signed header that it was sent, and can replay it: those are counted apart from the next batch.
  /** requests, and the bytes of each connection when its header had arrived */
  readonly #underWay = { next: new Map<IncomingMessage, number>(), others: new Map<IncomingMessage, number>() }

  /** Counts a batch until its reply is over. Throws a `rate_limited` Refusal if there are too many that have arrived. */
  add({ raw }: FastifyRequest, reply: FastifyReply, isNext: boolean): void {
    const uploads = this.#underWay[isNext ? 'next' : 'others']
    if (uploads.size >= MOST_AT_ONCE) makePlace(uploads)
    uploads.set(raw, raw.socket.bytesRead)
    whenOver(reply, () => uploads.delete(raw))
  }
}

/** Hangs up on the batch of which least has arrived, probably a copied header without a body. */
function makePlace(uploads: Map<IncomingMessage, number>): void {
  const coming = [...uploads].filter(([{ complete }]) => !complete)
  if (coming.length === 0) throw new Refusal('rate_limited', 'too many batches are being verified; try again later')
  const brought = ([{ socket }, before]: [IncomingMessage, number]) => socket.bytesRead - before
  const [least] = coming.reduce((a, b) => (brought(b) < brought(a) ? b : a))
  uploads.delete(least)
  least.socket.destroy()
}
