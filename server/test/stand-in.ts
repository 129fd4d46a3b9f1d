// A server that stands before an operator's, keeping what is asked and changing what is replied.

import { once } from 'node:events'
import { createServer as createHttpServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { buffer } from 'node:stream/consumers'
import { onTestFinished } from 'vitest'

export type Headers = Record<string, string>

/** Its address. */
export async function standIn(
  url: string,
  {
    request: see = () => {},
    reply: change = (_path, body) => body,
  }: {
    request?: (method: string, headers: Headers) => void
    reply?: (path: string, body: Buffer) => Buffer
  },
): Promise<string> {
  const forward = async (request: IncomingMessage, response: ServerResponse) => {
    const method = request.method!
    const ofConnection = ['host', 'connection', 'content-length', 'transfer-encoding']
    const headers = Object.fromEntries(
      Object.entries(request.headers)
        .filter(([name]) => !ofConnection.includes(name))
        .map(([name, value]) => [name, String(value)]),
    )
    see(method, headers)
    const body = new Uint8Array(await buffer(request))
    const reply = await fetch(url + request.url!, { method, headers, ...(method === 'POST' && { body }) })
    response.writeHead(reply.status).end(change(request.url!, Buffer.from(await reply.arrayBuffer())))
  }
  const server = createHttpServer((request, response) => {
    forward(request, response).catch(() => response.destroy())
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(() => {
    server.close()
    server.closeAllConnections()
  })
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}
