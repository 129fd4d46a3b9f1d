// Maps with filters in two tabs, over one disk, at random: epochs that one server alone gets, lists and filters that are withheld, tabs that
// close, die while they write, and come back, and time. What is answered without a lookup is so at an epoch behind which no server has shown another for a minute,
// and servers were asked within five minutes.

import fc from 'fast-check'
import { expect, test } from 'vitest'
import { THOROUGH } from '../../../tests/support/thorough.js'
import { KeyhushError } from '../src/index.js'
import type { Environment, OpenWithOptions } from '../src/testing.js'
import { disk, lookups, marked, opened, withheld } from './support/filtered.js'
import { A, B } from './support/network.js'
import { KEYS, pass, textOf } from './support/watched.js'

/** While something is computed, the clock may pass on to its next event, which is a minute away at most. */
const SLACK_MS = 65_000
const BEHIND_MS = 60_000 + SLACK_MS
const UNHEARD_MS = 300_000 + SLACK_MS

const tabs = fc.constantFrom(0 as const, 1 as const)
type Step =
  | { readonly does: 'publish'; readonly keys: readonly string[]; readonly to: readonly string[] }
  | { readonly does: 'generation' }
  | { readonly does: 'forget' }
  | { readonly does: 'withhold'; readonly by: readonly string[] }
  | { readonly does: 'pass'; readonly ms: number }
  | { readonly does: 'reopen'; readonly tab: 0 | 1 }
  | { readonly does: 'die'; readonly tab: 0 | 1; readonly when: 'before' | 'after' }
  | { readonly does: 'sync'; readonly tab: 0 | 1 }
  | { readonly does: 'call'; readonly tab: 0 | 1; readonly keys: readonly string[] }
/** which come and go */
const some = fc.uniqueArray(fc.constantFrom(...KEYS.slice(18)), { minLength: 1, maxLength: 3 })
const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 4,
    arbitrary: fc.record({ does: fc.constant('publish' as const), keys: some, to: fc.constantFrom([A, B], [A], [B]) }),
  },
  { weight: 1, arbitrary: fc.constantFrom<Step>({ does: 'generation' }, { does: 'forget' }) },
  { weight: 2, arbitrary: fc.record({ does: fc.constant('withhold' as const), by: fc.constantFrom([A, B], [A], []) }) },
  {
    weight: 3,
    arbitrary: fc.record({ does: fc.constant('pass' as const), ms: fc.constantFrom(1_000, 61_000, 400_000) }),
  },
  {
    weight: 2,
    arbitrary: tabs.chain(tab =>
      fc.constantFrom<Step>(
        { does: 'reopen', tab },
        { does: 'sync', tab },
        { does: 'die', tab, when: 'before' },
        { does: 'die', tab, when: 'after' },
      ),
    ),
  },
  { weight: 6, arbitrary: fc.record({ does: fc.constant('call' as const), tab: tabs, keys: some }) },
)

/** Both servers show what they withhold, and the keys of it are asked for a minute later. */
const withholding = fc.tuple(some, tabs).map(([keys, tab]): Step[] => [
  { does: 'withhold', by: [A, B] },
  { does: 'publish', keys, to: [A, B] },
  { does: 'sync', tab },
  { does: 'pass', ms: 70_000 },
  { does: 'call', tab, keys },
])
const lives = fc
  .array(fc.oneof({ weight: 8, arbitrary: step.map(step => [step]) }, { weight: 1, arbitrary: withholding }), {
    minLength: 8,
    maxLength: 24,
  })
  .map(parts => parts.flat())

