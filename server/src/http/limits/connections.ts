// How many connections a server takes, with one request at a time on each. A process that has opened all the files it may can neither
// take a connection nor read its store.

import { readFileSync } from 'node:fs'
import type { Server, ServerResponse } from 'node:http'
import { createServer, type IncomingMessage, type RequestListener, STATUS_CODES } from 'node:http'
import type { Socket } from 'node:net'
import { getHeapStatistics } from 'node:v8'
import { networkOf } from '../../base/address.js'
import { Refusal } from '../../base/refusal.js'
import { Ranked, Shares } from './shares.js'
import { Turns } from './turns.js'

const SECOND = 1000
const KIB = 1024

/** For files, a database, threads and the port of figures; but never more than half of what there is. */
const ROOM = 256

/** What a connection takes of the heap, with a request under way: 31 kB, measured. All take half of the heap at most. */
const HEAP_OF_CONNECTION = 32 * KIB

/** Taken beyond the bound until it is known whose connections they are: as many as come in one iteration of the event loop. */
const MOST_AT_ONCE = 128

/** The log gets a line when connections begin to be refused, and then at most one in this time. */
const TOLD_EVERY_MILLISECONDS = 60 * SECOND

/** Of a request; browsers behind proxies send some thirty. */
const HEADERS = 100

/** How long a connection stays open for its client to read why it ends. */
const LINGER_MILLISECONDS = SECOND

/**
 * A server with bounds on what is read before a request is anybody's. Fastify makes another one for each further address of
 * `localhost` if this is not given to it.
 */
export function boundedServer(handler: RequestListener): Server {
  const options = {
    maxHeaderSize: 4 * KIB, // by itself 16
    requireHostHeader: false, // Node would answer by itself, behind what the connection has under way
    requestTimeout: 30 * SECOND, // until a request has arrived whole
    headersTimeout: 30 * SECOND, // by itself a minute, and of the two Node takes the longer one for a body
    // By itself 30 s. All that are late end in one iteration of the loop. In a second twenty thousand may become so: 600 ms of work.
    connectionsCheckingInterval: 50,
    keepAliveTimeout: 75 * SECOND, // longer than common proxies keep theirs, so that they close first
  }
  return createServer(options, handler).setTimeout(60 * SECOND) // without any traffic
}

export interface ConnectionsOptions {
  /** default: any number */
  readonly most?: number | undefined
  /** default: the monotonic clock, milliseconds */
  readonly now?: (() => number) | undefined
}

/** How many connections this process may have, by its heap, and by its open files where Linux says how many it may have. */
export function mostConnections(limits = ownLimits(), heap = getHeapStatistics().heap_size_limit): number {
  const ofHeap = Math.floor(heap / 2 / HEAP_OF_CONNECTION)
  const [, soft] = /^Max open files\s+(\d+)/m.exec(limits) ?? []
  if (soft === undefined) return ofHeap
  return Math.min(ofHeap, Math.max(Number(soft) - ROOM, Math.floor(Number(soft) / 2)))
}

function ownLimits(): string {
  try {
    return readFileSync('/proc/self/limits', 'latin1')
  } catch {
    return '' // not Linux
  }
}

const known = new WeakMap<Server, Connections>()

/** The connections of a network: without and with a request under way, those first that have been so for longest. */
interface OfNetwork {
  readonly network: string
  readonly idle: Set<Socket>
  readonly busy: Set<Socket>
}

/** The connections of a server: bounded, and counted whatever answers them. */
export class Connections {
  /** connections that were refused, or closed for others */
  refused = 0
  /** requests that came, whatever they were answered, or whether they were */
  requests = 0
  /** of these, those on a connection that had one under way: it was hung up on */
  pipelined = 0
  /** what came and was no request */
  broken = 0
  /** called now and then with the number of these */
  tell: (refused: number) => void = () => {}
  readonly most: number
  readonly #shares: Shares
  readonly #open = new Map<Socket, OfNetwork>()
  readonly #networks = new Map<string, OfNetwork>()
  /** networks that have idle connections, and that have busy ones, by how many they have in all */
  readonly #with = { idle: new Ranked<OfNetwork>(), busy: new Ranked<OfNetwork>() }
  readonly #now: () => number
  #toldAt = Number.NEGATIVE_INFINITY
  /** the reply of the request under way */
  readonly #answering = new WeakMap<Socket, ServerResponse>()
  #isClosing = false
  /** Public reads take turns of their own. The fence, lookups and the publisher wait for one of a flood of reads, or two. */
  readonly #turns = { reads: new Turns(1), others: new Turns(32) }

