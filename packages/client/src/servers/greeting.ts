// The first questions to all servers, in one round trip: what they offer, and the manifest they agree on. They need neither the core
// nor a stored state, so they are asked while both are loading.

import type { Info } from '@keyhush/protocol'
import { infoOf } from './info.js'
import { type Agreed, agree } from './manifests.js'
import { askAll } from './retry.js'
import type { Links } from './transport.js'

export interface Greeting {
  readonly agreed: Promise<Agreed>
  /** in the order of the servers */
  readonly infos: Promise<readonly Info[]>
}

/** Asks at once. A failure rejects the promise that it belongs to. */
export function greet(links: Links, signal: AbortSignal): Greeting {
  const greeting = { agreed: agree(links, signal), infos: askAll(links, link => infoOf(link, signal)) }
  for (const part of Object.values(greeting)) part.catch(() => {})
  return greeting
}
