// A proxy before a real server. It records all that the server sees, and can lie. It serves one test at a time and never waits
// by the clock: requests that it keeps waiting are in `held`.

import { type IncomingMessage, request, type ServerResponse } from 'node:http'
import { buffer } from 'node:stream/consumers'
import { pipeline } from 'node:stream/promises'
import { type Site, serve } from './web.js'

/** One request and the reply to it, as they passed. */
export interface Exchange {
  readonly method: string
  readonly path: string
  /** in the order and spelling in which they came, without Host, which names this proxy's port */
  readonly headers: readonly (readonly [string, string])[]
  readonly body: Uint8Array
  /** the rig's, in the order in which requests left; on two connections they may come in another */
  readonly number: number
  /** undefined while there is none, or if a lie took over the connection */
  reply?: Reply
}

export interface Reply {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body: Uint8Array
}

/** Replaces a genuine reply by another. `undefined`: the lie has taken the connection over. */
export type Lie = (genuine: Reply, exchange: Exchange, connection: ServerResponse) => Reply | undefined

/** A request's number, which the rig puts on and the proxy takes off again: neither recorder nor server sees it. */
export const NUMBER_HEADER = 'x-rig-number'

export class LyingProxy {
  /** oldest first; `seen.length = 0` forgets */
  readonly seen: Exchange[] = []
  /** called for every request as long as it is set */
  lie: Lie | undefined
  /** numbers of the requests that a lie has left without an end */
  readonly held = new Set<string>()
  /** the server's address, which may change */
  target: string
  /** streams of events that are open */
  streams = 0
  #site!: Site

  private constructor(target: string) {
    this.target = target
  }

  static async start(target: string): Promise<LyingProxy> {
    const proxy = new LyingProxy(target)
    proxy.#site = await serve((incoming, outgoing) => {
      proxy.#pass(incoming, outgoing).catch(() => outgoing.destroy())
    })
    return proxy
  }

  get url(): string {
    return this.#site.url
  }

  close(): Promise<void> {
    return this.#site.close()
  }

  async #pass(incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> {
    const { method = '', url: path = '', rawHeaders } = incoming
    const headers = pairs(rawHeaders).filter(([name]) => !['host', NUMBER_HEADER].includes(name.toLowerCase()))
    const number = Number(incoming.headers[NUMBER_HEADER])
    const exchange: Exchange = { method, path, headers, body: new Uint8Array(await buffer(incoming)), number }
    this.seen.push(exchange)
    if (path.endsWith('/v1/events')) return await this.#stream(exchange, outgoing)
    const genuine = await this.#ask(exchange)
    const reply = this.lie ? this.lie(genuine, exchange, outgoing) : genuine
    if (reply === undefined) {
      if (!outgoing.writableEnded && !outgoing.destroyed) this.held.add(String(incoming.headers[NUMBER_HEADER]))
      return
    }
    exchange.reply = reply
    outgoing.writeHead(reply.status, reply.headers)
    outgoing.end(reply.body)
  }

  async #ask(exchange: Exchange): Promise<Reply> {
    const answer = await this.#forwarded(exchange)
    return { status: answer.statusCode!, headers: headersOf(answer), body: new Uint8Array(await buffer(answer)) }
  }

  /** Passes a stream on until either side ends it. Streams are never changed. */
  async #stream(exchange: Exchange, outgoing: ServerResponse): Promise<void> {
    const answer = await this.#forwarded(exchange)
    outgoing.writeHead(answer.statusCode!, headersOf(answer))
    this.streams++
    await pipeline(answer, outgoing).catch(() => {})
    this.streams--
  }

  #forwarded({ method, path, headers, body }: Exchange): Promise<IncomingMessage> {
    return new Promise((resolve, reject) => {
      const own = Object.fromEntries(headers.filter(([name]) => name.toLowerCase() !== 'connection'))
      const upstream = request(new URL(path, this.target), { method, headers: own }, resolve)
      upstream.on('error', reject)
      upstream.end(body)
    })
  }
}

function headersOf({ rawHeaders }: IncomingMessage): Record<string, string> {
  const kept = pairs(rawHeaders).filter(([name]) => !['connection', 'keep-alive'].includes(name.toLowerCase()))
  return Object.fromEntries(kept.map(([name, value]) => [name.toLowerCase(), value]))
}

function pairs(rawHeaders: readonly string[]): [string, string][] {
  return Array.from({ length: rawHeaders.length / 2 }, (_, i) => [rawHeaders[2 * i]!, rawHeaders[2 * i + 1]!])
}
