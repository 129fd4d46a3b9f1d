// Every way in which a map can fail: a class each, with a `code` that never changes. Messages say what was expected, what
// came and what to do. They name servers and sizes, but never a key, an index, an offset or a byte of a record.

import type { EpochEvent, ErrorCode } from '@keyhush/protocol'

/**
 * Every error of this package. `error instanceof KeyhushError` narrows to this union. `switch (error.code)` then narrows to one class
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

/** `error.code`: one for each class. Codes never change. */
export type KeyhushErrorCode = KeyhushError['code']

interface ErrorFacts extends ErrorOptions {
  readonly retryable?: boolean | undefined
  readonly retryAfterMs?: number | undefined
}

/** An app may have several copies of this package: a bundle's and `/keyhush.js`, say. This is the same symbol in all. */
const KINDS = Symbol.for('keyhush.error')

abstract class AnyError extends Error {
  /** What `instanceof` looks for. */
  static readonly kind: string = 'any'
  abstract readonly code: KeyhushErrorCode
  /** Whether the same call may succeed later, with nothing changed by you. docs/common-errors.md has a table. */
  readonly retryable: boolean
  /** How many milliseconds to wait before that. Undefined: the server did not say. */
  readonly retryAfterMs: number | undefined

  constructor(message?: string, { retryable = false, retryAfterMs, ...options }: ErrorFacts = {}) {
    super(message, options)
    this.retryable = retryable
    this.retryAfterMs = retryAfterMs
  }

  get [KINDS](): readonly string[] {
    return [AnyError.kind, this.code]
  }
}

/** Asks an error what it is: prototypes differ from copy to copy. A subclass of an app has no kind of its own. */
function isInstance(this: { readonly kind: string }, error: unknown): boolean {
  if (!Object.hasOwn(this, 'kind')) return Function.prototype[Symbol.hasInstance].call(this as never, error)
  return (error as Partial<AnyError> | null | undefined)?.[KINDS]?.includes(this.kind) === true
}

// Not a static field, which compilers for phones make an assignment of: the property that it would write to is read-only.
Object.defineProperty(AnyError, Symbol.hasInstance, { value: isInstance })

/** The class of all errors of this package. */
export const KeyhushError: abstract new (message?: string, options?: ErrorFacts) => KeyhushError = AnyError as never

interface ServerErrorFacts extends ErrorFacts {
  readonly refusal?: ErrorCode | undefined
}

/** An error that a server caused. */
export abstract class ServerError extends AnyError {
  static override readonly kind: string = 'server'
  /** The server's origin and path, as in `open({ servers })`. Undefined: it is not known which server. */
  readonly server: string | undefined
  /** The code of the server's error reply (docs/protocol.md, HTTP); `not_found` for any 404. Undefined: it sent none. */
  readonly refusal: ErrorCode | undefined
  /** Another server's error in the same call. The message has it too. */
  readonly other: ServerError | undefined

  constructor(server: string | undefined, message: string, { refusal, ...facts }: ServerErrorFacts = {}) {
    super(server === undefined ? message : `${server}: ${message}`, facts)
    this.server = server
    this.refusal = refusal
  }

  override get [KINDS](): readonly string[] {
    return [...super[KINDS], ServerError.kind]
  }
}

/**
 * A server sent bytes that contradict the manifest that the servers had agreed on. It lied, or its data is damaged. Warn your user, and
 * do not retry by yourself. `server` is undefined where it is not known which server lied, as in mode `instant`. In other modes the map
 * is condemned afterwards.
 */
export class TamperedError extends ServerError {
  static override readonly kind = 'tampered'
  override readonly name = 'TamperedError'
  readonly code = 'tampered'
}

/** The servers do not publish the same database. At least one of them is wrong, and the SDK cannot tell which. */
export class ServersDisagreeError extends AnyError {
  static override readonly kind = 'servers_disagree'
  override readonly name = 'ServersDisagreeError'
  readonly code = 'servers_disagree'
}

/** The map's state must not be used again, because of a lie or a copy. Call `map.reset()`, which makes a new state. */
export class CondemnedError extends AnyError {
  static override readonly kind = 'condemned'
  override readonly name = 'CondemnedError'
  readonly code = 'condemned'
  /** The server whose answer was wrong. Undefined: the stored state itself is wrong. */
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

/** A server could not be reached, broke off, gave no answer in time, is out of service, or something else replied. Retryable. */
export class NetworkError extends ServerError {
  static override readonly kind = 'network'
  override readonly name = 'NetworkError'
  readonly code = 'network'
  declare readonly server: string
  /** Whether the server kept silent past a deadline. Otherwise it failed at once. */
  readonly timedOut: boolean
  /** Whether part of the reply had come. */
  readonly begun: boolean

