// Calls into the core. A trap of WebAssembly (`WebAssembly.RuntimeError`) leaves its memory in an unknown state, so that
// instance and every map on it end; `loadCore()` gives later maps a fresh one.

import type { ClientCore, Core, OneServerCore } from '@keyhush/wasm/client'
import { discardInstance } from '@keyhush/wasm/instance'
import { CondemnedError, StorageError, UnsupportedError } from '../base/errors.js'
import { StateUnreadableError } from '../store/store.js'

/** A running module, of any build. */
type AnyCore = Core | OneServerCore

const dead = new WeakSet<AnyCore>()

/** Whether an instance has trapped. */
export function isDead(core: AnyCore): boolean {
  return dead.has(core)
}

/** Throws UnsupportedError if the instance has trapped. */
export function assertAlive(core: AnyCore): void {
  if (dead.has(core)) throw trapped()
}

/** The core that can make hints, copies and stored forms; in JavaScript copies alone. It is loaded before a map makes or resumes one. */
export function hintsOf(core: Core): ClientCore {
  if ('newLocal' in core) return core as ClientCore
  throw new UnsupportedError(
    'module',
    'wasm: expected client_bg.wasm, got a module that does instant lookups alone; pass the other file',
  )
}

/** Runs `work`, which calls into `core`, and turns the core's errors into this package's. */
export function inCore<T>(core: AnyCore, work: () => T): T {
  try {
    return guarded(core, work)
  } catch (error) {
    throw translated(error)
  }
}

/** Runs `work`, which has the core read stored bytes. Bytes that it refuses are a StateUnreadableError (S3). */
export function readBack<T>(core: Core, work: () => T): T {
  try {
    return guarded(core, work)
  } catch (error) {
    const code = coreCode(error)
    // `layout` means that there is too little memory, which is not the bytes' fault.
    if (!UNREADABLE.has(code)) throw translated(error)
    throw new StateUnreadableError(`the core refuses what is stored (${code})`, { cause: error })
  }
}

const UNREADABLE = new Set<string | undefined>(['state', 'length', 'index', 'directory', 'phase'])

function guarded<T>(core: AnyCore, work: () => T): T {
  assertAlive(core)
  try {
    return work()
  } catch (error) {
    // Where there is no WebAssembly, nothing traps.
    if (typeof WebAssembly !== 'object' || !(error instanceof WebAssembly.RuntimeError)) throw error
    dead.add(core)
    discardInstance(core)
    throw trapped(error)
  }
}

/** Frees a handle, unless its instance is gone. Handles overwrite their secrets when they are freed. */
export function release(core: AnyCore, handle: { free(): void } | undefined): void {
  if (handle !== undefined && !dead.has(core)) inCore(core, () => handle.free())
}

/** The stable code of an error of the core. */
export function coreCode(error: unknown): string | undefined {
  return error instanceof Error ? (error as { code?: string }).code : undefined
}

function trapped(cause?: unknown): UnsupportedError {
  const message =
    'expected the WebAssembly module to run, but it has crashed, probably for lack of memory; open() the map again, or use mode `instant`'
  return new UnsupportedError('crashed', message, { cause })
}

function translated(error: unknown): unknown {
  switch (coreCode(error)) {
    case 'layout':
      return new UnsupportedError(
        'memory',
        "expected memory for this database, got too little; use mode 'instant', which keeps nothing",
        {
          cause: error,
        },
      )
    case 'condemned':
      return new CondemnedError(undefined)
    case 'state':
      return new StorageError('expected a consistent local state, got one that contradicts itself; call reset()', {
        cause: error,
      })
    default:
      return error
  }
}
