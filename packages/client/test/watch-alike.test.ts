// Watched keys (docs/threat-model.md, Watched keys): what servers see is alike, whatever key is watched and whatever becomes of it.

import { describe, expect, test } from 'vitest'
import { sampled } from '../../../tests/support/thorough.js'
import type { Watch } from '../src/index.js'
import type { Fetch, OpenWithOptions } from '../src/testing.js'
import { rest } from './support/clock.js'
import { A, B, type Network, type Seen } from './support/network.js'
import { Directory, KEYS, MODES, pass, sight, watching } from './support/watched.js'

/** What becomes of the key that is watched. */
const FATES = {
  changes: KEYS[0]!,
  'is put back': KEYS[1]!,
  goes: KEYS[2]!,
  'goes and comes': KEYS[3]!,
  comes: KEYS[22]!,
  'comes and goes': KEYS[23]!,
  rests: KEYS[4]!,
  'is never there': 'nobody.example',
}
const EPOCHS: readonly Readonly<Record<string, string | undefined>>[] = [
  { [FATES.changes]: 'one', [FATES['is put back']]: 'false', [FATES.comes]: 'come' },
  { [FATES['is put back']]: 'v1..........', [FATES.goes]: undefined, [FATES['goes and comes']]: undefined },
  { [FATES['goes and comes']]: 'again', [FATES['comes and goes']]: 'x' },
  { [FATES['comes and goes']]: undefined, [KEYS[9]!]: 'other' },
]

interface How {
  readonly options: Partial<OpenWithOptions>
  readonly push: boolean
  /** what the app does after this epoch */
  readonly after?: ((epoch: number, watches: readonly Watch[]) => void) | undefined
  /** a wrong client: it looks a key up because that has changed, or keeps a mark only then */
  readonly wrong?: 'looks up' | 'keeps few marks' | undefined
}

/** Two visits: all requests, with the time of each, and what both visits told. */
async function visits(key: string, { options, push, after, wrong }: How) {
  const directory = new Directory()
  directory.network.push = push
  const seen: string[] = []
  const fetch = (network: Network, now: () => number): Fetch => {
    return async (url, init) => {
      const reply = await network.fetch(url, init)
      const last = network.seen.at(-1) as Seen
      seen.push(sight(now(), last))
      return reply
    }
  }
  const visit = async (seed: number, marks: Readonly<Record<string, string>>) => {
    let now = () => 0
    const wrapped: Fetch = (url, init) => fetch(directory.network, now)(url, init)
    const map = await watching(directory, { ...options, push }, { fetch: wrapped }, seed)
    now = map.clock.now
    const begin = (key: string) => map.watch(key, { since: marks[key], ...wrongly(map, key) })
    return { ...map, watches: [await begin(key), await begin(KEYS[8]!)] }
  }
  const wrongly = ({ map, marks, heard }: Awaited<ReturnType<typeof watching>>, key: string) => {
    if (wrong === undefined) return {}
    let told = 0
    const save = (mark: string) => {
      const hasChanged = heard.length > told
      told = heard.length
      if (wrong === 'keeps few marks' && !hasChanged && marks[key] !== undefined) return
      marks[key] = mark
      if (wrong === 'looks up' && hasChanged) setImmediate(() => void map.get(key).catch(() => {}))
    }
    return { save }
  }
  const first = await visit(1, {})
  for (const [i, changes] of EPOCHS.entries()) {
    directory.publish(changes)
    if (!push) await first.sync()
    await pass(first.harness, 2_000)
    after?.(i, first.watches)
  }
  if (wrong !== 'keeps few marks') directory.layOutAnew() // which is told for all keys
  if (!push) await first.sync()
  await pass(first.harness, 90_000)
  await first.drive(first.map.close())
  for (const changes of EPOCHS.slice(0, 2).toReversed()) {
    const held = Object.fromEntries(Object.entries(changes).filter(([key, value]) => directory.held.get(key) !== value))
    directory.publish(Object.keys(held).length > 0 ? held : { [KEYS[10]!]: 'x' })
  }
  const second = await visit(2, first.marks)
  await rest()
  directory.publish({ [KEYS[11]!]: 'last' })
  if (!push) await second.sync()
  await pass(second.harness, push ? 120_000 : 50 * 3_600_000) // lookups are compared with lists meanwhile
  if (!push) await second.sync()
  await pass(second.harness, 90_000)
  await second.drive(second.map.close())
  return { seen, heard: [...first.heard, '–', ...second.heard] }
}

const CASES: readonly [string, How][] = MODES.flatMap(([name, options]) =>
  [false, true].map((push): [string, How] => [`${name}${push ? ', told by servers' : ''}`, { options, push }]),
)

describe.each(sampled(CASES, 8))('mode %s', (_, how) => {
  test('the requests are the same, in the same order and at the same times', async () => {
    const all = new Map<string, string[]>()
    for (const [fate, key] of Object.entries(FATES)) {
      const { seen, heard } = await visits(key, how)
      all.set(fate, seen)

      if (fate === 'changes') expect(heard.length).toBeGreaterThan(3)
    }
    const wanted = all.get('is never there')!
    for (const [fate, seen] of all) expect(seen, fate).toEqual(wanted)
  })
})

test.each(['looks up', 'keeps few marks'] as const)('a wrong client is caught: one that %s', async wrong => {
  const [, how] = CASES[0]!
  const [changed, rested] = await Promise.all(
    [FATES.changes, FATES['is never there']].map(async key => (await visits(key, { ...how, wrong })).seen),
  )
  expect(changed).not.toEqual(rested)
})

test('a watch that was stopped after it was told of a change is followed, saved and looked up as ever', async () => {
  const [, how] = CASES[0]!
  const stopping = (epoch: number, [own]: readonly Watch[]) => {
    if (epoch === 0) own!.stop()
  }
  const seen = (await visits(FATES.changes, how)).seen
  expect((await visits(FATES.changes, { ...how, after: stopping })).seen).toEqual(seen)
})

test('one server that lies or is away sees no more', async () => {
  for (const server of [A, B]) {
    const all: string[][] = []
    for (const key of Object.values(FATES)) {
      const directory = new Directory()
      const map = await watching(directory, { mode: 'instant' }, {}, 1)
      await map.watch(key)
      directory.network.misbehave[server] = ({ path }, genuine) =>
        path.startsWith('/v1/blobs/') ? new Response('{}', { status: 404 }) : genuine
      for (const changes of EPOCHS) {
        directory.publish(changes)
        await map.sync().catch(() => {})
      }
      all.push(directory.network.seen.map(seen => sight(0, seen)))
    }
    for (const seen of all) expect(seen).toEqual(all[0])
  }
})