  /** Those of `server`. The first call sets the options. */
  static of(server: Server, options: ConnectionsOptions = {}): Connections {
    return known.get(server) ?? new Connections(server, options)
  }

  private constructor(
    server: Server,
    { most = Number.POSITIVE_INFINITY, now = () => performance.now() }: ConnectionsOptions,
  ) {
    known.set(server, this)
    this.most = most
    this.#shares = new Shares(most)
    this.#now = now
    if (most < Number.POSITIVE_INFINITY) server.maxConnections = most + MOST_AT_ONCE
    server.on('drop', () => this.#refuse())
    server.on('connection', (socket: Socket) => {
      const network = networkOf(socket.remoteAddress ?? '')
      if (this.#isClosing || !this.#hasPlace(network)) {
        socket.destroy()
        return
      }
      this.#enter(socket, network)
      socket.once('close', () => this.#leave(socket))
      this.#stopParsing(socket)
    })
    const handlers = server.listeners('request')
    server.removeAllListeners('request')
    server.on('request', (request: IncomingMessage, response: ServerResponse) => {
      if (!this.#begins(request, response)) return
      const { socket } = request
      const turns = request.method === 'GET' || request.method === 'HEAD' ? this.#turns.reads : this.#turns.others
      this.#inTurn(turns, socket, () => {
        if (socket.destroyed) return
        for (const handler of handlers) handler.call(server, request, response)
      })
    })
    // Node would answer what it does not know to expect by itself.
    server.on('checkExpectation', (request, response) => server.emit('request', request, response))
  }

  /** Resolves when a public read on this connection may go on, as another would begin. */
  turn(socket: Socket): Promise<void> {
    return new Promise(resolve => this.#inTurn(this.#turns.reads, socket, resolve))
  }

  /** Calls in its turn, or once the connection is gone: what waits and holds memory is of connections that are open. */
  #inTurn(turns: Turns, socket: Socket, call: () => void): void {
    const network = this.#networkOf(socket)
    const begin = () => {
      socket.off('close', gone)
      call()
    }
    const gone = () => {
      turns.leave(network, begin)
      call()
    }
    if (socket.destroyed) {
      call()
      return
    }
    socket.on('close', gone)
    turns.take(network, begin)
  }

  /** From now on a connection ends when nothing is under way on it. Node leaves open those that have brought nothing. */
  close(): void {
    this.#isClosing = true
    for (const socket of this.#open.keys()) if (!this.#answering.has(socket)) socket.destroy()
  }

  /**
   * Replies to what is not HTTP, or did not arrive in time, unless a reply is on its way, or the client has ended: thousands may at once. It
   * has no log line: the error holds the bytes.
   */
  answerBroken({ code }: Error & { code?: string }, socket: Socket): void {
    this.broken++
    const answering = this.#answering.get(socket)
    if (!socket.writable || code === 'HPE_INVALID_EOF_STATE' || answering?.headersSent || answering?.req.complete) {
      socket.destroy()
      return
    }
    const { statusCode, reply } = refusalOfBroken(code)
    const body = JSON.stringify(reply)
    socket.end(
      `HTTP/1.1 ${statusCode} ${STATUS_CODES[statusCode]}\r\nContent-Type: application/json; charset=utf-8\r\n` +
        `Content-Length: ${body.length}\r\nConnection: close\r\n\r\n${body}`,
    )
    // Time for the client to read that.
    const timer = setTimeout(() => socket.destroy(), LINGER_MILLISECONDS).unref()
    socket.once('close', () => clearTimeout(timer))
  }

  /** Whether there is a place for one more of `network`. If not, one is closed for it, if there is one that has to give way. */
  #hasPlace(network: string): boolean {
    if (this.#shares.fitsAll(1)) return true
    this.#refuse()
    const socket = this.#leastNeeded(network)
    if (socket === undefined) return false
    socket.destroy()
    this.#leave(socket)
    return true
  }

  /**
   * 1. An idle one of the heaviest network that will still have as many as `network`.
   * 2. An idle one of `network` itself.
   * 3. One with a request under way, of the heaviest network that will still have as many: it may be a proxy, or one party.
   * 4. An idle one of a network that has more: what does nothing gives way to what comes.
   */
  #leastNeeded(network: string): Socket | undefined {
    const shares = this.#shares
    const ofHeaviest = (kind: 'idle' | 'busy', more = 1) => {
      const { heaviest } = this.#with[kind]
      const [first] =
        heaviest !== undefined && shares.of(heaviest.network) > shares.of(network) + more ? heaviest[kind] : []
      return first
    }
    const [own] = this.#networks.get(network)?.idle ?? []
    return ofHeaviest('idle') ?? own ?? ofHeaviest('busy') ?? ofHeaviest('idle', 0)
  }

  #networkOf(socket: Socket): string {
    return this.#open.get(socket)?.network ?? ''
  }

