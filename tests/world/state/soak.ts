// `npm run soak` begins here: the schedules of schedules.test.ts, as many as one likes.
//
//   npm run soak                     1 000 000 schedules from a random seed on, until interrupted or one fails
//   npm run soak -- 20000            so many
//   npm run soak -- --seed 7         the schedule of seed 7, with all that happens in it
//   npm run soak -- 500 --seed 7     so many from seed 7 on
//   npm run soak -- --mutant roles    with a mutant whose name contains this

import { randomInt } from 'node:crypto'
import { parseArgs } from 'node:util'
import { MUTANTS, UNCHANGED } from './mutants.js'
import { report, simulate } from './simulate.js'

/** Returns the exit code. */
export async function soak(args: string[]): Promise<number> {
  const { values, positionals } = parseArgs({
    args,
    allowPositionals: true,
    options: { seed: { type: 'string' }, mutant: { type: 'string' } },
  })
  const mutant = values.mutant === undefined ? UNCHANGED : MUTANTS.find(({ name }) => name.includes(values.mutant!))
  if (mutant === undefined) throw new Error(`no mutant has ${values.mutant} in its name`)
  const replay = values.seed !== undefined && positionals.length === 0
  const first = values.seed === undefined ? randomInt(2 ** 31) : Number(values.seed)
  const count = replay ? 1 : Number(positionals[0] ?? 1_000_000)
  if (!Number.isSafeInteger(first) || !Number.isSafeInteger(count)) throw new Error('expected numbers')

  Error.stackTraceLimit = 0 // a third of the time otherwise
  let told = performance.now()
  for (let seed = first; seed < first + count; seed++) {
    const outcome = await simulate(seed, mutant)
    if (replay) console.log(outcome.trace.join('\n'))
    if (outcome.violation !== undefined) {
      console.log(replay ? outcome.violation : report(outcome))
      return 1
    }
    if (performance.now() - told < 5_000) continue
    told = performance.now()
    console.log(`${seed - first + 1} schedules from seed ${first} on`)
  }
  console.log(`${count} schedules from seed ${first} on, and nothing wrong`)
  return 0
}
