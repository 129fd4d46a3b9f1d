// The world of one schedule: tabs, their disk, two servers, and time. In each step a pending event happens, an app calls, a fault
// occurs, or time passes, by the seed.

import type { MapEvent } from '@keyhush/client'
import { Chance } from '../chance.js'
import { Disk, type Method } from '../disk.js'
import { Locks } from '../locks.js'
import { SERVERS } from '../network.js'
import { Simulation, tick, Violation } from '../simulation.js'
import type { Outcome } from '../tab.js'
import { anyFaults, type FaultProfile } from './faults.js'
import { Model } from './model.js'
import type { Mutant } from './mutants.js'
import { anyQuestion } from './questions.js'
import { Servers } from './servers.js'
import { type Call, Tab } from './tab.js'

/** A call or a fault that may happen next. */
interface Move {
  readonly weight: number
  readonly happen: () => void | Promise<void>
}

/** More steps than any schedule takes. */
const MOST_STEPS = 20_000

export class World extends Simulation<Tab> {
  readonly faults: FaultProfile
  readonly disk = new Disk(true)
  readonly servers: Servers
  readonly locks: Locks | undefined
  readonly model: Model
  steps = 0
  /** before the calm at the end */
  faultySteps = 0
  #left: FaultProfile['left']
  #calm = false
  readonly #mutant: Mutant

  constructor(seed: number, mutant: Mutant, faults?: FaultProfile) {
    super(new Chance(seed))
    this.#mutant = mutant
    this.faults = faults ?? anyFaults(this.chance)
    this.#left = { ...this.faults.left }
    this.servers = new Servers(this.chance, this.faults.network)
    mutant.servers?.(this.servers)
    this.locks = this.faults.locks ? new Locks() : undefined
    const { rollback } = this.faults
    this.model = new Model({ servers: this.servers, rollback, now: () => this.now }, what => this.count(what))
  }

  protected get journalFactor(): number {
    return this.faults.journal
  }

  /** A schedule from beginning to end. What was wrong with it is in `model.violation`. */
  async run(): Promise<void> {
    try {
      await this.#disturb()
      await this.#clearUp()
      await this.#lookBack()
    } finally {
      await this.end([this.locks])
    }
  }

  // ---- what the tabs call ------------------------------------------------------------------------

  /** Whether a call of the disk fails now. */
  diskFails(tab: Tab, method?: Method): boolean {
    if (this.#calm || !this.chance.happens(this.faults.storeFaults)) return false
    this.count('the disk failed')
    tab.troubles++
    this.model.diskFails(tab, method === 'condemn')
    return true
  }

  heard(_tab: Tab, event: MapEvent): void {
    this.count(`event: ${event.type === 'condemned' ? 'condemned' : Object.values(event).join(' ')}`)
  }

  override ended(call: Call, outcome: Outcome): void {
    super.ended(call, outcome)
    this.model.ended(call, outcome, call.aloneAmong === this.tabs.length)
  }

  // ---- the schedule ------------------------------------------------------------------------------

  /** The time with faults. */
  async #disturb(): Promise<void> {
    while (this.steps < this.faults.steps) {
      await this.#quiet()
      const coming = this.coming.filter(({ who }) => who.state === 'running')
      const moves = this.#moves()
      const idle = coming.length === 0 && moves.length === 0
      if (this.#left.calls === 0 && this.tabs.every(({ state, waiting }) => state !== 'running' || waiting === 0))
        return
      if (this.steps === this.faults.ordained?.step) await this.#suffer(this.faults.ordained.what)
      else if (this.chance.happens(this.faults.misfortunes)) await this.#oneOf(this.#misfortunes())
      else if (moves.length > 0 && (coming.length === 0 || this.chance.happens(0.15))) await this.#oneOf(moves)
      else if (idle || this.chance.happens(this.faults.delays)) this.timePasses()
      else if (coming.length > 0) this.letCome(this.chance.pick(coming))
    }
  }

  /** No more faults: everything under way must end. */
  async #clearUp(): Promise<void> {
    this.note(undefined, '— calm —')
    this.faultySteps = this.steps
    this.count('locks taken away', this.locks?.stolen ?? 0)
    this.#calm = true
    this.servers.faults = { faults: 0, lies: 0 }
    this.servers.down.clear()
    for (const tab of this.tabs) if (tab.state === 'frozen') tab.state = 'running'
    await this.#settle()
  }

