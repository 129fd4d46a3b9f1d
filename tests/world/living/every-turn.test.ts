// A fault in each turn of opening a map for one server, looking up and following: the tab is killed, or frozen beside another, the power
// fails, or an older disk is restored. The next tab is right, or the fence refuses it before it shows a state twice (world.ts).

import { afterAll, beforeAll, expect, test } from 'vitest'
import { THOROUGH } from '../../support/thorough.js'
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
/** In each of these turns the first batch is pending: a batch made in its place is noticed. With tags in rows the map still opens. */
const ORDEALS: readonly (readonly [Ordeal, turn: number])[] = [
  ['kill', 157],
  ['freeze', 158],
  ['power loss', 156],
  ['rollback', 160],
]
// `npm test`: each situation once, in a turn of lookups. `npm run test:all`: an ordeal in every turn.
test.each(SITUATIONS.map(([name, situation], s) => [name, situation, ...ORDEALS[s % ORDEALS.length]!] as const))(
  'mode single, %s: whatever happens in a turn, no state is shown twice',
  async (_name, situation, what, turn) => {
    expect(await suffered(what, situation, turn)).toBe(1)
  },
)

if (THOROUGH) {
  test('mode single: an ordeal in every turn, in each situation, shows no state twice', async () => {
    const undisturbed = await Promise.all(SITUATIONS.map(([, situation]) => run('kill', situation, 0)))
    for (const { counts } of undisturbed) expect(counts.get('checks')).toBeGreaterThan(0)
    const turns = Math.max(...undisturbed.map(({ turns }) => turns))
    let times = 0
    for (let turn = 2; turn <= turns; turn++) {
      const [, situation] = SITUATIONS[Math.floor(turn / ORDEALS.length) % SITUATIONS.length]!
      times += await suffered(ORDEALS[turn % ORDEALS.length]![0], situation, turn)
    }
    expect(times).toBeGreaterThan(turns / 6) // an older copy of the disk needs one
  })
}

async function run(what: Ordeal, situation: Partial<FaultProfile>, turn: number) {
  const faults = noFaults({ mode: 'single', ...situation, ordained: { turn, what } })
  const outcome = await simulate(1, { ...laid, faults })
  if (outcome.violation !== undefined) expect.fail(`in turn ${turn}: ${report(outcome)}`)
  return outcome
}

/** How often it came to pass. */
async function suffered(what: Ordeal, situation: Partial<FaultProfile>, turn: number): Promise<number> {
  return (await run(what, situation, turn)).counts.get(`ordained: ${what}`) ?? 0
}
