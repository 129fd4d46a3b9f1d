// The publisher's signature (docs/protocol.md, Signatures): Ed25519 over the whole manifest. It binds the update list,
// the manifest before and the expiry, so that two servers which lie together can neither make up a record nor pair a
// genuine manifest with a false list. It comes on top of comparing the servers, never instead.

import { equalBytes, fromHex, type Manifest, type SignatureInfo, signedBytes, toHex } from '@pirouette/protocol'
import { SignatureError, UsageError } from '../base/errors.js'
import type { Environment } from '../platform/environment.js'
import { infoOf } from './info.js'
import type { Agreed } from './manifests.js'
import type { Links } from './transport.js'

const KEY_BYTES = 32
/** the last moment that JavaScript can write down */
const LAST_DATE = 8.64e15

/** Whose database it has to be. */
export class Publisher {
  /** 64 lower-case hex digits */
  readonly key: string
  readonly #clock: Environment['clock']

  constructor(key: string, clock: Environment['clock']) {
    this.key = key
    this.#clock = clock
  }

  /** How many of `chain`, from its beginning, end in a manifest that is signed: each covers those before it. */
  async signedOf(chain: readonly Agreed[], links: Links, signal: AbortSignal): Promise<number> {
    if (chain.length === 0) return 0
    const signatures = await this.#signatures(links, signal)
    for (let count = chain.length; count > 0; count--) {
      if (await this.#isSigned(chain[count - 1]!, signatures)) return count
    }
    return 0
  }

  /** Throws SignatureError unless what both servers agreed on is signed and has not expired. */
  async check(agreed: Agreed, links: Links, signal: AbortSignal): Promise<void> {
    this.checkExpiry(agreed.manifest)
    const { generation, epoch } = agreed.manifest
    if (await this.#isSigned(agreed, await this.#signatures(links, signal))) return
    const wanted = `a signature under the key ${this.key.slice(0, 8)}… over generation ${generation}, epoch ${epoch}`
    throw new SignatureError(
      `expected ${wanted}; there is none that holds. Unless its publisher has yet to sign it, do not use this database`,
    )
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

  async #isSigned({ manifest, bytes }: Agreed, signatures: readonly SignatureInfo[]): Promise<boolean> {
    const { generation, epoch } = manifest
    const candidates = signatures.filter(
      signature => signature.publicKey === this.key && signature.generation === generation && signature.epoch === epoch,
    )
    if (candidates.length === 0) return false
    const { verifies } = await import('./ed25519.js') // only whoever checks signatures loads it
    const message = signedBytes(bytes)
    return candidates.some(({ signature }) => verifies(fromHex(signature), message, fromHex(this.key)))
  }

  /** What either server hands on. It is worth what it verifies to, so one that is silent is passed over. */
  async #signatures(links: Links, signal: AbortSignal): Promise<SignatureInfo[]> {
    const lists = await Promise.allSettled(links.map(link => infoOf(link, signal)))
    signal.throwIfAborted()
    const found = lists.flatMap(list => (list.status === 'fulfilled' ? list.value.signatures : []))
    const failed = lists.find(list => list.status === 'rejected')
    if (failed !== undefined && lists.every(list => list.status === 'rejected')) throw failed.reason
    return found
  }
}

/** Reads `open({ publisherKey })`: 32 bytes, or their 64 hex digits as `pirouette keygen` prints them. */
export function parsePublisherKey(key: string | Uint8Array): string {
  const digits = typeof key === 'string' ? key.toLowerCase() : key instanceof Uint8Array ? toHex(key) : ''
  if (digits.length === 2 * KEY_BYTES && /^[0-9a-f]+$/.test(digits)) return digits
  throw new UsageError('publisherKey: expected 32 bytes, or 64 hex digits')
}
