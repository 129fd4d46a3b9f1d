// GET /v1/events: a line when there is a new epoch that clients can use, and every 15 seconds. Every reader gets the same lines.

import { Readable } from 'node:stream'
import { encodeEvent, type NewestEvent } from '@keyhush/protocol'
import type { FastifyInstance } from 'fastify'
import type { UpdatableDatabase } from '../../database/updatable.js'
import type { Streams } from '../limits/streams.js'

const HEARTBEAT_MILLISECONDS = 15_000

export function eventsRoute(app: FastifyInstance, updatable: UpdatableDatabase, ofProcess: Streams): void {
  const streams = new Set<Readable>()
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
    const stream = new Readable({ read() {} })
    ofProcess.add(request, stream)
    streams.add(stream)
    stream.once('close', () => streams.delete(stream))
    stream.push(encodeEvent(newest()))
    return reply.send(stream)
  })
}
