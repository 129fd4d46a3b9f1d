// The publisher's signature (docs/protocol.md, Signatures): Ed25519 over the whole manifest. It binds the update list,
// the manifest before and the expiry, so that two servers which lie together can neither make up a record nor pair a
// genuine manifest with a false list. It comes on top of comparing the servers, never instead.

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
import type { Environment } from '../platform/environment.js'
import { verifies } from './ed25519.js'
import { infoOf } from './info.js'
import type { Agreed } from './manifests.js'
import type { Links } from './transport.js'

const KEY_BYTES = 32
/** of one server, for one epoch under one key; an honest one has one */
const MOST_SIGNATURES = 4
/** the last moment that JavaScript can write down */
const LAST_DATE = 8.64e15

/** Whose database it has to be. */
export class Publisher {
  /** 64 lower-case hex digits */
  readonly key: string
  readonly #clock: Environment['clock']
  readonly #subtle: SubtleCrypto | undefined

  constructor(key: string, { clock, subtle }: Pick<Environment, 'clock' | 'subtle'>) {
    this.key = key
    this.#clock = clock
    this.#subtle = subtle
  }

  /** `chain` from its beginning up to the last manifest that is signed: each covers those before it. */
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
   * With its signature. Throws SignatureError unless what both servers agreed on is signed and has not expired. `infos`: what
   * they have said already, perhaps before they had this.
   */
  async check(agreed: Agreed, links: Links, signal: AbortSignal, infos: readonly Info[] = []): Promise<Agreed> {
    this.checkExpiry(agreed.manifest)
    const { generation, epoch } = agreed.manifest
    const signature =
      (await this.#signatureOf(agreed, infos)) ?? (await this.#signatureOf(agreed, await this.#infos(links, signal)))
    if (signature !== undefined) return { ...agreed, signature }
    const wanted = `a signature under the key ${this.key.slice(0, 8)}… over generation ${generation}, epoch ${epoch}`
    throw new SignatureError(
      `expected ${wanted}; there is none that holds. Unless its publisher has yet to sign it, do not use this database`,
    )
  }

  /** Whether the signature that an epoch comes with holds: it may have been stored, by whomever. */
  async hasSigned({ bytes, signature }: Agreed): Promise<boolean> {
    return signature !== undefined && (await this.#holds(bytes, signature))
  }

  hasExpired({ expires }: Manifest): boolean {
    return expires !== 0 && this.#clock.date() >= expires * 1000
  }

  /** Throws SignatureError if the publisher has not vouched for this manifest for as long as that. */
  checkExpiry(manifest: Manifest): void {
    if (!this.hasExpired(manifest)) return
    const { expires, epoch } = manifest
    const since = new Date(Math.min(expires * 1000, LAST_DATE)).toISOString()
    throw new SignatureError(`epoch ${epoch} has expired at ${since}, and the servers have no newer one that is signed`)
  }

  /** Throws SignatureError if a map that has been at `seen` would go back to, or over to, `agreed`. */
  checkSuccession(seen: Manifest, agreed: Manifest): void {
    if (!equalBytes(seen.databaseId, agreed.databaseId)) {
      throw new SignatureError('the servers now show another database than before; its publisher may be the same')
    }
    if (agreed.epoch >= seen.epoch) return
    throw new SignatureError(`the servers show epoch ${agreed.epoch}, and this map has been at epoch ${seen.epoch}`)
  }

  /** A signature of this epoch that holds. ⚑ Of each server no more than a few are checked: it can list thousands that do not hold. */
  async #signatureOf({ manifest, bytes }: Agreed, infos: readonly Info[]): Promise<Uint8Array | undefined> {
    const { generation, epoch } = manifest
    const isOfEpoch = (of: SignatureInfo) =>
      of.publicKey === this.key && of.generation === generation && of.epoch === epoch
    for (const { signatures } of infos) {
      for (const { signature } of signatures.filter(isOfEpoch).slice(0, MOST_SIGNATURES)) {
        const candidate = fromHex(signature)
        if (await this.#holds(bytes, candidate)) return candidate
      }
    }
    return undefined
  }

  async #holds(manifest: Uint8Array, signature: Uint8Array): Promise<boolean> {
    return await verifies(signature, signedBytes(manifest), fromHex(this.key), this.#subtle)
  }

  /** Of servers that can be reached. What they say is worth what it verifies to, so one that is silent is passed over. */
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
  throw new UsageError(`publisherKey: expected 32 bytes, 64 hex digits, or the line that keygen prints, got ${came}`)
}
