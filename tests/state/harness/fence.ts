// The rollback fence of one server, as the table of docs/protocol.md has it.

import type { FenceRequest, FenceVerdict } from '@pirouette/protocol'
import { hexOf } from './databases.js'

/** A request hash that says that there is no request yet. */
const NONE = '00'.repeat(32)

/** How far a hint is said to have come. Ids and hashes in hex. */
export function claimOf(hint: string, version: number, hash: string): string {
  return `${hint} ${version} ${hash}`
}

export class Fence {
  /** a bug to be planted: it grants whatever is asked */
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
