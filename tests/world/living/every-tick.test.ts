// A fault in each third tick of opening a map for one server, looking up and following: the tab is killed, or frozen beside another,
// the power fails, or an older disk is restored. The next tab is right, or the fence refuses it before it shows a state twice (world.ts).

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
/** In each of these ticks the first batch is pending: a batch made in its place is noticed. With tags in rows the map still opens. */
const ORDEALS: readonly (readonly [Ordeal, tick: number])[] = [
  ['kill', 157],
  ['freeze', 158],
  ['power loss', 156],
  ['rollback', 160],
]
// `npm test`: each situation once, in a tick of lookups. `npm run test:all`: an ordeal in each third tick.
test.each(SITUATIONS.map(([name, situation], s) => [name, situation, ...ORDEALS[s % ORDEALS.length]!] as const))(
  'mode single, %s: whatever happens in a tick, no state is shown twice',
  async (_name, situation, what, tick) => {
    expect(await suffered(what, situation, tick)).toBe(1)
  },
)

/** Without a factor that the number of ordeals has, so that each comes by. */
const EVERY = 3

if (THOROUGH) {
  test('mode single: an ordeal in each third tick, in each situation in turn, shows no state twice', async () => {
    const undisturbed = await Promise.all(SITUATIONS.map(([, situation]) => run('kill', situation, 0)))
    for (const { counts } of undisturbed) expect(counts.get('checks')).toBeGreaterThan(0)
    const ticks = Math.max(...undisturbed.map(({ ticks }) => ticks))
    let times = 0
    for (let tick = 2; tick <= ticks; tick += EVERY) {
      const [, situation] = SITUATIONS[Math.floor(tick / ORDEALS.length) % SITUATIONS.length]!
      times += await suffered(ORDEALS[tick % ORDEALS.length]![0], situation, tick)
    }
    expect(times).toBeGreaterThan(ticks / EVERY / 6) // an older copy of the disk needs one
  })
}

async function run(what: Ordeal, situation: Partial<FaultProfile>, tick: number) {
  const faults = noFaults({ mode: 'single', ...situation, ordained: { tick, what } })
  const outcome = await simulate(1, { ...laid, faults })
  if (outcome.violation !== undefined) expect.fail(`in tick ${tick}: ${report(outcome)}`)
  return outcome
}

/** How often it came to pass. */
async function suffered(what: Ordeal, situation: Partial<FaultProfile>, tick: number): Promise<number> {
  return (await run(what, situation, tick)).counts.get(`ordained: ${what}`) ?? 0
}
