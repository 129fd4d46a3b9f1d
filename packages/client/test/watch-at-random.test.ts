// Watched keys over random histories: batches, generations, lists that servers forget, servers that are away or whose disks are put back,
// pages that close, die or sleep, maps that begin anew, and whose own state is put back. What is told is held to a plain map of each epoch.

import { expect, test } from 'vitest'
import { THOROUGH } from '../../../tests/support/thorough.js'
import type { Change, Watch } from '../src/index.js'
import { pause } from '../src/platform/environment.js'
import { type Environment, MemoryStore } from '../src/testing.js'
import { rest } from './support/clock.js'
import type { Database } from './support/database.js'
import { A, B, problem } from './support/network.js'
import { drawing } from './support/random.js'
import { Directory, KEYS, MODES, pass, textOf, watching } from './support/watched.js'

const SEEDS = THOROUGH ? 20 : 3
const EPOCHS = 100
const WATCHED = [0, 1, 2, 20, 21].map(i => KEYS[i]!)
/** keys that change: those that are watched, and some beside */
const LIVELY = [...WATCHED, KEYS[5]!, KEYS[22]!]

/** One key, as its app knows it over all visits. */
class Known {
  epoch: number
  value: string | undefined
  faults: string[]

  constructor(
    readonly key: string,
    readonly directory: Directory,
    mark: { readonly epoch: number } | undefined,
    watch: Watch,
    faults: string[],
  ) {
    this.epoch = mark?.epoch ?? watch.epoch
    this.value = this.#at(this.epoch)
    this.faults = faults
  }

  #at(epoch: number): string | undefined {
    return this.directory.history.get(epoch)!.get(this.key)
  }

  hear({ value, before, epoch, how }: Change): void {
    const say = (what: string) => void this.faults.push(`${this.key} at ${epoch}, ${how}: ${what}`)
    if (epoch <= this.epoch && !(how === 'gap' && epoch === this.epoch)) say(`told after ${this.epoch}`)
    if (textOf(before) !== this.value) say(`it was ${this.value}, and not ${textOf(before)}`)
    if (textOf(value) !== this.#at(epoch)) say(`it is ${this.#at(epoch)}, and not ${textOf(value)}`)
    if (how === 'contradiction') say('there is none')
    if (how === 'list') this.#expectRest(epoch - 1, say)
    if (how === 'list' && textOf(value) === textOf(before)) say('nothing has changed')
    ;[this.epoch, this.value] = [epoch, textOf(value)]
  }

  /** Nothing has changed since the last change that was told, and until this epoch. */
  #expectRest(until: number, say: (what: string) => void): void {
    for (let epoch = this.epoch + 1; epoch <= until; epoch++) {
      if (this.#at(epoch) !== this.value) {
        say(`nobody has told of ${this.#at(epoch)} at ${epoch}`)
        return
      }
    }
  }

  end(watch: Watch): void {
    const say = (what: string) => void this.faults.push(`${this.key} at the end: ${what}`)
    this.#expectRest(watch.epoch, say)
    if (textOf(watch.value) !== this.#at(watch.epoch)) say(`it shows ${textOf(watch.value)} at ${watch.epoch}`)
  }
}

/** The servers, whose disks may be put back: which epochs each has. */
class Hosts {
  readonly #all: Database[]
  readonly #kept = new Map([A, B].map(server => [server, { first: 0, last: 0 }]))

  constructor(readonly directory: Directory) {
    this.#all = [directory.newest]
  }

  #move(server: string, first: number, last: number): void {
    const { network } = this.directory
    this.#kept.set(server, { first: Math.min(first, last), last })
    const [oldest, ...others] = this.#all.slice(Math.min(first, last), last + 1)
    network.replace(server, oldest!)
    for (const database of others) network.publish(server, database)
  }

  /** Servers that are not behind have the next epoch at once. */
  publish(make: (servers: string[]) => void): void {
    const servers = [...this.#kept.keys()].filter(server => this.#kept.get(server)!.last === this.#all.length - 1)
    make(servers)
    this.#all.push(this.directory.newest)
    for (const server of servers) this.#kept.get(server)!.last++
  }

  forget(server: string): void {
    const { last } = this.#kept.get(server)!
    this.#move(server, last, last)
  }

  putBack(server: string, epochs: number): void {
    const { first, last } = this.#kept.get(server)!
    this.#restart(server)
    this.#move(server, first, Math.max(0, last - epochs))
  }

  takeAway(server: string): void {
    this.#restart(server)
    this.directory.network.misbehave[server] = () => problem(503, 'not_ready')
  }

  mend(server: string): void {
    this.directory.network.misbehave[server] = undefined
    this.#move(server, this.#kept.get(server)!.first, this.#all.length - 1)
  }

  #restart(server: string): void {
    for (const stream of [...this.directory.network.streams]) if (stream.server === server) stream.end()
  }
}

const epochIn = (mark: string) => Number.parseInt(mark.slice(42, 50), 16)

