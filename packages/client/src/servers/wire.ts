// The attempts at one request of a lookup, or to a fence: their number and times follow from lengths alone, and no caller's patience changes
// them (P5).

import { ATTEMPTS, BACKOFF_MS, MALFORMED_ATTEMPTS, SILENCE_MS, SLOW_MS, slowestMs, WIRE_MS } from '../base/constants.js'
import { NetworkError, ProtocolError, ServerError, VersionError } from '../base/errors.js'
import { sleepAfter } from './ask.js'
import type { Link } from './transport.js'

interface WireOptions {
  /** how often it is sent; missing: ATTEMPTS */
  readonly attempts?: number | undefined
  /** whether it is not sent again after this failure */
  readonly isFinal?: (error: unknown) => boolean
  /** how long a server that is not ready is waited for, beside the usual time; missing: no longer */
  readonly unreadyMs?: number | undefined
  /** Calls it off: for registering a hint, of which no server knows yet. */
  readonly signal?: AbortSignal | undefined
}

/**
 * Sends a request, and again if it fails. `send` is given the time by the link's clock at which all attempts end. `bytes`: in both directions.
 * A server that is not ready, and says when it is, is asked again then; that is no attempt.
 */
export async function onTheWire<T>(
  link: Link,
  bytes: number,
  send: (until: number) => Promise<T>,
  { attempts = ATTEMPTS, isFinal = () => false, unreadyMs = 0, signal }: WireOptions = {},
): Promise<T> {
  const { clock } = link.environment
  let left = WIRE_MS + slowestMs(bytes)
  let unready = unreadyMs
  for (let attempt = 1; ; ) {
    const start = clock.now()
    try {
      const reply = await send(start + left)
      if (attempt === 1 && clock.now() - start <= SLOW_MS + slowestMs(bytes)) link.standing.note(link, 'in time')
      return reply
    } catch (error) {
      if (signal?.aborted) throw error
      left -= Math.min(clock.now() - start, SILENCE_MS + slowestMs(bytes)) // a page may have been frozen for longer
      if (error instanceof NetworkError && error.refusal === undefined) link.standing.note(link, 'late')
      const isMalformed = error instanceof ProtocolError || (error instanceof VersionError && !error.retryable)
      const isUnready =
        error instanceof NetworkError && error.refusal === 'not_ready' && error.retryAfterMs !== undefined
      const told = error instanceof ServerError ? error.retryAfterMs : undefined
      const pause = isMalformed ? 0 : (told ?? BACKOFF_MS)
      // Not if the page's own policy has kept it from leaving.
      const isKept = error instanceof NetworkError && !error.retryable
      const most = isMalformed ? Math.min(MALFORMED_ATTEMPTS, attempts) : attempts
      const spared = isUnready ? Math.min(pause, unready) : 0
      unready -= spared
      left += spared
      if (isKept || isFinal(error) || pause >= left) throw error
      left -= pause
      if (!isUnready && attempt++ >= most) throw error
      if (pause > 0) await sleepAfter(error, link, pause, signal)
    }
    signal?.throwIfAborted()
  }
}
