// Watched keys (docs/threat-model.md, Watched keys): what servers see is alike, whatever key is watched and whatever becomes of it.

import { describe, expect, test } from 'vitest'
import { THOROUGH } from '../../../tests/support/thorough.js'
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
}

/** Two visits: all requests, with the time of each, and what both visits told. */
async function visits(key: string, { options, push, after }: How) {
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
    const watches = [await map.watch(key, { since: marks[key] }), await map.watch(KEYS[8]!, { since: marks[KEYS[8]!] })]
    return { ...map, watches }
  }
  const first = await visit(1, {})
  for (const [i, changes] of EPOCHS.entries()) {
    directory.publish(changes)
    if (!push) await first.sync()
    await pass(first.harness, 2_000)
    after?.(i, first.watches)
  }
  directory.layOutAnew()
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
  await pass(second.harness, push && !THOROUGH ? 120_000 : 50 * 3_600_000) // lookups are compared with lists meanwhile
  if (!push) await second.sync()
  await pass(second.harness, 90_000)
  await second.drive(second.map.close())
  return { seen, heard: [...first.heard, '–', ...second.heard] }
}

const CASES: readonly [string, How][] = MODES.flatMap(([name, options]) =>
  [false, true].map((push): [string, How] => [`${name}${push ? ', told by servers' : ''}`, { options, push }]),
)

describe.each(CASES)('mode %s', (_, how) => {
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
