// The planner's input and output, as plain objects (docs/costs.md).

import type { EntryProofs, Proofs } from './base.js'

/** What a plan is made for. A lookup is one request to each server, with `queries` queries. All numbers are whole. */
export interface Workload {
  /** N */
  readonly records: number
  /** length of a value; of the longest, if lengths vary */
  readonly valueBytes: number
  /** lookups by key, not by index */
  readonly keyed?: boolean | undefined
  /** values vary in length */
  readonly variable?: boolean | undefined
  /** Q; without it the planner decides */
  readonly partitions?: number | undefined
  /** g; without it, the planner's default */
  readonly pack?: number | undefined
  /** queries of a lookup; default 1 */
  readonly queries?: number | undefined
  /** lookups of one client; default 20 */
  readonly lookupsPerDay?: number | undefined
  /** lookups of hints for one server; default: as for clients */
  readonly hintLookups?: number | undefined
  /** operators that run a server, 1 to 8; default 2. One has no instant lookups here: oneServerPlan() */
  readonly servers?: number | undefined
  /** records that change in a day, in one epoch; 0 (the default): a database that never changes, without updates and fence */
  readonly changesPerDay?: number | undefined
  /** memory that a client may use; default 64 MB */
  readonly memoryBytes?: number | undefined
  /** upload in kbit/s; default 5000 */
  readonly uplinkKbit?: number | undefined
  /** download in kbit/s; default 20 000 */
  readonly downlinkKbit?: number | undefined
}

/** The costs of one kind of proof (docs/costs.md). Traffic counts bodies, both servers together. */
export interface Costs {
  /** one entry of an answer */
  readonly entryBytes: number
  /** parities, M·ℓ */
  readonly hintBytes: number
  /** permutations: 2·Q·M′ */
  readonly permutationBytes: number
  /** tags: 8·Q·M′; 0 with other proofs */
  readonly tagBytes: number
  /** the expected size of the directory (its actual size depends on the keys); 0 without keys */
  readonly directoryBytes: number
  /** what a client holds between lookups: hint, permutations, tags, directory */
  readonly memoryBytes: number
  /** more memory during the offline phase */
  readonly downloadMemoryBytes: number
  /** one manifest */
  readonly manifestBytes: number
  /** Q·M·ℓ */
  readonly databaseBytes: number
  /** downloaded once: both manifests, the directory, the database */
  readonly offlineBytes: number
  /** the time of that transfer alone, in microseconds */
  readonly offlineMicros: number
  readonly lookupBytesUp: number
  readonly lookupBytesDown: number
  /** the time of a lookup's transfer alone, in microseconds, without latency */
  readonly lookupMicros: number
  /** hashes that verify a lookup: BLAKE3 with `merkle`, linear hashes with `tags` */
  readonly lookupHashes: number
  /** the rollback fence's part of a lookup */
  readonly fenceBytesUp: number
  readonly fenceBytesDown: number
  /** the update list of a day */
  readonly updateListBytes: number
  /** the list and both manifests */
  readonly updateBytes: number
  /** lookups and fence */
  readonly dayBytesUp: number
  /** lookups, fence and changes */
  readonly dayBytesDown: number
  /** a stored hint, without the client's encryption */
  readonly checkpointBytes: number
  /** a stored pending lookup, without the client's encryption */
  readonly pendingBytes: number
  /** the journal entry of a lookup, without the client's encryption */
  readonly effectBytes: number
  /** the most journal that lookups write if there are pauses of half a second between them (a checkpoint waits for one) */
  readonly journalBytes: number
  /** what a server keeps to open commitments */
  readonly treeBytes: number
  /** what a server keeps so that an edit does not rehash a partition */
  readonly contentBytes: number
  /** a server's memory: database, trees, content hashes, directory */
  readonly serverBytes: number
  /** leaves and nodes that a server hashes once, for its commitments; 0 if it offers tags only */
  readonly digestHashes: number
}

/**
 * How lookups are answered. `local`: from a copy of the database. `instant`: by two servers or more, without a state. `full`: by two
 * servers, with a hint that the client made. `single`: by one server, with hints that run out.
 */
export type Mode = 'local' | 'instant' | 'full' | 'single'

/** The costs of a mode (docs/costs.md). Bytes count bodies, all servers together. */
export interface ModeCosts {
  readonly mode: Mode
  /** the kind of proof; missing if there are no queries (`local`), or if tags are part of the mode (`single`) */
  readonly proofs?: Proofs
  /** downloaded to prepare, without manifests and directory */
  readonly prepareBytes: number
  /** uploaded and downloaded before the first lookup: manifests, directory, preparing */
  readonly firstBytes: number
  readonly lookupBytesUp: number
  readonly lookupBytesDown: number
  /** uploaded and downloaded in a day: lookups, fence, changes */
  readonly dayBytes: number
  /** held between lookups, by kind, without the directory */
  readonly held: Readonly<
    Partial<Record<'records' | 'parities' | 'permutations' | 'hints' | 'tags' | 'verifier', number>>
  >
  /** the sum of what is held, with the directory */
  readonly memoryBytes: number
  /** the most on disk: state, manifest, directory, pending lookup, journal */
  readonly diskBytes: number
  /** the servers' processors for a lookup; the model is right within a factor of two */
  readonly serverLookupMicros: number
}

/** The sizes of the directory from a manifest. `directoryBytes` 0: no directory. Without the others: the expected ones. */
export interface DirectorySize {
  readonly directoryBytes: number
  readonly directoryBlockLog?: number
  readonly directoryBlockBytes?: number
}

/** The use of an existing database. */
export type Usage = Pick<Workload, 'queries' | 'lookupsPerDay' | 'hintLookups' | 'servers' | 'changesPerDay'>

/** Which mode serves an app's lookups, and when a download pays: the rule by which a map chooses (docs/costs.md). */
export interface Advice {
  /** the mode of a map after a month of such lookups */
  readonly mode: Mode
  /** the mode that a map would download for */
  readonly download: Mode
  /** the lookups of one map after which it does, from 1; 0: nothing answers before; missing: it never does */
  readonly paysAfter?: number
}

/** What a database will cost, computed before any of it exists. */
export interface Plan {
  /** the workload it was made for, with defaults */
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
  /** `local` is the first, `single` the last; `full` occurs with each kind of proof. Without modes that so many servers do not have */
  readonly modes: readonly ModeCosts[]
  readonly merkle: Costs
  readonly tags: Costs
  /** the mode for these lookups, if the servers offer every mode that so many can */
  readonly recommended: Advice
  /** of a hint: tags, if the client has the memory for them */
  readonly proofs: EntryProofs
  /** the reasons, in sentences */
  readonly reason: string
}
