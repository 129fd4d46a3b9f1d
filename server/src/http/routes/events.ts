// GET /v1/events: a line when there is a new epoch that clients can use, and every 15 seconds. Every reader gets the same lines.

import { Readable } from 'node:stream'
import { encodeEvent, type NewestEvent } from '@keyhush/protocol'
import type { FastifyInstance } from 'fastify'
import { networkOf } from '../../base/address.js'
import { Refusal } from '../../base/refusal.js'
import type { UpdatableDatabase } from '../../database/updatable.js'
import { Connections } from '../limits/connections.js'

const HEARTBEAT_MILLISECONDS = 15_000
const MOST_STREAMS = 10_000

/** For one network (IPv4 /24, IPv6 /48): an office, or one party that wants them all. */
const MOST_OF_NETWORK = 256

export function eventsRoute(app: FastifyInstance, updatable: UpdatableDatabase): void {
  const streams = new Set<Readable>()
  const ofNetwork = new Map<string, number>()
  const newest = (): NewestEvent => updatable.told.manifest
  const tell = (event: NewestEvent) => {
    const line = Buffer.from(encodeEvent(event))
    for (const stream of streams) {
      // A client that does not read gets no more. It finds the stream silent and opens another.
      if (stream.readableLength < 100 * line.length) stream.push(line)
    }
  }
  const { databaseId } = updatable
  const stopListening = updatable.listen(event => tell({ databaseId, ...event }))
  const heartbeat = setInterval(() => tell(newest()), HEARTBEAT_MILLISECONDS).unref()
  app.addHook('preClose', async () => {
    stopListening()
    clearInterval(heartbeat)
    for (const stream of streams) stream.push(null)
  })

  app.get('/v1/events', async (request, reply) => {
    reply.header('cache-control', 'no-store, no-transform').type('application/x-ndjson')
    // For HEAD, a stream would have no reader to end it.
    if (request.method === 'HEAD') return reply.send(Readable.from([]))
    const network = networkOf(request.ip)
    const before = ofNetwork.get(network) ?? 0
    // The other half of all connections is for lookups.
    const most = Math.min(MOST_STREAMS, Connections.of(app.server).most / 2)
    if (streams.size >= most || before >= MOST_OF_NETWORK)
      throw new Refusal('rate_limited', 'too many event streams are open; try again later')
    const stream = new Readable({ read() {} })
    streams.add(stream)
    ofNetwork.set(network, before + 1)
    stream.once('close', () => {
      streams.delete(stream)
      const left = ofNetwork.get(network)! - 1
      if (left === 0) ofNetwork.delete(network)
      else ofNetwork.set(network, left)
    })
    stream.push(encodeEvent(newest()))
    return reply.send(stream)
  })
}
