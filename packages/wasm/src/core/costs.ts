// What the planner is asked and what it answers (docs/costs.md): plain objects.

import type { EntryProofs, Proofs } from './base.js'

/** What a plan is made for. A lookup is one request to each server, with `batch` queries in it. Whole numbers. */
export interface Workload {
  /** N */
  readonly records: number
  /** length of a value; the longest, if lengths vary */
  readonly valueBytes: number
  /** looked up by key, not by index */
  readonly keyed?: boolean | undefined
  /** values have lengths of their own */
  readonly variable?: boolean | undefined
  /** Q; without it the planner decides */
  readonly partitions?: number | undefined
  /** g; without it, the planner's default */
  readonly pack?: number | undefined
  /** queries a lookup; 1 */
  readonly batch?: number | undefined
  /** of one client; 20 */
  readonly lookupsPerDay?: number | undefined
  /** lookups that hints for one server are made for; what a client's are */
  readonly hintLookups?: number | undefined
  /** records, in one epoch a day; 0, a database that never changes, has neither updates nor fence */
  readonly changesPerDay?: number | undefined
  /** what a client may keep in memory; 64 MB */
  readonly memoryBytes?: number | undefined
  /** kbit/s from the client; 5000 */
  readonly uplinkKbit?: number | undefined
  /** kbit/s to the client; 20 000 */
  readonly downlinkKbit?: number | undefined
}

/** What one kind of proof costs (docs/costs.md). Traffic is of bodies, both servers together. */
export interface Costs {
  /** one entry of an answer */
  readonly entryBytes: number
  /** parities, M·ℓ */
  readonly hintBytes: number
  /** 2·Q·M */
  readonly permutationBytes: number
  /** 8·Q·M, or 0 */
  readonly tagBytes: number
  /** expected: it depends on the keys; 0 if keyless */
  readonly directoryBytes: number
  /** all of the above: what a client holds between lookups */
  readonly memoryBytes: number
  /** more during the offline phase */
  readonly downloadMemoryBytes: number
  /** one manifest */
  readonly manifestBytes: number
  /** Q·M·ℓ */
  readonly databaseBytes: number
  /** both manifests, directory, database; once */
  readonly offlineBytes: number
  /** its transfer alone, in microseconds */
  readonly offlineMicros: number
  readonly lookupBytesUp: number
  readonly lookupBytesDown: number
  /** its transfer alone, in microseconds, without latency */
  readonly lookupMicros: number
  /** hashes that check a lookup: BLAKE3 for proofs, linear ones for tags */
  readonly lookupHashes: number
  /** the rollback fence's part in a lookup */
  readonly fenceBytesUp: number
  readonly fenceBytesDown: number
  /** the list of a day's changes */
  readonly updateListBytes: number
  /** and both manifests */
  readonly updateBytes: number
  /** lookups and fence */
  readonly dayBytesUp: number
  /** lookups, fence and changes */
  readonly dayBytesDown: number
  /** a stored hint, unsealed */
  readonly checkpointBytes: number
  /** a stored pending batch, unsealed */
  readonly pendingBytes: number
  /** what a lookup adds to the journal, unsealed */
  readonly effectBytes: number
  /** most that lookups make of a journal, if there are pauses between them: a checkpoint waits for one, half a second */
  readonly journalBytes: number
  /** what a server keeps to open commitments */
  readonly treeBytes: number
  /** what it keeps so that an edit does not rehash a partition */
  readonly contentBytes: number
  /** a server's memory: database, trees, content hashes, directory */
  readonly serverBytes: number
  /** leaves and nodes a server hashes for its commitments, once; none if it offers tags alone */
  readonly digestHashes: number
}

/**
 * How lookups are answered: from a copy that is kept, without anything, from a hint that a server or the client made, or by
 * one server from hints that run out.
 */
export type Mode = 'local' | 'instant' | 'full' | 'single'

/** What one way of looking up costs (docs/costs.md). Bytes are of bodies, all servers together. */
export interface ModeCosts {
  readonly mode: Mode
  /** what proves answers; missing: nothing is asked */
  readonly proofs?: Proofs
  /** received to prepare, without manifests and directory */
  readonly prepareBytes: number
  /** both ways before the first lookup: manifests and directory, and preparing */
  readonly firstBytes: number
  readonly lookupBytesUp: number
  readonly lookupBytesDown: number
  /** both ways: lookups, their fence, changes */
  readonly dayBytes: number
  /** between lookups, by what they are, without the directory */
  readonly held: Readonly<
    Partial<Record<'records' | 'parities' | 'permutations' | 'hints' | 'tags' | 'verifier', number>>
  >
  /** all that is held, with the directory */
  readonly memoryBytes: number
  /** at most: state, manifest, directory, what is pending, journal */
  readonly diskBytes: number
  /** both servers' processors for a lookup: by a model that is right to within a factor of two */
  readonly serverLookupMicros: number
}

/** What a manifest says of the directory. `directoryBytes` 0: there is none; without the others: a new one is expected. */
export interface DirectorySize {
  readonly directoryBytes: number
  readonly directoryBlockLog?: number
  readonly directoryBlockBytes?: number
}

/** What is done with a database that there is. */
export type Usage = Pick<Workload, 'batch' | 'lookupsPerDay' | 'hintLookups' | 'changesPerDay'>

/** What a database will cost, computed before anything of it exists. */
export interface Plan {
  /** what it was made for, defaults included */
  readonly workload: {
    readonly [Name in keyof Omit<Workload, 'partitions' | 'pack' | 'hintLookups'>]-?: NonNullable<Workload[Name]>
  }
  /** (N, ℓ, Q, M, g) */
  readonly layout: {
    readonly records: number
    readonly recordBytes: number
    readonly partitions: number
    readonly partitionRecords: number
    readonly blockRecords: number
  }
  /** `local`, keeping it all, is the first, `single` the last; `full` is there with each kind of proof */
  readonly modes: readonly ModeCosts[]
  readonly merkle: Costs
  readonly tags: Costs
  /** tags, if the client has the memory */
  readonly recommended: EntryProofs
  /** why, in a sentence */
  readonly reason: string
}
