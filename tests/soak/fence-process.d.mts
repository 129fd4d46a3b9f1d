// Types of fence-process.mjs, which runs as it is.

import type { Fence } from '../../server/dist/database/fence.js'

export interface Phase {
  readonly perSecond: number
  /** milliseconds of a request */
  readonly p50: number
  readonly p99: number
  readonly processorMs: number
  /** the event loop was held for, at most */
  readonly longestMs: number
  /** hints that were removed */
  readonly gone?: number
}

export interface Measured {
  readonly phases: Readonly<Record<string, Phase>>
  readonly ownMiB: number
  readonly mappedMiB: number
}

export const DAYS: number
export function hintId(i: number, count: number): Buffer
export function measured(fence: Fence, count: number, pass: (days: number) => void): Promise<Measured>
