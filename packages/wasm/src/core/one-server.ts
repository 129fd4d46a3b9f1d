// Instant lookups with one server (docs/protocol/one-server.md). All bytes are opaque here; their lengths follow from N and ℓ.

/** What is looked up: N records of ℓ bytes, or the padded blocks of a directory. A manifest has both numbers under these names. */
export interface OneServerDatabase {
  /** N */
  readonly records: number
  /** ℓ */
  readonly recordBytes: number
}

/** Decides the public matrices of a database. */
export interface OneServerContext {
  /** 16 bytes */
  readonly databaseId: Uint8Array
  readonly generation: number
  readonly of: 'records' | 'directory'
}

export interface OneServerSizes {
  /** bytes of a query */
  readonly requestBytes: number
  /** bytes of the answer to a query */
  readonly answerBytes: number
  readonly hintBytes: number
  readonly columns: number
  /** t: ring elements of an answer */
  readonly outputs: number
  /** the most queries of a request */
  readonly maxQueries: number
  /** what a prepared database keeps, in bytes; while it is prepared, its columns once more and 17 MB, and memory does not shrink */
  readonly serverBytes: number
}

/** Queries for one server whose answers have not arrived: secret, never stored, answered once. */
export interface OneServerQueryHandle {
  /** the queries, `requestBytes` each in order; the same bytes every time */
  request(): Uint8Array
  /**
   * Draws about a millisecond's worth of the own noise. Call it until it is false while the answer is under way; `decode` draws what is
   * missing.
   */
  expand(): boolean
  /**
   * The records, ℓ bytes each in query order; undefined: a row of a column was wrong, so public hint or answers are forged. Only one
   * answer is ever decoded: throws `phase` after that. `hint`: the public one, whose hash the caller has compared with that in the
   * manifest of the queries. Throws `length`, and decodes nothing, if hint or answers are too short or too long.
   */
  decode(hint: Uint8Array, answers: Uint8Array): Uint8Array | undefined
  /** wipes secrets, then frees */
  free(): void
}

/** The build for clients with one server. It does nothing else: it runs beside a build with layouts and fingerprints. */
export interface OneServerCore {
  /** throws `layout` for databases that have no such lookups: more than 88 000 columns, or records of more than 32 kB */
  oneServerSizes(database: OneServerDatabase): OneServerSizes
  /**
   * Makes queries for some records, from 32 bytes of fresh entropy of the system. They are hashed with the manifest's hash (32 bytes),
   * with `of`, and with all indices. Throws `layout`, `index`, `length`.
   */
  newOneServerQuery(
    database: OneServerDatabase,
    context: OneServerContext,
    manifestHash: Uint8Array,
    indices: Uint32Array,
    entropy: Uint8Array,
  ): OneServerQueryHandle
}

/** A database for instant lookups with one server. Use it in a thread of its own: a call may take as long as `step` or an answer. */
export interface OneServerHandle {
  /** takes the next of the N·ℓ bytes of records, in parts of any length; throws `length`, `phase` */
  put(bytes: Uint8Array): void
  /** does some milliseconds of preparing; returns whether there is more; throws `phase` before all records are put */
  step(): boolean
  /** the public hint, which the publisher signs by its hash: the attempt (u32, little-endian), t ring elements, 64 Merkle nodes; throws `phase` */
  hint(): Uint8Array
  /** answers 1 to `maxQueries` queries that lie one after the other; throws `length`, `phase` */
  answer(requests: Uint8Array): Uint8Array
  free(): void
}

/** The builder's check of norms, in the making. */
export interface OneServerNormHandle {
  /** does the next of 20 steps, each as long as two answers or three; returns whether there is more; throws `phase` */
  step(database: OneServerHandle): boolean
  /** the norm's logarithm, to base 2, as far as it is known */
  readonly log2: number
  /** whether the clients' own noise hides what an answer's error tells; false before the last step */
  readonly hides: boolean
  free(): void
}
