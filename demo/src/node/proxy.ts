// A proxy in front of one server. It keeps every query, for tests, and if told to lie it changes a bit of every answer. Everything
// else it forwards unchanged.

import { createServer, type IncomingMessage, request, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { buffer } from 'node:stream/consumers'
import { pipeline } from 'node:stream/promises'

/** A query, as the server gets it. */
export interface Sighting {
  /** the path the database is mounted at, e.g. `phishing` */
  readonly database: string
  readonly body: Buffer
}

export interface Watcher {
  readonly url: string
  /** the latest queries, oldest first */
  readonly seen: readonly Sighting[]
  /** a bit of every answer is changed from now on */
  lies: boolean
  /** From now on what stands in a reply to a GET, and in its path, is replaced by bytes of the same length. */
  replace(pairs: readonly (readonly [from: Buffer, to: Buffer])[]): void
  close(): Promise<void>
}

const KEPT_SIGHTINGS = 64
const HEADER_BYTES = 40 // of an answer; a changed header would only make the answer malformed
const QUERY_PATH = /^\/(?<database>[^/]*)\/v1\/(instant|one-server|evaluate)$/

/** Starts a proxy before `target`, the URL of a server, on a free port of this machine. `others`: where some paths are instead. */
export async function startProxy(
  target: string,
  others: (path: string) => URL | undefined = () => undefined,
): Promise<Watcher> {
  const seen: Sighting[] = []
  const replaced: (readonly [from: Buffer, to: Buffer])[] = []

  const server = createServer((incoming, outgoing) => {
    forward(incoming, outgoing).catch(() => {
      if (outgoing.headersSent) outgoing.destroy()
      else outgoing.writeHead(502).end()
    })
  })

  async function forward(incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> {
    const path = incoming.url ?? '/'
    const database = incoming.method === 'POST' ? QUERY_PATH.exec(path)?.groups?.['database'] : undefined
    const body = await buffer(incoming)
    if (database !== undefined && seen.push({ database, body }) > KEPT_SIGHTINGS) seen.shift()

    const answer = await ask(incoming, replaced.reduce(withFormer, path), body, outgoing)
    const headers = withoutHopByHop(answer.headers)
    outgoing.writeHead(answer.statusCode ?? 502, headers)
    if (replaced.length > 0 && incoming.method === 'GET' && !path.endsWith('/v1/events')) {
      const bytes = await buffer(answer)
      for (const [from, to] of replaced) replaceIn(bytes, from, to)
      outgoing.end(bytes)
      return
    }
    if (database === undefined || answer.statusCode !== 200 || !proxy.lies) {
      await pipeline(answer, outgoing) // as a stream: /v1/events never ends by itself
      return
    }
    const bytes = await buffer(answer)
    bytes[placeIn(bytes)]! ^= 0x80
    outgoing.end(bytes)
  }

  function ask(incoming: IncomingMessage, path: string, body: Uint8Array, outgoing: ServerResponse) {
    return new Promise<IncomingMessage>((resolve, reject) => {
      const { host: _, ...headers } = withoutHopByHop(incoming.headers)
      const upstream = request(others(path) ?? new URL(path, target), { method: incoming.method, headers }, resolve)
      upstream.on('error', reject)
      outgoing.on('close', () => upstream.destroy())
      upstream.end(body)
    })
  }

  const proxy: Watcher = {
    ...{ url: await listen(server, 0), seen, lies: false },
    replace: pairs => void replaced.push(...pairs),
    close: () => closeServer(server),
  }
  return proxy
}

function replaceIn(bytes: Buffer, from: Buffer, to: Buffer): void {
  for (let at = bytes.indexOf(from); at !== -1; at = bytes.indexOf(from, at + from.length)) to.copy(bytes, at)
}

/** A path that names what the server calls otherwise. */
function withFormer(path: string, [from, to]: readonly [from: Buffer, to: Buffer]): string {
  return path.replace(to.toString('latin1'), from.toString('latin1'))
}

/** Of a lie. Where one server answers alone, its numbers have 7 bits, of which the lower say nothing: the top bit of seven bytes is an eighth one's. */
function placeIn({ length }: Uint8Array): number {
  return HEADER_BYTES + 6 + 7 * Math.floor(Math.random() * Math.floor((length - HEADER_BYTES) / 7))
}

const HOP_BY_HOP = new Set(['connection', 'keep-alive', 'transfer-encoding', 'upgrade', 'te', 'trailer'])

function withoutHopByHop(headers: IncomingMessage['headers']) {
  return Object.fromEntries(Object.entries(headers).filter(([name]) => !HOP_BY_HOP.has(name)))
}

/** Listens on this machine's loopback address; resolves to the URL without a slash at its end. */
export async function listen(server: Server, port: number): Promise<string> {
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen(port, '127.0.0.1', () => {
      server.off('error', reject)
      resolve()
    })
  })
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

/** Closes a server and every connection it still holds. */
export async function closeServer(server: Server): Promise<void> {
  await new Promise<void>(resolve => {
    server.close(() => resolve())
    server.closeAllConnections()
  })
}
