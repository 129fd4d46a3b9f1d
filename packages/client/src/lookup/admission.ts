// S8: what has to be confirmed by a hint's fence before anything of a lookup leaves that another copy of this state could
// contradict; and what a refusal means.

import { equalBytes, type FenceClaim, type FenceVerdict } from '@keyhush/protocol'
import { CondemnedError, ServerError, UnsupportedError } from '../base/errors.js'
import { Fence, NO_REQUEST, placeOf } from '../servers/fence.js'
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
   * Resolves when the fence lets the pending batch leave, to the claim that leaves with it; undefined: there is no fence.
   * `way`: the party's own, 0, or that of a server that is asked in its place. While it is wide awake, and unless strictness is
   * asked for, a hint has it hear in the same request; it is not taken further before it has been heard. If it throws, nothing
   * is to be sent.
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

  /** What the fence has said to the claim behind a batch. Throws if the hint must not move on. */
  async heard(hint: Hint, way: number, claim: FenceClaim, verdict: FenceVerdict): Promise<void> {
    if (verdict === 'granted') {
      this.#fenceOf(hint, way)?.granted(claim)
      return
    }
    await this.#refused(hint).catch(error => {
      // Another tab has begun anew, and the batch has left: its answers are right, and the store will refuse its effect.
      if (!isMoved(error)) throw error
    })
  }

  /**
   * Has all fences confirm how far this hint has come, before it is first used in this life of the page: those of servers that are
   * asked in the party's place as well, for what a lookup tells the party's own they do not hear. One of these that is away is
   * asked again before anything leaves for it.
   */
  async confirm(hint: Hint): Promise<void> {
    const links = fenceLinks(hint.scheme, hint.record, this.#machine.fences)
    const fences = links.map((_, way) => this.#fenceOf(hint, way))
    const claim = claimOf(hint)
    const heard = await Promise.allSettled(
      fences.map(fence => (fence === undefined || fence.awake ? 'granted' : fence.confirm(claim))),
    )
    const refused = heard.some(verdict => verdict.status === 'fulfilled' && verdict.value !== 'granted')
    if (refused) await this.#refused(hint)
    for (const [way, verdict] of heard.entries()) {
      const passing = way > 0 && verdict.status === 'rejected' && verdict.reason instanceof ServerError
      if (verdict.status === 'rejected' && !passing) throw verdict.reason
    }
  }

  async #ask(hint: Hint, fence: Fence, claim: FenceClaim): Promise<void> {
    if ((await fence.confirm(claim)) !== 'granted') await this.#refused(hint)
  }

  /** The fence has refused this hint's claim. Condemns it, unless this tab is merely late. */
  async #refused(hint: Hint): Promise<void> {
    const machine = this.#machine
    const place = placeOf(hint.version, hint.manifest)
    const pending = hint.isPending
    if (machine.durable) {
      // Another tab may have gone further on this store, or have begun anew: then this one is merely late.
      const head = await readHead(machine, false)
      const manifest = head && readManifest(head.record.manifest)
      const here = isOf(head, hint.record.hintId) && head?.condemned === undefined
      // In lookups, as the fence counts: an update raises the version, too, and lets nobody off.
      const other = here && head && manifest ? placeOf(head.version, manifest) : undefined
      if (other !== place || (head?.pending !== undefined) !== pending) {
        machine.doubt()
        // It has finished this very batch, and had it granted: the same bytes again show nothing new, and this call need
        // not make another query (P4).
        if (pending && other !== undefined && other > place) return
        throw new StateMovedError('another tab has gone further')
      }
    }
    await condemnForItself(machine, hint)
    throw new CondemnedError(undefined)
  }

  /** undefined: this hint's server had none when it was made, or it needs none. Throws UnsupportedError if it has to. */
  #fenceOf({ record, scheme }: Hint, way: number): Fence | undefined {
    const link = fenceLinks(scheme, record, this.#machine.fences)[way]
    if (link === undefined) return undefined
    if (!record.fenced.includes(link.server.name)) {
      if (this.#machine.parts.rollback !== 'strict') return undefined
      const instead = "open() without rollback: 'strict' and call reset(), or choose servers that keep one"
      throw new UnsupportedError('fence', `this map's hint was made without a rollback fence; ${instead}`)
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
 * What a fence is to confirm. Its version counts lookups alone: an update raises the hint's version and its epoch alike.
 * If it counted updates, a copy that is behind would catch up with the fence just by following the database.
 */
function claimOf({ record, manifest, state, version }: Hint): FenceClaim {
  const requestHash = state.kind === 'asked' ? state.batchName() : NO_REQUEST
  return { databaseId: manifest.databaseId, hintId: record.hintId, version: placeOf(version, manifest), requestHash }
}
