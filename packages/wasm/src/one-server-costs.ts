// The costs of lookups with one server that keeps no state, in the form of the planner's rows (docs/costs.md).

import { HEADER_BYTES, MANIFEST_HEADER_BYTES, type Manifest } from '@keyhush/protocol'
import type { ModeCosts, OneServerSizes, Usage } from './core.js'

const DEFAULT_LOOKUPS = 20
const MANIFEST_PARTITION_BYTES = 64
const HASH_BYTES = 32

/**
 * The row of a mode for these sizes: of records, and in a keyed database of the directory's blocks. A lookup has a step for each.
 * @example
 * const { lookupBytesUp } = oneServerCosts(manifest, [core.oneServerSizes(manifest)])
 */
export function oneServerCosts(
  { partitions }: Pick<Manifest, 'partitions'>,
  sizes: readonly OneServerSizes[],
  { batch = 1, lookupsPerDay = DEFAULT_LOOKUPS, changesPerDay = 0 }: Usage = {},
): ModeCosts {
  const sum = (of: (sizes: OneServerSizes) => number) => sizes.reduce((total, each) => total + of(each), 0)
  const hint = sum(({ hintBytes }) => hintBytes)
  const manifest = MANIFEST_HEADER_BYTES + MANIFEST_PARTITION_BYTES * partitions + HASH_BYTES
  const lookupBytesUp = sum(({ requestBytes }) => HEADER_BYTES + batch * requestBytes)
  const lookupBytesDown = sum(({ answerBytes }) => HEADER_BYTES + batch * answerBytes)
  const changes = changesPerDay > 0 ? manifest + hint : 0
  return {
    mode: 'instant',
    prepareBytes: hint,
    firstBytes: manifest + hint,
    lookupBytesUp,
    lookupBytesDown,
    dayBytes: lookupsPerDay * (lookupBytesUp + lookupBytesDown) + changes,
    held: { verifier: hint },
    memoryBytes: hint,
    diskBytes: 0,
    serverLookupMicros: batch * sum(answerMicros),
  }
}

/** One answer in WebAssembly with SIMD: a packing and a scan for each output. */
function answerMicros({ outputs, columns }: OneServerSizes): number {
  return Math.round(outputs * (1900 + 0.73 * columns))
}
