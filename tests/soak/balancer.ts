// One address before several processes on one store. Lookups go to any process that runs, batches to the one that writes. It
// repeats nothing: a client of a process that dies has to ask again.

import { type IncomingMessage, request, type ServerResponse } from 'node:http'
import type { ServerProcess } from '../support/processes.js'
import { type Site, serve } from '../support/web.js'

export class Balancer {
  /** the processes that answer */
  readonly targets: Pick<ServerProcess, 'url'>[] = []
  /** the process that writes; undefined: it is away */
  writer: string | undefined
  readonly #choose: (count: number) => number
  #site!: Site

  private constructor(choose: (count: number) => number) {
    this.#choose = choose
  }

  /** `choose`: a number below `count`. */
  static async start(choose: (count: number) => number): Promise<Balancer> {
    const balancer = new Balancer(choose)
    balancer.#site = await serve((...exchange) => balancer.#pass(...exchange))
    return balancer
  }

  get url(): string {
    return this.#site.url
  }

  close(): Promise<void> {
    return this.#site.close()
  }

  #pass(incoming: IncomingMessage, outgoing: ServerResponse): void {
    const path = incoming.url ?? '/'
    const publishes = incoming.method === 'POST' && /^\/v1\/(epochs|checks|signatures)/.test(path)
    const target = publishes ? this.writer : this.targets[this.#choose(this.targets.length)]?.url
    if (target === undefined) {
      outgoing.destroy()
      return
    }
    const { method, headers } = incoming
    const passing = request(`${target}${path}`, { method, headers, agent: false }, reply => {
      outgoing.writeHead(reply.statusCode!, reply.headers)
      reply.pipe(outgoing)
      reply.once('error', () => outgoing.destroy())
    })
    passing.once('error', () => outgoing.destroy())
    outgoing.once('close', () => passing.destroy())
    incoming.pipe(passing)
  }
}