  #refuse(): void {
    this.refused++
    const now = this.#now()
    if (now - this.#toldAt < TOLD_EVERY_MILLISECONDS) return
    this.#toldAt = now
    this.tell(this.refused)
  }

  #enter(socket: Socket, network: string): void {
    const ofNetwork = this.#networks.get(network) ?? { network, idle: new Set(), busy: new Set() }
    this.#networks.set(network, ofNetwork)
    ofNetwork.idle.add(socket)
    this.#open.set(socket, ofNetwork)
    this.#shares.add(network, 1)
    this.#rank(ofNetwork)
  }

  #leave(socket: Socket): void {
    const ofNetwork = this.#open.get(socket)
    if (ofNetwork === undefined) return
    const { network, idle, busy } = ofNetwork
    this.#open.delete(socket)
    idle.delete(socket)
    busy.delete(socket)
    this.#shares.add(network, -1)
    this.#rank(ofNetwork)
    if (this.#shares.of(network) === 0) this.#networks.delete(network)
  }

  #move(socket: Socket, from: 'idle' | 'busy', to: 'idle' | 'busy'): void {
    const ofNetwork = this.#open.get(socket)
    if (!ofNetwork?.[from].delete(socket)) return
    ofNetwork[to].add(socket)
    this.#rank(ofNetwork)
  }

  #rank(ofNetwork: OfNetwork): void {
    const held = this.#shares.of(ofNetwork.network)
    for (const kind of ['idle', 'busy'] as const) this.#with[kind].put(ofNetwork, ofNetwork[kind].size > 0 ? held : 0)
  }

  /**
   * Node would parse a thousand pipelined requests, or ten thousand chunks of a body, from one read, before anybody can hang up. 2 tells
   * its parser, as Node does for an upgrade, that no HTTP follows. Without such a parser `#begins` hangs up later.
   */
  #stopParsing(socket: Socket): void {
    const { parser } = socket as { parser?: { onIncoming?: ((...args: unknown[]) => number) | null } }
    if (!parser?.onIncoming) return
    const next = parser.onIncoming
    parser.onIncoming = (...args) => {
      const request = args[0] as IncomingMessage
      if (this.#answering.has(socket)) {
        this.requests++
        this.pipelined++
        socket.destroy()
        return 2
      }
      if (request.rawHeaders.length > 2 * HEADERS) {
        this.answerBroken(Object.assign(new Error(), { code: 'HPE_HEADER_OVERFLOW' }), socket)
        return 2
      }
      const skip = next(...args)
      return isInChunks(request) ? 2 : skip
    }
  }

  /** Whether it is the only request of its connection. If a client reads no replies, queued ones would fill the memory. */
  #begins(request: IncomingMessage, response: ServerResponse): boolean {
    const { socket } = request
    this.requests++
    if (socket.destroyed) return false
    if (this.#answering.has(socket)) {
      this.pipelined++
      socket.destroy()
      return false
    }
    if (isInChunks(request)) response.shouldKeepAlive = false
    this.#answering.set(socket, response)
    this.#move(socket, 'idle', 'busy')
    response.once('close', () => {
      this.#answering.delete(socket)
      this.#move(socket, 'busy', 'idle')
      if (this.#isClosing) socket.destroySoon()
    })
    return true
  }
}

/** Whether the body of a request has no length. Such bodies are refused (bodies.ts). */
export function isInChunks({ headers }: Pick<IncomingMessage, 'headers'>): boolean {
  return headers['transfer-encoding'] !== undefined
}

function refusalOfBroken(code: string | undefined): Refusal {
  switch (code) {
    case 'ERR_HTTP_REQUEST_TIMEOUT':
      return new Refusal('bad_request', 'the request came too slowly', 408)
    case 'HPE_HEADER_OVERFLOW':
      return new Refusal('bad_request', 'expected at most 100 headers and 4 KiB of them, got more', 431)
    default:
      return new Refusal('bad_request', 'the request is not well-formed HTTP')
  }
}

/** Calls once when a reply is over: it has left, or its connection is gone; soon if it is by now. */
export function whenOver({ raw }: { readonly raw: ServerResponse }, call: () => void): void {
  if (raw.destroyed) process.nextTick(call)
  else raw.on('close', call) // behind 'finish', too; it comes once, and `once` takes longer
}
