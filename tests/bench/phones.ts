// What lookups cost on phones: in Hermes, and in Chromium with a slow processor on a slow line.

import { randomInt } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { OpenOptions } from '@keyhush/client'
import type { Page } from 'puppeteer-core'
import { root } from '../package/packed.js'
import { ENTRY, Hermes, type Installed, installApp, programOf } from '../phones/hermes.js'
import { type Options, target } from './options.js'
import { power } from './plot.js'
import type { Figure, Section } from './report.js'
import { check, pseudorandomBytes, residentBytes, Stage, under } from './stage.js'
import { LINE, startApp, visitApp } from './visits.js'

/** How many times slower than this machine's a phone's processor is. */
const SLOWED = 6
/** Lookups before the memory is read. */
const LOOKUPS = 40

/** An app with React Native alone. */
const EMPTY = `import { AppState } from 'react-native'
AppState.addEventListener('change', () => {})
globalThis.app = { run: async () => ({ value: null }) }
`

export async function phones(options: Options): Promise<Section[]> {
  return await Stage.with(async stage => {
    const { records, recordBytes } = options.shape
    const lines = Array.from({ length: records }, (_, i) => `${keyOf(i)},${valueAt(i, recordBytes)}\n`)
    const dataset = await stage.build('csv', `key,value\n${lines.join('')}`)
    const urls = under(await stage.pair(() => ['--dataset', dataset]))
    const app = await installApp({
      ...ENTRY,
      'app.ts': await readFile(join(root, 'packages/react-native/test/app.ts'), 'utf8'),
      'empty.js': EMPTY,
    })
    stage.closeLast(app.remove)
    return [
      { title: 'Phones: Hermes', figures: await lookingUp(app, urls, options) },
      { title: `Phones: Chromium slowed ${SLOWED} times`, figures: await firstAnswer(stage, urls, options) },
      ...(await phoneMemory(options)),
    ]
  })
}

const keyOf = (index: number) => `key-${index}`
const valueAt = (index: number, bytes: number) => `value ${index} `.padEnd(bytes, '.')

/** Whole lookups, and the memory of the app. */
async function lookingUp(app: Installed, servers: readonly string[], options: Options): Promise<Figure[]> {
  const { shape, repeats } = options
  const [opening, lookups, memory]: [number[], number[], number[]] = [[], [], []]
  const [bundle, empty] = [await app.bundle('entry.js', 'this Hermes'), await app.bundle('empty.js', 'this Hermes')]
  for (let run = 0; run < repeats; run++) {
    const [one, other] = [await started(app, bundle), await started(app, empty)]
    const timed = async (command: unknown, into: number[]) => {
      const start = performance.now()
      const outcome = await one.run(command)
      into.push(performance.now() - start)
      return (outcome as { value?: unknown }).value
    }
    if ((await timed(['open', { servers }], opening)) !== 0) throw new Error('expected a map')
    for (let i = 0; i < LOOKUPS; i++) {
      const index = randomInt(shape.records)
      const value = await timed(['call', 0, 'getText', keyOf(index)], lookups)
      if (value !== valueAt(index, shape.recordBytes)) throw new Error('a value is wrong')
    }
    const [bytes, without] = [await residentBytes(one.pid), await residentBytes(other.pid)]
    if (bytes !== undefined && without !== undefined) memory.push((bytes - without) / 1e6)
    for (const each of [one, other]) await each.close()
  }
  return [
    { name: 'open()', column: 'Hermes', unit: 'ms', samples: opening },
    { name: 'whole lookup', column: 'Hermes', unit: 'ms', target: target(options, '≤', 60), samples: lookups },
    { name: 'memory', column: 'Hermes', unit: 'MB', target: target(options, '≤', 12), samples: memory },
  ]
}

/** Hermes when the app's bundle has been run. */
async function started(app: Installed, bundle: string): Promise<Hermes> {
  const hermes = await Hermes.start(programOf(app, 'hermes'), bundle, { random: true })
  await hermes.run(['read', 0, 'mode'])
  return hermes
}

