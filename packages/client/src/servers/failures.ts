// What several servers have failed with, as one error.

import { type ServerError, TamperedError } from '../base/errors.js'

/** The servers' failures as one error. */
export function worstOf(errors: readonly ServerError[]): ServerError {
  const worst = errors.reduce(worseOf)
  const other = errors.find(error => error !== worst)
  return other === undefined ? worst : joined(worst, other)
}

/** Adds the other server's error to `error`. What both say stands once. */
export function joined<E extends ServerError>(error: E, other: ServerError): E {
  if (error.other !== undefined) return error
  const prefix = `${error.server}: `
  const isAlike = other.message === `${other.server}: ${error.message.slice(prefix.length)}`
  error.message = isAlike ? `${error.server} and ${other.message}` : `${error.message}; and ${other.message}`
  return Object.assign(error, { other })
}

/** The failure to show: first a lie, then any other, last `not_found`, which a client that asked earlier would not have had. */
function worseOf(one: ServerError, other: ServerError): ServerError {
  return gravity(other) > gravity(one) ? other : one
}

function gravity(error: ServerError): number {
  if (error instanceof TamperedError) return 2
  return error.refusal === 'not_found' ? 0 : 1
}
