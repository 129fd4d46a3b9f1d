// The publisher's signature (docs/protocol.md, Signatures): Ed25519 over the whole manifest, which names the update list, the manifest
// before and the expiry. So two servers that lie together cannot invent a record or an update. Servers are compared all the same.

import {
  type EpochInfo,
  equalBytes,
  fromHex,
  type Manifest,
  type SignatureInfo,
  signedBytes,
  toHex,
} from '@keyhush/protocol'
import { SignatureError, UsageError } from '../base/errors.js'
import type { Environment, Subtle } from '../platform/environment.js'
import { loadPart } from '../platform/parts.js'
import { verifies } from './ed25519.js'
import { type Agreed, isExpired } from './manifests.js'
import type { FetchProof, Witnesses } from './witnesses.js'

const KEY_BYTES = 32
const SIGNATURE_BYTES = 64
/** the last moment of JavaScript's calendar, in milliseconds */
const LAST_DATE = 8.64e15

/** Where a map has been. */
export type EpochId = Pick<Manifest, 'databaseId' | 'epoch'>

/** An epoch, and signatures of it that servers show. */
export interface Claimed extends EpochInfo {
  readonly signatures: readonly SignatureInfo[]
}

/**
 * What a map with a publisher's key asks of an epoch: a signature under the key, a proof if witnesses are demanded, and no expiry in the
 * past.
 */
export class Signing {
  /** 64 lower-case hex digits */
  readonly key: string
  readonly #witnesses: Witnesses | undefined
  readonly #clock: Environment['clock']
  readonly #subtle: Subtle | undefined
  readonly #pause: Environment['pause']

  constructor(
    key: string,
    { clock, subtle, pause }: Pick<Environment, 'clock' | 'subtle' | 'pause'>,
    witnesses?: Witnesses,
  ) {
    this.key = key
    this.#witnesses = witnesses
    this.#clock = clock
    this.#subtle = subtle
    this.#pause = pause
  }

  /** With witnesses, of the text of a policy. Throws UsageError. */
  static async witnessed(key: string, policy: string, environment: Environment): Promise<Signing> {
    const { Witnesses } = await loadPart(() => import('./witnesses.js'))
    const witnesses = Witnesses.of(policy, (...signed) => verifies(...signed, environment.subtle))
    if (typeof witnesses !== 'string') return new Signing(key, environment, witnesses)
    throw new UsageError(`witnesses: ${witnesses}; pass the policy that the publisher has given you`)
  }

  /** Whether a signature may be one that the map asks for. */
  counts({ publicKey, proof }: SignatureInfo): boolean {
    return publicKey === this.key && (this.#witnesses === undefined || proof !== undefined)
  }

  /** The error of servers that show no epoch that is signed under this key and has not expired. `newest`: what they show; `signatures`: theirs. */
  unsigned(newest: EpochInfo | undefined, signatures: readonly SignatureInfo[]): SignatureError {
    const of = newest === undefined ? 'an epoch' : `generation ${newest.generation}, epoch ${newest.epoch}`
    const isOf = (of: SignatureInfo) => of.epoch === newest?.epoch && of.publicKey === this.key
    if (this.#witnesses && signatures.some(isOf)) return new SignatureError(this.#witnesses.unproved(of))
    const wanted = `a signature under the key ${this.key.slice(0, 8)}… over ${of}, or over the epoch before`
    const other = signatures.find(({ epoch, publicKey }) => epoch === newest?.epoch && publicKey !== this.key)
    if (other !== undefined) {
      const came = `one under another key, ${other.publicKey.slice(0, 8)}…`
      return new SignatureError(
        `expected ${wanted}, got ${came}; ask the publisher, and not these servers, for the right key`,
      )
    }
    return new SignatureError(
      `expected ${wanted}, got none that is valid; ask the publisher to sign it, and do not use this database until then`,
    )
  }

  /** Whether the signature of a stored epoch is valid, and the proof behind it. `hashOf`: BLAKE3. */
  async hasSigned(agreed: Agreed, hashOf: (bytes: Uint8Array) => Uint8Array): Promise<boolean> {
    const { bytes, signature, manifest } = agreed
    if (signature === undefined || !(await this.#holds(bytes, signature.subarray(0, SIGNATURE_BYTES)))) return false
    const proof = signature.subarray(SIGNATURE_BYTES)
    return (await this.#witnesses?.prove(proof, { ...manifest, manifestHash: hashOf(bytes) })) ?? true
  }

  hasExpired(manifest: Pick<Manifest, 'expires'>): boolean {
    return isExpired(manifest, this.#clock)
  }

  /** Throws SignatureError if this manifest has expired. */
  checkExpiry(manifest: Pick<Manifest, 'epoch' | 'expires'>): void {
    if (!this.hasExpired(manifest)) return
    const { expires, epoch } = manifest
    const since = new Date(Math.min(expires * 1000, LAST_DATE)).toISOString()
    const now = new Date(this.#clock.date()).toISOString()
    throw new SignatureError(
      `expected an epoch that has not expired, got ${epoch}, expired at ${since}, and this device's date is ${now}; correct the date, or ask the publisher to sign a newer one`,
    )
  }

  /** Throws SignatureError if `agreed` is older than `seen`, where this map has been, or of another database. */
  checkSuccession(seen: EpochId & Partial<Pick<Manifest, 'expires'>>, agreed: EpochId): void {
    if (!equalBytes(seen.databaseId, agreed.databaseId)) {
      throw new SignatureError(
        'expected the database that this map has shown, got another one; ask the publisher. If it is theirs, discardState() forgets the one before',
      )
    }
    if (agreed.epoch >= seen.epoch) return
    this.checkExpiry({ expires: 0, ...seen }) // then servers may show the epoch before
    throw new SignatureError(
      `expected epoch ${seen.epoch} or newer, where this map has been, got epoch ${agreed.epoch}; ask the operators why their servers have gone back`,
    )
  }

  /** The first that is a signature of this epoch, with the proof behind it if one is demanded. Equal ones are verified once. */
  async signatureOf(
    { bytes, manifest }: Agreed,
    { signatures, manifest: hash }: Claimed,
    fetch: FetchProof,
  ): Promise<Uint8Array | undefined> {
    for (const signature of new Set(signatures.map(({ signature }) => signature))) {
      const candidate = fromHex(signature)
      if (await this.#holds(bytes, candidate)) {
        if (this.#witnesses === undefined) return candidate
        const proofs = new Set(signatures.flatMap(({ proof }) => proof ?? []))
        return await this.#witnesses.withProof(candidate, { ...manifest, manifestHash: fromHex(hash) }, proofs, fetch)
      }
      await this.#pause() // in JavaScript each takes milliseconds
    }
    return undefined
  }

  async #holds(manifest: Uint8Array, signature: Uint8Array): Promise<boolean> {
    return await verifies(signature, signedBytes(manifest), fromHex(this.key), this.#subtle)
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
