// @keyhush/client/instant-with: `open()` in mode `instant` alone, with what a platform has of its own passed in. For packages that bring
// the SDK to another platform; apps import these.

import { checkNames, checkOptions, WITH_SERVERS } from './base/boundary.js'
import { StorageError, UsageError } from './base/errors.js'
import type { KeyhushMap } from './map.js'
import { type OptionOf, optionsOf } from './option-table.js'
import { checkKeyGiven, type OpenOptions } from './options.js'
import { type Environment, environmentWith } from './platform/environment.js'
import { KNOWN } from './scheme/known.js'
import { openBy } from './sharing.js'

/** The options of `open()` that mode `instant` has on all platforms. */
export interface InstantWithOptions extends Pick<OpenOptions, Exclude<OptionOf<'native'>, 'servers'>> {
  /** Base URLs of two to eight servers on different hosts, in any order. Lookups stay private unless all operators collude. */
  readonly servers: readonly (string | URL)[]
}

/** What a platform has of its own. */
export type Platform = Pick<Environment, 'loadCore'> & Partial<Pick<Environment, 'random' | 'pause'>>

const openStore = () =>
  Promise.reject(new StorageError('expected no store to be opened in mode instant; please report it'))
const loadWatching = () => import('./watching/watcher.js')
const loadKeeping = () => Promise.reject(new Error('nothing is kept in mode instant'))

/** Throws UsageError for options that an entry does not have. `own`: those that it alone has. */
export function checkInstantOptions(
  entry: 'instant' | 'native',
  options: InstantWithOptions,
  own: readonly string[] = [],
): void {
  checkOptions('open', options, ['fetch'], [], WITH_SERVERS)
  if ('filter' in options)
    throw new UsageError("filter: expected a store, got none; import open from '@keyhush/client'")
  checkNames('open', options, [...optionsOf(entry), ...own])
  checkKeyGiven(options)
}

/** Opens a map in mode `instant`. Check the options first. Maps share a session if their platforms' parts are the same. */
export async function openInstantWith(
  platform: Platform,
  options: InstantWithOptions & Pick<OpenOptions, 'push'>,
): Promise<KeyhushMap> {
  if (options.servers?.length === 1) {
    const instead = "for one server import open from '@keyhush/client'"
    throw new UsageError(`servers: expected two or more, for lookups that keep nothing, got one; ${instead}`)
  }
  const { fetch, ...others } = options
  const environment = environmentWith({ openStore, ...platform }, fetch)
  const schemes = { known: KNOWN, loadKeeping, loadWatching }
  return await openBy(environment, { ...others, mode: 'instant', storage: 'memory' }, schemes)
}

export * from './common.js'
export type { Environment } from './platform/environment.js'
