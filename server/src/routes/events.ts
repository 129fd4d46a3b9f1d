// GET /v1/events: a line when there is a new epoch, and every 15 seconds. Every reader gets the same lines.

import { Readable } from 'node:stream'
import { type EpochEvent, encodeEvent } from '@pirouette/protocol'
import type { FastifyInstance } from 'fastify'
import type { LivingDatabase } from '../living/database.js'
import { Refusal } from '../refusal.js'

const HEARTBEAT_MILLISECONDS = 15_000
const MOST_STREAMS = 10_000

export function eventsRoute(app: FastifyInstance, living: LivingDatabase): void {
  const streams = new Set<Readable>()
  const newest = (): EpochEvent => living.newest.manifest
  const tell = (event: EpochEvent) => {
    const line = Buffer.from(encodeEvent(event))
    for (const stream of streams) {
      // Whoever does not read gets no more; the client finds the stream silent and opens another.
      if (stream.readableLength < 100 * line.length) stream.push(line)
    }
  }
  const stopListening = living.listen(tell)
  const heartbeat = setInterval(() => tell(newest()), HEARTBEAT_MILLISECONDS).unref()
  app.addHook('preClose', async () => {
    stopListening()
    clearInterval(heartbeat)
    for (const stream of streams) stream.push(null)
  })

  app.get('/v1/events', async (_request, reply) => {
    if (streams.size >= MOST_STREAMS) throw new Refusal('rate_limited', 'too many streams are open')
    const stream = new Readable({ read() {} })
    streams.add(stream)
    stream.once('close', () => streams.delete(stream))
    stream.push(encodeEvent(newest()))
    return reply.header('cache-control', 'no-store, no-transform').type('application/x-ndjson').send(stream)
  })
}
