// What apps open and discard, in every mode.

import { useModule } from '@keyhush/wasm/client'
import { checkNames, checkOptions, WITH_SERVERS } from './base/boundary.js'
import { StorageError, UsageError } from './base/errors.js'
import type { KeyhushMap } from './map.js'
import { checkOpenOptions, type OpenOptions } from './options.js'
import type { Environment } from './platform/environment.js'
import { loadPart } from './platform/parts.js'
import { platformEnvironment } from './platform/whole.js'
import { KNOWN } from './scheme/known.js'
import { apartOf, filterIdentity, identityOf, parseServers, shownIdentity } from './servers/parties.js'
import { buildFor } from './session/opening.js'
import { openBy } from './sharing.js'
import { hasIndexedDb } from './store/store.js'

/**
 * Opens a map, with the stored state of an earlier visit if there is one. It resolves as soon as a lookup can be made.
 *
 * Maps with the same servers and options share one download and one queue. `signal`, `timeoutMs`, `onEvent`, `onProgress` and `normalize`
 * may differ. Two `download` functions are two options: pass the same function to share. Each map is closed by itself.
 * @throws {UsageError} for wrong options, before any traffic
 * @throws {KeyhushError} by class or `code`: docs/common-errors.md has each, and what to do
 * @example
 * const map = await open({ servers: ['https://a.example', 'https://b.example'] })
 * await map.getText('otter')
 */
export async function open(options: OpenOptions): Promise<KeyhushMap> {
  checkOpenOptions(options)
  const { fetch, store, wasm, ...others } = options
  const { mode = 'auto', servers, collusion, experimental } = options
  if (experimental === true || (mode === 'instant' && servers?.length === 1 && !experimental)) {
    ;(await loadPart(loadOneServer)).checkExperimental(options)
  }
  if (wasm !== undefined) useModule(wasm, buildFor(mode, apartOf(servers, collusion), KNOWN))
  return await openBy(platformEnvironment(fetch, store), others, {
    known: KNOWN,
    loadKeeping,
    loadWatching,
    loadLocalCore,
    loadOneServer,
    loadFilter,
  })
}

async function loadWatching() {
  return await import('./watching/watcher.js')
}

async function loadKeeping() {
  return (await import('./session/keeping.js')).keeping()
}

async function loadLocalCore() {
  return (await import('@keyhush/wasm/script-local')).localCore
}

async function loadFilter() {
  return await import('./filter/sessions.js')
}

async function loadOneServer() {
  return await import('./session/one-server.js')
}

/**
 * Removes the state that is stored for these servers. The next `open()` starts without one. Call it if `open()` keeps failing because of
 * the stored state, for example after the publisher has replaced the database. It ends a condemnation, as `reset()` does. It also forgets
 * the newest epoch that a map with `publisherKey` has seen. Maps in other tabs make a new state at their next lookup.
 * @throws {StorageError} if the state could not be removed
 * @throws {UsageError} without a `store` on a platform without IndexedDB, such as Node
 * @example
 * await discardState({ servers: ['https://a.example', 'https://b.example'] })
 */
export async function discardState(options: DiscardOptions): Promise<void> {
  checkOptions('discardState', options, ['store'], [], WITH_SERVERS)
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
  const { length } = parsed
  const ofTwoOrMore = Array.from({ length: length - 1 }, (_, i) => identityOf(parsed, length, i + 2)) // by `atLeast`
  try {
    for (const identity of [
      identityOf(parsed, 1, length),
      ...ofTwoOrMore,
      filterIdentity(parsed),
      shownIdentity(parsed),
    ]) {
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

/** Options of `discardState()`, as you pass them to `open()`. */
export type DiscardOptions = Pick<OpenOptions, 'servers' | 'store'>
