// Hearing of new epochs as they come: a stream of lines from each server (docs/protocol.md, Events), read with an
// ordinary fetch. Lines only say that it is worth looking; what is there is found out from both servers (sync.ts).

import { type EpochEvent, EVENT_BYTES, parseEvent } from '@pirouette/protocol'
import { EVENTS_PAUSE_MS, EVENTS_SILENCE_MS } from './constants.js'
import { ServerError } from './errors.js'
import { fromWire } from './manifest.js'
import { sleep } from './retry.js'
import { type Link, readStream } from './transport.js'

/**
 * Tells of every line from either server, until called off. A stream that ends is opened again; a server that has none,
 * because its database does not change, is left alone.
 */
export async function listen(
  links: readonly [Link, Link],
  tell: (event: EpochEvent) => void,
  signal: AbortSignal,
): Promise<void> {
  await Promise.all(links.map(link => listenTo(link, tell, signal)))
}

async function listenTo(link: Link, tell: (event: EpochEvent) => void, signal: AbortSignal): Promise<void> {
  const decoder = new TextDecoder()
  const take = (line: Uint8Array) => tell(fromWire(link, () => parseEvent(decoder.decode(line))))
  while (!signal.aborted) {
    try {
      await readStream(link, '/v1/events', EVENT_BYTES, EVENTS_SILENCE_MS, take, signal)
    } catch (error) {
      if (signal.aborted) return
      if (!(error instanceof ServerError)) throw error
      if (error.refusal === 'not_found') return
    }
    await sleep(link.environment.clock, EVENTS_PAUSE_MS, signal)
  }
}
