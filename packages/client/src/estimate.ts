// What a map will cost, from its manifest alone: before anything large is downloaded, and without WebAssembly.

import { answerBytes, maxBatch, partitionBytes, queryBytes } from '@pirouette/protocol'
import { scoped } from './abort.js'
import { type Fetch, platformEnvironment } from './environment.js'
import { agree } from './manifest.js'
import { offlineBytes } from './offline.js'
import { chooseProofs, type ProofsPreference } from './proofs.js'
import { parseServers } from './servers.js'
import { Meter } from './stats.js'

export interface Estimate {
  /** N */
  readonly records: number
  readonly epoch: number
  /** once, at `open()`: directory and partitions (manifests, already fetched to know this, apart) */
  readonly offlineBytes: number
  /** per lookup, both servers together */
  readonly lookupBytesUp: number
  readonly lookupBytesDown: number
  /** kept in memory: parities and permutations */
  readonly hintBytes: number
  readonly permutationBytes: number
  /** tags, if that is what proves answers; 0: opening proofs do */
  readonly tagBytes: number
  /** most keys of one getMany, padding included */
  readonly maxBatch: number
}

/** Fetches and compares both servers' manifests, and computes. Throws as `open()` does. */
export async function estimate(
  servers: readonly [string | URL, string | URL],
  options: {
    readonly fetch?: Fetch | undefined
    readonly proofs?: ProofsPreference | undefined
    readonly signal?: AbortSignal | undefined
  } = {},
): Promise<Estimate> {
  const [a, b] = parseServers(servers)
  const environment = platformEnvironment(options.fetch)
  const links = [
    { server: a, environment, meter: new Meter() },
    { server: b, environment, meter: new Meter() },
  ] as const
  const { manifest } = await scoped([options.signal], signal => agree(links, signal))
  const proofs = chooseProofs(manifest, options.proofs ?? 'auto')
  const slots = manifest.partitions * manifest.partitionRecords
  return {
    records: manifest.records,
    epoch: manifest.epoch,
    offlineBytes: offlineBytes(manifest),
    lookupBytesUp: 2 * queryBytes(manifest, 1),
    lookupBytesDown: 2 * answerBytes(manifest, 1, proofs),
    hintBytes: partitionBytes(manifest),
    permutationBytes: 2 * slots,
    tagBytes: proofs === 'tags' ? 8 * slots : 0,
    maxBatch: maxBatch(manifest, proofs),
  }
}
