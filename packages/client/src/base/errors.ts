// Every way in which a map can fail: a class each, with a `code` that never changes. Messages say what was expected, what
// came and what to do. They name servers and sizes, but never a key, an index, an offset or a byte of a record.

import type { EpochEvent, ErrorCode } from '@keyhush/protocol'

/**
 * Every error of this package. `error instanceof KeyhushError` narrows to this union, and `switch (error.code)` then to one class
 * with its fields.
 */
export type KeyhushError =
  | TamperedError
  | ServersDisagreeError
  | CondemnedError
  | NetworkError
  | TimeoutError
  | RateLimitedError
  | ProtocolError
  | VersionError
  | SignatureError
  | StorageError
  | UnsupportedError
  | InternalError
  | ClosedError
  | UsageError

/** One for each class. */
export type KeyhushErrorCode = KeyhushError['code']

interface ErrorFacts extends ErrorOptions {
  readonly retryable?: boolean | undefined
  readonly retryAfterMs?: number | undefined
}

abstract class AnyError extends Error {
  abstract readonly code: KeyhushErrorCode
  /** whether the same call may well succeed later, with nothing changed by you; docs/common-errors.md has a table */
  readonly retryable: boolean
  /** how long to wait before that; undefined: the server did not say */
  readonly retryAfterMs: number | undefined

  constructor(message?: string, { retryable = false, retryAfterMs, ...options }: ErrorFacts = {}) {
    super(message, options)
    this.retryable = retryable
    this.retryAfterMs = retryAfterMs
  }
}

/** What all errors of this package are instances of. */
export const KeyhushError: abstract new (message?: string, options?: ErrorFacts) => KeyhushError = AnyError as never

interface ServerErrorFacts extends ErrorFacts {
  readonly refusal?: ErrorCode | undefined
}

/** An error that a server caused. */
export abstract class ServerError extends AnyError {
  /** its origin and path, as in `servers`; undefined: one of them, and it is not known which */
  readonly server: string | undefined
  /** the code of the server's error reply (docs/protocol.md, HTTP), if it sent one */
  readonly refusal: ErrorCode | undefined
  /** the other server's error in the same call; the message has it too */
  readonly other: ServerError | undefined

  constructor(server: string | undefined, message: string, { refusal, ...facts }: ServerErrorFacts = {}) {
    super(server === undefined ? message : `${server}: ${message}`, facts)
    this.server = server
    this.refusal = refusal
  }
}

/** Adds the other server's error to `error`. */
export function joined<E extends ServerError>(error: E, other: ServerError): E {
  if (error.other !== undefined) return error
  error.message += `; and ${other.message}`
  return Object.assign(error, { other })
}

/**
 * A server sent bytes that contradict the manifest both servers had agreed on. It lied, or its data has rotted. `server`
 * is undefined where it is not known which one lied: the replies only contradict each other.
 */
export class TamperedError extends ServerError {
  override readonly name = 'TamperedError'
  readonly code = 'tampered'
}

/** The servers do not publish the same database. One of them is wrong, and a client cannot tell which. */
export class ServersDisagreeError extends AnyError {
  override readonly name = 'ServersDisagreeError'
  readonly code = 'servers_disagree'
}

/** The map's hint must never be used again. `reset()` begins anew. */
export class CondemnedError extends AnyError {
  override readonly name = 'CondemnedError'
  readonly code = 'condemned'
  /** the server whose answer failed verification; undefined if the local state was at fault */
  readonly server: string | undefined

  constructor(server: string | undefined) {
    const reason =
      server === undefined
        ? 'the local state is corrupt, or a copy of it was restored'
        : `${server} has answered with forged records`
    super(`expected a state that may be used, got a condemned one: ${reason}; call reset(), which makes a new one`)
    this.server = server
  }
}

/** A server could not be reached, broke off, gave no answer in time, or is out of service. */
export class NetworkError extends ServerError {
  override readonly name = 'NetworkError'
  readonly code = 'network'
  declare readonly server: string
  /** it kept silent past a deadline, rather than failing at once */
  readonly timedOut: boolean

  constructor(server: string, message: string, facts: ServerErrorFacts & { readonly timedOut?: boolean } = {}) {
    const { timedOut = false, ...others } = facts
    super(server, message, { retryable: true, ...others })
    this.timedOut = timedOut
  }
}

