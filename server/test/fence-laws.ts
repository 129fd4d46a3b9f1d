// What every fence must do, whatever keeps it. The laws of Fence (docs/protocol.md, Rollback fence), one case each.

import { deepEqual, equal } from 'node:assert/strict'
import type { FenceRequest } from '@keyhush/protocol'
import type { Fence, FenceOptions } from '../dist/database/fence.js'

export interface FenceCase {
  readonly name: string
  /** of a fence that several processes have at once */
  readonly shared?: true
  /** `open` opens a fence, empty at first, again and again: as another process if `shared`, else as one that was restarted */
  readonly run: (open: (options?: FenceOptions) => Promise<Fence>) => Promise<void>
}

const DAY_SECONDS = 86_400
const NOTHING: Uint8Array = new Uint8Array(32)
const REQUEST = new Uint8Array(32).fill(7)
const OTHER = new Uint8Array(32).fill(9)

type Ask = ReturnType<typeof asking>

/** Verdicts, and codes of what it throws. */
export function asking(fence: Fence) {
  return async (kind: FenceRequest['kind'], id: number, version = 0, requestHash = NOTHING, network = 'network') => {
    const hintId = new Uint8Array(16)
    new DataView(hintId.buffer).setUint32(0, id)
    const request = { kind, databaseId: new Uint8Array(16), hintId, version, requestHash }
    return fence.judge(request, network).catch((error: { code: string }): string => error.code)
  }
}

/** Registers and confirms. */
async function confirm(ask: Ask, ...ids: number[]): Promise<void> {
  for (const id of ids) deepEqual([await ask('register', id), await ask('confirm', id)], ['granted', 'granted'])
}

/** Of 80 hints that one network registers, how many the fence takes. */
async function granted(ask: Ask, from: number, network?: string): Promise<number> {
  let count = 0
  for (let id = from; id < from + 80; id++) {
    if ((await ask('register', id, 0, NOTHING, network)) === 'granted') count++
  }
  return count
}

/** Every step is asked of the next of `fences`. */
async function table(fences: readonly Fence[]): Promise<void> {
  const asks = fences.map(asking)
  const steps: [FenceRequest['kind'], number, number, Uint8Array, string][] = [
    ['confirm', 1, 0, NOTHING, 'refused'],
    ['confirm', 1, 5, REQUEST, 'refused'],
    ['register', 1, 0, NOTHING, 'granted'],
    ['register', 1, 0, NOTHING, 'granted'],
    ['confirm', 1, 0, NOTHING, 'granted'],
    ['register', 1, 0, NOTHING, 'granted'],
    ['confirm', 1, 1, REQUEST, 'granted'],
    ['confirm', 1, 1, REQUEST, 'granted'],
    ['confirm', 1, 1, OTHER, 'refused'],
    ['confirm', 1, 0, NOTHING, 'refused'],
    ['register', 1, 0, NOTHING, 'refused'],
    ['confirm', 1, 6, REQUEST, 'granted'],
    ['confirm', 1, 5, NOTHING, 'refused'],
    ['confirm', 1, 7, OTHER, 'granted'],
    ['confirm', 1, 7, REQUEST, 'refused'],
    ['confirm', 1, Number.MAX_SAFE_INTEGER, REQUEST, 'granted'],
    ['confirm', 1, Number.MAX_SAFE_INTEGER, REQUEST, 'granted'],
    ['confirm', 1, Number.MAX_SAFE_INTEGER, OTHER, 'refused'],
    ['confirm', 2, 0, NOTHING, 'refused'],
  ]
  for (const [n, [kind, id, version, request, verdict]] of steps.entries()) {
    deepEqual([n, await asks[n % asks.length]!(kind, id, version, request)], [n, verdict])
  }
}

async function race(fences: readonly Fence[]): Promise<void> {
  const asks = fences.map(asking)
  await confirm(asks[0]!, 1, 2)
  for (let version = 1; version <= 20; version++) {
    const asked = Array.from({ length: 9 }, (_, n) =>
      asks[n % asks.length]!('confirm', 1, version, new Uint8Array(32).fill(1 + n)),
    )
    const verdicts = await Promise.all([...asked, asks[version % asks.length]!('confirm', 2, version, REQUEST)])
    deepEqual([version, verdicts.pop()], [version, 'granted'])
    deepEqual([version, verdicts.filter(verdict => verdict === 'granted').length], [version, 1])
    deepEqual([version, verdicts.filter(verdict => verdict === 'refused').length], [version, 8])
  }
}

