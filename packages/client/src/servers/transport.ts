// All requests to servers. A request has no cookies, no referrer and no identifiers, so that two servers cannot match requests, and no
// content type, so that browsers send no preflight. A reply has a limit of length, and deadlines that depend on lengths alone: one whose
// length is not known beforehand has ten seconds, and the time that its Content-Length takes.

import { type ErrorReply, parseErrorReply, WireError } from '@keyhush/protocol'
import { OVER, onAbort } from '../base/abort.js'
import { concatenated } from '../base/bytes.js'
import { BACKOFF_MS, ERROR_REPLY_BYTES, EVENTS_A_STREAM, SILENCE_MS, slowestMs } from '../base/constants.js'
import {
  KeyhushError,
  NetworkError,
  ProtocolError,
  RateLimitedError,
  UsageError,
  VersionError,
} from '../base/errors.js'
import type { Environment } from '../platform/environment.js'
import { watchPolicy } from '../platform/policy.js'
import type { Server, Servers } from './parties.js'
import type { Standing } from './standing.js'
import { Meter } from './stats.js'

/** The path of a blob, before its hash. */
export const BLOBS = '/v1/blobs/'

/** One server, and the way to it. */
export interface Link {
  readonly server: Server
  readonly environment: Pick<Environment, 'clock' | 'fetch' | 'connection'>
  readonly meter: Meter
  /** the same on all links of a map */
  readonly standing: Standing
}

/** To all servers of a map, in the order of `Servers`. */
export type Links = readonly Link[]

/** `meters`: one a server; missing: the bytes are not reported. */
export function linksOf(
  servers: Servers,
  environment: Link['environment'],
  standing: Standing,
  meters?: readonly Meter[],
): Links {
  return servers.map((server, s) => ({ server, environment, standing, meter: meters?.[s] ?? new Meter() }))
}

/** Receives a body piece by piece; the next piece is read when it is done. */
export type Sink = (chunk: Uint8Array) => void | Promise<void>

/** A GET whose body may be of any length up to `atMost` bytes. `bytes`: how long it is, if the agreed manifest tells. */
export async function getBounded(
  link: Link,
  path: string,
  atMost: number,
  signal?: AbortSignal,
  bytes = 0,
  told?: (bytes: number) => void,
): Promise<Uint8Array> {
  const chunks: Uint8Array[] = []
  const take = (chunk: Uint8Array) => {
    told?.(chunk.length)
    chunks.push(chunk)
  }
  await transfer(link, { path, atMost, bytes }, take, signal)
  return concatenated(chunks)
}

/** A GET of a blob of exactly `bytes` bytes, into `sink`. */
export async function getBlob(
  link: Link,
  hash: string,
  bytes: number,
  sink: Sink,
  signal?: AbortSignal,
): Promise<void> {
  await transfer(link, { path: BLOBS + hash, atMost: bytes, exactly: true }, sink, signal)
}

/** The same, in one piece; or its last `bytes` bytes, which begin at byte `from`. Calls `told` with the number of bytes in each chunk. */
export async function getWholeBlob(
  link: Link,
  hash: string,
  bytes: number,
  signal: AbortSignal,
  told?: (bytes: number) => void,
  from?: number,
): Promise<Uint8Array> {
  return await inOnePiece(link, { path: BLOBS + hash, atMost: bytes, exactly: true, from }, signal, told)
}

/**
 * Sends a lookup's request, or one to the fence. The reply has exactly `bytes` bytes. Without a signal it cannot be called off: it runs to
 * its deadline (P5), at `until` by the link's clock at the latest.
 */
export async function post(
  link: Link,
  path: string,
  body: Uint8Array,
  bytes: number,
  until: number,
  signal?: AbortSignal,
): Promise<Uint8Array> {
  return await inOnePiece(link, { path, body, atMost: bytes, exactly: true, until }, signal)
}

