// The publisher's client for one server.

import {
  BATCH_SIGNATURE_HEADER,
  type BatchSignature,
  decodeManifest,
  type EpochStatus,
  encodeBatchSignature,
  fromHex,
  type Manifest,
  parseEpochStatus,
  parseErrorReply,
  parseInfo,
  type SignatureInfo,
  signedBytes,
  toHex,
  WireError,
} from '@keyhush/protocol'
import { verifies } from '../base/ed25519.js'
import { PublishError } from '../base/errors.js'

const TIMEOUT_MILLISECONDS = 120_000

/** Most bytes of a reply. The longest is a manifest. */
const MOST_BYTES = 8 * 1024 * 1024

export interface KnownManifest {
  readonly manifest: Manifest
  readonly bytes: Uint8Array
}

export class PublishedServer {
  /** without a final slash */
  readonly url: string
  /** for messages */
  readonly name: string

  constructor(url: string, name?: string) {
    if (!/^https?:\/\//.test(url))
      throw new PublishError(`${url}: expected a URL that begins with https://, got another; give the whole URL`)
    this.url = url.replace(/\/+$/, '')
    this.name = name ?? this.url
  }

  async newest(): Promise<KnownManifest> {
    return this.#manifest('/v1/manifest')
  }

  async manifest(generation: number, epoch: number): Promise<KnownManifest> {
    return this.#manifest(`/v1/manifest?generation=${generation}&epoch=${epoch}`)
  }

  /** undefined: the server does not know this epoch */
  async manifestIfKnown(generation: number, epoch: number): Promise<KnownManifest | undefined> {
    return this.manifest(generation, epoch).catch(error => {
      if ((error as PublishError).code === 'epoch_unknown') return undefined
      throw error
    })
  }

  async status(epoch: number): Promise<EpochStatus> {
    return this.#json(await this.#request(`/v1/epochs/${epoch}`), parseEpochStatus)
  }

  /** Downloads at most `bytes` of the blob with this hash (hex). The caller verifies them. */
  async blob(hash: string, bytes: number): Promise<Uint8Array> {
    return this.#request(`/v1/blobs/${hash}`, {}, bytes)
  }

  async publish(body: Uint8Array<ArrayBuffer>, signature: BatchSignature): Promise<EpochStatus> {
    const headers = { [BATCH_SIGNATURE_HEADER]: encodeBatchSignature(signature) }
    return this.#json(await this.#request('/v1/epochs', { method: 'POST', body, headers }), parseEpochStatus)
  }

  /** Whether the server lists a valid signature of this manifest by this key. */
  async hasSigned({ manifest, bytes }: KnownManifest, publicKey: Uint8Array): Promise<boolean> {
    const { signatures } = this.#json(await this.#request('/v1/info'), parseInfo)
    return signatures.some(
      entry =>
        entry.publicKey === toHex(publicKey) &&
        entry.generation === manifest.generation &&
        entry.epoch === manifest.epoch &&
        verifies(fromHex(entry.signature), signedBytes(bytes), publicKey),
    )
  }

  async sign(signature: SignatureInfo): Promise<void> {
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
    let status: number
    let bytes: Uint8Array
    try {
      const response = await fetch(this.url + path, {
        ...init,
        redirect: 'error', // another server would answer
        signal: AbortSignal.timeout(TIMEOUT_MILLISECONDS),
      })
      status = response.status
      bytes = await bodyOf(response, most)
    } catch (error) {
      const { cause, message } = error as Error
      throw this.#fault(
        `expected a reply, got none (${(cause instanceof Error ? cause.message : message).trim()}); try again`,
      )
    }
    if (status === 200) return bytes
    const { code, message, databases } = this.#read(() => parseErrorReply(new TextDecoder().decode(bytes)))
    const reason = databases === undefined || databases.length === 0 ? message : this.#nothingThere(databases)
    throw this.#fault(`${status} ${code}: ${reason}`, code)
  }

  #fault(text: string, code?: string): PublishError {
    return new PublishError(`${this.name}: ${printable(text)}`, code)
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

/** Reads the body; of a longer one the beginning, which no decoder accepts. */
async function bodyOf({ body }: Response, most: number): Promise<Uint8Array> {
  const chunks: Uint8Array[] = []
  let bytes = 0
  for await (const chunk of body ?? []) {
    chunks.push(chunk)
    bytes += chunk.length
    if (bytes > most) break // which ends the request
  }
  return new Uint8Array(Buffer.concat(chunks))
}