async function live(steps: readonly Step[], how: Partial<OpenWithOptions>): Promise<number> {
  const directory = marked()
  const { network } = directory
  const { openStore } = disk()
  let answered = 0
  /** the newest epoch of each server */
  const shows: Record<string, number> = { [A]: 1, [B]: 1 }
  const shown = (servers: readonly string[]) => {
    for (const server of servers) shows[server] = directory.newest.manifest.epoch
  }
  const open = async () => {
    /** when this tab was shown epochs first, and when it asked last */
    const told = {
      since: new Map<number, number>(),
      askedAt: Number.NEGATIVE_INFINITY,
      now: () => 0,
      /** it dies when it writes, before or after */
      dies: undefined as 'before' | 'after' | undefined,
    }
    const fetch: Environment['fetch'] = (url, init) => {
      if (url.endsWith('/v1/info')) {
        const epoch = shows[url.slice(0, -'/v1/info'.length)]!
        if (!told.since.has(epoch)) told.since.set(epoch, told.now())
        told.askedAt = told.now()
      }
      return network.fetch(url, init)
    }
    const life = await opened(directory, { ...how, storage: 'required' }, { openStore: dying(openStore, told), fetch })
    told.now = life.clock.now
    return { ...life, told }
  }
  const both = [await open(), await open()]
  const holds = (key: string, epoch: number) => directory.history.get(epoch)?.has(key)
  for (const taken of steps) {
    if (taken.does === 'publish') {
      const changes = taken.keys.map(key => [key, directory.held.has(key) ? undefined : 'back'] as const)
      if (directory.held.size > taken.keys.length) directory.publish(Object.fromEntries(changes), [...taken.to])
      shown(taken.to)
    } else if (taken.does === 'generation' || taken.does === 'forget') {
      if (taken.does === 'generation') directory.layOutAnew()
      else directory.forget()
      shown([A, B])
    } else if (taken.does === 'withhold')
      for (const server of [A, B]) network.misbehave[server] = taken.by.includes(server) ? withheld : undefined
    else if (taken.does === 'pass') for (const { harness } of both) await pass(harness, taken.ms)
    else {
      const tab = both[taken.tab]!
      if (taken.does === 'die') {
        tab.told.dies = taken.when
        await tab.drive(tab.map.sync({ timeoutMs: 10_000 }).catch(expectKnown))
        await tab.drive(tab.map.close().catch(expectKnown))
        both[taken.tab] = await open()
      } else if (taken.does === 'sync') await tab.drive(tab.map.sync({ timeoutMs: 10_000 }).catch(expectKnown))
      else if (taken.does === 'reopen') {
        await tab.drive(tab.map.close())
        both[taken.tab] = await open()
      } else {
        const before = lookups(network).length
        const { told } = tab
        // What counts is when the call was answered.
        let answeredAt = 0
        const call = tab.map.getMany(taken.keys, { timeoutMs: 10_000 }).catch((error: unknown) => expectKnown(error))
        const found = await tab.drive(
          call.finally(() => {
            answeredAt = told.now()
          }),
        )
        const isSent = lookups(network).length > before
        if (found !== undefined && !isSent) {
          answered++
          expect(found.every(value => value === undefined)).toBe(true)
          const { since, askedAt } = told
          expect(answeredAt - askedAt).toBeLessThan(UNHEARD_MS)
          const isRecent = (epoch: number) =>
            [...since].every(([later, at]) => later <= epoch || answeredAt - at <= BEHIND_MS)
          const epochs = [...directory.history.keys()].filter(isRecent)
          for (const key of taken.keys)
            expect(
              epochs.some(epoch => !holds(key, epoch)),
              key,
            ).toBe(true)
        }
        // A lookup is right at an epoch of its own.
        if (found !== undefined && isSent)
          for (const [i, key] of taken.keys.entries()) {
            const values = [...directory.history.values()].map(held => held.get(key))
            expect(values).toContain(textOf(found[i]))
          }
      }
    }
  }
  for (const { map, drive } of both) await drive(map.close())
  return answered
}

/** A store that fails when its tab dies. */
function dying(
  openStore: Environment['openStore'],
  tab: { readonly dies: 'before' | 'after' | undefined },
): Environment['openStore'] {
  return async (...parameters) => {
    const { store, ...others } = await openStore(...parameters)
    const writing =
      (write: (...given: unknown[]) => Promise<unknown>) =>
      async (...given: unknown[]) => {
        if (tab.dies === 'before') throw new Error('the tab is gone')
        const written = await write(...given)
        if (tab.dies !== undefined) throw new Error('the tab is gone')
        return written
      }
    const proxied = new Proxy(store, {
      get(of, name) {
        const member: unknown = Reflect.get(of, name, of)
        if (typeof member !== 'function') return member
        return name === 'begin' || name === 'updatePartial' ? writing(member.bind(of)) : member.bind(of)
      },
    })
    return { ...others, store: proxied }
  }
}

function expectKnown(error: unknown): undefined {
  expect(error).toBeInstanceOf(KeyhushError)
}

test.each([
  ['filter', { mode: 'filter' }],
  ['instant, ask', { filter: { cover: 0, meanwhile: 'ask' } }],
  ['instant, wait', { filter: { cover: 0, meanwhile: 'wait' } }],
] as [string, Partial<OpenWithOptions>][])('in mode %s', async (_, how) => {
  let answered = 0
  const property = fc.asyncProperty(lives, async steps => {
    answered += await live(steps, how)
  })
  await fc.assert(property, { numRuns: THOROUGH ? 60 : 8, ...(!THOROUGH && { seed: 4 }) })
  expect(answered).toBeGreaterThan(THOROUGH ? 10 : 3)
})