  constructor(
    server: string,
    message: string,
    facts: ServerErrorFacts & { readonly timedOut?: boolean; readonly begun?: boolean } = {},
  ) {
    const { timedOut = false, begun = false, ...others } = facts
    super(server, message, { retryable: true, ...others })
    this.timedOut = timedOut
    this.begun = begun
  }
}

/**
 * A call has waited for servers as long as `timeoutMs` allows. If a server had failed, or was busy, and was to be asked again, `cause` is its
 * error. Retryable. A lookup still runs to its end, so that no server can tell.
 * With a hint, the next lookup waits for it.
 */
export class TimeoutError extends AnyError {
  static override readonly kind = 'timeout'
  override readonly name = 'TimeoutError'
  readonly code = 'timeout'
  /** The servers that had not answered, or not given a filter. None: another tab was waited for. */
  readonly servers: readonly string[]

  /** `last`: what a server failed with before, that was to be asked again. */
  constructor(servers: readonly string[], timeoutMs: number, last?: KeyhushError | ServerError | undefined) {
    const from = servers.length === 0 ? 'another tab, which holds the state' : servers.join(' and ')
    const advice = last === undefined ? 'call again later' : `the last failure was ${last.message}`
    super(`expected an answer within ${timeoutMs} ms, got none from ${from}; ${advice}`, {
      retryable: true,
      retryAfterMs: last?.retryAfterMs,
      cause: last,
    })
    this.servers = servers
  }
}

/** A server refuses requests that come too often. Retryable after `retryAfterMs`. */
export class RateLimitedError extends ServerError {
  static override readonly kind = 'rate_limited'
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

/** A server's reply does not follow docs/protocol.md: its length, header, status or encoding is wrong. */
export class ProtocolError extends ServerError {
  static override readonly kind = 'protocol'
  override readonly name = 'ProtocolError'
  readonly code = 'protocol'
  declare readonly server: string
}

/**
 * A server uses a format that this SDK does not know, or does not answer for this epoch, no longer or not yet. From `sync()`: servers that
 * the map needs lack a newer epoch that the publisher has signed.
 */
export class VersionError extends ServerError {
  static override readonly kind = 'version'
  override readonly name = 'VersionError'
  readonly code = 'version'
  declare readonly server: string
  /** The newest epoch that the server says it has. Undefined: the error is not about epochs. */
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
 * You passed `publisherKey`, and the publisher's signature of the servers' database is missing or wrong. The servers may agree with each
 * other on a database that the publisher never made.
 */
export class SignatureError extends AnyError {
  static override readonly kind = 'signature'
  override readonly name = 'SignatureError'
  readonly code = 'signature'
}

/** The map's state cannot be stored or read. Retryable, if the store itself failed and still has room. */
export class StorageError extends AnyError {
  static override readonly kind = 'storage'
  override readonly name = 'StorageError'
  readonly code = 'storage'
}

/**
 * Why the map cannot open, or can no longer answer:
 *
 * - `webassembly`: the platform has no WebAssembly with SIMD. Mode `instant` does without, with two servers or more, and `local`, with a
 *   small database.
 * - `policy`: the page's content security policy, or the platform, forbids WebAssembly. The same modes do without.
 * - `module`: the WebAssembly file could not be loaded.
 * - `crashed`: the module crashed, most likely because memory ran out.
 * - `memory`: the database is too large for the device.
 * - `platform`: something else that browsers and Node have is missing; or a map of another request was used, in Cloudflare Workers.
 * - `fence`: with `rollback: 'strict'`, a server has no rollback fence.
 * - `offer`: these servers, or this database, do not have what your options need.
 * - `download`: the map needs a download that `open({ download })` has refused.
 * - `filter`: in mode `filter`, the filter does not exclude the key. It may be listed.
 * - `ceremony`: the servers prove with a key that was made for development.
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
  | 'filter'
  | 'ceremony'

/** The platform, or the servers, cannot do what you asked for. `reason` says what is missing. */
export class UnsupportedError extends AnyError {
  static override readonly kind = 'unsupported'
  override readonly name = 'UnsupportedError'
  readonly code = 'unsupported'
  readonly reason: UnsupportedReason

  constructor(reason: UnsupportedReason, message: string, facts?: ErrorFacts) {
    super(message, facts)
    this.reason = reason
  }
}

/** A bug, in this package or in the platform. `cause` is what was thrown. Please report it. */
export class InternalError extends AnyError {
  static override readonly kind = 'internal'
  override readonly name = 'InternalError'
  readonly code = 'internal'

  constructor(cause: unknown) {
    super('expected no failure here, got the one in `cause`; please report it', { cause })
  }
}

/** You called a map after its `close()`. */
export class ClosedError extends AnyError {
  static override readonly kind = 'closed'
  override readonly name = 'ClosedError'
  readonly code = 'closed'

  constructor() {
    super('expected an open map, got a closed one; open() another')
  }
}

/** You passed a wrong argument: a malformed key or URL, an index beyond `size`, too many keys at once. */
export class UsageError extends AnyError {
  static override readonly kind = 'usage'
  override readonly name = 'UsageError'
  readonly code = 'usage'
}
