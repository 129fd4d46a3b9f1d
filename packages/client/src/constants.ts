// The numbers that decide how long the client waits and how often it asks. All are constants, or follow from the
// manifest alone: a deadline that depended on what was asked would tell it (P5).

/** How often one request is sent, the first time included, before its server counts as failed. */
export const ATTEMPTS = 3

/** Pause between two attempts. Constant, so that it tells nothing but that an attempt failed. */
export const BACKOFF_MS = 1_000

/** How long a server may keep silent. A healthy one answers in tens of milliseconds; mobile radios wake in seconds. */
export const SILENCE_MS = 10_000

/** The slowest connection served, 256 kbit/s. A server that drips bytes more slowly counts as hanging. */
export const SLOWEST_BYTES_PER_MS = 32

/** Longest time for a request of `bytes` in both directions together. */
export function deadlineMs(bytes: number): number {
  return SILENCE_MS + Math.ceil(bytes / SLOWEST_BYTES_PER_MS)
}

/** Bytes hashed and folded before the page gets its thread back. 256 KiB are a few milliseconds on a slow phone. */
export const WORK_BYTES = 256 * 1024

/** Most bytes read of an error reply. */
export const ERROR_REPLY_BYTES = 4096

/** Incidents kept for `stats`; older ones are forgotten. */
export const INCIDENTS_KEPT = 100