export const FENCE_LAWS: readonly FenceCase[] = [
  { name: 'keeps to the table of docs/protocol.md', run: async open => table([await open()]) },
  {
    name: 'keeps to the table of docs/protocol.md, across processes',
    shared: true,
    run: async open => table([await open(), await open()]),
  },
  {
    name: 'of many that ask for one version with requests of their own, one is granted',
    run: async open => race([await open()]),
  },
  {
    name: 'of many that ask processes of their own, one is granted',
    shared: true,
    run: async open => race([await open(), await open(), await open()]),
  },
  {
    name: 'a flood of registrations loses no confirmed hint, and leaves room for who confirms',
    async run(open) {
      const fence = await open({ entries: 40, elapsed: () => 0 })
      const ask = asking(fence)
      const honest = Array.from({ length: 16 }, (_, id) => id)
      await confirm(ask, ...honest)
      for (let id = 1000; id < 1200; id++) {
        deepEqual(await ask('register', id, 0, NOTHING, `network ${id % 20}`), 'granted')
      }
      for (const id of honest) equal(await ask('confirm', id), 'granted')
      equal(fence.hints, 16 + 10)
      equal(await ask('confirm', 1199), 'granted') // of the last
      equal(await ask('confirm', 1000), 'refused')
    },
  },
  {
    name: 'is full, says so, and has room again for those whose days are over',
    async run(open) {
      let seconds = 0
      const fence = await open({ days: 10, entries: 4, elapsed: () => seconds })
      const ask = asking(fence)
      await confirm(ask, 1, 2, 3, 4)
      equal(fence.problem?.startsWith('the fence is full'), true)
      equal(await ask('register', 5), 'fence_full')
      equal(fence.turnedAway, 1)
      seconds += 8 * DAY_SECONDS
      equal(await ask('confirm', 2, 1, REQUEST), 'granted')
      seconds += 5 * DAY_SECONDS
      equal(await ask('confirm', 1, 9, REQUEST), 'refused')
      equal(await ask('register', 5), 'granted')
      equal(await ask('confirm', 2, 1, REQUEST), 'granted')
      equal(fence.problem, undefined)
    },
  },
  {
    name: 'takes from one network a share of a day and no more',
    async run(open) {
      let seconds = 0
      const ask = asking(await open({ entries: 1000, elapsed: () => seconds }))
      const before = [await granted(ask, 100, 'a'), await granted(ask, 200, 'b'), await granted(ask, 300, 'a')]
      deepEqual(before, [64, 64, 0])
      equal(await ask('register', 100, 0, NOTHING, 'a'), 'granted') // the same again is not another
      seconds += DAY_SECONDS
      equal(await granted(ask, 400, 'a'), 64)
    },
  },
  {
    name: 'counts a hint for its network that others had to go for, and none that there was no room for',
    async run(open) {
      let seconds = 0
      const fence = await open({ entries: 40, days: 2, elapsed: () => seconds })
      const ask = asking(fence)
      equal(await granted(ask, 1000), 64)
      seconds += 3 * DAY_SECONDS
      const networks = Array.from({ length: 40 }, (_, id) => `network ${id}`)
      for (const [id, network] of networks.entries()) {
        deepEqual([await ask('register', id, 0, NOTHING, network), await ask('confirm', id)], ['granted', 'granted'])
      }
      equal(await granted(ask, 2000), 0)
      seconds += 3 * DAY_SECONDS - 1
      equal(await granted(ask, 3000), 64)
    },
  },
  {
    name: 'is not swept by a calendar that jumps, at a start or while it runs; days that pass are days',
    async run(open) {
      let [now, seconds] = [1_800_000_000, 0]
      const again = async () => asking(await open({ days: 400, now: () => now, elapsed: () => seconds }))
      let ask = await again()
      await confirm(ask, 1)
      now += 401 * DAY_SECONDS
      equal(await ask('confirm', 1), 'granted')
      ask = await again()
      equal(await ask('confirm', 1), 'granted')
      now -= 4000 * DAY_SECONDS
      ask = await again()
      equal(await ask('confirm', 1), 'granted')
      seconds += 401 * DAY_SECONDS
      equal(await ask('confirm', 1), 'refused')
    },
  },
  {
    shared: true,
    name: 'is moved on once by a calendar that has jumped, however often it starts and whoever writes in between',
    async run(open) {
      let now = 1_800_000_000
      const again = async () => asking(await open({ days: 100, now: () => now, elapsed: () => 0 }))
      const first = await again()
      await confirm(first, 1)
      now += 4000 * DAY_SECONDS
      for (let start = 2; start < 12; start++) {
        await confirm(await again(), start)
        await confirm(first, 100 + start)
      }
      equal(await (await again())('confirm', 1), 'granted')
    },
  },
]
