// The numbers that decide how long the client waits and how often it asks. All are constants, or follow from the
// manifest alone: a deadline that depended on what was asked would tell it (P5).

/** How often one request is sent, the first time included, before its server counts as failed. */
export const ATTEMPTS = 3

/** Pause between two attempts. Constant, so that it tells nothing but that an attempt failed. */
export const BACKOFF_MS = 1_000

/** How long a server may keep silent. A healthy one answers in tens of milliseconds; mobile radios wake in seconds. */
export const SILENCE_MS = 10_000

/** The slowest connection served, 256 kbit/s. A server that drips bytes more slowly counts as hanging. */
const SLOWEST_BYTES_PER_MS = 32

/** Longest time for a request of `bytes` in both directions together. */
export function deadlineMs(bytes: number): number {
  return SILENCE_MS + Math.ceil(bytes / SLOWEST_BYTES_PER_MS)
}

/** Bytes hashed and folded before the page gets its thread back. 256 KiB are a few milliseconds on a slow phone. */
export const WORK_BYTES = 256 * 1024

/**
 * Lookups in a row that servers have refused or been silent to, each begun after the one before had failed, before a map that
 * keeps nothing prepares a state, which does without what they do not give. Any one may be a tunnel that a train goes through.
 */
export const FAILED_LOOKUPS = 3

/**
 * How long a half-made hint is not stored after it was stored last. Nobody minds to wait for so much of a download once
 * more; a fast one is over by then.
 */
export const SAVE_PAUSE_MS = 2_000

/** Most bytes read of an error reply. */
export const ERROR_REPLY_BYTES = 4096

/** Incidents kept for `stats`; older ones are forgotten. */
export const INCIDENTS_KEPT = 100

/**
 * How long a tab waits for another that holds the lock before it goes ahead without. Longer than a lookup of 64 KiB
 * takes at its worst (three attempts, 38 s): whoever holds on for longer is most likely frozen. If it is not, both send
 * the same bytes, and one of them finds that the other has finished.
 */
export const LOCK_PATIENCE_MS = 45_000

/** How often one operation starts over although nothing has moved, before it is given up: the store must be at fault. */
export const ROUNDS = 32

/** How often one call makes a hint anew because servers answer the last one no more. Else servers could keep it downloading. */
export const REPLACED_A_CALL = 3

/**
 * Failures of the store in a row after which a map that only prefers durable storage goes on without. One may be a
 * connection that the browser has closed and that opens again.
 */
export const STORE_FAILURES = 2

/** How long a busy tab may keep a lock that others ask for. They wait no longer than for a slow lookup. */
export const LOCK_LEASE_MS = 500

/**
 * How long an idle tab keeps a lock that nobody asks for: what is looked up meanwhile need not wait for it. Not for ever: a
 * page may be stopped without a word, in a debugger say, and others would lose their patience waiting.
 */
export const LOCK_KEPT_MS = 5_000

/**
 * How long the rollback fence need not have been heard for a hint to count as wide awake: a machine that was suspended, or
 * whose snapshot was woken elsewhere, has been away for longer, and has its version confirmed before anything leaves.
 */
export const FENCE_REST_MS = 60_000

/** How long a stream of events may be silent; servers send a line every 15 s. */
export const EVENTS_SILENCE_MS = 45_000

/**
 * Most lines that are read of one stream: of a server's every 15 s, four hours' worth. Else one could have every page that is
 * open, in whatever pocket, read without end.
 */
export const EVENTS_A_STREAM = 1_000

/** Pause before a stream of events that has ended is opened again. */
export const EVENTS_PAUSE_MS = 5_000

/** The same for a stream that has told of epochs which its own server does not have. */
export const EVENTS_DROPPED_MS = 3_600_000

/**
 * Least time between two looks that one server's events cause, and the longest it grows to. It doubles when a look finds
 * nothing new, and with each hint that had to be downloaded anew. Else one server could have every map flood the other,
 * or download without end.
 */
export const FOLLOW_INTERVAL_MS = 1_000
export const FOLLOW_LONGEST_INTERVAL_MS = 120_000
