// The rollback fence as the rest of a server sees it (docs/protocol.md, Rollback fence; docs/threat-model.md, S8): how far
// each hint has come, durably. stored-fence.ts keeps it in the storage of one process, postgres-fence.ts in a database that
// several share; server/test/fence-laws.ts holds both to the same laws.
//
// Anyone may register, so new entries are few, go after hours, and make room for others, until the hint is confirmed.
// Confirmed entries leave by age alone.

import type { FenceRequest, FenceVerdict } from '@keyhush/protocol'
import { Refusal } from '../base/refusal.js'
import type { FenceClock, FenceClockOptions } from './fence-clock.js'

export interface FenceOptions extends FenceClockOptions {
  /** an entry that no request has named for so long is gone; default 400 */
  readonly days?: number | undefined
  /** most entries that are kept; default 1 000 000 */
  readonly entries?: number | undefined
}

const DEFAULT_DAYS = 400
const DEFAULT_ENTRIES = 1_000_000

/** A registration that no confirmation follows for so long is gone. */
export const NEW_SECONDS = 6 * 60 * 60

/** New entries are at most this part of all entries, and so many. */
const NEW_PART = 4
const MOST_NEW = 2 ** 20

export function mostNew(entries: number): number {
  return Math.min(Math.max(1, Math.floor(entries / NEW_PART)), MOST_NEW)
}

export abstract class Fence {
  /** registrations for which there was no room: clients whose hints are without a fence */
  turnedAway = 0
  /** hints it may know */
  readonly most: number
  /** new entries that there may be */
  protected readonly mostNew: number
  protected readonly days: number
  protected readonly clock: FenceClock
  protected readonly shares: NetworkShares
  /** confirmed entries there are, or are about to be */
  protected confirmed = 0

  protected constructor(clock: FenceClock, { days = DEFAULT_DAYS, entries = DEFAULT_ENTRIES }: FenceOptions) {
    this.most = entries
    this.mostNew = mostNew(entries)
    this.days = days
    this.clock = clock
    this.shares = new NetworkShares(entries, clock)
  }

  /** entries that are not confirmed yet */
  protected abstract get registered(): number

  /** hints it knows, confirmed or new */
  get hints(): number {
    return this.confirmed + this.registered
  }

  /** what an operator has to know, for people */
  get problem(): string | undefined {
    return this.confirmed < this.most ? undefined : 'the fence is full: new hints are not protected by it'
  }

  /**
   * Resolves when what it says is on disk. `network` is what a registration is counted for. Throws a `fence_full` Refusal
   * if there is no room for another hint, or not for another of that network; StorageError if nothing can be kept.
   */
  abstract judge(request: FenceRequest, network?: string): Promise<FenceVerdict>

  /** There was no room. */
  protected turnAway(): never {
    this.turnedAway++
    throw new Refusal('fence_full', 'the fence has no room now for new hints of this network; try again later')
  }
}

/** What one network may register in a day: this part of all entries, but not less than so many. */
const NETWORK_PART = 1000
const LEAST_FOR_NETWORK = 64
const NETWORKS_REMEMBERED = 100_000

/** Registrations by network, today: in this process's memory, and nowhere else. */
export class NetworkShares {
  readonly #most: number
  readonly #clock: FenceClock
  readonly #registered = new Map<string, number>()
  #day = 0

  /** `entries`: that the fence may have. */
  constructor(entries: number, clock: FenceClock) {
    this.#most = Math.max(LEAST_FOR_NETWORK, Math.floor(entries / NETWORK_PART))
    this.#clock = clock
  }

  /** Counts a registration. false: this network has had its share of the day. */
  take(network: string): boolean {
    const { today } = this.#clock
    // An attacker with so many networks could displace the others one by one as well.
    if (this.#day !== today || this.#registered.size >= NETWORKS_REMEMBERED) this.#registered.clear()
    this.#day = today
    const before = this.#registered.get(network) ?? 0
    if (before >= this.#most) return false
    this.#registered.set(network, before + 1)
    return true
  }

  /** The registration was not kept. */
  giveBack(network: string): void {
    const before = this.#registered.get(network)
    if (before !== undefined) this.#registered.set(network, before - 1)
  }
}
