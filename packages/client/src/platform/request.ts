// Platforms where each request has connections of its own, as Cloudflare Workers: what one request opens, no other may use, and outside
// of requests nothing can be opened.

import { UnsupportedError } from '../base/errors.js'

/** A controller that belongs to the request that runs now. Throws UnsupportedError outside of requests. */
export function ownController(): AbortController {
  return inRequest(() => new AbortController())
}

/** Throws UnsupportedError if the signal belongs to another request. */
export function assertOwn(signal: AbortSignal): void {
  inRequest(() => signal.aborted)
}

export function isOwn(signal: AbortSignal): boolean {
  try {
    assertOwn(signal)
    return true
  } catch {
    return false
  }
}

function inRequest<T>(work: () => T): T {
  try {
    return work()
  } catch (cause) {
    const message =
      'expected a call in the request that opened the map, got one in another request, or in none; open() a map in each request, and close() it there'
    throw new UnsupportedError('platform', message, { cause })
  }
}
