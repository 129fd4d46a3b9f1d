// Pages on phones at random: frozen, thawed, killed, offline, online, with another address, and looking up all the while. No value is
// wrong, no epoch goes back, time asleep passes no deadline, every lookup ends, and a page that is back follows within two seconds.

import { expect, test } from 'vitest'
import { THOROUGH } from '../../../tests/support/thorough.js'
import type { KeyhushMap } from '../src/index.js'
import { SCHEMES } from '../src/scheme/table.js'
import { tapir } from '../src/scheme/tapir/tapir.js'
import { awakeClock, type Clock, type Connection, openWith, type Tabs } from '../src/testing.js'
import { nextEpoch } from './support/epochs.js'
import { core, hex, sameOnBoth } from './support/harness.js'
import { FakeLine } from './support/line.js'
import { A, B } from './support/network.js'
import { drawAct, FOLLOWS_MS, LOOKUP_MS, PhoneRules } from './support/phone-rules.js'
import { drawing } from './support/random.js'
import { type Life, records, World } from './support/world.js'

const RUNS = THOROUGH ? 400 : 8
const FIRST_SEED = Number(process.env['KEYHUSH_SEED'] ?? 1)
const STEPS = 40
const MODES = ['instant', 'full', 'auto'] as const
/** A reply takes at most so long. */
const REPLY_MS = 3_000
const SLICE_MS = 250
const DAY_MS = 86_400_000

const epochs = [records]
for (let i = 0; i < 8; i++) {
  epochs.push(nextEpoch(core, epochs.at(-1)!, [{ op: 'edit', index: 7 * i, value: new Uint8Array(8).fill(i + 1) }]))
}

/** What is wrong about a client on purpose. */
interface Client {
  readonly clockOf: (clock: Clock) => Clock
  /** whether a page that comes back follows again */
  readonly follows: boolean
  readonly connectionOf: (line: Connection) => Connection
}
const REAL: Client = { clockOf: awakeClock, follows: true, connectionOf: line => line }

/** A page: a life of the client, its line, and whether it is there. */
class Phone {
  readonly life: Life
  readonly line = new FakeLine()
  map: KeyhushMap | undefined
  frozenSince: number | undefined
  asleep = 0
  sleeps = 0
  #there = new AbortController()
  #back: Promise<void> = Promise.resolve()
  #comesBack = () => {}

  constructor(
    readonly world: World,
    client: Client,
    travel: (url: string) => Promise<void>,
  ) {
    const whileThere: Tabs['elect'] = async (_name, task, signal) => {
      do {
        await this.#back
        const there = this.#there.signal
        if (!signal.aborted) await task(AbortSignal.any([signal, there])).catch(() => {})
        if (!there.aborted) return
      } while (!signal.aborted && client.follows)
    }
    const tabs: Tabs = { elect: whileThere, subscribe: () => () => {}, notify() {} }
    this.life = world.life({ connection: client.connectionOf(this.line), tabs })
    const { clock, fetch } = this.life.environment
    const isThere = () => new Promise<void>(resolve => this.life.hear(resolve))
    Object.assign(this.life.environment, {
      clock: client.clockOf(clock),
      fetch: async (url: string, init: RequestInit) => {
        await isThere()
        const failed = await travel(url).then(
          () => undefined,
          error => error as Error,
        )
        await isThere()
        if (failed !== undefined) throw failed
        return await fetch(url, init) // it stands still while the page does
      },
    })
  }

  freeze(): void {
    if (this.frozenSince !== undefined) return
    this.frozenSince = this.world.clock.now()
    this.life.freeze()
    this.#back = new Promise(resolve => {
      this.#comesBack = resolve
    })
    this.#there.abort()
  }

  async thaw(): Promise<void> {
    if (this.frozenSince === undefined) return
    this.slept(this.world.clock.now() - this.frozenSince)
    this.frozenSince = undefined
    this.#there = new AbortController()
    this.#comesBack()
    await this.life.thaw()
  }

  slept(ms: number): void {
    this.asleep += ms
    this.sleeps++
  }

  /** milliseconds, as the page has lived them */
  get lived(): number {
    const now = this.world.clock.now()
    return now - this.asleep - (this.frozenSince === undefined ? 0 : now - this.frozenSince)
  }
}

