// Two tabs on one disk, opened, closed, killed, frozen and reset in changing modes; servers that fail, lag, publish and lie. No column is
// shown twice with other contents; queries are pending on the disk; values are right at some epoch; other errors are KeyhushErrors.

import { expect, test } from 'vitest'
import { THOROUGH } from '../../../tests/support/thorough.js'
import { InternalError, KeyhushError, type KeyhushMap } from '../src/index.js'
import { type Choose, chooseScheme, SCHEMES } from '../src/scheme/table.js'
import { tapir } from '../src/scheme/tapir/tapir.js'
import { openWith } from '../src/testing.js'
import { settle } from './support/clock.js'
import { nextEpoch } from './support/epochs.js'
import { core, hex, sameOnBoth } from './support/harness.js'
import { A, B, bytesOf, ok, problem } from './support/network.js'
import { drawing } from './support/random.js'
import { type Life, records, World } from './support/world.js'

const RUNS = THOROUGH ? 150 : 12
const STEPS = 60

const value = (byte: number) => new Uint8Array(8).fill(byte)
const epochs = [records]
for (let i = 0; i < 6; i++) {
  // The third batch opens a partition.
  const added = Array.from({ length: i === 2 ? 60 : 1 }, () => ({ op: 'add', value: value(0x77) }) as const)
  epochs.push(nextEpoch(core, epochs.at(-1)!, [{ op: 'edit', index: 7 * i, value: value(i + 1) }, ...added]))
}
const possible = (index: number) => epochs.map(({ byIndex }) => hex(byIndex[index]!))

interface Tab {
  readonly life: Life
  map: KeyhushMap | undefined
  readonly work: Promise<void>[]
}

class Schedule {
  readonly network = sameOnBoth(records)
  readonly world: World
  readonly tabs: [Tab, Tab]
  readonly failures: unknown[] = []
  /** maps in mode auto prepare hints, however small the database is */
  makesHints = false
  readonly #published: Record<string, number> = { [A]: 0, [B]: 0 }
  readonly draw: (below: number) => number

  constructor(seed: number) {
    this.draw = drawing(seed)
    this.world = new World({ network: this.network, seed })
    this.tabs = [this.newTab(), this.newTab()]
    this.network.fence = this.draw(4) !== 0
    const liar = [A, B, undefined][this.draw(3)]
    for (const server of [A, B]) {
      this.network.misbehave[server] = (_seen, genuine) => this.#reply(server, server === liar, genuine)
    }
  }

  newTab(): Tab {
    return { life: this.world.life(), map: undefined, work: [] }
  }

  track(tab: Tab, work: Promise<unknown>): void {
    tab.work.push(
      work.then(
        () => {},
        error => void this.failures.push(error),
      ),
    )
  }

  /** A server is at most one epoch ahead of the other. */
  publish(server: string): void {
    const at = this.#published[server]!
    if (at === epochs.length - 1 || at > Math.min(...Object.values(this.#published))) return
    this.#published[server] = at + 1
    this.network.publish(server, epochs[at + 1]!)
  }

  async #reply(server: string, lies: boolean, genuine: Response): Promise<Response> {
    const bytes = await bytesOf(genuine)
    const again = new Response(bytes.slice() as Uint8Array<ArrayBuffer>, genuine)
    switch (this.draw(40)) {
      case 0:
        return problem(503, 'not_ready')
      case 1:
        return ok(bytes.slice(0, this.draw(bytes.length + 1)))
      case 2:
        for (const each of [A, B]) this.publish(each)
        return again
      case 3:
        this.publish(server)
        return again
      case 4:
        throw new TypeError('the connection broke')
      case 5:
        for (let i = this.draw(20); i > 0; i--) await settle()
        return again
      case 6:
        if (lies && bytes.length > 0) bytes[this.draw(bytes.length)]! ^= 1
        return lies ? ok(bytes) : again
      default:
        return again
    }
  }

  async step(usual: string): Promise<void> {
    const number = this.draw(2)
    const tab = this.tabs[number]!
    const mode = this.draw(12) === 0 ? ['full', 'auto', 'instant'][this.draw(3)]! : usual
    const act = this.draw(16)
    if (tab.map === undefined) this.#open(number, tab, mode)
    else if (act < 8) this.#lookUp(tab, tab.map)
    else if (act === 8) this.track(tab, tab.map.sync())
    else if (act === 9) {
      tab.life.kill()
      this.tabs[number] = this.newTab()
    } else if (act === 10 && this.draw(3) === 0) this.track(tab, tab.map.reset())
    else if (act === 11) {
      this.track(tab, tab.map.close())
      tab.map = undefined
    } else if (act === 12) for (const server of [A, B]) this.publish(server)
    else if (act === 13) {
      tab.life.freeze()
      for (let i = this.draw(30); i > 0; i--) await settle()
      await tab.life.thaw()
    } else {
      const giving = new AbortController()
      const answer = tab.map.at(this.draw(1000), { signal: giving.signal })
      const given = (error: unknown) => {
        if (error !== giving.signal.reason) throw error
      }
      this.track(tab, answer.catch(given))
      await settle()
      giving.abort()
    }
    for (let i = this.draw(12); i > 0; i--) {
      await settle()
      if (this.world.clock.waiting > 0 && this.draw(2) === 0) this.world.clock.advance()
    }
  }

  #open(number: number, tab: Tab, mode: string): void {
    const pays = (_core: unknown, _manifest: unknown, lookups: number) => lookups >= 3
    const choose: Choose = this.makesHints ? () => tapir : chooseScheme
    const proofs = this.makesHints ? 'auto' : 'merkle'
    const options = { servers: [A, B], mode, push: false, proofs } as const
    const opening = openWith(tab.life.environment, options, SCHEMES, pays, choose).then(async map => {
      if (this.tabs[number] === tab && tab.map === undefined) tab.map = map
      else await map.close()
    })
    this.track(tab, opening)
  }

  #lookUp(tab: Tab, map: KeyhushMap): void {
    const index = this.draw(1000)
    const checked = map.at(index).then(value => expect(possible(index)).toContain(value && hex(value)))
    this.track(tab, checked)
  }

  async end(): Promise<void> {
    this.network.both(undefined)
    for (const { map, work } of this.tabs) {
      await this.world.drive(Promise.all(work))
      if (map !== undefined) await this.world.drive(map.close())
    }
  }
}

for (let seed = 1; seed <= RUNS; seed++) {
  test(`tabs over servers that deviate, at any moment (seed ${seed})`, async () => {
    const schedule = new Schedule(seed)
    const usual = ['full', 'auto'][schedule.draw(2)]!
    schedule.makesHints = seed % 2 === 0
    for (let step = 0; step < STEPS; step++) await schedule.step(usual)
    await schedule.end()
    for (const error of schedule.failures) {
      if (!(error instanceof KeyhushError) || error instanceof InternalError) throw error
    }
  })
}
