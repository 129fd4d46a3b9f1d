// What all servers are asked first, in one round trip: what they offer and what they agree on. Nothing in it depends on the
// core or on anything kept here, so that it may be under way while either is loaded.

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

/** Asks at once. What fails is told to whoever waits for it. */
export function greet(links: Links, signal: AbortSignal): Greeting {
  const greeting = { agreed: agree(links, signal), infos: askAll(links, link => infoOf(link, signal)) }
  for (const part of Object.values(greeting)) part.catch(() => {})
  return greeting
}
