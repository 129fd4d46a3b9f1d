// GET /v1/blobs/<hash>: a partition, the key directory or an update list. It never changes, so the hash is its ETag and caches may keep
// it for ever. A request for one range gets it (RFC 9110 §14); a request for several gets the whole. A server may withhold all that has
// records or changes of them, but for patches.

import { Readable } from 'node:stream'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { Refusal } from '../../base/refusal.js'
import { type AnyEpoch, type Blob, type Epochs, SLICE_BYTES } from '../../database/epochs.js'
import { Connections } from '../limits/connections.js'
import type { Unsent } from '../limits/unsent.js'
import type { Routes } from './types.js'

/** One spelling: the ETag repeats it. */
const HASH = /^[0-9a-f]{64}$/

const FORGOTTEN = 'no blob here has this hash; it may be of an old epoch'
const WITHHELD =
  'expected a hash of what this server gives, got another: it withholds downloads (--no-blobs); ask a server that offers them'

/** `withholds`: it gives no downloads. */
export function blobRoute(app: Routes, epochs: Epochs<AnyEpoch>, unsent: Unsent, withholds: boolean): void {
  const connections = Connections.of(app.server)
  app.get<{ Params: { hash: string } }>('/v1/blobs/:hash', async (request, reply) => {
    const { hash } = request.params
    const blob = HASH.test(hash) ? await epochs.findBlob(hash, withholds) : undefined
    if (blob === undefined) throw new Refusal('not_found', withholds ? WITHHELD : FORGOTTEN)
    const reserve = (bytes: number, length: number) => unsent.reserve(request, reply, bytes, { length })
    const turn = () => connections.turn(request.raw.socket)
    return sendBlob(request, reply, blob, `"${hash}"`, reserve, turn)
  })
}

async function sendBlob(
  request: FastifyRequest,
  reply: FastifyReply,
  blob: Blob,
  etag: string,
  reserve: (bytes: number, length: number) => void,
  turn: () => Promise<void>,
): Promise<FastifyReply> {
  reply
    .header('etag', etag)
    .header('cache-control', 'public, max-age=31536000, immutable')
    .header('accept-ranges', 'bytes')
  if (matches(request.headers['if-none-match'], etag)) return reply.code(304).send()

  const { range, 'if-range': ifRange } = request.headers
  // A range is meant for the bytes the client has a part of; if those are others, it gets the whole. It is for GET alone
  // (RFC 9110 §14.2).
  const isRanged = range !== undefined && request.method === 'GET' && (ifRange === undefined || ifRange === etag)
  const wanted = isRanged ? parseRange(range, blob.bytes) : undefined
  if (wanted === 'unsatisfiable') {
    reply.header('content-range', `bytes */${blob.bytes}`)
    throw new Refusal('bad_request', 'expected a range within the blob, got one beyond its end', 416)
  }
  const { first, last } = wanted ?? { first: 0, last: blob.bytes - 1 }
  if (wanted !== undefined) reply.code(206).header('content-range', `bytes ${first}-${last}/${blob.bytes}`)
  reply.header('content-length', last - first + 1).type('application/octet-stream')
  // For no payload at all, Fastify's HEAD would say that the length is 0.
  if (request.method === 'HEAD') return reply.send(Readable.from([]))
  // It is read in slices as the connection takes them: one that is on its way, and the next.
  reserve(Math.min(last - first + 1, 2 * SLICE_BYTES), last - first + 1)
  return reply.send(await blob.open(first, last, turn))
}

/** Whether an If-None-Match names this blob. Weak tags match too (RFC 9110 §13.1.2). */
function matches(header: string | undefined, etag: string): boolean {
  if (header === undefined) return false
  return header.split(',').some(tag => tag.trim() === '*' || tag.trim().replace(/^W\//, '') === etag)
}

/** One `bytes=first-last`, `bytes=first-` or `bytes=-suffix`; undefined: none of these, to be ignored. */
function parseRange(header: string, bytes: number): { first: number; last: number } | 'unsatisfiable' | undefined {
  const [, from, to] = /^bytes=(\d*)-(\d*)$/i.exec(header.trim()) ?? []
  if (from === undefined || to === undefined || (from === '' && to === '')) return undefined
  const first = from === '' ? Math.max(0, bytes - Number(to)) : Number(from)
  const last = from === '' || to === '' ? bytes - 1 : Math.min(Number(to), bytes - 1)
  if (from !== '' && to !== '' && Number(to) < Number(from)) return undefined
  return first <= last && first < bytes ? { first, last } : 'unsatisfiable'
}
