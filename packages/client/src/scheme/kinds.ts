// Kinds of proof that a package of its own verifies, and the core does not (packaged.ts): a row each. The app hands its package to open(),
// so that no other app ships it, and no bundler looks for one that is not installed.

import { type Manifest, POINTPROOFS_KEY_BYTES, type Proofs, rowListsBytes } from '@keyhush/protocol'
import { UnsupportedError } from '../base/errors.js'
import type { SchemeOptions } from './scheme.js'

export interface ProofKind {
  /** what is to be installed */
  readonly package: string
  /** what open() takes it as */
  readonly option: 'pointproofs'
  /** fetched to verify with, and held */
  verifierBytes(manifest: Manifest): number
  /** Throws UnsupportedError where an app has not said that it trusts these servers' keys. */
  assertTrusted(manifest: Manifest, options: SchemeOptions): void
}

export const KINDS: Readonly<Partial<Record<Proofs, ProofKind>>> = {
  pointproofs: {
    package: '@keyhush/pointproofs',
    option: 'pointproofs',
    verifierBytes: manifest => POINTPROOFS_KEY_BYTES + rowListsBytes(manifest),
    assertTrusted({ pointproofs }, { allowDevelopmentCeremony }) {
      if (pointproofs?.development !== true || allowDevelopmentCeremony === true) return
      throw new UnsupportedError(
        'ceremony',
        "these servers prove with the key of a ceremony for development, with which forging may be possible; if that is what you want, pass open({ allowDevelopmentCeremony: true }), or ask with proofs: 'merkle'",
      )
    },
  },
}

/** Whether hints with these proofs can be used: their package is at hand and their keys are trusted. */
export function isUsable(proofs: Proofs, manifest: Manifest, options: SchemeOptions): boolean {
  const kind = KINDS[proofs]
  if (kind === undefined) return true
  if (options[kind.option] === undefined) return false
  try {
    kind.assertTrusted(manifest, options)
    return true
  } catch {
    return false
  }
}

/** What an app lacks that wishes for these proofs; undefined: nothing. */
export function missingFor(proofs: Proofs, options: Pick<SchemeOptions, ProofKind['option']>): string | undefined {
  const kind = KINDS[proofs]
  if (kind === undefined || options[kind.option] !== undefined) return undefined
  const { package: name, option } = kind
  return `its package: npm install ${name}, and pass open({ ${option}: () => import('${name}') })`
}
