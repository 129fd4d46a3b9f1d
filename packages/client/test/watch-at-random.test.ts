// Watched keys over random histories: batches, generations, lists that servers forget, pages that close or die, maps that sleep. What is
// told is held to a plain map of each epoch.

import { expect, test } from 'vitest'
import { THOROUGH } from '../../../tests/support/thorough.js'
import type { Change, Watch } from '../src/index.js'
import { pause } from '../src/platform/environment.js'
import { rest } from './support/clock.js'
import { drawing } from './support/random.js'
import { Directory, KEYS, MODES, pass, textOf, watching } from './support/watched.js'

const SEEDS = THOROUGH ? 40 : 3
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

const epochIn = (mark: string) => Number.parseInt(mark.slice(42, 50), 16)

async function live(seed: number, faults: string[]): Promise<number> {
  const draw = drawing(seed)
  const [, options] = MODES[draw(MODES.length)]!
  const directory = new Directory(draw(2) === 0)
  const { network } = directory
  network.push = draw(2) === 0
  const marks: Record<string, string> = {}
  let [changes, visits] = [0, 0]

  const visit = async () => {
    const map = await watching(directory, { ...options, push: network.push }, { pause }, 1000 * seed + ++visits)
    const visited = { ...map, dead: false, all: [] as [Known, Watch][] }
    for (const key of WATCHED) {
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
      begun.then(
        watch => {
          known = new Known(key, directory, since === undefined ? undefined : { epoch: epochIn(since) }, watch, faults)
          visited.all.push([known, watch])
        },
        () => {},
      )
      await map.drive(begun)
    }
    return visited
  }

  const value = () => `${draw(1_000_000)}`.padEnd(12, '.')
  const publish = () => {
    const batch: Record<string, string | undefined> = {}
    for (let i = 0; i <= draw(3); i++) {
      const key = LIVELY[draw(LIVELY.length)]!
      const isGone = directory.held.has(key) && draw(3) === 0
      batch[key] = isGone ? undefined : value()
    }
    directory.publish(batch)
  }

  let visited = await visit()
  for (let i = 0; i < EPOCHS; i++) {
    const act = draw(20)
    if (act === 0) directory.layOutAnew()
    else if (act === 1) directory.forget()
    else publish()
    if (act > 16) {
      visited.dead = act > 18 // it dies, and saves nothing more
      await visited.drive(visited.map.close())
      visited = await visit()
    } else if (act > 5) {
      if (!network.push) await visited.sync()
      await pass(visited.harness, draw(4) === 0 ? 70_000 : 10)
    }
  }
  await visited.sync()
  await pass(visited.harness, 300_000)
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
  expect(changes).toBeGreaterThan(SEEDS * EPOCHS * 0.3)
}, 1_800_000)