/** A reply whose length is known. Its memory grows with what has come: a manifest may promise 4 GiB. */
async function inOnePiece(
  link: Link,
  request: Request,
  signal?: AbortSignal,
  told?: (bytes: number) => void,
): Promise<Uint8Array> {
  let reply = new Uint8Array()
  let at = 0
  const take = (chunk: Uint8Array) => {
    const end = at + chunk.length
    if (end > reply.length) {
      const larger = new Uint8Array(Math.min(request.atMost, 2 * end))
      larger.set(reply)
      reply = larger
    }
    reply.set(chunk, at)
    at = end
    told?.(chunk.length)
  }
  await transfer(link, request, take, signal)
  return reply
}

/**
 * Reads a stream in pieces of `bytes` bytes until the server ends it. Throws if the server does not begin within SILENCE_MS, is silent for
 * `silenceMs` later, breaks off or refuses. `lasting`: whether it may last; if not, it has a reply's deadline, and need not be a stream.
 */
export async function readStream(
  link: Link,
  path: string,
  bytes: number,
  silenceMs: number,
  take: (piece: Uint8Array) => void,
  signal: AbortSignal,
  lasting = true,
): Promise<void> {
  const piece = new Uint8Array(bytes)
  let filled = 0
  const sink = (chunk: Uint8Array) => {
    for (let at = 0; at < chunk.length; ) {
      const part = chunk.subarray(at, at + bytes - filled)
      piece.set(part, filled)
      filled += part.length
      at += part.length
      if (filled < bytes) continue
      filled = 0
      take(piece)
    }
  }
  await transfer(link, { path, atMost: EVENTS_A_STREAM * bytes, lasting, silenceMs }, sink, signal)
}

interface Request {
  readonly path: string
  /** present: a POST, whose reply must not be compressed; missing: a GET */
  readonly body?: Uint8Array
  readonly atMost: number
  readonly exactly?: boolean
  /** only what is behind so many bytes is asked for */
  readonly from?: number | undefined
  /** the reply's probable length, for its deadline */
  readonly bytes?: number
  /** it has no deadline */
  readonly lasting?: boolean
  /** when it ends, whatever its length, by the link's clock */
  readonly until?: number
  /** how long the server may keep silent once its reply has begun; SILENCE_MS until then, and if not given */
  readonly silenceMs?: number
}

/** One request and its reply. `fetch` is called before the first await (P2). */
async function transfer(link: Link, request: Request, sink: Sink, outer?: AbortSignal): Promise<void> {
  outer?.throwIfAborted()
  const { meter } = link
  const { fetch } = link.environment
  const { name } = link.server
  const { atMost, exactly, body } = request
  const url = name + request.path
  const reply: Reply = { received: 0, length: exactly ? atMost : (request.bytes ?? 0), isWhole: false }
  const wait = waitFor(link, request, reply, outer)
  const policy = watchPolicy(url)
  let pieces: Pieces | undefined
  let whole: boolean | Promise<boolean> = false
  try {
    // 1. The request leaves, and its reply begins.
    meter.bytesUp += body?.length ?? 0
    const arriving = (async () => fetch(url, init(request, wait.signal)))()
    const response = await wait.for(arriving).catch(async error => {
      arriving.then(late => piecesOf(late).cancel()).catch(() => {}) // A late response is thrown away unread.
      throw error instanceof NetworkError && (await policy.refused()) ? forbidden(name, error.cause) : error
    })
    pieces = piecesOf(response, request.lasting)
    const isAnswer = response.status === (request.from ? 206 : 200)
    if (isAnswer) checkHead(name, request, response)
    const limit = isAnswer ? atMost : ERROR_REPLY_BYTES
    const announced = response.headers.get('content-length')
    reply.length ||= Math.min(limit, Number(announced) || 0)
    if (pieces.isWhole) {
      reply.isWhole = true
      if (Number(announced) > limit) throw wrongLength(name, request, response, `more than ${limit}`)
    }

    // 2. The body comes, at most `limit` bytes of it.
    const isBlob = isAnswer && exactly && !body
    const refused: Uint8Array[] = []
    const { read } = pieces
    const next = async () => (await wait.for(read())).value
    for (let chunk = await next(); chunk !== undefined; chunk = await next()) {
      reply.received += chunk.length
      meter.bytesDown += chunk.length
      if (isBlob) meter.earnedMs += slowestMs(chunk.length)
      if (reply.received > limit) throw wrongLength(name, request, response, `more than ${limit}`)
      if (isAnswer) await sink(chunk)
      else refused.push(chunk)
      // Its end comes a task later. The caller need not wait for it.
      if (exactly && reply.received === limit && announced === `${limit}`) {
        whole = next().then(
          chunk => chunk === undefined,
          () => false,
        )
        break
      }
    }
    whole ||= true

    // 3. It is whole.
    if (!isAnswer) throw refusal(name, request, response, refused)
    if (exactly && reply.received !== atMost) throw wrongLength(name, request, response, `${reply.received}`)
    if (isBlob) meter.earnedMs += SILENCE_MS
  } finally {
    wait.withdraw?.()
    policy.end()
    const end = (whole: boolean) => {
      wait.end(whole)
      if (!whole) pieces?.cancel().catch(() => {}) // Node's fetch leaves some bodies open whose signal has aborted: one stream in twenty
    }
    // With a Content-Encoding more may come than was announced, or no end: the connection is then closed.
    if (typeof whole === 'boolean') end(whole)
    else void whole.then(end)
  }
}

