// An answer is its caller's before its effect is handed to the store. What callers do with that moment: ask again at once, close,
// die, begin anew in another tab, while epochs come and the disk fails. Every answer is right, every call ends, what was sent was
// stored before (S1), and nothing is shown twice with other contents (S2, S4).

import { expect, test } from 'vitest'
import { THOROUGH } from '../../../tests/support/thorough.js'
import { ClosedError, type KeyhushMap, StorageError } from '../src/index.js'
import { MemoryStore } from '../src/testing.js'
import { settle, turns } from './support/clock.js'
import { buildDatabase, someValues } from './support/database.js'
import { core, sameOnBoth } from './support/harness.js'
import { edit, Living } from './support/living.js'
import { A } from './support/network.js'
import { dice } from './support/random.js'
import { type Life, World } from './support/world.js'

const MODES = {
  full: { mode: 'full', proofs: 'merkle' },
  single: { servers: [A], integrity: 'server', mode: 'single', lookups: 300, proofs: undefined },
} as const
const RECORDS = 1000
const STEPS = 14

interface Tab {
  readonly life: Life
  readonly map: KeyhushMap
}

class Schedule {
  readonly roll: (sides: number) => number
  readonly living: Living
  readonly world: World
  /** what was asked of a life, until it dies */
  readonly work = new Map<Life, Promise<unknown>[]>()
  /** what each record has been: a map may be at an earlier epoch */
  readonly values = new Map<number, Set<string>>()
  tabs: Tab[] = []
  fails = 0

  constructor(
    seed: number,
    readonly mode: keyof typeof MODES,
  ) {
    this.roll = dice(seed)
    const database = buildDatabase(core, { values: someValues(RECORDS, 8), partitions: 16 })
    this.living = new Living(sameOnBoth(database), database)
    const disk = new MemoryStore({ durable: true })
    this.world = new World({ network: this.living.network, database, disk, seed })
  }

  async open(): Promise<void> {
    const { world, roll } = this
    const life: Life = world.life({
      pause: async () => {
        await turns(roll(50))
        await new Promise<void>(resolve => life.hear(resolve))
      },
    })
    life.interfere = async method => {
      await turns(roll(8))
      if (this.fails > 0 && method === 'commit') {
        this.fails--
        throw new Error('the disk is full')
      }
    }
    // Its disk may fail twice in a row: durable all the same.
    const map = await life.open({ ...MODES[this.mode], push: false, storage: 'required' } as never)
    this.work.set(life, [])
    this.tabs.push({ life, map })
  }

  track({ life }: Tab, work: Promise<unknown>): void {
    const known = (error: unknown) => {
      if (!(error instanceof ClosedError || error instanceof StorageError)) throw error
    }
    this.work.get(life)?.push(work.catch(known))
  }

  ask(tab: Tab, then: () => unknown = () => {}): void {
    const index = this.roll(40) // of few, so that the same comes again, and is edited meanwhile
    const been = this.been(index)
    const answer = tab.map.at(index).then(async value => {
      expect(been).toContain(Buffer.from(value!).toString('hex'))
      await then()
    })
    this.track(tab, answer)
  }

  been(index: number): Set<string> {
    const been = this.values.get(index) ?? new Set([this.now(index)])
    this.values.set(index, been)
    return been
  }

  now(index: number): string {
    return Buffer.from(this.living.newest.byIndex[index]!).toString('hex')
  }

  async step(): Promise<void> {
    const { roll, world } = this
    if (this.tabs.length < 1 + roll(2)) await this.open()
    const tab = this.tabs[roll(this.tabs.length)]!
    const { life, map } = tab
    const act = roll(9)
    if (act < 2) this.ask(tab, () => this.ask(tab, () => this.ask(tab)))
    else if (act === 2) this.ask(tab, () => map.close())
    else if (act === 3) {
      this.ask(tab, async () => {
        await turns(roll(25))
        life.kill()
      })
    } else if (act === 4) this.ask(tab, () => this.track(tab, map.sync()))
    else if (act === 5) this.fails = 1 + roll(2)
    else if (act === 6) {
      const index = roll(40)
      const been = this.been(index)
      this.living.publish([edit(index, `v${String(roll(10_000_000)).padStart(7, '0')}`)])
      been.add(this.now(index))
    } else if (act === 7 && this.mode === 'full') this.ask(tab, () => this.track(tab, map.reset()))
    else this.ask(tab)
    for (let i = roll(6); i > 0; i--) {
      await settle()
      if (world.clock.waiting > 0 && roll(2) === 0) world.clock.advance()
    }
    if (act !== 2 && act !== 3) return
    if (act === 2) await this.over(tab)
    else {
      for (let i = 0; i < 200 && !life.killed; i++) {
        await settle()
        if (world.clock.waiting > 0) world.clock.advance()
      }
      life.kill() // of what is dead nothing ends
    }
    this.tabs = this.tabs.filter(other => other !== tab)
  }

  /** Every call of it ends, also those that follow from others. */
  async over(tab: Tab): Promise<void> {
    const { world } = this
    const work = this.work.get(tab.life)!
    for (let ended = 0; ended < work.length; ) {
      ended = work.length
      await world.drive(Promise.all(work))
    }
    await world.drive(tab.map.close())
  }

  async end(): Promise<void> {
    const { world } = this
    this.fails = 0
    for (const tab of this.tabs) await this.over(tab)
    this.tabs = []
    await this.open()
    const [tab] = this.tabs as [Tab]
    for (const index of [0, 7, 7, 39, 999]) {
      expect(await world.drive(tab.map.at(index))).toEqual(this.living.newest.byIndex[index])
    }
    await this.over(tab)
    expect(await world.head()).toMatchObject({ pending: undefined })
    await world.auditor.assertSound()
  }
}

const seeds = THOROUGH ? Array.from({ length: 100 }, (_, i) => i + 1) : [1, 4]
test.each((['full', 'single'] as const).flatMap(mode => seeds.map(seed => [mode, seed] as const)))(
  'mode %s, seed %i',
  { timeout: 60_000 },
  async (mode, seed) => {
    const schedule = new Schedule(seed, mode)
    for (let step = 0; step < STEPS; step++) await schedule.step()
    await schedule.end()
  },
)
