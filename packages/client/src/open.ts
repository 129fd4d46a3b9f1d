// What apps open and discard, in every mode.

import { useModule } from '@keyhush/wasm/client'
import { checkNames, checkOptions } from './base/boundary.js'
import { StorageError, UsageError } from './base/errors.js'
import type { KeyhushMap } from './map.js'
import { checkOpenOptions, type OpenOptions } from './options.js'
import type { Environment } from './platform/environment.js'
import { platformEnvironment } from './platform/whole.js'
import { KNOWN } from './scheme/known.js'
import { apartOf, identityOf, parseServers } from './servers/pair.js'
import { buildFor } from './session/opening.js'
import { openBy } from './sharing.js'

/**
 * Opens a map: takes up the state of an earlier visit, or begins.
 * @throws {UsageError} for options that cannot be, before any traffic
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
 * Removes what is stored for these servers, whatever it is: readable or not, half-made, with a lookup pending, condemned.
 * The next `open()` begins anew, as after `reset()`. For an app whose `open()` keeps failing on what is stored: a state that
 * contradicts what the servers have now, say, or a database that its publisher has replaced. Tabs that have such a map open
 * begin anew at their next lookup.
 * @throws {StorageError} if it could not be removed
 * @throws {UsageError} where nothing is kept, as in Node without a `store`
 * @example
 * await discardState({ servers: ['https://a.example', 'https://b.example'] })
 */
export async function discardState(options: DiscardOptions): Promise<void> {
  checkOptions('discardState', options, ['store'])
  checkNames('discardState', options, ['servers', 'store'])
  const { servers, store } = options
  try {
    await discardStateWith(platformEnvironment(undefined, store), { servers })
  } catch (error) {
    const nowhere = store === undefined && error instanceof StorageError && !isIndexedDbHere()
    if (!nowhere) throw error
    const message =
      'discardState: nothing is kept here, unless open() was given a store; pass the same: { servers, store }'
    throw new UsageError(message)
  }
}

function isIndexedDbHere(): boolean {
  try {
    return globalThis.indexedDB !== undefined
  } catch {
    return true // a page may be refused it, which throws
  }
}

/** As `discardState`, with storage passed in. For tests. */
export async function discardStateWith(
  { openStore }: Pick<Environment, 'openStore'>,
  { servers }: Pick<OpenOptions, 'servers'>,
): Promise<void> {
  const identity = identityOf(parseServers(servers))
  try {
    const { store } = await openStore(identity, 'required')
    try {
      await store.erase()
    } finally {
      await store.close()
    }
  } catch (cause) {
    const why = cause instanceof Error ? `: ${cause.message}` : '; see `cause`'
    throw new StorageError(`what is stored could not be removed; close maps that use it${why}`, { cause })
  }
}

export type DiscardOptions = Pick<OpenOptions, 'servers' | 'store'>
