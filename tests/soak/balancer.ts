// One address before several processes on one store. Lookups go to any process that runs, batches to the one that writes. What a process
// has not got, because none listens there, goes to another. It repeats nothing else: a client of a process that dies has to ask again.

import { type IncomingMessage, request, type ServerResponse } from 'node:http'
import { buffer } from 'node:stream/consumers'
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
    balancer.#site = await serve((incoming, outgoing) => {
      balancer.#pass(incoming, outgoing).catch(() => outgoing.destroy()) // the client has hung up
    })
    return balancer
  }

  get url(): string {
    return this.#site.url
  }

  close(): Promise<void> {
    return this.#site.close()
  }

  async #pass(incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> {
    const [path, body] = [incoming.url ?? '/', await buffer(incoming)]
    const publishes = incoming.method === 'POST' && /^\/v1\/(epochs|checks|signatures)/.test(path)
    const { targets, writer } = this
    const turn = publishes || targets.length === 0 ? 0 : this.#choose(targets.length)
    const all = [...targets.slice(turn), ...targets.slice(0, turn)].map(({ url }) => url)
    const send = ([target, ...others]: readonly string[]) => {
      if (target === undefined) return void outgoing.destroy()
      const { method, headers } = incoming
      const passing = request(`${target}${path}`, { method, headers, agent: false }, reply => {
        outgoing.writeHead(reply.statusCode!, reply.headers)
        reply.pipe(outgoing)
        reply.once('error', () => outgoing.destroy())
      })
      passing.once('error', ({ code }: NodeJS.ErrnoException) => {
        if (code === 'ECONNREFUSED') send(others)
        else outgoing.destroy()
      })
      outgoing.once('close', () => passing.destroy())
      passing.end(body)
    }
    send(publishes ? [writer].filter(url => url !== undefined) : all)
  }
}
