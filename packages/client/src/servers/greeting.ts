// The first questions to all servers, in one round trip: what they offer, and the manifest they agree on. They need neither the core
// nor a stored state, so they are asked while both are loading.

import type { Info } from '@keyhush/protocol'
import type { Environment } from '../platform/environment.js'
import { infoOf } from './info.js'
import { type Agreed, agree } from './manifests.js'
import { askSome } from './retry.js'
import type { Links } from './transport.js'

export interface Greeting {
  readonly agreed: Promise<Agreed>
  /** in the order of the servers; undefined: of one that did not reply, and does not have to */
  readonly infos: Promise<readonly (Info | undefined)[]>
}

/** Asks at once, for the one and then for the other. A failure rejects the promise that it belongs to. */
export function greet(
  links: Links,
  atLeast: number,
  { pause }: Pick<Environment, 'pause'>,
  signal: AbortSignal,
): Greeting {
  const infos = async () => {
    await pause() // a request takes a phone milliseconds to make
    return await askSome(links, atLeast, signal, infoOf)
  }
  const greeting = { agreed: agree(links, signal, atLeast), infos: infos() }
  for (const part of Object.values(greeting)) part.catch(() => {})
  return greeting
}
