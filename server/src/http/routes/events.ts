// GET /v1/events: a line when there is a new epoch that clients can use, and every 15 seconds. Every reader gets the same lines.

import { Readable } from 'node:stream'
import { encodeEvent } from '@keyhush/protocol'
import type { FastifyInstance } from 'fastify'
import { Pace } from '../../base/pace.js'
import type { ChangingEpochs } from '../../database/changing-epochs.js'
import type { AnyEpoch } from '../../database/epochs.js'
import { neverKept } from '../binary.js'
import type { Streams } from '../limits/streams.js'

const HEARTBEAT_MILLISECONDS = 15_000

/** Each stream belongs to one of so many groups, whose heartbeats come one after the other. */
const GROUPS = 15

export function eventsRoute(
  app: FastifyInstance,
  { signed, databaseId }: ChangingEpochs<AnyEpoch>,
  ofProcess: Streams,
): void {
  const groups = Array.from({ length: GROUPS }, () => new Set<Readable>())
  let [beats, wanted, isClosing] = [0, 0, false]
  const newest = () => Buffer.from(encodeEvent(signed.told.manifest))
  /** as of now, whenever a round began: no stream goes back to an epoch before */
  let line = newest()
  const tell = (group: Set<Readable>) =>
    forEachInSlices(group, stream => {
      // A client that does not read gets no more. It finds the stream silent and opens another.
      if (stream.readableLength < 100 * line.length) stream.push(line)
    })
  /** A smallest one; of several, the one that has had its heartbeat last. */
  const nextGroup = () => {
    const lastFirst = groups.map((_, i) => groups.at((beats - 1 - i) % GROUPS)!)
    return lastFirst.reduce((a, b) => (b.size < a.size ? b : a))
  }
  /** One round at a time. If there are newer epochs at its end, all get the newest in another. */
  const announce = async () => {
    wanted++
    if (wanted > 1) return
    let begun: number
    do {
      begun = wanted
      for (const group of groups) await tell(group)
    } while (begun < wanted)
    wanted = 0
  }
  const stopListening = signed.listen(event => {
    line = Buffer.from(encodeEvent({ databaseId, ...event }))
    void announce()
  })
  const beat = () => {
    line = newest()
    void tell(groups[beats++ % GROUPS]!)
  }
  const heartbeat = setInterval(beat, HEARTBEAT_MILLISECONDS / GROUPS).unref()
  app.addHook('preClose', async () => {
    stopListening()
    clearInterval(heartbeat)
    isClosing = true
    for (const group of groups) {
      await forEachInSlices(group, stream => {
        group.delete(stream) // it is told nothing more
        stream.push(null)
      })
    }
  })

  app.get('/v1/events', async (request, reply) => {
    neverKept(reply).header('cache-control', 'no-store, no-transform').type('application/x-ndjson')
    // For HEAD, a stream would have no reader to end it.
    if (request.method === 'HEAD') return reply.send(Readable.from([]))
    const stream = new Readable({ read() {} })
    ofProcess.add(request, stream)
    const group = nextGroup()
    if (!isClosing) group.add(stream)
    stream.once('close', () => group.delete(stream))
    stream.push(newest())
    if (isClosing) stream.push(null)
    return reply.send(stream)
  })
}

/** Node writes what is pushed before its next tick is over, so a slice has to wait for that. */
async function forEachInSlices(streams: Set<Readable>, call: (stream: Readable) => void): Promise<void> {
  const pace = new Pace()
  for (const stream of streams) {
    call(stream)
    await new Promise<void>(resolve => process.nextTick(resolve))
    await pace.yield()
  }
}
