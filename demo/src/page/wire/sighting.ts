// What a query shows to the server that receives it: offsets, or the bytes of keys.

import { decodeClaimedQuery, decodeInstantQuery, INSTANT_PATH, SUITE_PARITIES } from '@keyhush/protocol'
import type { Seen, Sighting } from '../backstage.js'
import { parityQueryBytes } from './fields.js'
import type { Exchange } from './recorder.js'

export type Shown = Pick<Sighting, 'claimed' | 'of' | 'columns' | 'vectors'>

/** Decodes a request's body; `instant`: to `/v1/instant`. Throws WireError. */
export function shownBy(body: Uint8Array, instant: boolean): Shown {
  return instant ? keysIn(body) : offsetsIn(body)
}

/** What requests show to each server, for a page without proxies in front of the servers. */
export function sightingsOf(exchanges: readonly Exchange[], database: string): Seen {
  const of = (server: Exchange['server']) =>
    exchanges
      .filter(exchange => exchange.server === server && !exchange.path.endsWith('/v1/fence'))
      .map(
        ({ path, sent }, i): Sighting => ({
          ...{ id: i + 1, database, at: Date.now(), bytes: sent.length },
          ...shownBy(sent, path.endsWith(INSTANT_PATH)),
        }),
      )
  return { A: of('A'), B: of('B') }
}

function offsetsIn(body: Uint8Array): Shown {
  const { query, claim } = decodeClaimedQuery(body, ({ count }) => parityQueryBytes(body, count))
  const { suite, partitions, count, vectors } = query
  const alone = suite === SUITE_PARITIES
  const each = vectors.length / count
  // ⌈q/8⌉ bytes give each stripe's half; an offset in each stripe follows.
  const columns = alone ? Math.floor((8 * each) / 17) : partitions
  const first = alone ? Math.ceil(columns / 8) : 0
  const view = new DataView(vectors.buffer, vectors.byteOffset, vectors.byteLength)
  const vector = (k: number) =>
    Array.from({ length: columns }, (_, q) => view.getUint16(k * each + first + 2 * q, true))
  return {
    ...{ claimed: claim !== undefined, of: alone ? 'stripes' : 'offsets', columns },
    vectors: Array.from({ length: count }, (_, k) => vector(k)),
  }
}

function keysIn(body: Uint8Array): Shown {
  const { count, queries } = decodeInstantQuery(body)
  const keyBytes = Math.floor(queries.length / count)
  const key = (k: number) => Array.from(queries.subarray(k * keyBytes, (k + 1) * keyBytes))
  return { claimed: false, of: 'bytes', columns: keyBytes, vectors: Array.from({ length: count }, (_, k) => key(k)) }
}
