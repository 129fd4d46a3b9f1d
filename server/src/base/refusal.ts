// A request that is refused, with a code of the protocol's table. Thrown by handlers and hooks; plugins/errors.ts turns
// it into a reply.

import { ERROR_CODES, type ErrorCode, type ErrorReply, WireError } from '@keyhush/protocol'

/** What else some codes' replies have (docs/protocol.md, HTTP). */
export type RefusalDetails = Pick<ErrorReply, 'generation' | 'epoch' | 'line' | 'databases'>

/** `message` goes to the client: it says what is wrong and never repeats what a query sent. */
export class Refusal extends Error {
  override readonly name = 'Refusal'
  readonly code: ErrorCode
  /** HTTP status; what the code's is, unless the table has none for the case */
  readonly statusCode: number
  readonly #details: RefusalDetails
  /** seconds after which a refusal that passes is worth another try: always the same, whatever the server is busy with */
  readonly retryAfter: number

  constructor(
    code: ErrorCode,
    message: string,
    statusCode: number = ERROR_CODES[code],
    details: RefusalDetails = {},
    retryAfter = 1,
  ) {
    // Nobody reads its stack, and floods are refused: making that took a third of the work.
    const { stackTraceLimit } = Error
    Reflect.set(Error, 'stackTraceLimit', 0) // does not throw where it is frozen
    super(message)
    Reflect.set(Error, 'stackTraceLimit', stackTraceLimit)
    this.retryAfter = retryAfter
    this.code = code
    this.statusCode = statusCode
    this.#details = details
  }

  get reply(): ErrorReply {
    return { code: this.code, message: this.message, ...this.#details }
  }
}

/** What `read` makes of a message. Throws a Refusal with this code if the message is malformed. */
export function readMessage<T>(read: () => T, code: ErrorCode = 'bad_request'): T {
  try {
    return read()
  } catch (error) {
    if (error instanceof WireError) throw new Refusal(code, error.message)
    throw error
  }
}

/** For an epoch that cannot be answered: names the newest that can. */
export function epochUnknown(newest: { readonly generation: number; readonly epoch: number }): Refusal {
  const { generation, epoch } = newest
  return new Refusal('epoch_unknown', 'expected an epoch that this server answers, got another', undefined, {
    generation,
    epoch,
  })
}

/** While a base is being prepared, which takes some seconds. */
export function notPreparedYet(): Refusal {
  const message = 'lookups with one server are being prepared; try again later'
  return new Refusal('not_ready', message, undefined, undefined, 5)
}
