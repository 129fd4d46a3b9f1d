// What holds of maps on phones, whatever becomes of their pages: the rules of all random schedules, in the simulated world and in real
// browsers and apps.

import { LOCK_PATIENCE_MS, TIMEOUT_MS } from '../../src/base/constants.js'

/** A page that is back follows again within so long. */
export const FOLLOWS_MS = 2_000
/** A lookup may wait for a tab that keeps the lock, then for its servers. */
export const LOOKUP_MS = LOCK_PATIENCE_MS + 2 * TIMEOUT_MS
/** A time asleep that is shorter counts wholly, as that of a busy page, and of a longer one not more (clock.ts). */
const COUNTED_ASLEEP_MS = 4_000
/** What calls may fail with: servers were out of reach, the page was closed, another page had the store. */
const PASSING: readonly unknown[] = ['network', 'timeout', 'closed', 'storage']

/** What becomes of a phone, or what its user does. `address`: it has another one, so all connections break. */
export type Act = 'freeze' | 'thaw' | 'offline' | 'online' | 'address' | 'publish' | 'kill' | 'use'

const ODDS: Readonly<Record<Act, number>> = {
  freeze: 3,
  thaw: 4,
  offline: 1,
  online: 2,
  address: 1,
  publish: 1,
  kill: 1,
  use: 7,
}
const ACTS = Object.entries(ODDS).flatMap(([act, odds]) => Array.from({ length: odds }, () => act as Act))

export function drawAct(draw: (below: number) => number): Act {
  return ACTS[draw(ACTS.length)]!
}

/** How a call has ended. */
export interface Ended {
  readonly what: 'open' | 'lookup'
  /** how long it took, the time asleep left out */
  readonly awakeMs: number
  /** how often the page has slept meanwhile */
  readonly sleeps: number
  readonly error?: { readonly code?: unknown; readonly message: string } | undefined
}

export class PhoneRules {
  readonly faults: string[] = []
  lookups = 0
  answered = 0
  readonly #newest = new Map<unknown, number>()

  /** A map shows this epoch. */
  showed(map: unknown, epoch: number): void {
    const newest = this.#newest.get(map) ?? 0
    if (epoch < newest) this.faults.push(`a map went back from epoch ${newest} to ${epoch}`)
    this.#newest.set(map, Math.max(newest, epoch))
  }

  /** `possible`: what the record has been since the epoch at which it was asked for. */
  found(index: number, value: string, possible: readonly string[]): void {
    this.answered++
    if (!possible.includes(value)) this.faults.push(`wrong at ${index}: ${value}`)
  }

  ended({ what, awakeMs, sleeps, error }: Ended): void {
    if (what === 'lookup' && awakeMs > LOOKUP_MS) this.faults.push(`a lookup took ${awakeMs} ms`)
    if (error === undefined) return
    const { code, message } = error
    const deadline = Number(/within (\d+) ms/.exec(message)?.[1] ?? 0)
    if (awakeMs + COUNTED_ASLEEP_MS * (1 + sleeps) < deadline) {
      this.faults.push(`${what} passed a deadline after ${awakeMs} ms: ${message}`)
    }
    if (!PASSING.includes(code)) this.faults.push(`${what}: ${code} ${message}`)
  }

  neverEnded(calls: readonly string[]): void {
    if (calls.length > 0) this.faults.push(`never ended: ${calls}`)
  }

  follows(epoch: number, newest: number): void {
    if (epoch !== newest) this.faults.push(`a map is at ${epoch}, not ${newest}`)
  }
}
