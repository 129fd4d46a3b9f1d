// Random schedules of what becomes of phones, with real servers: frozen, thawed, offline, online, with another address, killed, and looking
// up all the while. They draw the acts, and keep the rules, of the simulated world (packages/client/test/phones-at-random.test.ts).
//
//   KEYHUSH_SEED=7       from that seed on
//   KEYHUSH_PHONES=1000  so many schedules; beyond a hundred, with `--testTimeout 100000000`

import { setTimeout } from 'node:timers/promises'
import { startServers, type TestServers } from '@keyhush/server/testing'
import { expect } from 'vitest'
import { drawAct, LOOKUP_MS, PhoneRules } from '../../packages/client/test/support/phone-rules.js'
import { drawing } from '../../packages/client/test/support/random.js'
import { Line } from './line.js'

export const FIRST_SEED = Number(process.env['KEYHUSH_SEED'] ?? 1)
export const SCHEDULES = Number(process.env['KEYHUSH_PHONES'] ?? 4)
const PROGRESS = 25
const RECORDS = 512
/** of them, at the front */
const CHANGING = 8
const STEPS = 16
const STEP_MS = 250
const POLL_MS = 50
/** Beside what the SDK promises, for a machine that does much else. */
const PATIENCE_MS = 20_000

/** How a call in a page has ended. */
export interface Outcome {
  readonly ms: number
  readonly value?: string | undefined
  readonly error?: { readonly code?: unknown; readonly message: string } | undefined
}

export interface Lookup {
  readonly index: number
  /** the map's, when it was asked */
  readonly epoch: number | undefined
  ended?: Outcome
}

/** What a page has seen. */
export interface Seen {
  /** of `open()` */
  readonly opened: Outcome | undefined
  /** undefined: no map, or one that has lost its state to another page, and reads that at its next lookup */
  readonly epoch: number | undefined
  /** in the order in which they were asked */
  readonly lookups: readonly Lookup[]
}

/** A page, or an app, that opens a map as it starts. */
export interface Phone {
  /** Begins a lookup, if there is a map. */
  lookUp(index: number): Promise<void>
  freeze(): Promise<void>
  thaw(): Promise<void>
  /** Brings it to the front. */
  show(): Promise<void>
  /** The device tells the page that it is online, or is not. */
  tell(online: boolean): Promise<void>
  seen(): Promise<Seen>
  kill(): Promise<void>
}

/** Two pages share what it stores. */
export interface Device {
  readonly modes: readonly Mode[]
  start(servers: [string, string], mode: Mode): Promise<Phone>
  close(): Promise<void>
}

export type Mode = 'instant' | 'full' | 'auto'

export const keyOf = (index: number) => `key ${index}`
const recordAt = (index: number, epoch: number) => `value ${index} of epoch ${epoch}`.padEnd(32)

/** All of a test, with the same servers. */
class Schedules {
  /** the epochs at which a record was changed, oldest first */
  readonly #changes = new Map<number, number[]>()
  epoch = 1
  lookups = 0
  answered = 0
  /** how long maps took to follow, ms */
  readonly follows: number[] = []

  private constructor(
    readonly lines: readonly Line[],
    private readonly servers: TestServers,
  ) {}

  static async start(): Promise<Schedules> {
    const record = (_: unknown, index: number) => [keyOf(index), recordAt(index, 1)]
    const servers = await startServers(Object.fromEntries(Array.from({ length: RECORDS }, record)))
    const lines: Line[] = []
    for (const url of servers.servers) lines.push(await Line.start(url))
    return new Schedules(lines, servers)
  }

  get urls(): [string, string] {
    return [this.lines[0]!.url, this.lines[1]!.url]
  }

  async close(): Promise<void> {
    for (const line of this.lines) await line.close()
    await this.servers.close()
  }

  /** Runs one schedule; returns what was wrong. */
  async run(seed: number, device: Device): Promise<string[]> {
    const schedule = new Schedule(this, device, drawing(seed))
    await schedule.begin()
    for (let step = 0; step < STEPS; step++) await schedule.step()
    await schedule.end()
    this.lookups += schedule.rules.lookups
    this.answered += schedule.rules.answered
    return schedule.rules.faults
  }

  async publish(index: number): Promise<void> {
    const epoch = this.epoch + 1
    this.#changes.set(index, [...(this.#changes.get(index) ?? [1]), epoch])
    await this.servers.publish([{ op: 'edit', key: keyOf(index), value: recordAt(index, epoch) }])
    this.epoch = epoch
  }

  /** What a record has been from an epoch on. */
  possible(index: number, since: number): string[] {
    const changes = this.#changes.get(index) ?? [1]
    const first = changes.findLastIndex(epoch => epoch <= since)
    return changes.slice(Math.max(first, 0)).map(epoch => recordAt(index, epoch))
  }
}

class Schedule {
  readonly rules = new PhoneRules()
  readonly #phones: Used[] = []
  #isOnline = true

  constructor(
    private readonly all: Schedules,
    private readonly device: Device,
    private readonly draw: (below: number) => number,
  ) {}

  async begin(): Promise<void> {
    for (let i = 0; i < 2; i++) this.#phones.push(await this.#start())
  }

  async #start(): Promise<Used> {
    const { modes } = this.device
    const phone = new Used(await this.device.start(this.all.urls, modes[this.draw(modes.length)]!))
    await phone.page.tell(this.#isOnline)
    return phone
  }

