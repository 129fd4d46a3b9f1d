// The publisher's signature (docs/protocol.md, Signatures): Ed25519 over the whole manifest, which names the update list, the manifest
// before and the expiry. So two servers that lie together cannot invent a record or an update. Servers are compared all the same.

import {
  equalBytes,
  fromHex,
  type Info,
  type Manifest,
  type SignatureInfo,
  signedBytes,
  toHex,
} from '@keyhush/protocol'
import { SignatureError, UsageError } from '../base/errors.js'
import type { Environment, Subtle } from '../platform/environment.js'
import { verifies } from './ed25519.js'
import { infoOf } from './info.js'
import type { Agreed } from './manifests.js'
import type { Links } from './transport.js'

const KEY_BYTES = 32
/** of one server, for one epoch under one key; an honest one has one */
const MOST_SIGNATURES = 4
/** the last moment of JavaScript's calendar, in milliseconds */
const LAST_DATE = 8.64e15

/** Where a map has been. */
export type Place = Pick<Manifest, 'databaseId' | 'epoch'>

/** The publisher whose signatures a map asks for. */
export class Publisher {
  /** 64 lower-case hex digits */
  readonly key: string
  readonly #clock: Environment['clock']
  readonly #subtle: Subtle | undefined
  readonly #pause: Environment['pause']

  constructor(key: string, { clock, subtle, pause }: Pick<Environment, 'clock' | 'subtle' | 'pause'>) {
    this.key = key
    this.#clock = clock
    this.#subtle = subtle
    this.#pause = pause
  }

  /** `chain` up to the last manifest that is signed: a signature covers the manifests before, too. */
  async signedOf(chain: readonly Agreed[], links: Links, signal: AbortSignal): Promise<readonly Agreed[]> {
    if (chain.length === 0) return []
    const infos = await this.#infos(links, signal)
    for (let last = chain.length - 1; last >= 0; last--) {
      const signature = await this.#signatureOf(chain[last]!, infos)
      if (signature !== undefined) return [...chain.slice(0, last), { ...chain[last]!, signature }]
    }
    return []
  }

  /**
   * `agreed` with its signature. Throws SignatureError unless it is signed and has not expired. `infos`: earlier replies of the
   * servers, which may be older than this manifest.
   */
  async check(agreed: Agreed, links: Links, signal: AbortSignal, infos: readonly Info[] = []): Promise<Agreed> {
    this.checkExpiry(agreed.manifest)
    const { generation, epoch } = agreed.manifest
    const signature =
      (await this.#signatureOf(agreed, infos)) ?? (await this.#signatureOf(agreed, await this.#infos(links, signal)))
    if (signature !== undefined) return { ...agreed, signature }
    const wanted = `a signature under the key ${this.key.slice(0, 8)}… over generation ${generation}, epoch ${epoch}`
    throw new SignatureError(
      `expected ${wanted}, got none that is valid; ask the publisher to sign it, and do not use this database until then`,
    )
  }

  /** Whether the signature of a stored epoch is valid. */
  async hasSigned({ bytes, signature }: Agreed): Promise<boolean> {
    return signature !== undefined && (await this.#holds(bytes, signature))
  }

  hasExpired({ expires }: Manifest): boolean {
    return expires !== 0 && this.#clock.date() >= expires * 1000
  }

  /** Throws SignatureError if this manifest has expired. */
  checkExpiry(manifest: Manifest): void {
    if (!this.hasExpired(manifest)) return
    const { expires, epoch } = manifest
    const since = new Date(Math.min(expires * 1000, LAST_DATE)).toISOString()
    throw new SignatureError(
      `expected an epoch that has not expired, got ${epoch}, expired at ${since}; ask the publisher to sign a newer one`,
    )
  }

  /** Throws SignatureError if `agreed` is older than `seen`, where this map has been, or of another database. */
  checkSuccession(seen: Place, agreed: Place): void {
    if (!equalBytes(seen.databaseId, agreed.databaseId)) {
      throw new SignatureError(
        'expected the database that this map has shown, got another one; ask the publisher. discardState() forgets the one before',
      )
    }
    if (agreed.epoch >= seen.epoch) return
    throw new SignatureError(
      `expected epoch ${seen.epoch} or newer, where this map has been, got epoch ${agreed.epoch}; ask the operators why their servers have gone back`,
    )
  }

  /** A signature of this epoch that holds. It verifies a few of each server, which can list thousands. */
  async #signatureOf({ manifest, bytes }: Agreed, infos: readonly Info[]): Promise<Uint8Array | undefined> {
    const { generation, epoch } = manifest
    const isOfEpoch = (of: SignatureInfo) =>
      of.publicKey === this.key && of.generation === generation && of.epoch === epoch
    for (const { signatures } of infos) {
      for (const { signature } of signatures.filter(isOfEpoch).slice(0, MOST_SIGNATURES)) {
        const candidate = fromHex(signature)
        if (await this.#holds(bytes, candidate)) return candidate
        await this.#pause() // in JavaScript each takes milliseconds, and a false server has some for every epoch of a chain
      }
    }
    return undefined
  }

  async #holds(manifest: Uint8Array, signature: Uint8Array): Promise<boolean> {
    return await verifies(signature, signedBytes(manifest), fromHex(this.key), this.#subtle)
  }

  /** What the servers that answer say of themselves. Throws only if no server answers. */
  async #infos(links: Links, signal: AbortSignal): Promise<Info[]> {
    const lists = await Promise.allSettled(links.map(link => infoOf(link, signal)))
    signal.throwIfAborted()
    const found = lists.flatMap(list => (list.status === 'fulfilled' ? [list.value] : []))
    const failed = lists.find(list => list.status === 'rejected')
    if (failed !== undefined && found.length === 0) throw failed.reason
    return found
  }
}

/** Reads `open({ publisherKey })`: 32 bytes, or their 64 hex digits, alone or in the line that `keyhush keygen` prints. */
export function parsePublisherKey(key: string | Uint8Array): string {
  const text = typeof key === 'string' ? key.trim().replace(/^public key: /, '') : ''
  const digits = key instanceof Uint8Array ? toHex(key) : text.toLowerCase()
  if (digits.length === 2 * KEY_BYTES && /^[0-9a-f]+$/.test(digits)) return digits
  const came =
    typeof key === 'string' ? `${key.length} characters` : `${(key as Partial<Uint8Array>)?.length ?? 'no'} bytes`
  throw new UsageError(
    `publisherKey: expected 32 bytes, 64 hex digits, or the line that keygen prints, got ${came}; pass what the publisher has given you`,
  )
}