/** Lets everything run that does not wait for the clock. */
async function turn(): Promise<void> {
  for (let i = 0; i < 2; i++) await new Promise<void>(resolve => void setImmediate(resolve))
}

class Schedule {
  readonly net = sameOnBoth(records)
  readonly world: World
  readonly phones: Phone[] = []
  readonly rules = new PhoneRules()
  /** calls that have not ended */
  readonly #left: (() => string[])[] = []
  readonly #draw: (below: number) => number
  readonly #client: Client
  /** requests under way: what breaks them */
  readonly #underWay = new Set<AbortController>()
  #published = 0
  isOffline = false

  constructor(seed: number, client: Client) {
    this.#draw = drawing(seed)
    this.#client = client
    this.net.push = true
    this.world = new World({ network: this.net, seed, audited: false })
    this.world.blobMs = 0
    for (let i = 0; i < 2; i++) this.phones.push(this.#phone())
  }

  #phone(): Phone {
    return new Phone(this.world, this.#client, url => this.#travel(url))
  }

  /** Time on the way; it breaks when the device is offline or has another address. */
  async #travel(url: string): Promise<void> {
    const broken = new AbortController()
    this.#underWay.add(broken)
    try {
      if (this.isOffline) throw new TypeError('offline')
      if (!url.endsWith('/v1/events')) await this.world.clock.wait(this.#draw(REPLY_MS))
      if (broken.signal.aborted) throw new TypeError('the connection broke')
    } finally {
      this.#underWay.delete(broken)
    }
  }

  /** All connections are gone. `silently`: streams stay, and nothing comes. */
  #cut(silently = false): void {
    for (const broken of this.#underWay) broken.abort()
    if (!silently) for (const stream of [...this.net.streams]) stream.end()
    else this.net.streams.clear()
  }

  async step(): Promise<void> {
    const number = this.#draw(2)
    const phone = this.phones[number]!
    const act = drawAct(this.#draw)
    if (act === 'freeze') phone.freeze()
    else if (act === 'thaw') await phone.thaw()
    else if (act === 'offline') this.#goOffline()
    else if (act === 'online') this.#goOnline()
    else if (act === 'address') this.#cut()
    else if (act === 'publish') this.#publish()
    else if (act === 'kill') {
      phone.life.kill()
      this.phones[number] = this.#phone()
    } else if (phone.frozenSince === undefined) {
      if (phone.map === undefined) this.#open(phone)
      else this.#lookUp(phone, phone.map)
    }
    if (this.#draw(10) === 0) this.#suspend(this.#draw(DAY_MS))
    else await this.pass(this.#draw(6_000))
  }

  #goOffline(): void {
    if (this.isOffline) return
    this.isOffline = true
    for (const { line } of this.phones) Object.assign(line, { isOffline: true, losses: line.losses + 1 })
    this.#cut(this.#draw(2) === 0)
  }

  #goOnline(): void {
    if (!this.isOffline) return
    this.isOffline = false
    for (const { line } of this.phones) line.goOnline()
  }

  #publish(): void {
    if (this.#published < epochs.length - 1) this.net.publishOnBoth(epochs[++this.#published]!)
  }

  /** The whole device sleeps: no timer runs. */
  #suspend(ms: number): void {
    this.world.clock.pass(ms)
    for (const phone of this.phones) if (phone.frozenSince === undefined) phone.slept(ms)
  }

  /** So much time passes, and all that happens in it. */
  async pass(ms: number): Promise<void> {
    const { clock } = this.world
    const until = clock.now() + ms
    clock.setTimeout(() => {}, ms)
    for (await turn(); clock.now() < until; await turn()) {
      clock.advance()
      this.#look()
    }
  }

  /** Not counted is the time in which lookups are under way, or a page waits for the lock: a map follows in its turn. */
  async #passIdle(ms: number): Promise<void> {
    const { clock, locks } = this.world
    const until = clock.now() + ms + LOOKUP_MS
    for (let left = ms; left > 0 && clock.now() < until; ) {
      const isIdle = this.#calls().length === 0 && !locks.isAwaited
      await this.pass(SLICE_MS)
      if (isIdle) left -= SLICE_MS
    }
  }

