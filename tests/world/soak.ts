// `npm run soak` runs schedules of the world `state`, or after `living` of that world.
//
//   npm run soak                             1 000 000 schedules from a random seed on, until interrupted or one fails
//   npm run soak -- 20000                    so many
//   npm run soak -- --seed 7                 the schedule of seed 7, with all that happens in it
//   npm run soak -- 500 --seed 7             so many from seed 7 on
//   npm run soak -- --mutant roles           with a mutant whose name contains this
//   npm run soak -- living [300] [--seed 7]  the same in the other world
//   npm run soak -- living 20 --processes    servers are processes of their own, with LMDB files, and are killed with
//                                            SIGKILL; timing then depends on the machine, too

import { randomInt } from 'node:crypto'
import { parseArgs } from 'node:util'
import { layFoundations } from './living/databases.js'
import * as living from './living/simulate.js'
import { report } from './simulation.js'
import { MUTANTS, UNCHANGED } from './state/mutants.js'
import * as state from './state/simulate.js'

/** Returns the exit code. */
export async function soak(args: string[]): Promise<number> {
  const isLiving = args[0] === 'living'
  const { values, positionals } = parseArgs({
    args: isLiving ? args.slice(1) : args,
    allowPositionals: true,
    options: { seed: { type: 'string' }, mutant: { type: 'string' }, processes: { type: 'boolean' } },
  })
  if (isLiving ? values.mutant : values.processes) throw new Error('this world has no such option')
  const replay = values.seed !== undefined && positionals.length === 0
  const first = values.seed === undefined ? randomInt(2 ** 31) : Number(values.seed)
  const count = replay ? 1 : Number(positionals[0] ?? 1_000_000)
  if (!Number.isSafeInteger(first) || !Number.isSafeInteger(count)) throw new Error('expected numbers')

  const world = isLiving ? await livingWorld(values.processes === true) : stateWorld(values.mutant)
  const met = new Map<string, number>()
  const tell = (schedules: number) =>
    console.log(`${schedules} schedules from seed ${first} on${replay ? '' : `: ${summary(met)}`}`)
  let told = performance.now()
  try {
    for (let seed = first; seed < first + count; seed++) {
      const outcome = await world.simulate(seed)
      for (const [what, times] of outcome.counts) met.set(what, (met.get(what) ?? 0) + times)
      if (replay) console.log(outcome.trace.join('\n'))
      if (outcome.violation !== undefined) {
        console.log(
          replay
            ? outcome.violation
            : report(outcome, `npm run soak -- ${isLiving ? 'living ' : ''}--seed ${seed} shows all of it`),
        )
        return 1
      }
      if (performance.now() - told < 20_000) continue
      told = performance.now()
      tell(seed - first + 1)
    }
    tell(count)
    console.log('and nothing wrong')
    return 0
  } finally {
    await world.remove()
  }
}

function stateWorld(name: string | undefined) {
  const mutant = name === undefined ? UNCHANGED : MUTANTS.find(each => each.name.includes(name))
  if (mutant === undefined) throw new Error(`no mutant has ${name} in its name`)
  Error.stackTraceLimit = 0 // a third of the time otherwise
  const simulate = (seed: number) => state.simulate(seed, mutant)
  return { simulate, remove: async () => {} }
}

async function livingWorld(processes: boolean) {
  const { remove, ...laid } = await layFoundations()
  const simulate = (seed: number) => living.simulate(seed, { ...laid, processes })
  return { simulate, remove }
}

function summary(met: ReadonlyMap<string, number>): string {
  return ['lookups: done', 'records looked up', 'epochs', 'tabs', 'tabs killed', 'servers killed', 'checks']
    .flatMap(what => (met.has(what) ? `${met.get(what)} ${what}` : []))
    .join(', ')
}
