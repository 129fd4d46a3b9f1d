// Where a map keeps its state: what the app prefers, what the platform has, and what happens if they differ.

import { StorageError, UnsupportedError, UsageError } from '../base/errors.js'
import type { OnEvent, StorageKind } from '../base/events.js'
import type { Identity } from './identity.js'
import {
  type DurableStore,
  type StateHead,
  StateMovedError,
  type StateStore,
  StateUnreadableError,
  StoreFullError,
  StoreUnavailableError,
} from './store.js'

export type { Identity }

/**
 * Whether a map's state outlives the page:
 *
 * - `required`: it is stored durably, or the call throws StorageError.
 * - `preferred`: it is stored durably where that works, else kept in memory, with the event `storage`. If the store fails twice later,
 *   the map goes on in memory, with a new download.
 * - `memory`: nothing is written anywhere.
 *
 * Storage is durable where the platform confirms that a write has reached the disk: in all current browsers (Firefox since 126), and in
 * Node except on Windows.
 */
export type StoragePreference = 'required' | 'preferred' | 'memory'

export interface OpenedStore {
  readonly store: StateStore
  readonly storage: StorageKind
  /** discards states of other sets of servers that share a server with this one (S5); whether there was any */
  readonly discardOthers?: () => Promise<boolean>
  /** asks the platform not to evict the state; resolves to its answer */
  readonly persist?: () => Promise<boolean>
  /** `platform`: found by its locks; undefined: it is not known which tabs share this store */
  readonly preparers?: Preparers | 'platform' | undefined
}

/** The tabs that prepare hints beside the stored one. */
export interface Preparers {
  /** This tab prepares one, until it calls what this resolves to, or is closed. A page that is left may count as closed. */
  join(): Promise<() => void>
  /** Runs `task` if there are none. A tab that joins meanwhile waits until it is over. */
  whileNone(task: () => Promise<void>): Promise<void>
}

/** Opens the state of an identity: in memory if `preference` is `memory`, else durable. Rejects if it cannot. */
export type OpenStore = (identity: Identity, preference: StoragePreference) => Promise<OpenedStore>

/** Opens the durable storage for a list of servers' names: `fileStore(folder)` of `@keyhush/client/node`, or a function of your own. */
export type OpenDurableStore = (servers: Identity) => Promise<DurableStore>

/** Refuses a store that does not say when a write has reached the disk: it might forget what was sent (S1). */
export async function confirmed(opened: DurableStore): Promise<DurableStore> {
  if (opened.durability === 'strict') return opened
  await opened.store.close()
  throw new StoreUnavailableError('this platform does not confirm when a write has reached the disk')
}

const PREFERRED = "With storage: 'preferred' the map lives in memory instead"

/** A store as good as `preference` asks for. Throws StorageError. */
export async function openStorage(
  environment: { readonly openStore: OpenStore },
  identity: Identity,
  preference: StoragePreference,
  announce: OnEvent,
): Promise<OpenedStore> {
  if (preference === 'memory') return await openInMemory(environment, identity)
  let opened: OpenedStore | undefined
  let discarded = false
  try {
    opened = await environment.openStore(identity, preference)
    discarded = (await opened.discardOthers?.()) === true
  } catch (cause) {
    await opened?.store.close().catch(() => {})
    if (cause instanceof UsageError || cause instanceof UnsupportedError) throw cause // the app can mend it, or code did not arrive
    if (preference === 'required') {
      const why = cause instanceof Error ? `: ${cause.message}` : ''
      throw new StorageError(`expected durable storage, which is required, got none${why}. ${PREFERRED}`, { cause })
    }
    opened = await openInMemory(environment, identity)
  }
  if (opened.storage === 'memory') {
    if (preference === 'required') {
      await opened.store.close()
      throw new StorageError(`expected durable storage, which is required, got a platform without. ${PREFERRED}`)
    }
    announce({ type: 'storage', storage: 'memory', reason: 'unavailable' })
  }
  if (discarded) announce({ type: 'discarded', reason: 'servers' })
  return opened
}

export async function openInMemory(
  { openStore }: { readonly openStore: OpenStore },
  identity: Identity,
): Promise<OpenedStore> {
  return await openStore(identity, 'memory').catch((cause: unknown) => {
    if (cause instanceof UnsupportedError) throw cause
    throw new StorageError('expected a store in memory, got the failure in `cause`; please report it', { cause })
  })
}

/** The store itself failed: no space, a lost connection, a failing disk. It is not known what it has written. */
export class StoreFailure extends StorageError {}

/** Whether the store has refused a write because it holds something else: it has to be read anew. */
export function isMoved(error: unknown): boolean {
  return error instanceof StateMovedError || error instanceof StateUnreadableError
}

/** The head; undefined: none that can be read. */
export async function readable(store: StateStore): Promise<StateHead | undefined> {
  return await store.read().catch((error: unknown) => {
    if (error instanceof StateUnreadableError) return undefined
    throw error
  })
}

function failureOf(cause: unknown, parameters: readonly unknown[]): StoreFailure {
  const why = cause instanceof Error ? cause.message : String(cause)
  if (!(cause instanceof StoreFullError)) {
    const message = `expected the stored state to be read or written, got a failure: ${why}; call again`
    return new StoreFailure(message, { cause, retryable: true })
  }
  const instead = "Make room and call again, or open the map with storage: 'memory' or mode: 'instant'"
  return new StoreFailure(`expected room for ${bytesIn(parameters)} bytes of state, got none: ${why}. ${instead}`, {
    cause,
  })
}

/** Bytes of the values that a store was given to write. */
function bytesIn(value: unknown): number {
  if (value instanceof Uint8Array) return value.length
  if (typeof value !== 'object' || value === null) return 0
  return Object.values(value).reduce<number>((sum, part) => sum + bytesIn(part), 0)
}

/** A store whose failures are StoreFailures. Its errors about the state are passed on. */
export function watched(store: StateStore): StateStore {
  return new Proxy(store, {
    get(store, name) {
      const member: unknown = Reflect.get(store, name, store)
      if (typeof member !== 'function') return member
      return async (...parameters: unknown[]) => {
        try {
          return await member.apply(store, parameters)
        } catch (cause) {
          if (isMoved(cause)) throw cause
          throw failureOf(cause, parameters)
        }
      }
    },
  })
}
