// What a map will cost, computed from the manifest before anything large is downloaded.

import { MARK_PASSES, PACKAGED } from '@keyhush/protocol'
import type { Advice, Mode } from '@keyhush/wasm/client'
import { abortable, scoped } from './base/abort.js'
import { checkNames, checkOptions, expected, toApp } from './base/boundary.js'
import { TIMEOUT_MS } from './base/constants.js'
import { UnsupportedError, UsageError } from './base/errors.js'
import { type OptionOf, optionsOf } from './option-table.js'
import type { OpenOptions } from './options.js'
import { assertPlatform } from './platform/minimum.js'
import { loadPart } from './platform/parts.js'
import { startCore } from './platform/starting.js'
import { platformEnvironment } from './platform/whole.js'
import type { ProofsPackages } from './scheme/kinds.js'
import { KNOWN, schemesFor } from './scheme/known.js'
import { lacking } from './scheme/offered.js'
import type { SchemeCosts } from './scheme/scheme.js'
import { within } from './servers/budget.js'
import { lookAt } from './servers/folder.js'
import { greet } from './servers/info.js'
import { apartOf, checkAtLeast, parseServers } from './servers/parties.js'
import { StatsKeeper } from './servers/stats.js'
import { Lag } from './servers/target.js'
import { linksOf } from './servers/transport.js'
import { buildFor } from './session/opening.js'

/** What a map will cost, and the mode that serves `lookupsPerDay` (20, if you pass none) in a map that stays open for a month. */
export interface Estimate extends Advice {
  /** The number of records, with empty ones. */
  readonly records: number
  /** The version of the database that the figures are of. */
  readonly epoch: number
  /** Bytes of the directory, which turns keys into indices. Every mode but `instant` downloads and keeps it. 0: no keys. */
  readonly directoryBytes: number
  /** Bytes of a filter, which `open({ filter })` downloads and keeps. Undefined: the list has no slot marks. */
  readonly filterBytes: number | undefined
  /** The share of absent keys that a filter does not exclude. With `cover` more calls ask. Undefined: the same. */
  readonly filterPasses: number | undefined
  /** The costs of each mode that these servers offer. Compare with `local`, which keeps the whole database. */
  readonly modes: Readonly<Partial<Record<Mode, SchemeCosts>>>
}

/** Options of `estimate()`. With the package of a kind of proof, `proofs: 'auto'` may choose that kind; nothing is loaded. */
export interface EstimateOptions extends ProofsPackages, Pick<OpenOptions, OptionOf<'estimate'>> {
  /** For `mode` and `dayBytes`: lookups in a day. Default: 20. */
  readonly lookupsPerDay?: number | undefined
  /** For `dayBytes`: records that change in a day. Default: 0. */
  readonly changesPerDay?: number | undefined
}

/**
 * Computes what a map will cost, in each mode. It downloads the servers' manifest, and sends nothing secret. All figures in bytes count
 * request and response bodies of all servers together.
 * @throws {UsageError} for wrong options, before any traffic
 * @throws {KeyhushError} as `open()`
 * @example
 * const { mode, download, modes, paysAfter } = await estimate(['https://a.example', 'https://b.example'])
 * const { prepareBytes, memoryBytes } = modes[download]!
 */
export async function estimate(servers: readonly (string | URL)[], options: EstimateOptions = {}): Promise<Estimate> {
  checkOptions('estimate', options, ['fetch', ...PACKAGED], ['development', 'experimental'])
  const days = ['lookupsPerDay', 'changesPerDay'] as const
  checkNames('estimate', options, [...optionsOf('estimate'), ...days, ...PACKAGED])
  for (const name of days) {
    const number = options[name]
    if (number !== undefined && !(Number.isSafeInteger(number) && number >= 0)) {
      throw new UsageError(`estimate: ${expected(`${name} to be a whole number`, number)}`)
    }
  }
  const environment = platformEnvironment(options.fetch)
  assertPlatform(environment)
  const parsed = parseServers(servers)
  const apart = apartOf(parsed, options.collusion)
  const { atLeast = parsed.length } = options
  if (options.atLeast !== undefined) checkAtLeast(atLeast, apart)
  const stats = new StatsKeeper(parsed)
  const links = linksOf(parsed, environment, stats.standing, stats.offline)
  const work = async (signal: AbortSignal) => {
    const greeting = greet(links, environment, signal) // while the core is loaded
    const [core, { adviceFor, SCHEMES }] = await Promise.all([
      startCore(environment, buildFor('auto', apart, KNOWN)),
      loadPart(() => import('./scheme/table.js')),
    ])
    const lag = new Lag(() => {})
    const following = { core, links, signing: undefined, stats, pause: environment.pause, lag }
    const { at } = await lookAt(following, undefined, { needed: atLeast, ...greeting }, signal)
    const { manifest } = at! // it has no publisher's key
    const { proofs = 'auto', lookupsPerDay, changesPerDay, experimental = false } = options
    const schemeOptions = {
      ...{ ...options, proofs },
      usage: { lookupsPerDay, changesPerDay, servers: atLeast === 2 ? 2 : Math.max(2, apart) }, // of two that suffice two are asked
    }
    const isAlone = experimental && parsed.length === 1
    const part = isAlone ? await loadPart(() => import('./session/one-server.js')) : undefined
    const oneServer = await part?.startOneServer(environment)
    const modes = Object.fromEntries(
      [...schemesFor(SCHEMES, apart, oneServer !== undefined)].flatMap(([name, known]) => {
        const scheme = known.kind === 'stateless' ? (oneServer ?? known) : known
        if (lacking(scheme, links, atLeast)) return []
        try {
          return [[name, scheme.costs(core, manifest, schemeOptions)]]
        } catch (error) {
          // A database need not offer every mode.
          const optional = scheme.kind === 'stateless' || scheme.parties.length === 1
          if (error instanceof UnsupportedError && optional) return []
          throw error
        }
      }),
    )
    const least = modes['local'] === undefined ? 'instant' : 'local'
    if (modes[least] === undefined) {
      const what = 'expected servers that answer lookups or give downloads, got none that does'
      throw new UnsupportedError('offer', `${what}; ask their operators`)
    }
    const advice = adviceFor(core, manifest, {
      ...{ instant: modes['instant'] !== undefined, servers: apart },
      ...{ mayDownload: options.download !== 'never' && least === 'local', lookupsPerDay },
    })
    const { records, epoch, directoryBytes, slotMarksHash } = manifest
    const filter = {
      filterBytes: slotMarksHash && directoryBytes + records,
      filterPasses: slotMarksHash && MARK_PASSES,
    }
    const offered = (mode: Mode) => (modes[mode] === undefined ? least : mode) // as the map itself chooses
    const advised = { ...advice, mode: offered(advice.mode), download: offered(advice.download) }
    return { records, epoch, ...advised, directoryBytes, ...filter, modes }
  }
  const { clock, connection } = environment
  const { signal, timeoutMs = TIMEOUT_MS } = options
  const budget = { clock, connection, awaited: stats, timeoutMs, slow: () => {} }
  return await toApp(
    abortable(
      within(budget, late => scoped([signal, late], work)),
      signal,
    ),
    signal,
  )
}
