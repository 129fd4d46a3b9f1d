// A server's stream of new epochs (docs/protocol.md, Events), read with an ordinary fetch. A line is a reason to ask both servers
// (updates.ts), and no more.

import { type EpochEvent, EVENT_BYTES, parseEvent } from '@keyhush/protocol'
import { scoped } from '../base/abort.js'
import { EVENTS_DROPPED_MS, EVENTS_PAUSE_MS, EVENTS_SILENCE_MS } from '../base/constants.js'
import { ServerError } from '../base/errors.js'
import { fromWire } from './manifests.js'
import { sleep } from './retry.js'
import { type Link, readStream } from './transport.js'

/**
 * Calls `notify` for each line of a server, until `signal` aborts. Opens a stream again after it has ended. Returns if the server
 * has no stream, because its database never changes. `drop` closes the stream, and the next one opens much later.
 */
export async function subscribe(
  link: Link,
  notify: (event: EpochEvent, drop: () => void) => void,
  signal: AbortSignal,
): Promise<void> {
  const decoder = new TextDecoder()
  while (!signal.aborted) {
    const dropped = new AbortController()
    const take = (line: Uint8Array) =>
      notify(
        fromWire(link, () => parseEvent(decoder.decode(line))),
        () => dropped.abort(),
      )
    try {
      await scoped([signal, dropped.signal], signal =>
        readStream(link, '/v1/events', EVENT_BYTES, EVENTS_SILENCE_MS, take, signal),
      )
    } catch (error) {
      if (signal.aborted) return
      if (!dropped.signal.aborted && !(error instanceof ServerError)) throw error
      if (error instanceof ServerError && error.refusal === 'not_found') return
    }
    const pause = dropped.signal.aborted ? EVENTS_DROPPED_MS : EVENTS_PAUSE_MS
    await sleep(link.environment.clock, pause, signal)
  }
}