/** Of a reply under way, in bytes. */
interface Reply {
  received: number
  /** 0: not known */
  length: number
  /** it comes in one piece: how much of it has come does not show */
  isWhole: boolean
}

/** How long a reply is waited for: the server may be silent for so long, take so long for all of it, and the caller may call it off. */
function waitFor(link: Link, request: Request, reply: Reply, outer: AbortSignal | undefined) {
  const { clock } = link.environment
  const { name } = link.server
  const { body, lasting, until = Number.POSITIVE_INFINITY } = request
  const controller = new AbortController()
  const { signal } = controller
  /** rejects the promise that `for` returned last */
  let refuse: (reason: unknown) => void = () => {}
  const callOff = (reason: unknown) => {
    controller.abort(reason)
    refuse(reason)
  }
  const start = clock.now()
  /** since when we wait for the server; undefined: we work on what it has sent */
  let silentSince: number | undefined = start
  /** how long it may be silent: before the first byte, and after it */
  const silenceMs = () => (reply.isWhole ? allowedMs() : (reply.received > 0 && request.silenceMs) || SILENCE_MS)
  /** how long it may take for all of the reply */
  const allowedMs = () =>
    lasting
      ? Number.POSITIVE_INFINITY
      : Math.min(until - start, SILENCE_MS + slowestMs(reply.length + (body?.length ?? 0)))
  // One timer, which starts again if the deadline has moved: a timer for each chunk would double the time.
  const watch = () => {
    const now = clock.now()
    const silentFor = silentSince === undefined ? 0 : now - silentSince
    const left = Math.min(silenceMs() - silentFor, allowedMs() - (now - start))
    if (left > 0) {
      timer = clock.setTimeout(watch, left)
      return
    }
    const ms = Math.round(silentFor < silenceMs() ? allowedMs() : silenceMs())
    const message = `expected an answer within ${ms} ms, got none; the server is unreachable, overloaded or withholds it: call again later`
    callOff(new NetworkError(name, message, { timedOut: true, begun: reply.received > 0 }))
  }
  let timer = clock.setTimeout(watch, Math.min(silenceMs(), allowedMs()))
  return {
    signal,
    withdraw: outer && onAbort(outer, () => callOff(outer.reason)),
    /** Waits for the server: one promise at a time, which `callOff` rejects. */
    for: <T>(work: Promise<T>) => {
      silentSince = clock.now()
      return new Promise<T>((resolve, reject) => {
        refuse = reject
        if (signal.aborted) reject(signal.reason)
        const come = (value: T) => {
          silentSince = undefined
          resolve(value)
        }
        work.then(come, cause => {
          if (signal.aborted) reject(signal.reason)
          else reject(cause instanceof KeyhushError ? cause : unreachable(name, cause, reply.received > 0))
        })
      })
    },
    /** `whole`: the connection may be used again */
    end: (whole: boolean) => {
      clock.clearTimeout(timer)
      if (!whole) controller.abort(OVER) // the rest is not read
    },
  }
}

