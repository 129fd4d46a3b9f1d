// What apps open and discard, in every mode.

import { useModule } from '@keyhush/wasm/client'
import { checkNames, checkOptions } from './base/boundary.js'
import { StorageError, UsageError } from './base/errors.js'
import type { KeyhushMap } from './map.js'
import { checkOpenOptions, type OpenOptions } from './options.js'
import type { Environment } from './platform/environment.js'
import { platformEnvironment } from './platform/whole.js'
import { KNOWN } from './scheme/known.js'
import { type Apart, apartOf, identityOf, parseServers, shownIdentity } from './servers/parties.js'
import { buildFor } from './session/opening.js'
import { openBy } from './sharing.js'
import { hasIndexedDb } from './store/store.js'

/**
 * Opens a map with the state of an earlier visit, or a new one.
 * @throws {UsageError} for wrong options, before any traffic
 * @throws {KeyhushError} by class or `code`: docs/common-errors.md has each with its way out
 * @example
 * const map = await open({ servers: ['https://a.example', 'https://b.example'] })
 * await map.getText('otter')
 */
export async function open(options: OpenOptions): Promise<KeyhushMap> {
  checkOpenOptions(options)
  const { fetch, store, wasm, ...others } = options
  const { mode = 'auto', servers, collusion } = options
  if (wasm !== undefined) useModule(wasm, buildFor(mode, apartOf(servers, collusion), KNOWN))
  return await openBy(platformEnvironment(fetch, store), others, { known: KNOWN, loadKeeping })
}

async function loadKeeping() {
  return (await import('./session/keeping.js')).keeping()
}

/**
 * Removes everything that is stored for these servers, readable or not. The next `open()` begins anew, as after `reset()`. For an app
 * whose `open()` keeps failing because of the stored state, after the publisher has replaced the database, for example. Other tabs
 * with such a map begin anew at their next lookup.
 * @throws {StorageError} if it could not be removed
 * @throws {UsageError} without a `store` where there is no IndexedDB, as in Node
 * @example
 * await discardState({ servers: ['https://a.example', 'https://b.example'] })
 */
export async function discardState(options: DiscardOptions): Promise<void> {
  checkOptions('discardState', options, ['store'])
  checkNames('discardState', options, ['servers', 'store'])
  const { servers, store } = options
  if (store === undefined && !hasIndexedDb()) {
    const what = 'expected the store that open() was given, got none, and this platform has no IndexedDB'
    throw new UsageError(`discardState: ${what}; pass { servers, store }`)
  }
  await discardStateWith(platformEnvironment(undefined, store), { servers })
}

/** As `discardState`, with storage passed in. For tests. */
export async function discardStateWith(
  { openStore }: Pick<Environment, 'openStore'>,
  { servers }: Pick<OpenOptions, 'servers'>,
): Promise<void> {
  const parsed = parseServers(servers)
  const kinds: readonly Apart[] = parsed.length === 1 ? [1] : [1, parsed.length]
  try {
    for (const identity of [...kinds.map(apart => identityOf(parsed, apart)), shownIdentity(parsed)]) {
      const { store } = await openStore(identity, 'required')
      try {
        await store.erase()
      } finally {
        await store.close()
      }
    }
  } catch (cause) {
    const why = cause instanceof Error ? `: ${cause.message}` : '; see `cause`'
    throw new StorageError(
      `expected the stored state to be removed, but it could not be; close maps that use it${why}`,
      { cause },
    )
  }
}

export type DiscardOptions = Pick<OpenOptions, 'servers' | 'store'>
