// The costs of lookups with one server that keeps no state, in the form of the planner's rows (docs/costs.md).

import { HEADER_BYTES, MANIFEST_HEADER_BYTES, type Manifest, UPDATE_ENTRY_HEADER_BYTES } from '@keyhush/protocol'
import type { CoreError, ModeCosts, OneServerCore, OneServerSizes, Plan, Usage } from './core.js'

const DEFAULT_LOOKUPS = 20
const MANIFEST_PARTITION_BYTES = 64
const MANIFEST_ONE_SERVER_BYTES = 80

/**
 * The row of a mode for these sizes of the base: of records, and in a keyed database of the directory's blocks. A lookup has a step for
 * each. A patch is at most as long as the public hint, and the hint after that is another.
 * @example
 * const { lookupBytesUp } = oneServerCosts(manifest, [core.oneServerSizes(manifest)])
 */
export function oneServerCosts(
  { partitions, recordBytes, oneServer }: Pick<Manifest, 'partitions' | 'recordBytes' | 'oneServer'>,
  sizes: readonly OneServerSizes[],
  { queries = 1, lookupsPerDay = DEFAULT_LOOKUPS, changesPerDay = 0 }: Usage = {},
): ModeCosts {
  const sum = (of: (sizes: OneServerSizes) => number) => sizes.reduce((total, each) => total + of(each), 0)
  const hint = sum(({ hintBytes }) => hintBytes)
  const manifest = MANIFEST_HEADER_BYTES + MANIFEST_PARTITION_BYTES * partitions + MANIFEST_ONE_SERVER_BYTES
  const lookupBytesUp = sum(({ requestBytes }) => HEADER_BYTES + queries * requestBytes)
  const lookupBytesDown = sum(({ answerBytes }) => HEADER_BYTES + queries * answerBytes)
  const prepareBytes = hint + (oneServer?.patchBytes ?? 0)
  const entries = Math.min(hint, changesPerDay * (UPDATE_ENTRY_HEADER_BYTES + recordBytes))
  const changes = changesPerDay > 0 ? manifest + 2 * entries : 0
  return {
    mode: 'instant',
    prepareBytes,
    firstBytes: manifest + prepareBytes,
    lookupBytesUp,
    lookupBytesDown,
    dayBytes: lookupsPerDay * (lookupBytesUp + lookupBytesDown) + changes,
    held: { verifier: prepareBytes },
    memoryBytes: prepareBytes,
    diskBytes: 0,
    serverLookupMicros: queries * sum(answerMicros),
  }
}

// Blocks of a directory have some padding; how many there are, its keys decide.
const BLOCK_BYTES = 640
const PADDED_PART = 1.15

/**
 * The row of a planned database; none if it is too large.
 * @example
 * const [costs] = oneServerPlan(core, core.plan({ records: 1_000_000, valueBytes: 32, keyed: true }))
 */
export function oneServerPlan(
  core: Pick<OneServerCore, 'oneServerSizes'>,
  { layout, workload, merkle }: Pick<Plan, 'layout' | 'workload' | 'merkle'>,
): ModeCosts[] {
  const blocks = { records: Math.ceil((PADDED_PART * merkle.directoryBytes) / BLOCK_BYTES), recordBytes: BLOCK_BYTES }
  try {
    const sizes = [layout, ...(workload.keyed ? [blocks] : [])].map(({ records, recordBytes }) =>
      core.oneServerSizes({ records, recordBytes }),
    )
    return [oneServerCosts(layout, sizes, workload)]
  } catch (error) {
    if ((error as Partial<CoreError>).code !== 'layout') throw error
    return []
  }
}

/** One answer in WebAssembly with SIMD: a packing and a scan for each output. With more columns, selectors have 18 bits. */
function answerMicros({ outputs, columns }: OneServerSizes): number {
  return Math.round(outputs * (1330 + (columns <= 9000 ? 0.026 : 0.06) * columns))
}