/** A page of an app that opens a map and looks a key up. */
async function firstAnswer(stage: Stage, servers: readonly string[], options: Options): Promise<Figure[]> {
  const app = await startApp(stage, '@keyhush/client/instant')
  const [whole, sinceOpen]: [number[], number[]] = [[], []]
  for (let run = 0; run < options.repeats; run++) {
    const index = randomInt(options.shape.records)
    const answer = await visitApp(stage, app, { servers, push: false }, keyOf(index), SLOWED)
    const text = Buffer.from(answer.value).toString()
    if (text !== valueAt(index, options.shape.recordBytes)) throw new Error('a value is wrong')
    whole.push(answer.whole)
    sinceOpen.push(answer.sinceOpen)
  }
  const name = `first instant answer, ${LINE.megabits} Mbit/s`
  return [
    { name, column: 'from open()', unit: 's', target: target(options, '≤', 0.8), samples: sinceOpen },
    { name, column: 'from navigation', unit: 's', samples: whole },
  ]
}

// The memory that a page needs for a map: the most that its process has had while it opened the map and looked records up, above that of
// a page without one. Each page is in a browser of its own, which saves memory as on a small phone.

/** What a page of a small phone may have. */
const MOST = 330
const LOOKUPS_IN_PAGE = 20

/** `local` twice: to store a copy takes several more of it. */
const MAPS = {
  instant: { mode: 'instant' },
  full: { mode: 'full' },
  local: { mode: 'local' },
  'local, not stored': { mode: 'local', storage: 'memory' },
  single: { mode: 'single', integrity: 'server' },
} as const satisfies Record<string, Omit<OpenOptions, 'servers'>>

export async function phoneMemory(options: Options): Promise<Section[]> {
  const { shape, all } = options
  const sizes = all ? [shape.records, 4 * shape.records, 16 * shape.records] : [shape.records]
  const figures: Figure[] = []
  for (const size of sizes) figures.push(...(await atSize(size, options)))
  return [{ title: 'Phones: memory of a page, above an empty one', figures }]
}

async function atSize(records: number, options: Options): Promise<Figure[]> {
  const { repeats, all } = options
  const { recordBytes } = options.shape
  const data = pseudorandomBytes(records * recordBytes)
  return await Stage.with(async stage => {
    const dataset = await stage.dataset(data, { records, recordBytes })
    const servers = (await stage.pair(() => ['--dataset', dataset])).map(({ url }) => url)
    const empty = await peak(servers, async () => {})
    const figures: Figure[] = []
    for (const [name, map] of Object.entries(MAPS)) {
      const samples: number[] = []
      for (let run = 0; run < (all ? 1 : Math.min(repeats, 3)); run++) {
        const asked = map.mode === 'single' ? servers.slice(0, 1) : servers
        const given = { servers: asked, push: false, ...map } as const
        const bytes = await peak(servers, async page =>
          check(data, recordBytes, await page.evaluate(lookUp, given, LOOKUPS_IN_PAGE)),
        )
        if (bytes !== undefined && empty !== undefined) samples.push((bytes - empty) / 1e6)
      }
      console.log(`memory: N = ${records}, ${name}: ${samples.map(mb => mb.toFixed(0)).join(', ')} MB`)
      const limit = records === options.shape.records ? target(options, '≤', MOST) : undefined
      figures.push({ name, column: `N = ${power(records)}`, unit: 'MB', samples, target: limit })
    }
    return figures
  })
}

/** The most memory of a page's process that has done this. */
async function peak(servers: readonly string[], work: (page: Page) => Promise<void>): Promise<number | undefined> {
  return await Stage.with(async stage => {
    await stage.browser({ small: true })
    await work(await stage.page(servers.map(url => ({ url }))))
    return await stage.peakTabBytes()
  })
}

/** Runs in the page: a new map, and records at random. */
async function lookUp(options: OpenOptions, lookups: number) {
  const map = await keyhush.open(options)
  const samples: { index: number; value: number[] }[] = []
  for (let i = 0; i < lookups; i++) {
    const index = Math.floor(Math.random() * map.size)
    samples.push({ index, value: [...((await map.at(index)) ?? [])] })
  }
  return samples
}
