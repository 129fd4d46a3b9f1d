// The rollback fence (S8; docs/protocol.md, Rollback fence). State that was rewound, a restored backup, a cloned profile,
// cannot be told from the newest by looking at it; but the refresh server remembers how far each hint has come: how many
// lookups, and which one it is at. It is told before a vector leaves that another copy might contradict:
//
//   registered    before a hint is first stored, so that no stored state can register again
//   confirmed     before the first batch after opening and after a pause; and with each batch, in one request with its
//                 refresh vectors, so that a copy can make one lookup at most, or, `strict`, also ahead of each, so
//                 that it can make none
//
// No hint moves on from a batch before its claim was granted, and no two batches are granted for one place in a hint's
// life. So of several copies only one gets past any place; the others are refused there, which condemns them.

import {
  decodeFenceReply,
  encodeFenceRequest,
  FENCE_REPLY_BYTES,
  type FenceClaim,
  type FenceRequest,
  type FenceVerdict,
  type Manifest,
  toHex,
} from '@keyhush/protocol'
import { FENCE_REST_MS } from '../base/constants.js'
import { ProtocolError, ServerError } from '../base/errors.js'
import { fromWire } from './manifests.js'
import { withRetry } from './retry.js'
import { type Link, postFence } from './transport.js'

/**
 * `confirm`: lookups are confirmed in step with their requests. `strict`: ahead of them, at the price of one more round
 * trip, in which the refresh server alone is asked (it relaxes P2); a server without a fence is refused.
 */
export type RollbackPreference = 'confirm' | 'strict'

/** `none`: this server has no fence; `full`: it has, without room in it. Then a hint is unfenced for life. */
export type Registration = 'registered' | 'none' | 'full'

/** Registers a hint. Throws if the server cannot be reached. */
export async function register(
  link: Link,
  { databaseId, hintId }: Pick<FenceClaim, 'databaseId' | 'hintId'>,
  signal: AbortSignal,
): Promise<Registration> {
  const request = { kind: 'register', databaseId, hintId, version: 0, requestHash: new Uint8Array(32) } as const
  const verdict = await withRetry(link, signal, () => judge(link, request, signal).catch(withoutFence))
  if (verdict === 'refused') {
    throw new ProtocolError(link.server.name, 'expected a new hint to be registered, got a refusal')
  }
  return verdict === 'granted' ? 'registered' : verdict
}

function withoutFence(error: unknown): 'none' | 'full' {
  if (error instanceof ServerError && error.refusal === 'not_found') return 'none'
  if (error instanceof ServerError && error.refusal === 'fence_full') return 'full'
  throw error
}

/** How far one hint is known to have come, by its fence. Of one life of a page. */
export class Fence {
  readonly #link: Link
  /** the claim granted last, and when */
  #granted: { readonly claim: string; readonly at: number } | undefined

  constructor(link: Link) {
    this.#link = link
  }

  /** Whether so little time has passed since the fence was last heard that no copy can have been woken meanwhile. */
  get awake(): boolean {
    const since = this.#granted === undefined ? Number.POSITIVE_INFINITY : this.#now() - this.#granted.at
    return since >= 0 && since < FENCE_REST_MS
  }

  /** Whether exactly this was granted before. */
  has(claim: FenceClaim): boolean {
    return this.#granted?.claim === nameOf(claim)
  }

  /** Notes that this was granted. */
  granted(claim: FenceClaim): void {
    this.#granted = { claim: nameOf(claim), at: this.#now() }
  }

  /**
   * Throws if the refresh server cannot be reached: then nothing is known. Cannot be called off, and is repeated as often
   * as a lookup's requests.
   */
  async confirm(claim: FenceClaim): Promise<FenceVerdict> {
    const request = { kind: 'confirm', ...claim } as const
    const never = new AbortController().signal
    const verdict = await withRetry(this.#link, never, () => judge(this.#link, request), true)
    if (verdict === 'granted') this.granted(claim)
    return verdict
  }

  /** Of the calendar: a clock that stands still while the machine sleeps would not tell. */
  #now(): number {
    return this.#link.environment.clock.date()
  }
}

/** What a claim holds in place of a batch's name where none is pending. */
export const NO_REQUEST = new Uint8Array(32)

/** How many lookups a hint has made, from a number that is the same for all copies of it. */
export function placeOf(version: number, { epoch }: Pick<Manifest, 'epoch'>): number {
  return version + 2 ** 32 - epoch
}

function nameOf({ version, requestHash }: FenceClaim): string {
  return `${version} ${toHex(requestHash)}`
}

async function judge(link: Link, request: FenceRequest, signal?: AbortSignal): Promise<FenceVerdict> {
  const reply = await postFence(link, encodeFenceRequest(request), FENCE_REPLY_BYTES, signal)
  return fromWire(link, () => decodeFenceReply(reply))
}
