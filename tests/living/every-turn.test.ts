// One misfortune, in every turn of opening a map for one server, looking records up and following an epoch, or in one of them: the
// tab is killed, or frozen while another goes on, the power fails, or an older copy of the disk is put back. Then whoever
// comes next finds everything as a plain map says, or is refused by the fence before it shows anything twice (world.ts).

import { afterAll, beforeAll, expect, test } from 'vitest'
import { THOROUGH } from '../support/thorough.js'
import { type Foundations, layFoundations } from './databases.js'
import { type FaultProfile, noFaults, type Ordeal } from './faults.js'
import { report, simulate } from './simulate.js'

let laid: Foundations
beforeAll(async () => {
  laid = await layFoundations()
})
afterAll(() => laid.remove())

const SITUATIONS: readonly [string, Partial<FaultProfile>][] = [
  ['one tab', {}],
  ['two tabs that take turns', { tabs: 2 }],
  ['two tabs without locks', { tabs: 2, locks: false }],
  ['one tab that waits for the fence', { rollback: 'strict' }],
  ['one tab with tags in rows', { rows: true }],
  ['two tabs without locks, with tags in rows', { tabs: 2, locks: false, rows: true }],
]
/** Each of them, and a turn of lookups. In that of the first a batch is pending: another that is made in its place is found out. */
const ORDEALS: readonly (readonly [Ordeal, turn: number])[] = [
  ['kill', 136],
  ['freeze', 121],
  ['power loss', 127],
  ['rollback', 135],
]
// Thorough, all of them; else each situation once, and each ordeal.
const CASES = SITUATIONS.flatMap(([name, situation], s) =>
  ORDEALS.filter((_, o) => THOROUGH || o === s % ORDEALS.length).map(
    ([what, turn]) => [name, what, situation, turn] as const,
  ),
)

test.each(CASES)('mode single, %s: %s', { timeout: 1_200_000 }, async (_name, what, situation, one) => {
  const run = async (turn: number) => {
    const faults = noFaults({ mode: 'single', ...situation, ordained: { turn, what } })
    const outcome = await simulate(1, { ...laid, faults })
    if (outcome.violation !== undefined) expect.fail(`in turn ${turn}: ${report(outcome)}`)
    return outcome
  }
  const suffered = async (turn: number) => (await run(turn)).counts.get(`ordained: ${what}`) ?? 0
  if (!THOROUGH) {
    expect(await suffered(one)).toBe(1)
    return
  }
  const { turns, counts } = await run(0)
  for (const met of ['store: advance', 'store: commit', 'checks']) expect(counts.get(met)).toBeGreaterThan(0)
  let times = 0
  for (let turn = 2; turn <= turns; turn++) times += await suffered(turn)
  expect(times).toBeGreaterThan(turns / 6) // an older copy of the disk needs one
})
