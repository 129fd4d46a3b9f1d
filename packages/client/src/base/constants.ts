// How long the client waits and how often it asks. All are constants, or follow from the manifest alone: a deadline that
// depended on what was asked would show it (P5).

/** How often one request is sent, the first time included, before its server counts as failed. */
export const ATTEMPTS = 3

/**
 * The same if a reply to a lookup breaks the protocol: waiting mends none. The second request leaves at once, in case that something on
 * the way has damaged one reply. It shows a server no more than its own reply.
 */
export const MALFORMED_ATTEMPTS = 2

/** Pause between two attempts. Constant, so that it shows only that an attempt has failed. */
export const BACKOFF_MS = 1_000

/** Pause before a download is tried again although the device says that it is offline: it may be wrong. */
export const OFFLINE_TRY_MS = 15_000

/** How often it is tried again: for about five minutes offline. */
export const OFFLINE_TRIES = 20

/** How long a server may keep silent. A healthy one answers in tens of milliseconds; mobile radios wake in seconds. */
export const SILENCE_MS = 10_000

/** The slowest connection served, 256 kbit/s. A server that drips bytes more slowly counts as hanging. */
const SLOWEST_BYTES_PER_MS = 32

/** How long so many bytes take on the slowest connection served. */
export function slowestMs(bytes: number): number {
  return Math.ceil(bytes / SLOWEST_BYTES_PER_MS)
}

/** Longest time for all attempts at a request of a lookup or to a fence, besides `slowestMs` of its bytes in both directions. */
export const WIRE_MS = 15_000

/** How much longer a server is waited for that prepares what it answers from, with one server. */
export const UNREADY_MS = 30_000

/** How long a call waits for servers if the app says nothing. */
export const TIMEOUT_MS = 15_000

/**
 * After how much waiting a call is slow, and says so. A server that has not replied by then, besides `slowestMs` of its reply's bytes, is
 * late: another is asked as well.
 */
export const SLOW_MS = 2_000

/** How often a call looks whether it still waits. */
export const WAIT_STEP_MS = 1_000

/** Bytes that are hashed and folded before the page gets its thread back: a few milliseconds on a slow phone. */
export const WORK_BYTES = 256 * 1024

/** How long a map waits for the store of the newest epoch that it has shown: to read it, and when it closes. */
export const SHOWN_MS = 3_000

/** Downloads of at most so many bytes begin without asking the app (`open({ download })`). */
export const UNASKED_BYTES = 1024 * 1024

/** Least time between two saves of a half-made hint: so much of a download may have to be repeated. */
export const SAVE_PAUSE_MS = 2_000

/** Most bytes read of an error reply. */
export const ERROR_REPLY_BYTES = 4096

/** Incidents kept for `stats`; older ones are forgotten. */
export const INCIDENTS_KEPT = 100

/**
 * How long a tab waits for the lock before it takes it. A lookup of 64 KiB takes 38 s at most (three attempts), so a tab
 * that holds it for longer is most likely frozen. If it is not, both send the same bytes, and the store refuses one of them.
 */
export const LOCK_PATIENCE_MS = 45_000

/** How often an operation starts over although nothing has moved. Then the store must be at fault, and it fails. */
export const ROUNDS = 32

/** How often one call makes a hint anew because servers answer the last one no more. Else servers could keep it downloading. */
export const REPLACED_A_CALL = 3

/**
 * Failures of the store in a row after which a map with `storage: 'preferred'` goes on in memory. A single one may be a
 * connection that the browser has closed, and that opens again.
 */
export const STORE_FAILURES = 2

/** How long a busy tab may keep a lock that other tabs ask for. */
export const LOCK_LEASE_MS = 500

/**
 * How long an idle tab keeps a lock that no other tab asks for, so that its next lookup need not wait. Not for ever: a page
 * may be stopped without an event, in a debugger say, and other tabs would have to wait LOCK_PATIENCE_MS.
 */
export const LOCK_KEPT_MS = 5_000

/**
 * How long a confirmation by the rollback fence lasts. A machine that was suspended, or whose snapshot was started
 * elsewhere, has been away for longer, and has its version confirmed before it sends anything.
 */
export const FENCE_REST_MS = 60_000

/** How long a stream of events may be silent between two lines. Servers send one every 15 s, and the first at once. */
export const EVENTS_SILENCE_MS = 45_000

/** Most lines read of one stream: four hours of a line every 15 s. Else a server could have every open page read without end. */
export const EVENTS_A_STREAM = 1_000

/** Least time from one opening of a stream of events to the next. One that has lasted longer is opened again as soon as it ends. */
export const EVENTS_PAUSE_MS = 5_000

/**
 * The same pause for a stream that has announced an epoch in vain, ten times in a row: its server does not have the epoch, or the map could
 * not follow it. These looks take four minutes. A publisher may take as long from one server to the other, or to its signature.
 */
export const EVENTS_DROPPED_MS = 3_600_000

/** How often a folder's line is asked for: nobody tells of its new epochs. */
export const FOLDER_MS = 300_000

/**
 * Least time between two looks that one server's events cause. It doubles when a look finds nothing new, or downloads a state: else one server
 * could have every map flood the other. It grows up to the longest if the server may have made up what it announces; less if others hold the
 * map back, or a signature is missing; or if a state was downloaded.
 */
export const FOLLOW_INTERVAL_MS = 250
export const FOLLOW_UNDECIDED_INTERVAL_MS = 8_000
export const FOLLOW_DOWNLOAD_INTERVAL_MS = 16_000
export const FOLLOW_LONGEST_INTERVAL_MS = 128_000

/** Most keys that a session watches. */
export const WATCHED_KEYS = 64

/** Most bytes of lists that watches read to catch up; on a metered line. Beyond, their keys are looked up again. */
export const WATCH_LIST_BYTES = 4 * 1024 * 1024
export const WATCH_METERED_BYTES = 1024 * 1024

/** Watched keys of one call when they are looked up again. */
export const WATCH_BATCH = 8

/** Within so long they are looked up again, at a drawn time: a new generation brings everybody. */
export const WATCH_AGAIN_MS = 60_000

/** The longest pause after such lookups have failed; the first is BACKOFF_MS, and each doubles. */
export const WATCH_LONGEST_PAUSE_MS = 120_000

/** Watches compare lists with lookups after so long, and up to as long again. */
export const WATCH_CHECK_MS = 24 * 3_600_000

/** How long a filter still answers after a server has shown a newer epoch that it has not reached. */
export const FILTER_BEHIND_MS = 60_000

/**
 * A map that has heard nothing of its servers for so long asks them for the newest epoch: before a filter answers, and before a lookup with
 * one server, which answers an old epoch for as long as its base. Streams have a line every 15 s.
 */
export const UNHEARD_MS = 300_000

/** The longest pause after the first download of a filter has failed; the first is BACKOFF_MS, and each doubles. */
export const FILTER_LONGEST_PAUSE_MS = 120_000
