// Kinds of proof, a row each: what the client does differently from kind to kind. The core verifies most of them. Others have a
// package of their own (packaged.ts), which the app hands to open(): no other app ships it.

import { type Manifest, POINTPROOFS_KEY_BYTES, PROOF_KINDS, type Proofs, rowListsBytes } from '@keyhush/protocol'
import { UnsupportedError } from '../base/errors.js'
import type { SchemeOptions } from './scheme.js'

interface ProofKind {
  /** a hint compares the records of an answer with what the database had (`AskedState.recognises`) */
  readonly recognises: boolean
  /** what verifies answers; missing: the core */
  readonly packaged?: PackagedKind
}

export interface PackagedKind {
  /** what open() takes its package as */
  readonly option: 'pointproofs'
  /** `auto` takes this kind, where it can, in place of that one */
  readonly insteadOf: Proofs
  /** fetched to verify with, and held */
  verifierBytes(manifest: Manifest): number
  /** Throws UnsupportedError where an app has not said that it trusts these servers' keys. */
  assertTrusted(manifest: Manifest, options: SchemeOptions): void
}

export const KINDS: Readonly<Record<Proofs, ProofKind>> = {
  merkle: { recognises: false },
  tags: { recognises: true },
  pointproofs: {
    recognises: false,
    packaged: {
      option: 'pointproofs',
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

/** Whether hints with these proofs can be used: their package is at hand and their keys are trusted. */
export function isUsable(proofs: Proofs, manifest: Manifest, options: SchemeOptions): boolean {
  const { packaged } = KINDS[proofs]
  if (packaged === undefined) return true
  if (options[packaged.option] === undefined) return false
  try {
    packaged.assertTrusted(manifest, options)
    return true
  } catch {
    return false
  }
}

/** What an app lacks that wishes for these proofs; undefined: nothing. */
export function missingFor(proofs: Proofs, options: Pick<SchemeOptions, PackagedKind['option']>): string | undefined {
  const { packaged } = KINDS[proofs]
  if (packaged === undefined || options[packaged.option] !== undefined) return undefined
  const { package: name } = PROOF_KINDS[proofs]
  const { option } = packaged
  return `its package, got none: npm install ${name}, and pass open({ ${option}: () => import('${name}') })`
}