  /** A new tab and all living ones are served; a condemned state, after a reset. */
  async #lookBack(): Promise<void> {
    const late = this.#newTab()
    late.open()
    await this.#settle()
    // Each tab may have a state of its own by now, in memory.
    for (let resets = 0; ; resets++) {
      const [failure] = await this.#askAround()
      if (failure === undefined) break
      const { tab, error } = failure
      if ((error as { code?: string }).code !== 'condemned' || resets > this.tabs.length) {
        this.#fail(`in calm faults, after ${resets} resets, ${String(error)}`)
      }
      this.count('condemned in the end')
      tab.reset()
      await this.#settle()
    }
    await this.#quiet()
    await this.model.inspect(this.disk)
    await this.#quiet()
  }

  /** Every tab that has a map asks it twice. Returns what failed. */
  async #askAround(): Promise<{ readonly tab: Tab; readonly error: unknown }[]> {
    const calls: Call[] = []
    for (const tab of this.tabs.filter(({ state, map }) => state === 'running' && map !== undefined)) {
      for (let i = 0; i < 2; i++) calls.push(tab.ask(anyQuestion(this.chance)))
    }
    if (calls.length === 0) this.#fail(`no map to be had: ${JSON.stringify(this.tabs.at(-1)?.calls[0]?.outcome)}`)
    await this.#settle()
    return calls.flatMap(({ tab, outcome }) => (outcome && 'error' in outcome ? { tab, error: outcome.error } : []))
  }

  /** Goes on until no call is under way. */
  async #settle(): Promise<void> {
    for (;;) {
      await this.#quiet()
      const running = this.tabs.filter(({ state }) => state === 'running')
      if (running.every(({ waiting }) => waiting === 0)) return
      const coming = this.coming.filter(({ who }) => who.state === 'running')
      if (coming.length > 0) this.letCome(this.chance.pick(coming))
      else if (!this.timePasses()) this.#fail('deadlock: somebody waits, and nothing comes')
    }
  }

  /** Runs everything that does not wait for the world. */
  async #quiet(): Promise<void> {
    await tick()
    if (++this.steps > MOST_STEPS) this.#fail('it comes to no end')
    if (this.model.violation !== undefined) throw new Violation(this.model.violation)
  }

  #fail(violation: string): never {
    throw new Violation(violation)
  }

  async #oneOf(moves: readonly Move[]): Promise<void> {
    let left = this.chance.below(moves.reduce((sum, { weight }) => sum + weight, 0) || 1)
    for (const { weight, happen } of moves) {
      if (left < weight) return await happen()
      left -= weight
    }
  }

  #newTab(): Tab {
    return this.comesToBe(new Tab(this, this.tabs.length + 1, this.faults.storage, this.#mutant))
  }

  // ---- what people do ----------------------------------------------------------------------------

  /** Moves are gathered here; one `of` some that are left counts when it happens. */
  #gathered() {
    const moves: Move[] = []
    const may = (weight: number, happen: Move['happen']) => void moves.push({ weight, happen })
    const mayStill = (of: keyof FaultProfile['left'], weight: number, happen: Move['happen']) => {
      if (this.#left[of] === 0) return
      may(weight, () => {
        this.#left[of]--
        return happen()
      })
    }
    return { moves, may, mayStill }
  }

  #moves(): Move[] {
    const { chance, faults } = this
    const { moves, may, mayStill } = this.#gathered()
    const alive = this.tabs.filter(({ state }) => state !== 'dead')
    if (alive.length < faults.tabs) may(alive.length === 0 ? 10 : 1, () => void this.#newTab())
    for (const tab of alive.filter(({ state }) => state === 'running')) {
      if (tab.map === undefined) {
        if (tab.waiting === 0) may(20, () => tab.open())
        continue
      }
      if (tab.waiting < 3) mayStill('calls', 10, () => void tab.ask(anyQuestion(chance)))
      mayStill('resets', 2, () => {
        this.count('resets')
        tab.reset()
      })
      mayStill('closes', 1, () => void tab.close())
      const doubtful = tab.calls.filter(({ outcome, question }) => outcome === undefined && question !== undefined)
      if (doubtful.length > 0) {
        mayStill('withdrawals', 2, () => {
          this.note(tab, 'gives a call up')
          chance.pick(doubtful).giveUp.abort()
        })
      }
    }
    return moves
  }

  // ---- what happens to them ----------------------------------------------------------------------

  #misfortunes(): Move[] {
    const { moves, may, mayStill } = this.#gathered()
    const alive = this.tabs.filter(({ state }) => state !== 'dead')
    for (const tab of alive) {
      mayStill('kills', 4, () => this.kill(tab))
      if (tab.state === 'running') mayStill('freezes', 3, () => this.freeze(tab, this.locks))
      if (tab.state === 'frozen') {
        may(2, () => {
          this.note(tab, 'thaws')
          tab.state = 'running'
        })
      }
    }
    mayStill('powerLosses', 3, () => this.losePower(this.disk))
    if (this.disk.writes > 0) mayStill('rollbacks', 3, () => this.#putBack())
    for (const server of SERVERS) {
      if (this.servers.down.has(server)) may(4, () => void this.servers.down.delete(server))
      else {
        mayStill('outages', 2, () => {
          this.note(undefined, `${server} is down`)
          this.servers.down.add(server)
        })
      }
      mayStill('publications', 1, () => {
        this.note(undefined, `${server} publishes another epoch`)
        this.servers.publish(server)
      })
    }
    if (this.disk.head !== undefined && !this.disk.torn) {
      mayStill('tears', 1, () => {
        this.note(undefined, 'what is stored is torn')
        this.disk.torn = true
        this.model.diskFails()
      })
    }
    return moves
  }

  async #suffer(what: NonNullable<FaultProfile['ordained']>['what']): Promise<void> {
    const [first] = this.tabs
    if (what === 'power loss') await this.losePower(this.disk)
    else if (what === 'rollback') await this.#putBack()
    else if (what === 'kill') this.kill(first!)
    else this.freeze(first!, this.locks)
  }

  protected kill(tab: Tab): void {
    for (const { what } of this.abandon(tab)) this.count(`killed before: ${what.replace(/ \d+/, '')}`)
    this.locks?.leave(tab)
  }

  /** A backup is restored, for which all tabs are stopped. */
  async #putBack(): Promise<void> {
    this.killAll()
    const { writes } = this.disk
    if (writes === 0) return
    const kept = this.chance.below(writes)
    this.note(undefined, `the disk is put back to a copy that is ${writes - kept} writes older`)
    this.count('the disk is put back')
    this.model.diskIsPutBack()
    await this.disk.putBack(kept)
  }
}
