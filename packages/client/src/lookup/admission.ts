// S8: what a hint's rollback fence has to confirm before a query leaves, and what a refusal means. Another copy of this
// state could otherwise send a different query at the same version.

import { equalBytes, type FenceClaim, type FenceVerdict } from '@keyhush/protocol'
import { CondemnedError, UnsupportedError } from '../base/errors.js'
import { askAll } from '../servers/ask.js'
import { claimVersion, Fence, NO_REQUEST } from '../servers/fence.js'
import { readManifest } from '../servers/manifests.js'
import { condemnForItself } from '../state/condemnation.js'
import { isOf, readHead } from '../state/head.js'
import { fenceLinks, type Hint } from '../state/hint.js'
import type { Machine } from '../state/machine.js'
import { isMoved } from '../store/storage.js'
import { StateMovedError } from '../store/store.js'

export class Admission {
  readonly #machine: Machine
  /** of one hint, by the names of the servers that keep them */
  #fences: { readonly hintId: Uint8Array; readonly known: Map<string, Fence> } | undefined

  constructor(machine: Machine) {
    this.#machine = machine
  }

  /**
   * Resolves when the pending lookup may leave, to the claim to send with it. Undefined: there is no fence. If this throws, nothing
   * must be sent. `way`: 0 for the party's own server, else a server in its place. If the fence has answered recently, and `rollback`
   * is not strict, the claim is confirmed with the query; else before it.
   */
  async admit(hint: Hint, way: number): Promise<{ readonly party: number; readonly claim: FenceClaim } | undefined> {
    const fence = this.#fenceOf(hint, way)
    const party = hint.scheme.fencedBy
    if (fence === undefined || party === undefined) return undefined
    const claim = claimOf(hint)
    const ahead = !fence.awake || this.#machine.parts.rollback === 'strict'
    if (ahead && !fence.has(claim)) await this.#ask(hint, fence, claim)
    return { party, claim }
  }

  /** Takes the fence's verdict on the claim that left with a lookup. Throws if the hint must not move on. */
  async heard(hint: Hint, way: number, claim: FenceClaim, verdict: FenceVerdict): Promise<void> {
    if (verdict === 'granted') {
      this.#fenceOf(hint, way)?.granted(claim)
      return
    }
    await this.#refused(hint).catch(error => {
      // Another tab has begun anew, and the lookup has left. Its answers are right, and the store will refuse its effect.
      if (!isMoved(error)) throw error
    })
  }

  /**
   * Has all fences confirm the hint's version before its first use in this life of the page. That includes the fences of servers that may be
   * asked in the party's place: lookups do not reach those. One is enough, and late ones are not waited for: a fence that has not granted the
   * version is asked again before anything is sent to its server.
   */
  async confirm(hint: Hint): Promise<void> {
    const links = fenceLinks(hint.scheme, hint.record, this.#machine.fences)
    const claim = claimOf(hint)
    if (links.length === 0) return
    const verdicts = await askAll(
      links,
      { enough: 1, once: true },
      new AbortController().signal,
      async (link): Promise<FenceVerdict> => {
        const fence = this.#fenceOf(hint, links.indexOf(link))
        return fence === undefined || fence.awake ? 'granted' : await fence.confirm(claim)
      },
    )
    if (verdicts.includes('refused')) await this.#refused(hint)
  }

  async #ask(hint: Hint, fence: Fence, claim: FenceClaim): Promise<void> {
    if ((await fence.confirm(claim)) !== 'granted') await this.#refused(hint)
  }

  /** The fence has refused this hint's claim. Condemns the hint, unless another tab has gone further. */
  async #refused(hint: Hint): Promise<void> {
    const machine = this.#machine
    const own = claimVersion(hint.version, hint.manifest)
    const pending = hint.isPending
    if (machine.durable) {
      // Another tab may have gone further on this store, or have begun anew.
      const head = await readHead(machine, false)
      const manifest = head && readManifest(head.record.manifest)
      const here = isOf(head, hint.record.hintId) && head?.condemned === undefined
      // Counted in lookups, as the fence counts. An update raises the version too, and explains no refusal.
      const other = here && head && manifest ? claimVersion(head.version, manifest) : undefined
      if (other !== own || (head?.pending !== undefined) !== pending) {
        machine.doubt()
        // The other tab has finished this same lookup, and the fence has granted it. The same bytes again show nothing new,
        // and this call need not make another query (P4).
        if (pending && other !== undefined && other > own) return
        throw new StateMovedError('another tab has gone further')
      }
    }
    await condemnForItself(machine, hint)
    throw new CondemnedError(undefined)
  }

  /** Undefined: the server had none when this hint was made, or none is needed. Throws UnsupportedError if one is demanded. */
  #fenceOf({ record, scheme }: Hint, way: number): Fence | undefined {
    const link = fenceLinks(scheme, record, this.#machine.fences)[way]
    if (link === undefined) return undefined
    if (!record.fenced.includes(link.server.name)) {
      if (this.#machine.parts.rollback !== 'strict') return undefined
      const instead = "open() without rollback: 'strict' and call reset(), or choose servers that keep one"
      throw new UnsupportedError(
        'fence',
        `expected a hint with a rollback fence, got one that was made without; ${instead}`,
      )
    }
    if (this.#fences === undefined || !equalBytes(this.#fences.hintId, record.hintId)) {
      this.#fences = { hintId: record.hintId, known: new Map() }
    }
    const { known } = this.#fences
    const fence = known.get(link.server.name) ?? new Fence(link)
    known.set(link.server.name, fence)
    return fence
  }
}

/**
 * What a fence has to confirm. The claim's version counts lookups alone. If it counted updates, an old copy would catch up
 * with the fence just by following the database.
 */
function claimOf({ record, manifest, state, version }: Hint): FenceClaim {
  const requestHash = state.kind === 'asked' ? state.pendingName() : NO_REQUEST
  return {
    databaseId: manifest.databaseId,
    hintId: record.hintId,
    version: claimVersion(version, manifest),
    requestHash,
  }
}
