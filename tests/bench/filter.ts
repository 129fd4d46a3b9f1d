// A filter against none, for visits whose names are not listed: what servers compute, how many visits ask, and how soon the app has its answer.

import { join } from 'node:path'
import { type FilterOptions, type KeyhushMap, open } from '@keyhush/client'
import { fileStore } from '@keyhush/client/node'
import { PUBLISHER_KEY } from '../support/publishing.js'
import { type Options, target } from './options.js'
import { measureFilter } from './page.js'
import type { Figure, Section } from './report.js'
import { type Pair, processorMs, Stage, under } from './stage.js'

const NAMES_PER_VISIT = 8
const VALUE_BYTES = 16
/** of the lookups of a run, so many visits */
const VISITS = 40
const PROBES = 1_000_000
/** Of fewer visits, the share that asks says nothing. */
const ENOUGH = 4_000

export async function filter(options: Options): Promise<Section[]> {
  const { records } = options.shape
  const name = (i: number) => `name-${i}`
  const value = (i: number) => `${i}`.padStart(VALUE_BYTES, '0')
  return await Stage.with(async stage => {
    const list = Array.from({ length: records }, (_, i) => `${name(i)},${value(i)}\n`).join('')
    const dataset = await stage.build('csv', `key,value\n${list}`, '--filter')
    const store = (s: 0 | 1) => ['--store', join(stage.folder, `store-${s}`), '--publisher-key', PUBLISHER_KEY]
    const servers = await stage.pair(s => ['--dataset', dataset, ...store(s)])
    const common = { servers: under(servers), push: false, development: true } as const
    const figures: Figure[] = []
    const note = (column: string, name: string, unit: string, samples: readonly number[], limit?: Figure['target']) =>
      void figures.push({ column, name, unit, samples, target: limit })

    const alone = await open({ ...common, mode: 'filter', storage: 'memory' })
    note('filter', 'downloaded', 'MB', [alone.filter!.bytes / 1e6], target(options, '≤', 1.66))
    const probes = Math.min(PROBES, records)
    let passing = 0
    for (let i = 0; i < probes; i++) if (!alone.excludes(`other-${i}`)) passing++
    note('filter', 'unlisted keys that pass', '%', [(100 * passing) / probes], target(options, '≤', 0.42))
    await alone.close()

    let asked = 0
    const visit = () => Array.from({ length: NAMES_PER_VISIT }, () => `absent-${asked++}`)
    const ways = { 'no filter': undefined, 'cover 0': 0, 'cover 1/16': 1 / 16, 'cover 1/8': 1 / 8 } as const
    /** q, in hundredths, by the protocol's f = 1/254 */
    const expected = { 'cover 0': 3.1, 'cover 1/16': 9.2, 'cover 1/8': 15.2 }
    for (const [column, cover] of Object.entries(ways) as [keyof typeof ways, number | undefined][]) {
      const wishes: FilterOptions | undefined = cover === undefined ? undefined : { cover, meanwhile: 'wait' }
      const given = wishes && { filter: wishes, store: fileStore(join(stage.folder, column.replace(/\W/g, '-'))) }
      const map = await open({ ...common, mode: 'instant', storage: wishes ? 'required' : 'memory', ...given })
      await map.get(visit()[0]!) // the filter has come
      const count = options.lookups * (wishes ? VISITS : 1)
      const { milliseconds, visitsThatAsk } = await visits(map, servers, count, visit)
      note(column, 'servers’ processors, a visit', 'ms', [milliseconds])
      if (wishes !== undefined) {
        const share = (100 * visitsThatAsk) / count
        const limit = expected[column as keyof typeof expected] + 1
        note(column, 'visits that ask', '%', [share], count >= ENOUGH ? ['≤', limit] : undefined)
      }
      const hits: number[] = []
      for (let i = 0; i < options.lookups; i++) {
        const at = (i * 7919) % records
        if ((await map.getText(name(at))) !== value(at)) throw new Error('expected the value of the list, got another')
        const { bytesUp, bytesDown } = map.stats.lastLookup!
        hits.push((bytesUp + bytesDown) / 1000)
      }
      note(column, 'a hit', 'kB', hits, wishes && target(options, '≤', 2.3))
      const absent = await timed(options.lookups, () => map.get(visit()[0]!))
      note(column, 'an absent key', 'ms', absent, cover === 0 ? ['≤', 1] : undefined)
      const key = cover === 0 ? await excluded(map, visit) : undefined
      await map.close()
      if (key === undefined) continue
      const away: typeof fetch = () => Promise.reject(new TypeError('offline'))
      const reopened = await timed(options.repeats, async () => {
        const map = await open({ ...common, mode: 'instant', storage: 'required', ...given, fetch: away as never })
        await map.get(key)
        await map.close()
      })
      note(column, 'reopened offline, an answer, closed', 'ms', reopened, ['≤', 200])
    }
    const page = await stage.page(servers)
    const reopened: { readonly ms: number; readonly longestTaskMs: number }[] = []
    const { absent } = await page.evaluate(measureFilter, under(servers), visit())
    for (let i = 0; i < options.repeats; i++) {
      await page.reload()
      const { ms, longestTaskMs } = await page.evaluate(measureFilter, under(servers), [absent!])
      reopened.push({ ms, longestTaskMs })
    }
    const samples = (of: keyof (typeof reopened)[number]) => reopened.map(each => each[of])
    note('cover 0', 'Chromium, stored: `open()` to an answer', 'ms', samples('ms'), ['≤', 200])
    note('cover 0', 'Chromium, stored: longest task over 50 ms', 'ms', samples('longestTaskMs'), ['≤', 50])
    return [{ title: 'A filter', figures }]
  })
}

/** Of many visits, one after the other. */
async function visits(map: KeyhushMap, servers: Pair, count: number, visit: () => string[]) {
  const used = async () => {
    const each = await Promise.all(servers.map(({ pid }) => processorMs(pid)))
    return each.reduce<number>((sum, milliseconds) => sum + (milliseconds ?? Number.NaN), 0)
  }
  const sent = () => map.stats.servers.reduce((sum, { lookups }) => sum + lookups.bytesUp, 0)
  const before = await used()
  let visitsThatAsk = 0
  for (let i = 0; i < count; i++) {
    const bytes = sent()
    const found = await map.getMany(visit(), { padTo: NAMES_PER_VISIT })
    if (found.some(value => value !== undefined)) throw new Error('expected names that are not listed, got one that is')
    if (sent() > bytes) visitsThatAsk++
  }
  return { milliseconds: ((await used()) - before) / count, visitsThatAsk }
}

/** A name that is answered without a lookup. */
async function excluded(map: KeyhushMap, visit: () => string[]): Promise<string> {
  for (;;) {
    const name = visit()[0]!
    await map.get(name)
    if (map.stats.lastLookup!.bytesUp === 0) return name
  }
}

async function timed(count: number, work: () => Promise<unknown>): Promise<number[]> {
  const samples: number[] = []
  for (let i = 0; i < count; i++) {
    const start = performance.now()
    await work()
    samples.push(performance.now() - start)
  }
  return samples
}
