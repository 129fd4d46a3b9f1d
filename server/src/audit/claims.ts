// Which manifest each epoch is said to have, by the servers and by what was checked before. An epoch has one.

import { fromHex, type SignatureInfo, signedBytes, toHex } from '@keyhush/protocol'
import { verifies } from '../base/ed25519.js'
import type { KnownManifest } from '../base/known-manifest.js'
import type { PublishedServer } from '../publisher/server.js'
import type { Evidence } from './evidence.js'

export interface Claim {
  /** the manifest's, in hex */
  readonly hash: string
  /** undefined: it is named, and was not shown */
  known?: KnownManifest | undefined
  /** undefined: a later manifest names it */
  generation?: number | undefined
  /** who show it, or name it in the manifest after it */
  readonly servers: Set<PublishedServer>
  /** the publisher's */
  signature?: SignatureInfo | undefined
  /** it is signed, or a later one that is signed leads to it */
  isVouched: boolean
}

export class Claims {
  readonly #claims = new Map<number, Map<string, Claim>>()
  /** that servers show, by any key */
  readonly signatures: SignatureInfo[] = []

  add(epoch: number, hash: string, server?: PublishedServer): Claim {
    const claims = this.#claims.get(epoch) ?? new Map<string, Claim>()
    this.#claims.set(epoch, claims)
    const claim = claims.get(hash) ?? { hash, servers: new Set(), isVouched: false }
    claims.set(hash, claim)
    if (server !== undefined) claim.servers.add(server)
    return claim
  }

  of(epoch: number): readonly Claim[] {
    return [...(this.#claims.get(epoch)?.values() ?? [])]
  }

  /** Ascending. */
  get epochs(): readonly number[] {
    return [...this.#claims.keys()].sort((a, b) => a - b)
  }

  /** Epochs that are said to have several manifests. */
  get disputed(): readonly number[] {
    return this.epochs.filter(epoch => this.of(epoch).length > 1)
  }

  /** Finds out which are vouched for. Of the signatures nothing is believed but what verifies under the key. */
  vouch(publicKey: Uint8Array): void {
    for (const epoch of [...this.epochs].reverse()) {
      for (const claim of this.of(epoch)) {
        const { known } = claim
        if (known === undefined) continue
        const { generation, previousManifest } = known.manifest
        const signs = ({ signature }: SignatureInfo) =>
          verifies(fromHex(signature), signedBytes(known.bytes), publicKey)
        const found = this.signatures.find(each => each.epoch === epoch && signs(each))
        if (found !== undefined) {
          const { signature } = found // without the proof that the server has of it
          claim.signature ??= { publicKey: toHex(publicKey), generation, epoch, signature }
        }
        if (claim.signature !== undefined) claim.isVouched = true
        if (claim.isVouched && epoch > 1) this.add(epoch - 1, toHex(previousManifest)).isVouched = true
      }
    }
  }

  /** What proves that a claim is vouched for: its manifest and those after it, as far as one that is signed. */
  proofOf(epoch: number, claim: Claim): Evidence {
    const manifests: KnownManifest[] = []
    let at: Claim | undefined = claim
    for (let next = epoch + 1; at !== undefined; next++) {
      if (at.known !== undefined) manifests.push(at.known)
      if (at.signature !== undefined) return { manifests, signatures: [at.signature] }
      at = this.#successor(next, at.hash)
    }
    return { manifests, signatures: [] }
  }

  /** The manifest of this epoch that names the one before by its hash, and is vouched for. */
  #successor(epoch: number, hash: string): Claim | undefined {
    return this.of(epoch).find(
      ({ known, isVouched }) => isVouched && known !== undefined && toHex(known.manifest.previousManifest) === hash,
    )
  }
}
