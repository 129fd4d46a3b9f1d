// The publisher's client for one server.

import { Readable } from 'node:stream'
import type { ReadableStream } from 'node:stream/web'
import { setTimeout as sleep } from 'node:timers/promises'
import {
  BATCH_SIGNATURE_HEADER,
  type BatchSignature,
  decodeManifest,
  type EpochStatus,
  type ErrorReply,
  encodeBatchSignature,
  fromHex,
  type Info,
  type PostedSignature,
  parseEpochStatus,
  parseErrorReply,
  parseInfo,
  type SignatureInfo,
  signedBytes,
  toHex,
  WireError,
} from '@keyhush/protocol'
import { decodeManifests } from '@keyhush/protocol/chain'
import { verifies } from '../base/ed25519.js'
import { PublishError, type PublishExit } from '../base/errors.js'
import { ignoredProxy } from '../base/ignored-proxy.js'
import type { KnownManifest } from '../base/known-manifest.js'

export const TIMEOUT_MILLISECONDS = 120_000

/** How often a replica is asked for an epoch that it has yet to load, and the pause in between. */
const [REPLICA_TRIES, REPLICA_MILLISECONDS] = [40, 250]

/** Most bytes of a reply. The longest is a manifest. */
const MOST_BYTES = 8 * 1024 * 1024

/** Error codes after which the same call may succeed: it reads anew how far the servers are. */
const PASSING = new Set(['not_ready', 'rate_limited', 'internal', 'epoch_unknown', 'batch_conflict', 'epoch_gap'])

/** Whether one of these is a valid signature of the manifest by this key. */
export function isSigned(
  { manifest: { generation, epoch }, bytes }: KnownManifest,
  signatures: readonly SignatureInfo[],
  publicKey: Uint8Array,
): boolean {
  return signatures.some(
    entry =>
      entry.publicKey === toHex(publicKey) &&
      entry.generation === generation &&
      entry.epoch === epoch &&
      verifies(fromHex(entry.signature), signedBytes(bytes), publicKey),
  )
}

/** What came instead of a signature under this key (hex), if only another key has signed the epoch; undefined: none has. Verifies nothing. */
export function signedByAnother(
  epoch: number,
  signatures: readonly SignatureInfo[],
  publicKey: string,
): string | undefined {
  const keys = signatures.filter(each => each.epoch === epoch).map(each => each.publicKey)
  if (keys.length === 0 || keys.includes(publicKey)) return undefined
  const came = `one under another key, ${keys[0]!.slice(0, 8)}…`
  return `expected a signature under the key ${publicKey.slice(0, 8)}…, got ${came}; ask the publisher, and not the servers, for the right key`
}

export class PublishedServer {
  /** without a final slash */
  readonly url: string
  /** for messages */
  readonly name: string
  /** what its last reply's `Date` says, in seconds since 1970; undefined: it had none */
  clock: number | undefined
  readonly #fetch: typeof globalThis.fetch