/**
 * A call has waited for servers as long as `timeoutMs` allows. What was sent for a lookup is finished all the same, so that no server
 * can tell, and the next call waits for it.
 */
export class TimeoutError extends AnyError {
  override readonly name = 'TimeoutError'
  readonly code = 'timeout'
  /** those that had not answered */
  readonly servers: readonly string[]

  constructor(servers: readonly string[], timeoutMs: number) {
    super(`expected an answer within ${timeoutMs} ms, got none from ${servers.join(' and ')}; call again later`, {
      retryable: true,
    })
    this.servers = servers
  }
}

/** A server refuses requests that come too often. */
export class RateLimitedError extends ServerError {
  override readonly name = 'RateLimitedError'
  readonly code = 'rate_limited'
  declare readonly server: string

  constructor(server: string, retryAfterMs: number | undefined) {
    const wait = retryAfterMs === undefined ? 'a while' : `${retryAfterMs / 1000} s`
    super(server, `expected an answer, got a refusal of too many requests; call again in ${wait}`, {
      retryable: true,
      retryAfterMs,
    })
  }
}

/** A reply that does not follow docs/protocol.md: wrong length, header, status or encoding. */
export class ProtocolError extends ServerError {
  override readonly name = 'ProtocolError'
  readonly code = 'protocol'
  declare readonly server: string
}

/** A format that this SDK does not know, or an epoch that the server does not answer, no longer or not yet. */
export class VersionError extends ServerError {
  override readonly name = 'VersionError'
  readonly code = 'version'
  declare readonly server: string
  /** the newest epoch the server says it has; undefined if the error is not about epochs */
  readonly newest: EpochEvent | undefined

  constructor(
    server: string,
    message: string,
    facts: ServerErrorFacts & { readonly newest?: EpochEvent | undefined } = {},
  ) {
    const { newest, ...others } = facts
    super(server, message, others)
    this.newest = newest
  }
}

/**
 * The publisher's signature over what both servers show is missing, or does not hold: `open({ publisherKey })` was given
 * a key. Servers that agree with each other may still show a database that the publisher never made.
 */
export class SignatureError extends AnyError {
  override readonly name = 'SignatureError'
  readonly code = 'signature'
}

/** The client's own state cannot be stored, or contradicts itself. */
export class StorageError extends AnyError {
  override readonly name = 'StorageError'
  readonly code = 'storage'
}

/**
 * Why the map cannot open, or can no longer answer. `webassembly`: the platform has no WebAssembly with SIMD; `policy`: the
 * page's content security policy forbids it; `module`: the WebAssembly file could not be loaded; `crashed`: the module
 * crashed, most likely out of memory; `memory`: the database is too large for the device; `platform`: something else that
 * browsers and Node have is missing; `fence`: no rollback fence, and `rollback: 'strict'`; `offer`: these servers, or this
 * database, do not have what the options demand; `download`: it takes a download that `open({ download })` has refused; `ceremony`: the servers prove with a key made for development.
 */
export type UnsupportedReason =
  | 'webassembly'
  | 'policy'
  | 'module'
  | 'crashed'
  | 'memory'
  | 'platform'
  | 'fence'
  | 'offer'
  | 'download'
  | 'ceremony'

/** This platform, or these servers, cannot do what was asked for; `reason` says which. */
export class UnsupportedError extends AnyError {
  override readonly name = 'UnsupportedError'
  readonly code = 'unsupported'
  readonly reason: UnsupportedReason

  constructor(reason: UnsupportedReason, message: string, facts?: ErrorFacts) {
    super(message, facts)
    this.reason = reason
  }
}

/**
 * Something went wrong for which this package has no error of its own: a bug in it, or in the platform. `cause` has what
 * was thrown; please report it.
 */
export class InternalError extends AnyError {
  override readonly name = 'InternalError'
  readonly code = 'internal'

  constructor(cause: unknown) {
    super('expected no failure here, got the one in `cause`; please report it', { cause })
  }
}

/** The map was closed. */
export class ClosedError extends AnyError {
  override readonly name = 'ClosedError'
  readonly code = 'closed'

  constructor() {
    super('expected an open map, got a closed one; open() another')
  }
}

/** The app passed a wrong argument: a malformed key or URL, an index beyond `size`, too large a batch. */
export class UsageError extends AnyError {
  override readonly name = 'UsageError'
  readonly code = 'usage'
}
