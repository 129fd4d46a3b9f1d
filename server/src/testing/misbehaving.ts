// A proxy in front of one server. It misbehaves when told to, so that a developer or a test sees what an app shows then.

import { once } from 'node:events'
import { createServer, type IncomingHttpHeaders, type IncomingMessage, request, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { buffer } from 'node:stream/consumers'
import { pipeline } from 'node:stream/promises'
import { clearTimeout, setTimeout } from 'node:timers'

/** What a server can do wrong, in words that follow its name. */
export const MISBEHAVIOURS = {
  lie: 'flips a bit of each answer and download',
  fork: 'shows another database than the other servers',
  slow: 'replies after 3 s',
  silent: 'never replies',
  cut: 'breaks off half-way through each reply',
  behind: 'refuses changes, so only the other servers get the next epoch',
  down: 'closes each connection at once',
  limit: 'replies 429: too many requests',
  portal: 'replies with a page of HTML, as a captive portal does',
} as const

/**
 * What a server does, and what an app then sees of it. A database that the map keeps whole (mode `local`) needs no server: a lookup
 * fails in the other modes.
 *
 * - `lie`: TamperedError, which names it (in mode `instant` only if it is alone); in a download the other server replaces it
 * - `fork`: ServersDisagreeError from `open()`
 * - `slow`: everything works, late
 * - `silent`: TimeoutError after `timeoutMs`, unless it does something else before
 * - `cut` and `down`: NetworkError
 * - `behind`: nothing; the app stays at the newest epoch that both have
 * - `limit`: RateLimitedError
 * - `portal`: NetworkError
 */
export type Misbehaviour = keyof typeof MISBEHAVIOURS

const SLOW_MILLISECONDS = 3000
const QUERIES = /^\/v1\/(answer|instant|one-server)$/
const DOWNLOADS = /^\/v1\/blobs\//
const HEADER_BYTES = 40 // of an answer: with another header it would only be malformed

export class MisbehavingProxy {
  #how: Misbehaviour | undefined
  /** Called as soon as it does something else. (A test's DOM may replace AbortController, and Node takes its own alone.) */
  readonly #waiting = new Set<() => void>()
  readonly #target: string
  readonly #server = createServer((incoming, outgoing) => {
    this.#reply(incoming, outgoing).catch(() => outgoing.destroy())
  })

  private constructor(target: string) {
    this.#target = target
    this.#server.on('connection', socket => this.#how === 'down' && socket.resetAndDestroy())
  }

  /** `target`: the URL of a server without a path. */
  static async start(target: string, host = '127.0.0.1', port = 0): Promise<MisbehavingProxy> {
    const proxy = new MisbehavingProxy(target)
    await once(proxy.#server.listen(port, host), 'listening')
    return proxy
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port
  }

  get how(): Misbehaviour | undefined {
    return this.#how
  }

  /** From now on; undefined: not at all. What it has left unanswered is hung up on. */
  misbehave(how: Misbehaviour | undefined): void {
    this.#how = how
    for (const end of this.#waiting) end()
    if (how === 'down') this.#server.closeAllConnections()
  }

  async close(): Promise<void> {
    this.misbehave(undefined)
    this.#server.closeAllConnections()
    await once(this.#server.close(), 'close')
  }

  async #reply(incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> {
    const { method, url = '/' } = incoming
    const path = url.split('?', 1)[0]!
    const how = method === 'OPTIONS' && this.#how !== 'silent' ? undefined : this.#how // else a page would see no error but CORS
    if (how === 'limit') return refuse(outgoing, 429, 'rate_limited')
    if (how === 'behind' && method === 'POST' && path === '/v1/epochs') return refuse(outgoing, 503, 'not_ready')
    if (how === 'portal') {
      outgoing.writeHead(200, { 'content-type': 'text/html', ...ANY_ORIGIN }).end('<!doctype html><h1>Log in</h1>')
      return
    }
    if (how === 'silent') {
      await this.#change()
      outgoing.destroy()
      return
    }
    if (how === 'slow') await this.#change(SLOW_MILLISECONDS)

    const genuine = await this.#ask(incoming, outgoing)
    const isQuery = QUERIES.test(path)
    const isChanged =
      (how === 'lie' && (isQuery || DOWNLOADS.test(path))) ||
      (how === 'fork' && (path === '/v1/manifest' || path === '/v1/info')) ||
      (how === 'cut' && genuine.headers['content-length'] !== undefined) // a stream of events never ends by itself
    outgoing.writeHead(genuine.statusCode!, endToEnd(genuine.headers))
    if (!isChanged) return await pipeline(genuine, outgoing)
    const bytes = await buffer(genuine)
    if (how === 'cut') {
      outgoing.write(bytes.subarray(0, bytes.length >> 1), () => outgoing.destroy())
      return
    }
    if (path === '/v1/info') {
      outgoing.end(bytes.toString().replaceAll(/(?<="manifest":")./g, digit => (digit === '0' ? '1' : '0')))
      return
    }
    // The last bytes of a manifest are a partition's hash.
    if (genuine.statusCode! < 300) bytes[how === 'fork' ? bytes.length - 1 : isQuery ? HEADER_BYTES : 0]! ^= 0x40 // the lower bits of one server's seven are noise
    outgoing.end(bytes)
  }

  /** Resolves when it does something else, or after so many milliseconds. */
  #change(milliseconds?: number): Promise<void> {
    return new Promise(resolve => {
      const end = () => {
        clearTimeout(timer)
        this.#waiting.delete(end)
        resolve()
      }
      const timer = milliseconds === undefined ? undefined : setTimeout(end, milliseconds)
      this.#waiting.add(end)
    })
  }

  #ask(incoming: IncomingMessage, outgoing: ServerResponse): Promise<IncomingMessage> {
    const { method, url } = incoming
    return new Promise((resolve, reject) => {
      // A target may name another host: as a path it goes to this server alone.
      const options = { method, path: url, headers: endToEnd(incoming.headers), agent: false }
      const upstream = request(this.#target, options, resolve)
      upstream.on('error', reject)
      outgoing.on('close', () => upstream.destroy())
      incoming.pipe(upstream)
    })
  }
}

/** Headers that are not of one connection alone. */
function endToEnd(headers: IncomingHttpHeaders): IncomingHttpHeaders {
  const { connection: _, 'keep-alive': _1, 'transfer-encoding': _2, ...others } = headers
  return others
}

const ANY_ORIGIN = { 'access-control-allow-origin': '*', 'access-control-expose-headers': 'Retry-After' }

function refuse(outgoing: ServerResponse, status: number, code: string): void {
  const headers = { 'content-type': 'application/json', 'retry-after': '1', ...ANY_ORIGIN }
  outgoing.writeHead(status, headers).end(JSON.stringify({ code, message: 'misbehaves on purpose, as asked' }))
}
