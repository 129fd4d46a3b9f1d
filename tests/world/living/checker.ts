// Rules for the client's results and events:
//
//   - a lookup's result and `map.size` are the model's at `map.epoch` when the call ends. A map's epoch never goes back, and
//     both servers have it;
//   - after sync(), and after open() if no server was away, the epoch is at least the newest that both servers had when
//     the call began, and the newest there is if nothing was published meanwhile; but open() may end at the last epoch of
//     an old generation, until the new one is fetched, and so before one that outgrows hints for one server;
//   - a call fails only for a reason: it was called off, its map closed, its servers out of reach, its state put back;
//   - state is discarded, or outdated, only if no update leads on from it; a hint is condemned only if it was put back.
//
// (And at rest every record is right, and what is stored is, to the last bit, what a new client would have: inspect.ts.)

import type { MapEvent } from '@keyhush/client'
import { decodeManifest } from '@keyhush/protocol'
import type { Head } from '../ledger.js'
import type { Outcome } from '../tab.js'
import type { Call, Tab } from './client.js'
import type { World } from './world.js'

/** What the checker needs of the world. */
type Facts = Pick<World, 'publisher' | 'faults' | 'misfortunes' | 'putBack' | 'counts' | 'count'>

export class Checker {
  readonly #facts: Facts
  /** the newest epoch that each tab's map has been seen at */
  readonly #seen = new Map<Tab, number>()
  /** the epoch of the state that a tab has discarded last; 0: there was none any more */
  readonly #discarded = new Map<Tab, number>()

  constructor(facts: Facts) {
    this.#facts = facts
  }

  /** Throws if the call must not end so. */
  ended(call: Call, outcome: Outcome): void {
    if ('error' in outcome) this.#assertPlausible(call, outcome.error as Error)
    else this.#assertRight(call, outcome.value)
  }

  /** A tab has discarded what was stored. */
  discards(tab: Tab, before: Head | undefined): void {
    this.#discarded.set(tab, before ? decodeManifest(Buffer.from(before.manifest, 'hex')).epoch : 0)
  }

  /** What is wrong with an event; undefined: nothing. */
  heard(tab: Tab, event: MapEvent): string | undefined {
    const { publisher, faults, putBack } = this.#facts
    if (event.type === 'condemned') return putBack ? undefined : 'is condemned, and nobody has lied'
    if (event.type !== 'discarded' && event.type !== 'outdated') return undefined
    const stored = tab.disk.head && decodeManifest(Buffer.from(tab.disk.head.manifest, 'hex'))
    // A map that opens is at the epoch that is stored.
    const epoch = event.type === 'discarded' ? this.#discarded.get(tab) : (tab.map ?? stored)?.epoch
    const explanations: Partial<Record<typeof event.reason, boolean>> = {
      // Another tab has discarded it, with a reason.
      missing: this.#discarded.size > 0,
      history: epoch !== undefined && publisher.newest.epoch - epoch > faults.history,
      generation:
        publisher.versions.get(epoch ?? 0)?.shape.generation !== publisher.newest.shape.generation ||
        // Or it has outgrown its hints.
        (faults.mode === 'single' && publisher.newest.size > (publisher.versions.get(epoch ?? 0)?.size ?? 0)),
      spent: faults.mode === 'single',
    }
    return explanations[event.reason] === true ? undefined : `finds its state ${event.type}: ${event.reason}`
  }

  #assertRight(call: Call, value: unknown): void {
    const { publisher, putBack, count } = this.#facts
    const { tab, what, question } = call
    if (what === 'close') return
    // Nothing is known of a condemned map.
    if (what === 'open' && putBack) return
    const { epoch, size } = call.map ?? tab.map!
    const before = this.#seen.get(tab) ?? 0
    if (epoch < before) throw new Error(`: the map goes back from epoch ${before} to ${epoch}`)
    this.#seen.set(tab, epoch)
    if (epoch > publisher.possible) throw new Error(`: the map is at epoch ${epoch}, which not both servers have`)
    const version = publisher.versions.get(epoch)
    if (version === undefined) throw new Error(`: the map is at epoch ${epoch}, which there is not`)
    if (size !== version.size) throw new Error(`: there are ${version.size} records, and the map says ${size}`)
    if (question) {
      count.call(this.#facts, 'records looked up', (value as unknown[]).length)
      const [found, expected] = [show(value), show(question.answer(version))]
      if (found !== expected) throw new Error(` at epoch ${epoch} should be ${expected}, and the map says ${found}`)
      return
    }
    if (what === 'open' && epoch === publisher.lastOf(version.shape.generation)) return
    // Likewise where the database has outgrown the hints since.
    if (what === 'open' && this.#facts.faults.mode === 'single' && publisher.newest.size > size) return
    // A map with all records keeps them until those that no update leads to are there.
    const behind = publisher.newest.epoch - epoch
    if (what === 'open' && this.#facts.faults.mode === 'local' && behind > this.#facts.faults.history) return
    // While batches arrive, servers may be so far apart that they answer no newer epoch in common. A stored map opens where it was.
    if (what === 'open' && !call.calm) return
    // A stored map opens unchanged while a server is away.
    if (what === 'open' && this.#facts.misfortunes > call.misfortunes) return
    const least = call.calm ? publisher.newest.epoch : call.agreed
    if (epoch < least) throw new Error(`: the map is at epoch ${epoch}, and both servers had ${least}`)
  }

  #assertPlausible({ tab, map, question, giveUp, misfortunes, agreed }: Call, error: Error): void {
    const { publisher, faults, counts, putBack } = this.#facts
    if (error.name === 'AbortError' && giveUp.signal.aborted) return
    const reasons: Readonly<Record<string, boolean>> = {
      closed: tab.calls.some(({ what }) => what === 'close'),
      network: this.#facts.misfortunes > misfortunes,
      timeout: this.#facts.misfortunes > misfortunes,
      condemned: putBack,
      // Without lingering, one server no longer answers a generation that is still the other's newest.
      version: faults.lingerHours === 0 && counts.has('new generation'),
      // Three times, one server had forgotten an epoch before it was asked for what the other had shown.
      servers_disagree: publisher.newest.epoch - agreed > 3 * faults.history,
      // A new generation has no empty slots.
      usage: question?.index !== undefined && question.index >= (map?.size ?? 0),
    }
    if (reasons[(error as { code?: string }).code ?? ''] !== true) {
      throw new Error(` fails with ${error.stack ?? error}`)
    }
  }
}

function show(value: unknown): string {
  return JSON.stringify(value, (_key, part) =>
    part instanceof Uint8Array ? new TextDecoder().decode(part) : (part ?? null),
  )
}
