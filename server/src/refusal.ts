// A request that is refused, with a code of the protocol's table. Thrown by handlers and hooks; plugins/errors.ts turns
// it into a reply.

import { ERROR_CODES, type ErrorCode, type ErrorReply } from '@pirouette/protocol'

/** `message` goes to the client: it says what is wrong and never repeats what was sent. */
export class Refusal extends Error {
  override readonly name = 'Refusal'
  readonly code: ErrorCode
  /** HTTP status; what the code's is, unless the table has none for the case */
  readonly statusCode: number

  constructor(code: ErrorCode, message: string, statusCode: number = ERROR_CODES[code]) {
    super(message)
    this.code = code
    this.statusCode = statusCode
  }

  get reply(): ErrorReply {
    return { code: this.code, message: this.message }
  }
}