  async step(): Promise<void> {
    const { draw } = this
    const number = draw(2)
    const phone = this.#phones[number]!
    const act = drawAct(draw)
    if (act === 'freeze') await phone.freeze()
    else if (act === 'thaw') await this.#thaw(phone)
    else if (act === 'offline') await this.#turn(false, draw(2) === 0)
    else if (act === 'online') await this.#turn(true)
    else if (act === 'address') for (const line of this.all.lines) line.cut()
    else if (act === 'publish') await this.all.publish(draw(CHANGING))
    else if (act === 'kill') {
      if (!phone.isFrozen) this.#judge(phone, await phone.page.seen())
      await phone.page.kill()
      this.#phones[number] = await this.#start()
    } else if (!phone.isFrozen) await phone.page.lookUp(draw(draw(2) === 0 ? CHANGING : RECORDS))
    await setTimeout(draw(STEP_MS))
  }

  async #turn(online: boolean, silently = false): Promise<void> {
    if (online === this.#isOnline) return
    this.#isOnline = online
    for (const line of this.all.lines) {
      line.isOffline = !online
      if (!online) line.cut(silently)
    }
    for (const { page, isFrozen } of this.#phones) if (!isFrozen) await page.tell(online)
  }

  async #thaw(phone: Used): Promise<void> {
    if (!phone.isFrozen) return
    await phone.page.thaw()
    phone.isFrozen = false
    await phone.page.tell(this.#isOnline)
  }

  /** All are back: what is under way ends, and all follow. */
  async end(): Promise<void> {
    await this.#turn(true)
    for (const phone of this.#phones) await this.#thaw(phone)
    for (const phone of this.#phones) await this.#settle(phone)
    await this.all.publish(this.draw(CHANGING))
    for (const phone of this.#phones) await this.#follow(phone)
    for (const { page } of this.#phones) await page.kill()
  }

  /** Waits until all that was under way in a page has ended, and judges it. */
  async #settle(phone: Used): Promise<void> {
    const leftIn = ({ opened, lookups }: Seen) => [
      ...(opened === undefined ? ['open'] : []),
      ...lookups.filter(({ ended }) => ended === undefined).map(() => 'lookup'),
    ]
    await phone.page.show()
    const seen = await seenWhen(phone.page, seen => leftIn(seen).length === 0, LOOKUP_MS + PATIENCE_MS)
    this.rules.neverEnded(leftIn(seen))
    this.#judge(phone, seen)
  }

  #judge({ page, sleeps }: Used, { epoch, opened, lookups }: Seen): void {
    const { rules } = this
    if (opened !== undefined) rules.ended({ what: 'open', awakeMs: opened.ms, sleeps, error: opened.error })
    for (const { index, epoch, ended } of lookups) {
      rules.lookups++
      if (epoch !== undefined) rules.showed(page, epoch)
      if (ended === undefined) continue
      rules.ended({ what: 'lookup', awakeMs: ended.ms, sleeps, error: ended.error })
      if (ended.value !== undefined) rules.found(index, ended.value, this.all.possible(index, epoch ?? 0))
    }
    if (epoch !== undefined) rules.showed(page, epoch)
  }

  /** A map that is open comes to the newest epoch. */
  async #follow({ page }: Used): Promise<void> {
    const start = performance.now()
    await page.show()
    const isThere = ({ epoch }: Seen) => epoch === undefined || epoch === this.all.epoch
    const { epoch } = await seenWhen(page, isThere, PATIENCE_MS)
    if (epoch === undefined) return
    this.rules.follows(epoch, this.all.epoch)
    this.all.follows.push(performance.now() - start)
  }
}

/** A phone in a schedule. */
class Used {
  isFrozen = false
  /** how often it was frozen */
  sleeps = 0

  constructor(readonly page: Phone) {}

  async freeze(): Promise<void> {
    if (this.isFrozen) return
    await this.page.freeze()
    this.isFrozen = true
    this.sleeps++
  }
}

/** What a page has seen when `isThere`, or when the time is over. */
async function seenWhen(page: Phone, isThere: (seen: Seen) => boolean, ms: number): Promise<Seen> {
  const until = performance.now() + ms
  for (;;) {
    const seen = await page.seen()
    if (isThere(seen) || performance.now() > until) return seen
    await setTimeout(POLL_MS)
  }
}

/** Runs schedules; throws for the first in which something was wrong. */
export async function runSchedules(begin: (servers: [string, string]) => Promise<Device>): Promise<void> {
  const all = await Schedules.start()
  try {
    for (let seed = FIRST_SEED; seed < FIRST_SEED + SCHEDULES; seed++) {
      const device = await begin(all.urls)
      const faults = await all.run(seed, device)
      await device.close()
      expect(faults, `KEYHUSH_SEED=${seed}`).toEqual([])
      const done = seed - FIRST_SEED + 1
      if (done % PROGRESS === 0) console.log(`${done} of ${SCHEDULES} schedules, ${all.lookups} lookups`)
    }
    const { lookups, answered, follows } = all
    const slowest = Math.round(Math.max(...follows))
    console.log(`${SCHEDULES} schedules, ${lookups} lookups, ${answered} answered; a map followed within ${slowest} ms`)
    expect(answered).toBeGreaterThan(lookups / 3)
  } finally {
    await all.close()
  }
}
