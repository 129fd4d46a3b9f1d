// Kinds of proof, a row each: what the client does differently from kind to kind. The core verifies most of them. Others have a
// package of their own (packaged.ts), which the app hands to open(): no other app ships it.

import {
  isPackaged,
  type Manifest,
  type PackagedProofs,
  POINTPROOFS_KEY_BYTES,
  PROOF_KINDS,
  type Proofs,
  rowListsBytes,
} from '@keyhush/protocol'
import { UnsupportedError } from '../base/errors.js'
import type { LoadProofs } from './packaged.js'

/** The packages of kinds of proof, in options of their names: of `open()`, of `estimate()`, and of schemes. */
export interface ProofsPackages {
  /**
   * The package that verifies `pointproofs`: `() => import('@keyhush/pointproofs')`. One proof of 48 bytes an answer: a lookup is as small
   * as with tags, the map keeps little, and verifying takes about a tenth of a second. The servers must offer it. The SDK loads the package
   * when a map first needs it. Without it `proofs: 'auto'` never chooses that kind.
   */
  readonly pointproofs?: LoadProofs | undefined
}

interface ProofKind {
  /** a hint compares the records of an answer with what the database had (`AskedState.recognises`) */
  readonly recognises: boolean
  /** what verifies answers; missing: the core */
  readonly packaged?: PackagedKind
}

export interface PackagedKind {
  /** `auto` takes this kind, where it can, in place of that one */
  readonly insteadOf: Proofs
  /** fetched to verify with, and held */
  verifierBytes(manifest: Manifest): number
  /** Throws UnsupportedError where an app has not said that it trusts these servers' keys. */
  assertTrusted(manifest: Manifest, options: Trusting): void
}

interface Trusting extends ProofsPackages {
  readonly development?: boolean | undefined
}

export const KINDS: Readonly<
  Record<PackagedProofs, ProofKind & { readonly packaged: PackagedKind }> & Record<Proofs, ProofKind>
> = {
  merkle: { recognises: false },
  tags: { recognises: true },
  pointproofs: {
    recognises: false,
    packaged: {
      insteadOf: 'merkle',
      verifierBytes: manifest => POINTPROOFS_KEY_BYTES + rowListsBytes(manifest),
      assertTrusted({ pointproofs }, { development }) {
        if (pointproofs?.development !== true || development === true) return
        throw new UnsupportedError(
          'ceremony',
          "proofs: expected the key of a ceremony, got one for development, with which forging may be possible; use proofs: 'merkle', or for tests pass open({ development: true })",
        )
      },
    },
  },
}

/** What loads the package of a kind; undefined: the app has not handed it, or the kind has none. */
export function packageOf(proofs: Proofs, options: ProofsPackages): LoadProofs | undefined {
  return isPackaged(proofs) ? options[proofs] : undefined
}

/** Whether hints with these proofs can be used: their package is at hand and their keys are trusted. */
export function isUsable(proofs: Proofs, manifest: Manifest, options: Trusting): boolean {
  if (missingFor(proofs, options) !== undefined) return false
  try {
    KINDS[proofs].packaged?.assertTrusted(manifest, options)
    return true
  } catch {
    return false
  }
}

/** What an app lacks that wishes for these proofs; undefined: nothing. */
export function missingFor(proofs: Proofs, options: ProofsPackages): string | undefined {
  if (!isPackaged(proofs) || packageOf(proofs, options) !== undefined) return undefined
  const { package: name } = PROOF_KINDS[proofs]
  return `its package, got none: npm install ${name}, and pass open({ ${proofs}: () => import('${name}') })`
}
