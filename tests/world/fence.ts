// A server's rollback fence, by the table of docs/protocol.md.

import {
  decodeClaimedQuery,
  FENCE_REQUEST_BYTES,
  type FenceClaim,
  type FenceRequest,
  type FenceVerdict,
  HEADER_BYTES,
} from '@keyhush/protocol'
import type { Epoch } from '../interop/reference/message.js'
import { hexOf } from './ledger.js'

/** The request hash where there is no request yet. */
const NONE = '00'.repeat(32)

/** A hint's place. Ids and hashes in hex. */
export function claimOf(hint: string, version: number, hash: string): string {
  return `${hint} ${version} ${hash}`
}

/** The place that a claim names. */
export function nameOfClaim({ hintId, version, requestHash }: FenceClaim): string {
  return claimOf(hexOf(hintId), version, hexOf(requestHash))
}

/** The same, as a lookup is to say it that is made at this version and epoch: lookups count, updates do not. */
export function claimFor(hint: string, version: number, epoch: Epoch, name: Uint8Array): string {
  return claimOf(hint, version + 2 ** 32 - epoch.epoch, hexOf(name))
}

/** A query without its claim, and that claim, which also shows the length of a query of suite 3. Throws WireError for others. */
export function splitClaim(body: Uint8Array): { query: Uint8Array; claim: FenceClaim | undefined } {
  const end = Math.max(0, body.length - FENCE_REQUEST_BYTES)
  const claimed = Buffer.from(body.subarray(end, end + 4)).toString() === 'PIRF'
  const bytes = (claimed ? end : body.length) - HEADER_BYTES
  const { claim } = decodeClaimedQuery(body, ({ count }) => bytes / count)
  return { query: claim === undefined ? body : body.subarray(0, -FENCE_REQUEST_BYTES), claim }
}

export class Fence {
  /** of a mutant: it grants every claim */
  asleep = false
  /** claims that were granted, as `claimOf` names them */
  readonly granted = new Set<string>()
  /** by hint */
  readonly #kept = new Map<string, { readonly version: number; readonly hash: string }>()

  judge({ kind, hintId, version, requestHash }: FenceRequest): FenceVerdict {
    const [id, hash] = [hexOf(hintId), hexOf(requestHash)]
    const kept = this.#kept.get(id)
    const keep = (): FenceVerdict => {
      this.#kept.set(id, { version, hash })
      this.granted.add(claimOf(id, version, hash))
      return 'granted'
    }
    if (this.asleep) return keep()
    if (kind === 'register') {
      if (kept === undefined) return keep()
      return kept.version === 0 && kept.hash === NONE ? 'granted' : 'refused'
    }
    if (kept === undefined || version < kept.version) return 'refused'
    const further = version > kept.version || kept.hash === NONE
    if (hash === NONE) return further ? 'granted' : 'refused'
    return further || kept.hash === hash ? keep() : 'refused'
  }
}