async function live(seed: number, faults: string[]): Promise<number> {
  const draw = drawing(seed)
  const [, options] = MODES[draw(MODES.length)]!
  const directory = new Directory(draw(2) === 0)
  const { network } = directory
  network.push = draw(2) === 0
  const marks: Record<string, string> = {}
  let [changes, visits] = [0, 0]

  const hosts = new Hosts(directory)
  const mend = () => {
    for (const server of [A, B]) hosts.mend(server)
  }

  // Marks are no part of a map's state, which may be put back without them.
  const storage = options.mode !== 'instant' && draw(2) === 0 ? 'required' : 'memory'
  const disks = [new MemoryStore({ durable: true })]
  const openStore: Environment['openStore'] = async () =>
    storage === 'memory'
      ? { store: new MemoryStore(), storage: 'memory' }
      : { store: disks.at(-1)!, storage: 'persistent' }

  const visit = async () => {
    disks.push(disks[draw(3) === 0 ? draw(disks.length) : disks.length - 1]!.copy())
    const open = { ...options, push: network.push, storage } as const
    const map = await watching(directory, open, { pause, openStore }, 1000 * seed + ++visits)
    const visited = { ...map, dead: false, all: [] as [Known, Watch][] }
    const begin = async (key: string) => {
      const since = marks[key]
      let known: Known | undefined
      const save = (mark: string) => {
        if (!visited.dead) marks[key] = mark
      }
      const onChange = (change: Change) => {
        changes++
        if (!visited.dead) known!.hear(change)
      }
      const begun = map.map.watch(key, onChange, { since, save })
      const mark = since === undefined ? undefined : { epoch: epochIn(since) }
      const take = (watch: Watch) => {
        known = new Known(key, directory, mark, watch, faults)
        visited.all.push([known, watch])
      }
      begun.then(take, () => {})
      await map.drive(begun)
    }
    const beginAnew = async (key: string) => {
      if (map.map.condemned !== undefined) await map.drive(map.map.reset())
      await begin(key)
    }
    for (const key of WATCHED) await begin(key).catch(() => mended(() => beginAnew(key)))
    return visited
  }
  /** What servers hinder succeeds once they are as they should be. */
  const mended = async <T>(work: () => Promise<T>): Promise<T> => {
    mend()
    return await work()
  }

  const value = () => `${draw(1_000_000)}`.padEnd(12, '.')
  const publish = () => {
    const batch: Record<string, string | undefined> = {}
    for (let i = 0; i <= draw(3); i++) {
      const key = LIVELY[draw(LIVELY.length)]!
      const isGone = directory.held.has(key) && draw(3) === 0
      batch[key] = isGone ? undefined : value()
    }
    hosts.publish(servers => void directory.publish(batch, servers))
  }

  const meddle = () => {
    const server = draw(2) === 0 ? A : B
    const what = draw(6)
    if (what === 0) hosts.forget(server)
    else if (what === 1) hosts.takeAway(server)
    else if (what < 4) hosts.putBack(server, 1 + draw(6))
    else mend()
  }

  const come = () => visit().catch(() => mended(visit))
  let visited = await come()
  for (let i = 0; i < EPOCHS; i++) {
    const act = draw(24)
    if (act === 0) hosts.publish(servers => void directory.layOutAnew(directory.held, servers))
    else if (act === 1) for (const server of [A, B]) hosts.forget(server)
    else publish()
    if (act > 20) meddle()
    else if (act === 20) await visited.drive(visited.map.reset().catch(() => {}))
    else if (act > 16) {
      visited.dead = act > 18 // it dies, and saves nothing more
      await visited.drive(visited.map.close())
      visited = await come()
    } else if (act > 5) {
      if (act === 6) visited.clock.pass(50 * 3_600_000) // asleep
      if (!network.push) await visited.sync().catch(() => {})
      await pass(visited.harness, draw(4) === 0 ? 70_000 : 10)
    }
  }
  mend()
  if (visited.map.condemned !== undefined) await visited.drive(visited.map.reset())
  for (let i = 0; i < 2; i++) {
    await visited.sync().catch(() => {})
    await pass(visited.harness, 700_000)
  }
  await visited.sync()
  await rest()
  const newest = directory.newest.manifest.epoch
  for (const [known, watch] of visited.all) {
    known.end(watch)
    if (watch.epoch !== newest) faults.push(`${known.key} is at ${watch.epoch}, and not at ${newest}`)
  }
  await visited.drive(visited.map.close())
  return changes
}

test(`each change is told once, in order, none is invented, and each gap is said, over ${SEEDS * EPOCHS} epochs`, async () => {
  let changes = 0
  for (let seed = 1; seed <= SEEDS; seed++) {
    const faults: string[] = []
    changes += await live(seed, faults)
    expect(faults, `seed ${seed}`).toEqual([])
  }
  console.log('changes told:', changes)
  expect(changes).toBeGreaterThan(SEEDS * EPOCHS * 0.25)
})
