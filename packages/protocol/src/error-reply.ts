// Error replies: `{ "code": "…", "message": "…" }` with the status that belongs to the code (docs/protocol.md, HTTP).

import { WireError } from './errors.js'

/** Every code a server sends, and its HTTP status. */
export const ERROR_CODES = {
  bad_request: 400,
  wrong_database: 404,
  epoch_unknown: 404,
  not_found: 404,
  too_large: 413,
  unsupported_encoding: 415,
  rate_limited: 429,
  internal: 500,
  not_ready: 503,
} as const

export type ErrorCode = keyof typeof ERROR_CODES

export interface ErrorReply {
  readonly code: ErrorCode
  /** for people; never shown to depend on what was asked */
  readonly message: string
}

const LONGEST_MESSAGE = 1024

/** Reads an error reply's body. Throws WireError for anything but a known code with a message of sane length. */
export function parseErrorReply(text: string): ErrorReply {
  let json: unknown
  try {
    json = JSON.parse(text)
  } catch {
    throw new WireError('malformed', 'error reply: expected JSON')
  }
  if (typeof json !== 'object' || json === null) throw new WireError('malformed', 'error reply: expected an object')
  const { code, message } = json as Record<string, unknown>
  if (typeof code !== 'string' || !Object.hasOwn(ERROR_CODES, code)) {
    throw new WireError('malformed', 'error reply: expected a code of the table in docs/protocol.md')
  }
  if (typeof message !== 'string' || message.length > LONGEST_MESSAGE) {
    throw new WireError('malformed', `error reply: expected a message of at most ${LONGEST_MESSAGE} characters`)
  }
  return { code: code as ErrorCode, message }
}
