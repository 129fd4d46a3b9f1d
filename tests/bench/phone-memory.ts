// The memory that a page needs for a map: the most that its process has had while it opened the map and looked records up, above that of
// a page without one. Each page is in a browser of its own, which saves memory as on a small phone.

import type { OpenOptions } from '@keyhush/client'
import type { Page } from 'puppeteer-core'
import type {} from '../support/web.js'
import { type Options, target } from './options.js'
import { power } from './plot.js'
import type { Figure, Section } from './report.js'
import { check, pseudorandomBytes, Stage } from './stage.js'

/** What a page of a small phone may have. */
const MOST = 330
const LOOKUPS = 20

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
          check(data, recordBytes, await page.evaluate(lookUp, given, LOOKUPS)),
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
