// The first questions to the servers, in one round trip: what each shows and offers, and a manifest. They need neither the core nor a stored
// state, so they are asked while both are loading.

import { shuffled } from '../base/random.js'
import type { Environment } from '../platform/environment.js'
import { askOne } from './ask.js'
import { Heard } from './info.js'
import { newestOf } from './manifests.js'
import type { Looking } from './target.js'
import type { Links } from './transport.js'

export type Greeting = Required<Pick<Looking, 'heard' | 'manifest'>>

/** Asks at once, for the one and then for the other. */
export function greet(
  links: Links,
  { pause, random }: Pick<Environment, 'pause' | 'random'>,
  signal: AbortSignal,
): Greeting {
  const heard = new Heard()
  const manifest = askOne(shuffled(links, random), {}, signal, newestOf)
  manifest.catch(() => {}) // another is asked for
  const paused = pause() // a request takes a phone milliseconds to make
  for (const link of links) void heard.ask(link, signal, paused)
  return { heard, manifest }
}
