// Error replies: `{ "code": "…", "message": "…" }` with the status that belongs to the code (docs/protocol.md, HTTP).

import { WireError } from './errors.js'

/** Every code a server sends, and its HTTP status. */
export const ERROR_CODES = {
  bad_request: 400,
  unauthorized: 401,
  wrong_database: 404,
  epoch_unknown: 404,
  not_found: 404,
  batch_conflict: 409,
  epoch_gap: 409,
  too_large: 413,
  unsupported_encoding: 415,
  batch_refused: 422,
  rate_limited: 429,
  internal: 500,
  fence_full: 503,
  instant_full: 503,
  not_ready: 503,
} as const

export type ErrorCode = keyof typeof ERROR_CODES

export interface ErrorReply {
  readonly code: ErrorCode
  /** for people; it never depends on what was asked */
  readonly message: string
  /** with `epoch_unknown`: the newest epoch this server answers */
  readonly generation?: number
  readonly epoch?: number
  /** with `batch_refused`: the operation's line, from 1 */
  readonly line?: number
  /** with `not_found`: paths of this server's databases, `/` or `/names` */
  readonly databases?: readonly string[]
}

/** Most databases that a reply names. */
export const DATABASES_NAMED = 16
/** The form of such a path. */
export const DATABASE_PATH = /^\/([A-Za-z0-9][A-Za-z0-9._-]{0,99})?$/

const LONGEST_MESSAGE = 1024

/** The numbers that may come with a code: all of them, or none. */
const MEMBERS: Partial<Record<ErrorCode, readonly ('generation' | 'epoch' | 'line')[]>> = {
  epoch_unknown: ['generation', 'epoch'],
  batch_refused: ['line'],
}

function isPositive(value: unknown): boolean {
  return typeof value === 'number' && Number.isInteger(value) && value >= 1 && value <= 0xffff_ffff
}

function databasesOf(json: { readonly databases?: unknown }): readonly string[] | undefined {
  const { databases } = json
  if (databases === undefined) return undefined
  const isPath = (path: unknown) => typeof path === 'string' && DATABASE_PATH.test(path)
  if (!Array.isArray(databases) || databases.length > DATABASES_NAMED || !databases.every(isPath)) {
    throw new WireError('malformed', `error reply: expected at most ${DATABASES_NAMED} paths of databases`)
  }
  return databases
}

/** Reads an error reply's body. Throws WireError unless it has a known code and a message that is not too long. */
export function parseErrorReply(text: string): ErrorReply {
  let json: unknown
  try {
    json = JSON.parse(text)
  } catch {
    throw new WireError('malformed', 'error reply: expected JSON, got another text')
  }
  if (typeof json !== 'object' || json === null)
    throw new WireError('malformed', 'error reply: expected an object, got another value')
  const { code, message } = json as Record<string, unknown>
  if (typeof code !== 'string' || !Object.hasOwn(ERROR_CODES, code)) {
    throw new WireError('malformed', 'error reply: expected a code of the table in docs/protocol.md, got another')
  }
  if (typeof message !== 'string' || message.length > LONGEST_MESSAGE) {
    throw new WireError(
      'malformed',
      `error reply: expected a message of at most ${LONGEST_MESSAGE} characters, got none or a longer one`,
    )
  }
  const names = MEMBERS[code as ErrorCode] ?? []
  const members = names.map(name => [name, (json as Record<string, unknown>)[name]] as const)
  const given = members.filter(([, value]) => value !== undefined)
  if (given.length > 0 && !members.every(([, value]) => isPositive(value))) {
    throw new WireError('malformed', `error reply: expected ${names.join(' and ')} from 1 to 2^32 - 1`)
  }
  const databases = code === 'not_found' ? databasesOf(json) : undefined
  return { code: code as ErrorCode, message, ...Object.fromEntries(given), ...(databases && { databases }) }
}
