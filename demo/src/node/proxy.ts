// A proxy in front of one server. It records what every query shows, for the page to draw, and if told to lie it changes every
// answer. Everything else it forwards unchanged.

import { createServer, type IncomingMessage, request, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { buffer } from 'node:stream/consumers'
import { pipeline } from 'node:stream/promises'
import { FENCE_REPLY_BYTES, INSTANT_PATH } from '@keyhush/protocol'
import type { Lie, Sighting } from '../page/backstage.js'
import { shownBy } from '../page/wire/sighting.js'

export interface Watcher {
  readonly url: string
  /** the latest sightings, oldest first */
  readonly seen: readonly Sighting[]
  /** how every answer is changed from now on; undefined: not at all */
  lie: Lie | undefined
  close(): Promise<void>
}

const KEPT_SIGHTINGS = 64
const HEADER_BYTES = 40 // of an answer; a changed header would only make the answer malformed
const QUERY_PATH = /^\/(?<database>[^/]*)(?<route>\/v1\/(answer|instant))$/

/** Starts a proxy before `target`, the URL of a server, on a free port of this machine. */
export async function startProxy(target: string): Promise<Watcher> {
  const seen: Sighting[] = []
  let sightings = 0
  /** the last honest answer, by path and length */
  const earlier = new Map<string, Buffer>()

  const server = createServer((incoming, outgoing) => {
    forward(incoming, outgoing).catch(() => {
      if (outgoing.headersSent) outgoing.destroy()
      else outgoing.writeHead(502).end()
    })
  })

  async function forward(incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> {
    const path = incoming.url ?? '/'
    const { database, route } = (incoming.method === 'POST' && QUERY_PATH.exec(path)?.groups) || {}
    const body = await buffer(incoming)
    const claimed = database !== undefined && watch(database, body, route === INSTANT_PATH)

    const answer = await ask(incoming, path, body, outgoing)
    const headers = withoutHopByHop(answer.headers)
    if (database === undefined || answer.statusCode !== 200) {
      outgoing.writeHead(answer.statusCode ?? 502, headers)
      await pipeline(answer, outgoing) // as a stream: /v1/events never ends by itself
      return
    }
    const bytes = await buffer(answer)
    // Changing the fence's verdict behind the answer would only make it malformed too.
    const said = bytes.subarray(HEADER_BYTES, bytes.length - (claimed ? FENCE_REPLY_BYTES : 0))
    const { lie } = proxy
    if (lie === 'nothing') {
      outgoing.destroy()
      return
    }
    outgoing.writeHead(200, headers)
    if (lie === 'half') {
      outgoing.write(bytes.subarray(0, HEADER_BYTES + said.length / 2), () => outgoing.destroy())
      return
    }
    const question = `${path} ${said.length}`
    const before = earlier.get(question)
    if (lie === undefined) earlier.set(question, Buffer.from(said))
    else if (lie === 'zeros') said.fill(0)
    else if (lie === 'again' && before !== undefined) said.set(before)
    else said[Math.floor(Math.random() * said.length)]! ^= 0x01
    outgoing.end(bytes)
  }

  /** Records what a query shows. Returns whether it has a claim for the fence. */
  function watch(database: string, body: Uint8Array, instant: boolean): boolean {
    try {
      const { claimed, ...shown } = shownBy(body, instant)
      sightings += 1
      seen.push({ id: sightings, database, at: Date.now(), bytes: body.length, claimed, ...shown })
      if (seen.length > KEPT_SIGHTINGS) seen.shift()
      return claimed
    } catch {
      return false // not a query: the server refuses it
    }
  }

  function ask(incoming: IncomingMessage, path: string, body: Uint8Array, outgoing: ServerResponse) {
    return new Promise<IncomingMessage>((resolve, reject) => {
      const { host: _, ...headers } = withoutHopByHop(incoming.headers)
      const upstream = request(new URL(path, target), { method: incoming.method, headers }, resolve)
      upstream.on('error', reject)
      outgoing.on('close', () => upstream.destroy())
      upstream.end(body)
    })
  }

  const proxy: Watcher = { url: await listen(server, 0), seen, lie: undefined, close: () => closeServer(server) }
  return proxy
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