function init(request: Request, signal: AbortSignal): RequestInit {
  return {
    method: request.body === undefined ? 'GET' : 'POST',
    // Bytes without a Blob's type or a string's charset: fetch then sends no Content-Type.
    ...(request.body && { body: request.body as Uint8Array<ArrayBuffer> }),
    ...(request.from && { headers: { range: `bytes=${request.from}-` } }),
    credentials: 'omit',
    referrerPolicy: 'no-referrer',
    cache: 'no-store', // validators are supercookies
    redirect: 'manual', // followed, it would give one server's query to another; edge runtimes know no 'error'
    signal,
  }
}

/** What a body comes in. */
interface Pieces {
  /** the next piece; without a value: there is no more */
  readonly read: () => Promise<{ readonly value?: Uint8Array | undefined }>
  readonly cancel: () => Promise<unknown>
  /** all of it is one piece */
  readonly isWhole?: true
}

/** Of a web stream, of a stream of Node, or of a reply without one. Throws UsageError for what an app's `fetch` must not return. */
function piecesOf(response: Response, lasting = false): Pieces {
  const { body, headers } = response ?? {}
  const reader = body?.getReader?.()
  if (reader) return { read: () => reader.read(), cancel: () => reader.cancel(OVER) }
  const stream = body?.[Symbol.asyncIterator]?.() as AsyncIterator<Uint8Array, undefined> | undefined
  if (stream) return { read: () => stream.next(), cancel: async () => stream.return?.() }
  const isReply = typeof headers?.get === 'function'
  const cancel = async () => {}
  if (isReply && body === null) return { read: async () => ({}), cancel }
  if (!isReply || lasting || typeof response.arrayBuffer !== 'function') {
    const what = lasting ? 'a Response whose body is a stream' : 'a Response with headers, and a body or arrayBuffer()'
    throw new UsageError(`fetch: expected ${what}, got another value; pass a fetch() that returns one`)
  }
  let whole: Promise<ArrayBuffer> | undefined
  const read = async () => {
    if (whole) return {}
    whole = response.arrayBuffer()
    return { value: new Uint8Array(await whole) }
  }
  return { read, cancel, isWhole: true }
}

/** Checks a reply before its body is read. Throws ProtocolError, or NetworkError for what is no Keyhush server's. */
function checkHead(server: string, request: Request, response: Response): void {
  if (response.redirected) throw elsewhere(server, request.path, 'a redirect')
  if (request.body === undefined) return
  // A compressed answer's length would depend on its contents (P1).
  const encoding = response.headers.get('content-encoding')
  if (encoding !== null)
    throw new ProtocolError(server, "expected no Content-Encoding, got one; turn off compression at the server's proxy")
  // Browsers hide Content-Encoding across origins, but not Content-Length.
  const length = response.headers.get('content-length')
  if (length !== null && length !== `${request.atMost}`)
    throw wrongLength(server, request, response, 'another Content-Length')
}

/** Hosts of files may call bytes what they like, so the type counts only where the length is wrong. */
function wrongLength(server: string, request: Request, response: Response, came: string): ProtocolError | NetworkError {
  const [, type] = /^(text\/html|application\/json)/.exec(response.headers.get('content-type') ?? '') ?? []
  if (type !== undefined) return elsewhere(server, request.path, `status 200 and ${type}`)
  const expected = `${request.exactly ? '' : 'at most '}${request.atMost}`
  return new ProtocolError(server, `expected ${expected} bytes in reply, got ${came}; does a proxy change replies?`)
}

