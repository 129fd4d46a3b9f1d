// The kinds of proof, a row each. This is the one list: all others are typed by its names, and do not compile without one of them.

import { HASH_BYTES, POINTPROOF_BYTES, SUITE_MERKLE_BLAKE3, SUITE_POINTPROOFS, SUITE_TAGS } from './constants.js'

interface ProofKind {
  /** of queries and answers of this kind, and of manifests of databases that were built for it */
  readonly suite: number
  /** the kinds that such a database can be asked for, its default first */
  readonly offers: readonly [string, ...string[]]
  /** its manifests have commitments to the partitions and to the directory's blocks */
  readonly isCommitted: boolean
  /** its manifests name row lists and a key, and its update lists end with rows */
  readonly hasRows: boolean
  /** of proof behind each entry, for each level of a partition's tree */
  readonly levelBytes: number
  /** of proof behind all entries of an answer */
  readonly answerBytes: number
  /** the package that makes and verifies them; missing: the core does */
  readonly package?: `@keyhush/${string}`
}

const KINDS = {
  /** an opening proof behind each entry */
  merkle: {
    suite: SUITE_MERKLE_BLAKE3,
    offers: ['merkle', 'tags'],
    ...{ isCommitted: true, hasRows: false },
    ...{ levelBytes: HASH_BYTES, answerBytes: 0 },
  },
  /** tags that the client keeps */
  tags: {
    suite: SUITE_TAGS,
    offers: ['tags'],
    ...{ isCommitted: false, hasRows: false },
    ...{ levelBytes: 0, answerBytes: 0 },
  },
  /** one proof behind all entries */
  pointproofs: {
    suite: SUITE_POINTPROOFS,
    offers: ['merkle', 'tags', 'pointproofs'],
    ...{ isCommitted: true, hasRows: true },
    ...{ levelBytes: 0, answerBytes: POINTPROOF_BYTES },
    package: '@keyhush/pointproofs',
  },
} as const satisfies Record<string, ProofKind>

/** What proves the entries of an answer. */
export type Proofs = keyof typeof KINDS

/** What the core proves and verifies. */
export type EntryProofs = { [P in Proofs]: (typeof KINDS)[P] extends { package: string } ? never : P }[Proofs]

/** What a package of its own proves and verifies. */
export type PackagedProofs = Exclude<Proofs, EntryProofs>

export const PROOF_KINDS: Readonly<
  Record<Proofs, Omit<ProofKind, 'offers'> & { readonly offers: readonly [Proofs, ...Proofs[]] }>
> = KINDS

/** The names of the kinds. */
export const PROOFS: readonly Proofs[] = Object.keys(PROOF_KINDS) as Proofs[]

/** The names of the kinds with a package. */
export const PACKAGED: readonly PackagedProofs[] = PROOFS.filter(isPackaged)

/** Whether a package makes and verifies these proofs. */
export function isPackaged(proofs: Proofs | undefined): proofs is PackagedProofs {
  return proofs !== undefined && PROOF_KINDS[proofs].package !== undefined
}

/** What says which kind a database was built for: its manifest's suite. */
interface Built {
  /** missing: 1 */
  readonly suite?: number
}

/** The suites of manifests. */
export const MANIFEST_SUITES: readonly number[] = PROOFS.map(suiteOf)

/** The suite that queries and answers of a kind name, and the manifests of databases that were built for it. */
export function suiteOf(proofs: Proofs): number {
  return PROOF_KINDS[proofs].suite
}

/** The kind of proof that a database was built for. */
export function builtFor({ suite = SUITE_MERKLE_BLAKE3 }: Built): Proofs {
  return PROOFS.find(proofs => suiteOf(proofs) === suite) ?? 'merkle'
}

/** The kinds of proof a database can be asked for, its default first. */
export function proofsOf(database: Built): readonly [Proofs, ...Proofs[]] {
  return PROOF_KINDS[builtFor(database)].offers
}

/** Whether a database's manifest has commitments. */
export function isCommitted(database: Built): boolean {
  return PROOF_KINDS[builtFor(database)].isCommitted
}

/** Whether a database has row lists. */
export function hasRows(database: Built): boolean {
  return PROOF_KINDS[builtFor(database)].hasRows
}
