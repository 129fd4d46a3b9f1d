// Hearing of new epochs as they come: a stream of lines from a server (docs/protocol.md, Events), read with an ordinary
// fetch. Lines only say that it is worth looking; what is there is found out from both servers (updates.ts).

import { type EpochEvent, EVENT_BYTES, parseEvent } from '@keyhush/protocol'
import { scoped } from '../base/abort.js'
import { EVENTS_DROPPED_MS, EVENTS_PAUSE_MS, EVENTS_SILENCE_MS } from '../base/constants.js'
import { ServerError } from '../base/errors.js'
import { fromWire } from './manifests.js'
import { sleep } from './retry.js'
import { type Link, readStream } from './transport.js'

/**
 * Tells of every line from a server, until called off. A stream that ends is opened again; a server that has none,
 * because its database does not change, is left alone. `drop`, handed to `notify`, closes a stream that does not deserve
 * to be heard, for long.
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
