// Every way in which a map can fail: a class each, with a `code` that never changes. Messages say what was expected, what
// came and what to do. They name servers and sizes, but never a key, an index, an offset or a byte of a record.

import type { EpochEvent, ErrorCode } from '@keyhush/protocol'

/** One for each class. */
export type KeyhushErrorCode =
  | 'tampered'
  | 'servers_disagree'
  | 'condemned'
  | 'network'
  | 'rate_limited'
  | 'protocol'
  | 'version'
  | 'signature'
  | 'storage'
  | 'unsupported'
  | 'internal'
  | 'closed'
  | 'usage'

/** What all errors of this package have in common. Catch by class or by `code`. */
export abstract class KeyhushError extends Error {
  abstract readonly code: KeyhushErrorCode
}

interface ServerErrorOptions extends ErrorOptions {
  readonly refusal?: ErrorCode | undefined
}

/** An error that a server caused. */
export abstract class ServerError extends KeyhushError {
  /** its origin and path, as in `servers`; undefined: one of them, and it is not known which */
  readonly server: string | undefined
  /** the code of the server's error reply (docs/protocol.md, HTTP), if it sent one */
  readonly refusal: ErrorCode | undefined
  /** the other server's error in the same call; the message has it too */
  readonly other: ServerError | undefined

  constructor(server: string | undefined, message: string, { refusal, ...options }: ServerErrorOptions = {}) {
    super(server === undefined ? message : `${server}: ${message}`, options)
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
export class ServersDisagreeError extends KeyhushError {
  override readonly name = 'ServersDisagreeError'
  readonly code = 'servers_disagree'
}

/** The map's hint must never be used again. `reset()` begins anew. */
export class CondemnedError extends KeyhushError {
  override readonly name = 'CondemnedError'
  readonly code = 'condemned'
  /** the server whose answer failed verification; undefined if the local state was at fault */
  readonly server: string | undefined

  constructor(server: string | undefined) {
    const reason =
      server === undefined
        ? 'the local state is corrupt, or a copy of it was restored'
        : `${server} answered with forged records`
    super(`this map's state is condemned: ${reason}. Call reset() to begin anew with a new hint`)
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

  constructor(server: string, message: string, options: ServerErrorOptions & { readonly timedOut?: boolean } = {}) {
    super(server, message, options)
    this.timedOut = options.timedOut === true
  }
}

/** A server refuses requests that come too often. */
export class RateLimitedError extends ServerError {
  override readonly name = 'RateLimitedError'
  readonly code = 'rate_limited'
  declare readonly server: string
  /** undefined if the server did not say */
  readonly retryAfterSeconds: number | undefined

  constructor(server: string, retryAfterSeconds: number | undefined) {
    const wait = retryAfterSeconds === undefined ? 'a while' : `${retryAfterSeconds} s`
    super(server, `too many requests; try again in ${wait}`)
    this.retryAfterSeconds = retryAfterSeconds
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

  constructor(server: string, message: string, newest?: EpochEvent) {
    super(server, message)
    this.newest = newest
  }
}

/**
 * The publisher's signature over what both servers show is missing, or does not hold: `open({ publisherKey })` was given
 * a key. Servers that agree with each other may still show a database that the publisher never made.
 */
export class SignatureError extends KeyhushError {
  override readonly name = 'SignatureError'
  readonly code = 'signature'
}

/** The client's own state cannot be stored, or contradicts itself. */
export class StorageError extends KeyhushError {
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
export class UnsupportedError extends KeyhushError {
  override readonly name = 'UnsupportedError'
  readonly code = 'unsupported'
  readonly reason: UnsupportedReason

  constructor(reason: UnsupportedReason, message: string, options?: ErrorOptions) {
    super(message, options)
    this.reason = reason
  }
}

/**
 * Something went wrong for which this package has no error of its own: a bug in it, or in the platform. `cause` has what
 * was thrown; please report it.
 */
export class InternalError extends KeyhushError {
  override readonly name = 'InternalError'
  readonly code = 'internal'

  constructor(cause: unknown) {
    super('something failed that should not; see `cause`, and please report it', { cause })
  }
}

/** The map was closed. */
export class ClosedError extends KeyhushError {
  override readonly name = 'ClosedError'
  readonly code = 'closed'

  constructor() {
    super('this map is closed; open() another')
  }
}

/** The app passed a wrong argument: a malformed key or URL, an index beyond `size`, too large a batch. */
export class UsageError extends KeyhushError {
  override readonly name = 'UsageError'
  readonly code = 'usage'
}
