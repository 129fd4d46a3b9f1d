// What simulated worlds share: time, pending events, and the trace. In each tick the world picks one pending event by its seed and
// lets it happen. Nothing happens by itself.

import type { Clock } from '@keyhush/client/environment'
import type { Chance } from './chance.js'
import { type Timer, Timers } from './clock.js'
import type { Disk } from './disk.js'
import type { Locks } from './locks.js'
import type { Outcome } from './tab.js'

/** The time for a partition: the SDK's pause between two saves of a half-made hint, so that it saves after each. */
export const BLOB_MS = 2_000

/** A client in its process: running, frozen or dead. */
export interface SimulatedTab {
  readonly name: string
  readonly map: { close(): Promise<void> } | undefined
  state: 'running' | 'frozen' | 'dead'
}

/** A tab's call, for the trace. */
interface Ended<Tab> {
  readonly tab: Tab
  readonly what: string
  readonly question: unknown
}

/** A pending event. */
export interface Coming<Who> {
  readonly who: Who
  readonly what: string
  readonly come: () => void
  /** at the end of the world */
  readonly fail: (error: Error) => void
  /** the step before which it does not happen */
  notBefore: number
}

/** `Who`: a tab, or the name of another that waits. */
export abstract class Simulation<Tab extends SimulatedTab, Who extends Tab | string = Tab> {
  readonly chance: Chance
  readonly tabs: Tab[] = []
  now = 0
  /** what happened, one line each */
  readonly trace: string[] = []
  /** what happened how often */
  readonly counts = new Map<string, number>()
  protected coming: Coming<Who>[] = []
  /** events that never happen */
  readonly #never: Coming<Who>[] = []
  readonly #timers = new Timers<Tab>()
  #over = false
  /** timers begun since */
  #late = 0

  constructor(chance: Chance) {
    this.chance = chance
  }

  /** Multiplies the length of journals, so that checkpoints come after some entries instead of thousands. */
  protected abstract readonly journalFactor: number

  get over(): boolean {
    return this.#over
  }

  // ---- what those in it call ---------------------------------------------------------------------

  /** Resolves when the event happens; for a dead tab, never. */
  comes(who: Who, what: string): Promise<void> {
    return this.#wait(isDead(who) ? this.#never : this.coming, who, what)
  }

  never(who: Who): Promise<never> {
    return this.#wait(this.#never, who, 'nothing') as Promise<never>
  }

  /** A tab's clock. */
  clockOf(tab: Tab): Clock {
    return {
      now: () => this.now,
      date: () => 1_795_000_000_000 + this.now,
      setTimeout: (callback, ms) => this.#startTimer(tab, callback, ms),
      clearTimeout: timer => this.#timers.remove(timer),
    }
  }

  journalsLookLong(result: unknown): unknown {
    const { journalBytes } = Object(result) as { journalBytes?: number }
    return journalBytes === undefined ? result : { ...Object(result), journalBytes: journalBytes * this.journalFactor }
  }

  note(who: Who | undefined, what: string): void {
    const name = typeof who === 'string' ? who : (who?.name ?? '')
    this.trace.push(`${`${(this.now / 1000).toFixed(1)} s`.padStart(9)}  ${name.padEnd(7)}${what}`)
  }

  count(what: string, times = 1): void {
    if (times > 0) this.counts.set(what, (this.counts.get(what) ?? 0) + times)
  }

  ended({ tab, what, question }: Ended<Tab>, outcome: Outcome): void {
    const how = 'error' in outcome ? (outcome.error as Error).name : 'done'
    this.note(tab as Who, `${what}: ${how}`)
    this.count(`${question ? 'lookups' : what}: ${how}`)
  }

  // ---- what the world does -----------------------------------------------------------------------

  protected comesToBe(tab: Tab): Tab {
    this.tabs.push(tab)
    this.count('tabs')
    return tab
  }

  /** Lets an event happen now. */
  protected letCome(coming: Coming<Who>): void {
    this.coming.splice(this.coming.indexOf(coming), 1)
    this.note(coming.who, coming.what)
    coming.come()
  }

  /** Moves time to the earliest timer. false: there is none. */
  protected timePasses(): boolean {
    const first = this.#timers.takeFirst()
    if (first === undefined) return false
    this.now = Math.max(this.now, first.due)
    this.note(first.tab as Who, 'time is up')
    first.callback()
    return true
  }

  /** The tab dies. Returns its events, which never happen. */
  protected abandon(tab: Tab): readonly Coming<Who>[] {
    tab.state = 'dead'
    const own = this.coming.filter(({ who }) => who === tab)
    this.coming = this.coming.filter(({ who }) => who !== tab)
    this.#never.push(...own)
    this.note(tab as Who, `is killed, waiting for: ${own.map(({ what }) => what).join(', ') || 'nothing'}`)
    return own
  }

  protected abstract kill(tab: Tab): void

  protected killAll(): void {
    for (const tab of this.tabs) if (tab.state !== 'dead') this.kill(tab)
  }

  protected freeze(tab: Tab, locks: Locks | undefined): void {
    this.note(tab as Who, 'freezes')
    tab.state = 'frozen'
    // Browsers tell a page, which releases its lock; but not if the whole machine is suspended.
    if (this.chance.happens(0.5)) locks?.letGo(tab)
  }

  protected async losePower(disk: Disk): Promise<void> {
    this.killAll()
    const lost = this.chance.below(disk.unflushed + 1)
    this.note(undefined, `the power fails, and ${lost} writes are lost`)
    this.count(lost > 0 ? 'power losses that undid something' : 'power losses')
    await disk.losePower(lost)
  }

  /** Fails all events and runs all timers, so that the SDK frees its memory. */
  protected async end(allLocks: readonly (Locks | undefined)[]): Promise<void> {
    this.#over = true
    const error = new Error('the world is over')
    for (const { fail } of [...this.coming.splice(0), ...this.#never.splice(0)]) fail(error)
    for (const { callback } of this.#timers.takeAll()) callback()
    for (const locks of allLocks) locks?.giveToAll()
    await Promise.all([...this.tabs.map(({ map }) => map?.close().catch(() => {})), tick()])
  }

  #startTimer(tab: Tab, callback: () => void, ms: number): Timer<Tab> {
    const timer = { tab, due: this.now + ms, callback }
    if (!this.#over) this.#timers.add(timer)
    // A client that listens for events would try again for ever.
    else if (++this.#late < MOST_LATE) queueMicrotask(callback)
    return timer
  }

  #wait(list: Coming<Who>[], who: Who, what: string): Promise<void> {
    if (this.#over) return Promise.reject(new Error('the world is over'))
    return new Promise((come, fail) => void list.push({ who, what, come, fail, notBefore: 0 }))
  }
}

/** One task of the event loop. */
export const tick = () => new Promise<void>(resolve => void setImmediate(resolve))

/** Timers that still run when the world is over, so that the SDK can end. */
const MOST_LATE = 10_000

function isDead(who: SimulatedTab | string): boolean {
  return typeof who !== 'string' && who.state === 'dead'
}

/** A schedule has broken a rule. */
export class Violation extends Error {
  override readonly name = 'Violation'
}

/** What was wrong, and what led to it. `replay`: the command that shows all of it. */
export function report(
  { seed, violation, trace }: { seed: number; violation: string | undefined; trace: readonly string[] },
  replay: string,
  lines = 80,
): string {
  const cut = trace.length > lines ? [`… ${trace.length - lines} lines before`] : []
  return [`${violation}`, ...cut, ...trace.slice(-lines), `seed ${seed}: ${violation}`, replay].join('\n')
}
