// What a server, or whoever stands before it, may do instead of answering.

import { gzipSync } from 'node:zlib'
import type { Lie, Reply } from '../support/proxy.js'

export type Change = (body: Uint8Array) => Uint8Array

/** A lie about replies to paths that begin like this, and honesty otherwise. */
export const about =
  (path: string, lie: Lie): Lie =>
  (genuine, exchange, connection) =>
    exchange.path.startsWith(path) ? lie(genuine, exchange, connection) : genuine

/** Another body, of the length that Content-Length says. */
export const changed =
  (change: Change): Lie =>
  genuine =>
    sized(genuine, change(genuine.body))

export const flippedAt =
  (at: number): Change =>
  body =>
    body.map((byte, i) => (i === at ? byte ^ 0x10 : byte))
export const flippedEverywhere: Change = body => body.map((byte, i) => (i < 40 ? byte : byte ^ 0xff))
export const truncated: Change = body => body.subarray(0, -1)
export const empty: Change = () => new Uint8Array()
export const oversized: Change = body => Uint8Array.of(...body, 0)
export const doubled: Change = body => Uint8Array.of(...body, ...body)

/** Too long, and without saying so beforehand. */
export const oversizedInChunks: Lie = ({ status, headers, body }) => {
  const { 'content-length': _, ...others } = headers
  return { status, headers: others, body: oversized(body) }
}

export const compressed: Lie = genuine => {
  const reply = sized(genuine, gzipSync(genuine.body))
  return { ...reply, headers: { ...reply.headers, 'content-encoding': 'gzip' } }
}

/** Not compressed, but said to be encoded somehow. */
export const saidToBeEncoded: Lie = genuine => ({
  ...genuine,
  headers: { ...genuine.headers, 'content-encoding': 'identity' },
})

export const refusal =
  (status: number, body: string, headers: Record<string, string> = {}): Lie =>
  () => ({ status, headers: { 'content-type': 'application/json', ...headers }, body: Buffer.from(body) })

/** As an honest server refuses. */
export const refused = (status: number, code: string, headers?: Record<string, string>): Lie =>
  refusal(status, JSON.stringify({ code, message: 'for people' }), headers)

export const redirected =
  (status: number, to: () => string): Lie =>
  (_, { path }) => ({ status, headers: { location: to() + path }, body: new Uint8Array() })

export const silent: Lie = () => undefined

/** The head and half of the body, and then silence. */
export const silentHalfWay: Lie = ({ status, headers, body }, _, connection) => {
  connection.writeHead(status, headers)
  connection.write(body.subarray(0, body.length / 2))
  return undefined
}

export const hungUp: Lie = (_genuine, _exchange, connection) => {
  connection.destroy()
  return undefined
}

/** The head and half of the body, and then the end of the connection. */
export const hungUpHalfWay: Lie = ({ status, headers, body }, _, connection) => {
  connection.writeHead(status, headers)
  connection.write(body.subarray(0, body.length / 2), () => connection.destroy())
  return undefined
}

/** Replies with what the first such request was answered with. */
export function replayed(): Lie {
  let first: Reply | undefined
  return genuine => {
    first ??= genuine
    return first
  }
}

function sized({ status, headers }: Reply, body: Uint8Array): Reply {
  return { status, headers: { ...headers, 'content-length': `${body.length}` }, body }
}