  #look(): void {
    for (const { map } of this.phones) if (map !== undefined) this.rules.showed(map, map.epoch ?? 0)
  }

  #open(phone: Phone): void {
    const pays = (_core: unknown, _manifest: unknown, lookups: number) => lookups >= 3
    const mode = MODES[this.#draw(MODES.length)]!
    const options = { servers: [A, B], mode, push: true, proofs: mode === 'instant' ? 'auto' : 'merkle' } as const
    this.#track(phone, 'open', async () => {
      const map = await openWith(phone.life.environment, options, SCHEMES, pays, () => tapir)
      if (phone.map === undefined) phone.map = map
      else await map.close()
    })
  }

  #lookUp(phone: Phone, map: KeyhushMap): void {
    const index = this.#draw(2) === 0 ? 7 * this.#draw(8) : this.#draw(1000)
    this.rules.lookups++
    this.#track(phone, 'lookup', async () => {
      const { epoch } = map
      const value = hex((await map.at(index))!)
      const since = epochs.filter(({ manifest }) => manifest.epoch >= epoch)
      const possible = since.map(({ byIndex }) => hex(byIndex[index]!))
      this.rules.found(index, value, possible)
    })
  }

  /** those that have not ended */
  #calls(): string[] {
    return this.#left.flatMap(each => each())
  }

  #track(phone: Phone, what: 'open' | 'lookup', begin: () => Promise<void>): void {
    const begun = phone.lived
    const { sleeps } = phone
    let over = false
    const end = (error?: { code?: unknown; message: string }) => {
      over = true
      const ended = { what, awakeMs: phone.lived - begun, sleeps: phone.sleeps - sleeps, error }
      if (!phone.life.killed) this.rules.ended(ended)
    }
    begin().then(() => end(), end)
    this.#left.push(() => (phone.life.killed || over ? [] : [what]))
  }

  /** All are back: what is under way ends, and all follow. */
  async end(): Promise<void> {
    this.#goOnline()
    for (const phone of this.phones) await phone.thaw()
    const open = this.phones.filter(({ map }) => map?.mode !== undefined)
    await this.pass(FOLLOWS_MS) // for streams
    this.#publish()
    const newest = epochs[this.#published]!.manifest.epoch
    await this.#passIdle(FOLLOWS_MS + 4 * REPLY_MS) // for the requests that follow
    // One without a mode has lost its state to the other page, and reads that at its next lookup.
    for (const { map } of open) if (map!.mode !== undefined) this.rules.follows(map!.epoch!, newest)
    for (let i = 0; this.#calls().length > 0 && i < 20; i++) await this.pass(LOOKUP_MS / 2)
    this.rules.neverEnded(this.#calls())
    for (const { map } of this.phones) if (map) await this.world.drive(map.close())
  }
}

async function run(seed: number, client = REAL) {
  const schedule = new Schedule(seed, client)
  for (let step = 0; step < STEPS; step++) await schedule.step()
  await schedule.end()
  return schedule
}

test(`${RUNS} random schedules from seed ${FIRST_SEED} on`, async () => {
  let [lookups, answered] = [0, 0]
  for (let seed = FIRST_SEED; seed < FIRST_SEED + RUNS; seed++) {
    const { rules } = await run(seed)
    expect(rules.faults, `KEYHUSH_SEED=${seed}`).toEqual([])
    lookups += rules.lookups
    answered += rules.answered
  }
  expect(answered).toBeGreaterThan(lookups / 3)
})

test.each<[string, Partial<Client>, RegExp]>([
  ['counts the time asleep', { clockOf: clock => clock }, /deadline/],
  ['does not follow when it is back', { follows: false }, /is at/],
  ['does not look for new streams when it is online', { connectionOf: () => new FakeLine() }, /is at/],
])('a client that %s is found', async (_what, change, fault) => {
  const found: string[] = []
  for (let seed = 1; found.length === 0 && seed <= 80; seed++) {
    const { rules } = await run(seed, { ...REAL, ...change })
    found.push(...rules.faults.filter(each => fault.test(each)))
  }
  expect(found.length).toBeGreaterThan(0)
})
