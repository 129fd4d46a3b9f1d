// The one error of this package: bytes or values that break the format.

/** `malformed`: breaks a rule of the format. `version`: of a format or suite this software does not know. */
export type WireErrorCode = 'malformed' | 'version'

/** The message says which field, what was expected and what came. It never quotes a body. */
export class WireError extends Error {
  override readonly name = 'WireError'
  readonly code: WireErrorCode

  constructor(code: WireErrorCode, message: string) {
    super(message)
    this.code = code
  }
}

/** Throws a `malformed` WireError: `field: expected …, got …`. */
export function malformed(field: string, expected: string | number, got: string | number): never {
  throw new WireError('malformed', `${field}: expected ${expected}, got ${got}`)
}
