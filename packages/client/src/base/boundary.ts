// Where this package ends. An app catches a KeyhushError, its own reason for aborting, or what its own listener has thrown.

import { InternalError, KeyhushError, UsageError } from './errors.js'

/** What a function of the app has thrown, on its way back to the app. */
export class AppFailure extends Error {
  constructor(override readonly cause: unknown) {
    super('a function of the app has failed')
  }
}

/** Calls a function of the app. */
export function callApp<T>(call: () => T): T {
  try {
    return call()
  } catch (error) {
    throw new AppFailure(error)
  }
}

/** `work`, with its errors as the app sees them. `signal` is the app's. */
export async function toApp<T>(work: Promise<T>, signal?: AbortSignal): Promise<T> {
  try {
    return await work
  } catch (error) {
    if (error instanceof KeyhushError || (signal?.aborted && error === signal.reason)) throw error
    throw error instanceof AppFailure ? error.cause : new InternalError(error)
  }
}

/** How to write options that have servers. */
export const WITH_SERVERS = "{ servers: ['https://a.example', 'https://b.example'] }"

/**
 * Throws UsageError for options of the wrong type. `functions` and `booleans` name the options of those types; `such` is how to write
 * some.
 */
export function checkOptions(
  call: string,
  options: unknown,
  functions: readonly string[] = [],
  booleans: readonly string[] = [],
  such = 'an object, or none',
): void {
  if (typeof options !== 'object' || options === null || Array.isArray(options)) {
    // Text may be a key, or a URL with a password.
    const came = typeof options === 'string' ? 'text' : Array.isArray(options) ? 'a list' : shown(options)
    throw new UsageError(`${call}: expected an object of options, got ${came}; pass ${such}`)
  }
  const given = options as Record<string, unknown>
  const { signal, timeoutMs } = given
  // By tag, not instanceof: one of another realm is as good.
  if (signal !== undefined && tagOf(signal) !== 'AbortSignal') {
    throw new UsageError(`${call}: ${expected('signal to be an AbortSignal', signal)}`)
  }
  if (timeoutMs !== undefined && !(typeof timeoutMs === 'number' && timeoutMs > 0)) {
    throw new UsageError(`${call}: ${expected('timeoutMs to be a number above 0, or Infinity', timeoutMs)}`)
  }
  for (const [names, type, what] of [
    [functions, 'function', 'a function'],
    [booleans, 'boolean', 'true or false'],
  ] as const) {
    for (const name of names) {
      const value = given[name]
      if (value === undefined || typeof value === type) continue
      throw new UsageError(`${call}: ${expected(`${name} to be ${what}`, value)}`)
    }
  }
}

/**
 * Throws UsageError for an unknown option, so that a misspelt one is not silently ignored. An object of a class may have
 * methods too, unless they look like listeners.
 */
export function checkNames(call: string, options: object, names: readonly string[]): void {
  const meantBy = (given: string) => names.find(name => name.toLowerCase() === given.toLowerCase())
  const isOther = ([name, value]: [string, unknown]) =>
    typeof value === 'function' && meantBy(name) === undefined && !/^on/i.test(name)
  const unknown = Object.entries(options).find(given => !names.includes(given[0]) && !isOther(given))?.[0]
  if (unknown === undefined) return
  const meant = meantBy(unknown)
  const instead = meant === undefined ? `expected some of ${names.join(', ')}` : `expected ${meant}`
  throw new UsageError(`${call}: there is no option ${JSON.stringify(unknown.slice(0, 40))}; ${instead}`)
}

/** Throws UsageError for a value that is none of `choices`. `where` says what they depend on. */
export function oneOf(name: string, choices: readonly string[], value: unknown, where?: string): void {
  if (typeof value === 'string' && choices.includes(value)) return
  const listed = choices.map(choice => `'${choice}'`).join(', ')
  throw new UsageError(`${name}: ${expected(where === undefined ? listed : `${listed} ${where}`, value)}`)
}

/** The words of a message on a wrong value. Never for keys, indices, or values that may hold credentials. */
export function expected(what: string, came: unknown): string {
  return `expected ${what}, got ${shown(came)}`
}

function shown(value: unknown): string {
  if (value === undefined) return 'nothing'
  if (typeof value === 'string') return value.length > 40 ? `text of ${value.length} characters` : JSON.stringify(value)
  if (typeof value === 'function') return 'a function'
  return typeof value === 'object' && value !== null ? `an object (${tagOf(value)})` : String(value)
}

export function tagOf(value: unknown): string {
  return Object.prototype.toString.call(value).slice('[object '.length, -1)
}
