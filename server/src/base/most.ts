// The most that servers take of a batch. Publishers make several of more.

/** Bytes, with its header. */
export const MOST_BATCH_BYTES = 64 * 1024 * 1024

/** Bytes of the records that its operations take. A delete has one, too, and little text. */
export const MOST_BATCH_RECORDS_BYTES = 512 * 1024 * 1024