function unreachable(server: string, cause: unknown, begun: boolean): NetworkError {
  const inner = Object(Object(cause).cause ?? cause) // Node's own is "fetch failed"
  const page =
    "redirects elsewhere, does not allow this origin by Access-Control-Allow-Origin (CORS), or is not in connect-src of the page's content security policy"
  // Only outside of pages does the platform say why.
  const other = 'location' in globalThis ? page : `or redirects elsewhere (${inner.message || inner.code})`
  const message = `expected an answer, got none: the server is unreachable, broke off, ${other}; call again later`
  return new NetworkError(server, message, { cause, begun })
}

/** The error for a reply of something else: of a captive portal, of a proxy or tunnel on the way, or of another site. */
export function elsewhere(
  server: string,
  path: string,
  came: string,
  facts: ConstructorParameters<typeof NetworkError>[2] = { begun: true },
): NetworkError {
  const message = `expected a reply at ${path}, got ${came} of no Keyhush server; call again later, or check the URL`
  return new NetworkError(server, message, facts)
}

function forbidden(server: string, cause: unknown): NetworkError {
  const came = "got none: the page's content security policy refuses requests to it"
  const message = `expected an answer, ${came}; add ${new URL(server).origin} to its connect-src`
  return new NetworkError(server, message, { cause, retryable: false })
}

/** The error for a reply of another status than asked for. It does not repeat the server's message. */
function refusal(server: string, { path }: Request, response: Response, body: readonly Uint8Array[]): KeyhushError {
  const { status } = response
  const retryAfterMs = retryAfter(response.headers.get('retry-after'))
  if (status === 429) return new RateLimitedError(server, retryAfterMs)
  const reply = errorReply(body)
  if (reply === undefined) {
    const isRedirect = response.type === 'opaqueredirect' || (status >= 300 && status < 400)
    const came = isRedirect ? 'a redirect' : `status ${status}`
    // Whatever stands before a server has words of its own for what is not there.
    const refusal = status === 404 ? 'not_found' : undefined
    return elsewhere(server, path, came, { begun: status < 500, refusal, retryAfterMs })
  }
  const { code: refusal } = reply
  if (refusal === 'epoch_unknown') {
    const { generation, epoch } = reply
    const newest = generation === undefined || epoch === undefined ? undefined : { generation, epoch }
    return new VersionError(server, 'expected an answer at the epoch of this map, got a refusal; call again', {
      newest,
      retryable: true,
    })
  }
  if (refusal === 'not_found' && path.startsWith(BLOBS)) {
    const what =
      'expected a blob of an epoch that the servers show, got a refusal: the server no longer has it, or not yet'
    return new VersionError(server, `${what}; call again, and tell its operator if it lasts`, {
      refusal,
      retryable: true,
    })
  }
  const came = `expected status 200 at ${path}, got status ${status} (${refusal})`
  if (status >= 500) return new NetworkError(server, `${came}; try again later`, { refusal, retryAfterMs })
  // Paths are the only words of a server that are repeated: they have a strict form.
  const advice = reply.databases?.length
    ? `this server has databases at ${reply.databases.join(', ')}: is the path of the URL right?`
    : 'is this the URL of a Keyhush server?'
  return new ProtocolError(server, `${came}; ${advice}`, { refusal })
}

function errorReply(body: readonly Uint8Array[]): ErrorReply | undefined {
  const decoder = new TextDecoder()
  const text = body.map(chunk => decoder.decode(chunk, { stream: true })).join('')
  try {
    return parseErrorReply(text)
  } catch (error) {
    if (error instanceof WireError) return undefined // for example a proxy's page
    throw error
  }
}

/** In milliseconds; no less than the usual pause, or each request would be followed by the next at once. */
function retryAfter(header: string | null): number | undefined {
  return header !== null && /^\d{1,6}$/.test(header) ? Math.max(1000 * Number(header), BACKOFF_MS) : undefined
}
