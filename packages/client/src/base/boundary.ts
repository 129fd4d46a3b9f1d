// Where this package ends. What an app catches is a PirouetteError, its own reason to call something off, or what its own
// listener has thrown.

import { InternalError, PirouetteError, UsageError } from './errors.js'

/** What a function of the app's has thrown, on its way back to the app. */
export class AppFailure extends Error {
  constructor(override readonly cause: unknown) {
    super('a function of the app has failed')
  }
}

/** Calls a function of the app's. */
export function callApp<T>(call: () => T): T {
  try {
    return call()
  } catch (error) {
    throw new AppFailure(error)
  }
}

/** `work` as the app sees it. `signal`: the one that the app may call it off with. */
export async function toApp<T>(work: Promise<T>, signal?: AbortSignal): Promise<T> {
  try {
    return await work
  } catch (error) {
    if (error instanceof PirouetteError || (signal?.aborted && error === signal.reason)) throw error
    throw error instanceof AppFailure ? error.cause : new InternalError(error)
  }
}

/** Throws UsageError for options that are none. `functions`: those of them that the app is called back with. */
export function checkOptions(call: string, options: unknown, functions: readonly string[] = []): void {
  if (typeof options !== 'object' || options === null) throw new UsageError(`${call}: expected an object of options`)
  const { signal } = options as { signal?: unknown }
  // By tag, not instanceof: one of another realm is as good.
  if (signal !== undefined && Object.prototype.toString.call(signal) !== '[object AbortSignal]') {
    throw new UsageError(`${call}: expected signal to be an AbortSignal`)
  }
  for (const name of functions) {
    const given = (options as Record<string, unknown>)[name]
    if (given !== undefined && typeof given !== 'function')
      throw new UsageError(`${call}: expected ${name} to be a function`)
  }
}
