// Replies of a server that lies, for a LyingProxy.

import { gzipSync } from 'node:zlib'
import type { Lie, Reply } from './proxy.js'

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

export const compressed: Lie = genuine => {
  const reply = sized(genuine, gzipSync(genuine.body))
  return { ...reply, headers: { ...reply.headers, 'content-encoding': 'gzip' } }
}

export const silent: Lie = () => undefined

function sized({ status, headers }: Reply, body: Uint8Array): Reply {
  return { status, headers: { ...headers, 'content-length': `${body.length}` }, body }
}