  constructor(url: string, name = url.replace(/\/+$/, ''), fetch: typeof globalThis.fetch = globalThis.fetch) {
    if (!/^https?:\/\//.test(url))
      throw new PublishError(`${url}: expected a URL that begins with https://, got another; give the whole URL`)
    this.url = url.replace(/\/+$/, '')
    this.name = name
    this.#fetch = fetch
  }

  async newest(): Promise<KnownManifest> {
    return this.#manifest('/v1/manifest')
  }

  async manifest(generation: number, epoch: number): Promise<KnownManifest> {
    return this.#manifest(`/v1/manifest?generation=${generation}&epoch=${epoch}`)
  }

  /** The manifest of an epoch that the server has made. A replica may reply, which takes a moment to load the epoch. */
  async made(generation: number, epoch: number): Promise<KnownManifest> {
    for (let tries = REPLICA_TRIES; ; tries--) {
      try {
        return await this.manifest(generation, epoch)
      } catch (error) {
        const { code, epoch: shown } = error as PublishError
        if (code !== 'epoch_unknown' || shown! >= epoch || tries === 1) throw error
        await sleep(REPLICA_MILLISECONDS)
      }
    }
  }

  /**
   * The manifests after an epoch, or some of them. Each continues the one before; hashes are the caller's to check. `remedy`: what to do if
   * the server does not keep the next one any more.
   */
  async since(epoch: number, remedy: string): Promise<readonly KnownManifest[]> {
    const gone = () =>
      new PublishError(`${this.name}: expected the manifest of epoch ${epoch + 1}, got none any more; ${remedy}`, 4)
    const bytes = await this.#request(`/v1/manifests?since=${epoch}`).catch((error: PublishError) => {
      const isGone = error.code === 'epoch_unknown' && error.epoch! > epoch // a replica that is behind has no later epoch
      throw isGone ? gone() : error
    })
    const later = this.#read(() => decodeManifests(bytes)).filter(({ manifest }) => manifest.epoch > epoch)
    if (later.length > 0 && later[0]!.manifest.epoch > epoch + 1) throw gone() // a folder has the newest
    return later
  }

  async status(epoch: number): Promise<EpochStatus> {
    return this.#json(await this.#request(`/v1/epochs/${epoch}`), parseEpochStatus)
  }

  /** Downloads at most `bytes` of the blob with this hash (hex). The caller verifies them. */
  async blob(hash: string, bytes: number): Promise<Uint8Array> {
    return this.#request(`/v1/blobs/${hash}`, {}, bytes)
  }

  /** `isLate`: another server has made the epoch already, so the batch may have expired. */
  async publish(body: Uint8Array<ArrayBuffer>, signature: BatchSignature, isLate = false): Promise<EpochStatus> {
    const headers = { [BATCH_SIGNATURE_HEADER]: encodeBatchSignature(signature) }
    const path = isLate ? '/v1/epochs?late=1' : '/v1/epochs'
    return this.#json(await this.#request(path, { method: 'POST', body, headers }), parseEpochStatus)
  }

  /** Throws PublishError if the server would not publish the batch. `signature`: for a check. */
  async check(body: Uint8Array<ArrayBuffer>, signature: BatchSignature): Promise<void> {
    const headers = { [BATCH_SIGNATURE_HEADER]: encodeBatchSignature(signature) }
    await this.#request('/v1/checks', { method: 'POST', body, headers })
  }

  async info(): Promise<Info> {
    return this.#json(await this.#request('/v1/info'), parseInfo)
  }

  /** Those of the epochs that the server answers. */
  async signatures(): Promise<readonly SignatureInfo[]> {
    return (await this.info()).signatures
  }

  async sign(signature: PostedSignature): Promise<void> {
    await this.#request('/v1/signatures', { method: 'POST', body: JSON.stringify(signature) })
  }

  async #manifest(path: string): Promise<KnownManifest> {
    const bytes = await this.#request(path)
    return { bytes, manifest: this.#read(() => decodeManifest(bytes)) }
  }

  #json<T>(bytes: Uint8Array, parse: (json: unknown) => T): T {
    return this.#read(() => parse(JSON.parse(new TextDecoder().decode(bytes))))
  }

  #read<T>(work: () => T): T {
    try {
      return work()
    } catch (error) {
      if (!(error instanceof WireError) && !(error instanceof SyntaxError)) throw error
      throw this.#fault(`expected a Keyhush server's reply, got another (${error.message}); is the URL right?`)
    }
  }

  async #request(path: string, init: RequestInit = {}, most = MOST_BYTES): Promise<Uint8Array> {
    let response: Response
    let bytes: Uint8Array
    try {
      ;({ response, bytes } = await fetched(this.url + path, init, most, TIMEOUT_MILLISECONDS, this.#fetch))
    } catch (error) {
      const { cause, message } = error as Error
      const why = (cause instanceof Error ? cause.message : message).trim()
      throw this.#fault(`expected a reply, got none (${why}); run it again${ignoredProxy()}`, 3)
    }
    const date = Date.parse(response.headers.get('date') ?? '')
    this.clock = Number.isNaN(date) ? undefined : date / 1000
    if (response.status === 200) return bytes
    const refusal = this.#refusal(response, bytes)
    const { code, message, databases } = refusal
    const reason = databases === undefined || databases.length === 0 ? message : this.#nothingThere(databases)
    throw this.#fault(`${response.status} ${code}: ${reason}`, PASSING.has(code) ? 3 : 1, refusal)
  }

  /** A reply that is none of a Keyhush server's is a proxy's, or of something else at that URL. */
  #refusal({ status, statusText }: Response, bytes: Uint8Array): ErrorReply {
    try {
      return parseErrorReply(new TextDecoder().decode(bytes))
    } catch (error) {
      if (!(error instanceof WireError)) throw error
      const what = `expected a Keyhush server's reply, got ${status} ${statusText}`.trim()
      if (status < 500 && status !== 429) throw this.#fault(`${what} of something else; is the URL right?`)
      throw this.#fault(`${what} of a proxy: the server behind it is away or busy; run it again`, 3)
    }
  }

  #fault(text: string, exit: PublishExit = 1, refusal?: ErrorReply): PublishError {
    return new PublishError(`${this.name}: ${printable(text)}`, exit, refusal)
  }

  /** Why a server that has databases at these paths replied 404. */
  #nothingThere(databases: readonly string[]): string {
    const path = new URL(this.url).pathname
    if (!databases.includes(path))
      return `expected a database at ${path}, got databases at ${databases.join(', ')}: is the path of the URL right?`
    return (
      'expected a server that takes batches, got one that does not: start it with --store and --publisher-key; ' +
      'with replicas, name the server without --replica'
    )
  }
}

/** Removes characters that would steer a terminal or begin a new line. */
function printable(text: string): string {
  return text.replaceAll(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, '')
}

/** A reply and its body; of a longer one the beginning, which no decoder accepts. It takes `milliseconds` at most. */
export async function fetched(
  url: string,
  init: RequestInit,
  most: number,
  milliseconds: number,
  fetch = globalThis.fetch,
): Promise<{ readonly response: Response; readonly bytes: Uint8Array }> {
  const signal = AbortSignal.timeout(milliseconds)
  const response = await fetch(url, { ...init, redirect: 'error', signal }) // redirected, another server would answer
  const chunks: Uint8Array[] = []
  let length = 0
  // Once the reply has begun, Node's fetch forgets its signal as soon as memory is collected.
  const body = response.body as ReadableStream<Uint8Array> | null
  for await (const chunk of body === null ? [] : Readable.fromWeb(body, { signal })) {
    chunks.push(chunk)
    length += chunk.length
    if (length > most) break // which ends the request
  }
  return { response, bytes: new Uint8Array(Buffer.concat(chunks)) }
}
