// How many event streams a process has open, for all its databases together.

import type { Readable } from 'node:stream'
import type { FastifyRequest } from 'fastify'
import { Refusal } from '../../base/refusal.js'
import { networkOfRequest, Shares } from './shares.js'

const MOST_STREAMS = 10_000

/** For one network: an office, or one party that wants them all. */
const MOST_OF_NETWORK = 256

export class Streams {
  readonly #shares: Shares

  /** `connections`: how many there may be. Half of them are for lookups. */
  constructor(connections: number) {
    this.#shares = new Shares(Math.min(MOST_STREAMS, connections / 2), MOST_OF_NETWORK)
  }

  /** Counts `stream` until it closes. Throws a `rate_limited` Refusal if there are too many. */
  add(request: FastifyRequest, stream: Readable): void {
    const network = networkOfRequest(request)
    if (!this.#shares.fitsAll(1) || !this.#shares.fitsNetwork(network, 1)) {
      throw new Refusal('rate_limited', 'too many event streams are open; try again later')
    }
    this.#shares.add(network, 1)
    stream.once('close', () => this.#shares.add(network, -1))
  }
}
