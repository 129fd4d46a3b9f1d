// Numbers of docs/protocol.md that are the same for all databases.

/** The wire format this package speaks. */
export const FORMAT = 1

/** Suite 1: a Merkle tree over BLAKE3 for each partition, whose root the manifest holds; an opening proof an entry. */
export const SUITE_MERKLE_BLAKE3 = 1

/** Suite 2: no commitments and no proofs; clients keep tags of all records. */
export const SUITE_TAGS = 2

/** Suite 3: two parities a query, for hints that one server answers. Not a suite that manifests name. */
export const SUITE_PARITIES = 3

/** Suite 4: instant lookups, of databases with commitments. Not a suite that manifests name. */
export const SUITE_INSTANT = 4

/** Suite 5: the same over the blocks of the key directory. */
export const SUITE_INSTANT_DIRECTORY = 5

/** Suite 6: commitments as in suite 1, and one proof of 48 bytes for all entries of an answer. */
export const SUITE_POINTPROOFS = 6

/** Suite 7: instant lookups with three servers or more. Not a suite that manifests name. */
export const SUITE_VECTORS = 7

/** Suite 8: the same over the blocks of the key directory. */
export const SUITE_VECTORS_DIRECTORY = 8

/** Suite 9: lookups with one server that keeps no state. Not a suite that manifests name. */
export const SUITE_ONE_SERVER = 9

/** Suite 10: the same over the blocks of the key directory. */
export const SUITE_ONE_SERVER_DIRECTORY = 10

/** An epoch is at most so many epochs behind its base, or its own: what leads there is kept. */
export const MAX_BASE_AGE = 1024

/** Suite 11: several databases that are read as one, with one root over all commitments. Queries do not name it. */
export const SUITE_SHARDED = 11

/** Most of these databases. */
export const MAX_SHARDS = 256

/** Most servers of an instant lookup. */
export const MAX_SERVERS = 8

/** Bytes of a proof of suite 6. */
export const POINTPROOF_BYTES = 48

/** Bytes of the key that such proofs are verified with. */
export const POINTPROOFS_KEY_BYTES = 49_292

/** Records that one row commitment covers. */
export const POINTPROOFS_ROW_RECORDS = 256

/** Most entries of a request in suite 6, unless one query alone has more: each takes a pairing to verify. */
export const POINTPROOFS_ENTRIES = 256

/** Longest key, in bytes of its UTF-8. */
export const MAX_KEY_BYTES = 4096

/** A key's fingerprint, with which a keyed record begins. */
export const FINGERPRINT_BYTES = 16

/** A BLAKE3 hash: contents, manifests, tree nodes, commitments. */
export const HASH_BYTES = 32

/** A database id. */
export const DATABASE_ID_BYTES = 16

/** The head of a query and of an answer; vectors or entries follow. */
export const HEADER_BYTES = 40

/** The head of an update list; its entries follow. */
export const UPDATE_LIST_HEADER_BYTES = 40

/** Index and kind of an update list's entry; the delta follows. */
export const UPDATE_ENTRY_HEADER_BYTES = 5

/** A hint's id, as the rollback fence knows it. */
export const HINT_ID_BYTES = 16

/** One offset of a query vector: a u16. */
export const OFFSET_BYTES = 2

/** Most queries a request may carry in any generation, and most bytes of entries in an answer to more than one. */
export const MAX_QUERIES = 64
export const MAX_ENTRIES_BYTES = 2 ** 24

/** Largest Q, largest M and largest ℓ. */
export const MAX_PARTITIONS = 65_536
export const MAX_PARTITION_RECORDS = 65_536
export const MAX_RECORD_BYTES = 65_536
