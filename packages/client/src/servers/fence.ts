// The rollback fence (S8; docs/protocol.md, Rollback fence). An old copy of a state, from a backup or a cloned profile, looks like
// the newest. So the refresh server remembers of each hint how many lookups it has made, and the name of the pending one.
//
//   register   before a hint is first stored: no stored state can register again
//   confirm    before the first lookup after opening and after a pause; and with each lookup, in one request with its refresh
//              vectors: a copy makes one lookup at most. `strict`: also ahead of each lookup: a copy makes none
//
// A hint ends a lookup only after the fence has granted its claim. The fence grants one lookup for each version in a hint's life, so
// only one of several copies gets past it. The others are refused and condemned.

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
import { type Link, post } from './transport.js'
import { onTheWire } from './wire.js'

/**
 * `confirm`: each lookup's request carries its claim. `strict`: the refresh server confirms the claim before each lookup, in another
 * round trip. See `open({ rollback })`.
 */
export type RollbackPreference = 'confirm' | 'strict'

/** `none`: this server has no fence; `full`: its fence has no room. The hint is then unfenced for life. */
export type Registration = 'registered' | 'none' | 'full'

/** Registers a hint. A server that offers no fence is not asked. Throws if the server cannot be reached. */
export async function register(
  link: Link,
  { databaseId, hintId }: Pick<FenceClaim, 'databaseId' | 'hintId'>,
  signal: AbortSignal,
): Promise<Registration> {
  if (link.standing.offers.get(link.server.name)?.fence === false) return 'none'
  const request = { kind: 'register', databaseId, hintId, version: 0, requestHash: new Uint8Array(32) } as const
  const verdict = await judge(link, request, signal).catch(error => {
    const lacking = lacksFence(error)
    if (lacking === undefined) throw error
    return lacking
  })
  if (verdict === 'refused') {
    throw new ProtocolError(link.server.name, 'expected a new hint to be registered, got a refusal; call again')
  }
  return verdict === 'granted' ? 'registered' : verdict
}

/** What a server's refusal says of its fence; undefined: nothing. */
function lacksFence(error: unknown): 'none' | 'full' | undefined {
  if (!(error instanceof ServerError)) return undefined
  return error.refusal === 'not_found' ? 'none' : error.refusal === 'fence_full' ? 'full' : undefined
}

/** One hint's fence, and what it has granted in this life of the page. */
export class Fence {
  readonly #link: Link
  /** the claim granted last, and when */
  #granted: { readonly claim: string; readonly at: number } | undefined

  constructor(link: Link) {
    this.#link = link
  }

  /** Whether the fence has granted a claim so recently that no copy can have been opened since. */
  get awake(): boolean {
    const since = this.#granted === undefined ? Number.POSITIVE_INFINITY : this.#now() - this.#granted.at
    return since >= 0 && since < FENCE_REST_MS
  }

  /** Whether this claim was granted last. */
  has(claim: FenceClaim): boolean {
    return this.#granted?.claim === nameOf(claim)
  }

  /** Notes that the fence has granted this claim. */
  granted(claim: FenceClaim): void {
    this.#granted = { claim: nameOf(claim), at: this.#now() }
  }

  /** Throws if the refresh server cannot be reached. Cannot be called off, and is repeated as often as a lookup's requests. */
  async confirm(claim: FenceClaim): Promise<FenceVerdict> {
    const verdict = await judge(this.#link, { kind: 'confirm', ...claim })
    if (verdict === 'granted') this.granted(claim)
    return verdict
  }

  /** The calendar's time: other clocks may stop while the machine sleeps. */
  #now(): number {
    return this.#link.environment.clock.date()
  }
}

/** A claim's name of the pending lookup if there is none. */
export const NO_REQUEST = new Uint8Array(32)

/** The version that a claim has: it grows by one a lookup, and updates do not change it, so that all copies of a hint have the same. */
export function claimVersion(version: number, { epoch }: Pick<Manifest, 'epoch'>): number {
  return version + 2 ** 32 - epoch
}

function nameOf({ version, requestHash }: FenceClaim): string {
  return `${version} ${toHex(requestHash)}`
}

async function judge(link: Link, request: FenceRequest, signal?: AbortSignal): Promise<FenceVerdict> {
  const body = encodeFenceRequest(request)
  const send = async (until: number) => {
    const reply = await post(link, '/v1/fence', body, FENCE_REPLY_BYTES, until, signal)
    return fromWire(link, () => decodeFenceReply(reply))
  }
  const isFinal = (error: unknown) => lacksFence(error) !== undefined
  return await link.meter.asking(() => onTheWire(link, body.length + FENCE_REPLY_BYTES, send, { isFinal, signal }))
}
