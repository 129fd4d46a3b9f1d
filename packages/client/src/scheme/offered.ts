// Whether servers offer a scheme, by what they said last (`/v1/info`). What they do not offer is not asked.

import { UnsupportedError } from '../base/errors.js'
import type { Link, Links } from '../servers/transport.js'
import type { Scheme } from './scheme.js'

/**
 * The first server that keeps the scheme from being used; undefined: none does. One that has not replied may offer it. `atLeast`: how many
 * servers a lookup without a state needs. With a state, any server may become a party; without parties, one that gives downloads is enough.
 */
export function lacking(scheme: Scheme, links: Links, atLeast: number): Link | undefined {
  const without = links.filter(({ server, standing }) => {
    const offers = standing.offers.get(server.name)
    return offers && !scheme.isOffered(offers)
  })
  const needed = scheme.kind === 'stateless' ? atLeast : scheme.parties.length === 0 ? 1 : links.length
  return links.length - without.length < needed ? without[0] : undefined
}

/** Throws UnsupportedError. */
export function assertOffered(scheme: Scheme, links: Links, atLeast: number, lacks = 'does not offer them'): void {
  const without = lacking(scheme, links, atLeast)
  if (!without) return
  throw new UnsupportedError(
    'offer',
    `expected servers with lookups of mode '${scheme.name}', but ${without.server.name} ${lacks}; open the map in another mode`,
  )
}
